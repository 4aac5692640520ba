//! The contents of a peer's certificate, after the handshake has verified it.

use std::time::SystemTime;

use crate::cert::{Facts, VerifyError};
use crate::csr::Names;

/// The contents of a certificate. Proves nothing by itself: the caller has verified the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The common name; empty if there is none.
    pub common_name: String,
    /// The serial number in hexadecimal, as openssl prints it.
    pub serial: String,
    /// The start of its validity.
    pub not_before: SystemTime,
    /// The end of its validity, inclusive.
    pub not_after: SystemTime,
    /// The alternative names.
    pub names: Names,
}

impl Shown {
    /// Reads a certificate in DER form.
    ///
    /// # Errors
    /// It is not a certificate, or its names cannot be read.
    pub fn read(der: &[u8]) -> Result<Self, VerifyError> {
        let facts = Facts::read(der)?;
        let mut names = Names::default();
        if let Some(extension) = &facts.alternative_names {
            names.read(extension).map_err(|_| VerifyError::Der(x509_cert::der::ErrorKind::Failed.into()))?;
        }
        Ok(Self {
            common_name: facts.subject.common_name()?.to_owned(),
            serial: facts.serial.iter().map(|byte| format!("{byte:02X}")).collect(),
            not_before: facts.validity.not_before.to_system_time(),
            not_after: facts.validity.not_after.to_system_time(),
            names,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ca::{CertificateAuthority, Template, Usage};
    use crate::key::KeyPair;

    #[test]
    fn a_certificate_says_what_it_was_issued_with() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let authority = CertificateAuthority::generate("a", now, Duration::from_secs(1000)).unwrap();
        let template = Template {
            common_name: "system:node:n".to_owned(),
            organizations: vec!["system:nodes".to_owned()],
            dns_names: vec!["n".to_owned()],
            ip_addresses: vec!["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()],
            usage: Usage::Server,
            lifetime: Duration::from_secs(100),
        };
        let issued = authority.issue(&template, &KeyPair::generate().unwrap(), now).unwrap();
        let shown = Shown::read(&issued).unwrap();
        assert_eq!(shown.common_name, "system:node:n");
        assert_eq!((shown.names.dns, shown.names.ip), (template.dns_names, template.ip_addresses));
        assert_eq!(shown.not_after, now + Duration::from_secs(100));
        assert!(shown.not_before <= now);
        assert!(Shown::read(b"no certificate").is_err());
    }
}
