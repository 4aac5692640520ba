//! A certificate of our own with its private key.

use std::net::IpAddr;
use std::time::SystemTime;

use rustls_pki_types::{CertificateDer, ServerName};
use webpki::EndEntityCert;

use crate::cert::{Facts, VerifyError};
use crate::key::{KeyError, KeyPair};
use crate::pem;
use crate::request::Request;

/// A certificate chain with the key of its first certificate.
#[derive(Debug)]
pub struct Pair {
    /// The certificate, then its intermediates.
    chain: Vec<CertificateDer<'static>>,
    key: KeyPair,
    not_before: SystemTime,
    not_after: SystemTime,
    common_name: String,
    organizations: Vec<String>,
}

/// A certificate and a key that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PairError {
    /// The certificate cannot be read.
    #[error("the certificate cannot be read: {0}")]
    Certificate(#[from] VerifyError),
    /// The key cannot be read.
    #[error("the key cannot be read: {0}")]
    Key(#[from] KeyError),
    /// The key does not belong to the certificate.
    #[error("the key is not that of the certificate")]
    Mismatch,
    /// No certificate in the text.
    #[error("there is no certificate")]
    NoCertificate,
}

impl Pair {
    /// Reads certificates and a key in PEM form, from two texts or from one text that is given twice.
    ///
    /// # Errors
    /// No certificate, no key, or a key that is not the first certificate's.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Self, PairError> {
        let chain: Vec<_> = pem::certificates(certificates).collect();
        let leaf = Facts::read(chain.first().ok_or(PairError::NoCertificate)?)?;
        let key = KeyPair::from_pem(key)?;
        if leaf.public_key != key.public_der() {
            return Err(PairError::Mismatch);
        }
        // The chain is valid until its first certificate expires (CS-130).
        let mut not_after = leaf.validity.not_after.to_system_time();
        for certificate in &chain {
            not_after = not_after.min(Facts::read(certificate)?.validity.not_after.to_system_time());
        }
        let organizations = leaf.subject.organizations().map_err(VerifyError::from)?;
        Ok(Self {
            not_before: leaf.validity.not_before.to_system_time(),
            not_after,
            common_name: leaf.subject.common_name().map_err(VerifyError::from)?.to_owned(),
            organizations: organizations.into_iter().map(str::to_owned).collect(),
            chain,
            key,
        })
    }

    /// The certificates in PEM form.
    pub fn certificates_pem(&self) -> String {
        self.chain.iter().map(|der| pem::encode("CERTIFICATE", der)).collect()
    }

    /// The key.
    pub fn key(&self) -> &KeyPair {
        &self.key
    }

    /// When it begins to be valid.
    pub fn not_before(&self) -> SystemTime {
        self.not_before
    }

    /// When it stops being valid.
    pub fn not_after(&self) -> SystemTime {
        self.not_after
    }

    /// The common name.
    pub fn common_name(&self) -> &str {
        &self.common_name
    }

    /// The organizations.
    pub fn organizations(&self) -> &[String] {
        &self.organizations
    }

    /// Whether it has not expired.
    pub fn is_unexpired(&self, now: SystemTime) -> bool {
        now < self.not_after
    }

    /// Whether it satisfies a request (CS-102): it has the same common name, and at least its organizations, DNS names and IP
    /// addresses.
    pub fn satisfies(&self, request: &Request) -> bool {
        let Some(leaf) = self.chain.first().and_then(|der| EndEntityCert::try_from(der).ok()) else {
            return false;
        };
        // Compared as text: requested names hold no wildcards.
        let dns: Vec<&str> = leaf.valid_dns_names().collect();
        let has_dns = |name: &String| dns.iter().any(|valid| valid.eq_ignore_ascii_case(name));
        let has_ip = |ip: &IpAddr| leaf.verify_is_valid_for_subject_name(&ServerName::from(*ip)).is_ok();
        self.common_name == request.common_name
            && request.organizations.iter().all(|o| self.organizations.contains(o))
            && request.dns_names.iter().all(has_dns)
            && request.ip_addresses.iter().all(has_ip)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CertificateAuthority;
    use crate::ca::{Template, Usage};
    use std::time::Duration;

    #[test]
    fn cs_102_a_pair_satisfies_what_it_says_and_less() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let ca = CertificateAuthority::generate("ca", now, Duration::from_secs(9000)).unwrap();
        let key = KeyPair::generate().unwrap();
        let template = Template {
            common_name: "system:node:a".into(),
            organizations: vec!["system:nodes".into(), "more".into()],
            dns_names: vec!["a.example".into()],
            ip_addresses: vec!["10.0.0.1".parse().unwrap()],
            usage: Usage::Server,
            lifetime: Duration::from_secs(3600),
        };
        let certificate = pem::encode("CERTIFICATE", &ca.issue(&template, &key, now).unwrap());
        let pair = Pair::from_pem(certificate.as_bytes(), key.to_pem().as_bytes()).unwrap();
        let asked = Request {
            common_name: "system:node:a".into(),
            organizations: vec!["system:nodes".into()],
            dns_names: vec!["A.example".into()],
            ip_addresses: template.ip_addresses,
            ..Request::default()
        };
        assert!(pair.satisfies(&asked));
        let less =
            Request { dns_names: vec![], ip_addresses: vec![], organizations: vec![], ..asked.clone() };
        assert!(pair.satisfies(&less));
        for other in [
            Request { common_name: "system:node:b".into(), ..asked.clone() },
            Request { organizations: vec!["other".into()], ..asked.clone() },
            Request { dns_names: vec!["b.example".into()], ..asked.clone() },
            Request { ip_addresses: vec!["10.0.0.2".parse().unwrap()], ..asked.clone() },
        ] {
            assert!(!pair.satisfies(&other), "{other:?}");
        }
        let other = KeyPair::generate().unwrap().to_pem();
        assert!(matches!(Pair::from_pem(certificate.as_bytes(), other.as_bytes()), Err(PairError::Mismatch)));
        // A chain ends with its first end.
        let chain = format!("{certificate}{}", ca.certificate_pem());
        let end = Pair::from_pem(chain.as_bytes(), key.to_pem().as_bytes()).unwrap().not_after();
        assert_eq!(end, pair.not_after());
    }
}
