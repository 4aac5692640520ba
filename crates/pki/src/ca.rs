//! A certificate authority: created or read from PEM, it issues certificates for our own keys and for verified requests.
//!
//! Whether a request is approved is decided elsewhere.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use webpki::{EndEntityCert, KeyUsage};
use x509_cert::der::Tag;
use x509_cert::der::asn1::BitString;

pub use crate::ca_error::CaError;
use crate::cert::Facts;
use crate::csr::{Csr, KeyKind, Names};
use crate::der::only;
use crate::evidence::ProviderIdOids;
use crate::hash::sha256;
use crate::issue::{self, Contents, Period};
use crate::key::KeyPair;
use crate::usage::{CLIENT_AUTH, SERVER_AUTH, Usages};
use crate::{name, pem};

/// A certificate authority.
#[derive(Debug)]
pub struct CertificateAuthority {
    key: KeyPair,
    certificate: CertificateDer<'static>,
    /// A DER Name.
    subject: Vec<u8>,
    /// The subject key identifier, which issued certificates repeat as their authority key identifier.
    key_identifier: Option<Vec<u8>>,
    not_after: SystemTime,
}

/// The contents of a certificate to issue.
#[derive(Clone, Debug)]
pub struct Template {
    /// The common name.
    pub common_name: String,
    /// The organizations in order, each a relative distinguished name of its own.
    pub organizations: Vec<String>,
    /// DNS names.
    pub dns_names: Vec<String>,
    /// IP addresses.
    pub ip_addresses: Vec<IpAddr>,
    /// The usage of the certificate.
    pub usage: Usage,
    /// How long it is valid, from now.
    pub lifetime: Duration,
}

/// A usage of certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// To prove who a client is.
    Client,
    /// To prove who a server is.
    Server,
}

/// What the certificate of an attested node is for.
#[derive(Clone, Copy, Debug)]
pub enum AttestedUsage<'a> {
    /// To prove which node a client is.
    Client {
        /// The provider ID of its machine.
        provider_id: &'a str,
        /// The object identifiers of the extension with it.
        oids: &'a ProviderIdOids,
    },
    /// To serve the API of a kubelet.
    Server,
}

impl CertificateAuthority {
    /// Creates an authority with a new key.
    ///
    /// # Errors
    /// See [`CaError`].
    pub fn generate(common_name: &str, now: SystemTime, lifetime: Duration) -> Result<Self, CaError> {
        Self::with_key(KeyPair::generate()?, common_name, now, lifetime)
    }

    /// Creates an authority with an existing key.
    ///
    /// # Errors
    /// See [`CaError`].
    pub fn with_key(
        key: KeyPair,
        common_name: &str,
        now: SystemTime,
        lifetime: Duration,
    ) -> Result<Self, CaError> {
        Self::with_subject(key, &name::written(&[], None, common_name), now, lifetime)
    }

    /// As [`Self::with_key`], with this subject, a DER Name.
    ///
    /// # Errors
    /// See [`CaError`].
    pub(crate) fn with_subject(
        key: KeyPair,
        subject: &[u8],
        now: SystemTime,
        lifetime: Duration,
    ) -> Result<Self, CaError> {
        let contents = Contents {
            issuer: subject,
            subject,
            period: Period::from_now(now, lifetime)?,
            public_key: key.public_der(),
        };
        let mut extensions: Vec<Vec<u8>> = issue::usages(&Usages::of_authority()).collect();
        extensions.push(issue::basic_constraints(true));
        extensions.push(issue::subject_key_identifier(&key_identifier(key.public_der())?));
        let certificate = contents.sign(&extensions, &key)?;
        Self::of(certificate, key)
    }

    fn of(certificate: CertificateDer<'static>, key: KeyPair) -> Result<Self, CaError> {
        let facts = Facts::read(&certificate)?;
        if facts.public_key != key.public_der() {
            return Err(CaError::Mismatch);
        }
        Ok(Self {
            key,
            subject: facts.subject_der,
            key_identifier: facts.key_identifier,
            not_after: facts.validity.not_after.to_system_time(),
            certificate,
        })
    }

    /// Reads an authority from its certificate and key in PEM form.
    ///
    /// # Errors
    /// A missing certificate or key, or a key that does not belong to the certificate.
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, CaError> {
        let certificate = pem::certificates(certificate).next().ok_or(CaError::NoCertificate)?;
        Self::of(certificate, KeyPair::from_pem(key)?)
    }

    /// As [`Self::from_pem`], but refuses more than one certificate (CS-72).
    ///
    /// # Errors
    /// As [`Self::from_pem`], and for a second certificate.
    pub fn from_single_pem(certificate: &[u8], key: &[u8]) -> Result<Self, CaError> {
        match pem::certificates(certificate).nth(1) {
            None => Self::from_pem(certificate, key),
            Some(_) => Err(CaError::TooMany),
        }
    }

    /// Issues a certificate for one of our own keys.
    ///
    /// # Errors
    /// A name that a certificate cannot hold.
    pub fn issue(
        &self,
        template: &Template,
        key: &KeyPair,
        now: SystemTime,
    ) -> Result<CertificateDer<'static>, CaError> {
        let names =
            Names { dns: template.dns_names.clone(), ip: template.ip_addresses.clone(), ..Names::default() };
        let usages = Usages::only(match template.usage {
            Usage::Client => CLIENT_AUTH,
            Usage::Server => SERVER_AUTH,
        });
        let subject = name::written(&template.organizations, None, &template.common_name);
        self.sign(&subject, Period::from_now(now, template.lifetime)?, key.public_der(), &usages, &names, &[])
    }

    /// Issues a requested certificate (CS-61 to CS-67), valid for the requested lifetime but at most for `longest`. The
    /// subject, the key and the alternative names come from the request. The caller has checked that it is approved.
    ///
    /// # Errors
    /// The authority has expired, or a certificate cannot hold the subject.
    pub fn issue_requested(
        &self,
        request: &Csr,
        usages: &Usages,
        lifetime: Option<Duration>,
        longest: Duration,
        now: SystemTime,
    ) -> Result<CertificateDer<'static>, CaError> {
        let period = Period::of_request(now, lifetime, longest, self.not_after)?;
        let subject = request.subject().issued().ok_or(CaError::Subject)?;
        self.sign(&subject, period, request.public_key_der(), usages, request.names(), &[])
    }

    /// As [`Self::issue_requested`], with the identifier of the key, for one usage alone (AT-84). A client certificate gets no
    /// alternative names, and the provider ID of its machine, which the caller has verified.
    ///
    /// # Errors
    /// As [`Self::issue_requested`].
    pub fn issue_attested(
        &self,
        request: &Csr,
        usage: &AttestedUsage<'_>,
        lifetime: Option<Duration>,
        longest: Duration,
        now: SystemTime,
    ) -> Result<CertificateDer<'static>, CaError> {
        let period = Period::of_request(now, lifetime, longest, self.not_after)?;
        let subject = request.subject().issued().ok_or(CaError::Subject)?;
        let key = request.public_key_der();
        let mut more = vec![issue::subject_key_identifier(&key_identifier(key)?)];
        let none = Names::default();
        let (usages, names) = match usage {
            AttestedUsage::Client { provider_id, oids } => {
                more.push(issue::provider_id(oids, provider_id));
                (Usages::only(CLIENT_AUTH), &none)
            }
            AttestedUsage::Server => (Usages::only(SERVER_AUTH), request.names()),
        };
        let usages = match request.key() {
            KeyKind::Rsa { .. } => usages.with_key_encipherment(),
            _ => usages,
        };
        self.sign(&subject, period, key, &usages, names, &more)
    }

    fn sign(
        &self,
        subject: &[u8],
        period: Period,
        public_key: &[u8],
        usages: &Usages,
        names: &Names,
        more: &[Vec<u8>],
    ) -> Result<CertificateDer<'static>, CaError> {
        let mut extensions: Vec<Vec<u8>> = issue::usages(usages).collect();
        extensions.push(issue::basic_constraints(false));
        extensions.extend_from_slice(more);
        extensions.extend(self.key_identifier.as_deref().map(issue::authority_key_identifier));
        extensions.extend(issue::subject_alt_names(names, subject));
        let contents = Contents { issuer: &self.subject, subject, period, public_key };
        contents.sign(&extensions, &self.key)
    }

    /// The authority's own certificate.
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// The authority's own certificate as PEM text.
    pub fn certificate_pem(&self) -> String {
        pem::encode("CERTIFICATE", &self.certificate)
    }

    /// The authority's key.
    pub fn key(&self) -> &KeyPair {
        &self.key
    }
}

/// The key identifier of a public key: the first 160 bits of its SHA-256 hash.
fn key_identifier(public_key: &[u8]) -> Result<Vec<u8>, CaError> {
    let mut fields = only(public_key)?.children(Tag::Sequence)?;
    let _algorithm = fields.required()?;
    let hash = sha256(fields.required()?.decode::<BitString>()?.raw_bytes());
    Ok(hash.into_iter().take(20).collect())
}

/// Whether an existing certificate can be used until `until` instead of a new one: it belongs to the key, this authority
/// signed it, and it matches the template.
pub fn is_reusable(
    certificate_pem: &[u8],
    key_pem: &[u8],
    authority: &CertificateAuthority,
    template: &Template,
    until: SystemTime,
) -> bool {
    let Some(block) = pem::first(certificate_pem) else { return false };
    let certificate = CertificateDer::from(block.der);
    let Ok(key) = KeyPair::from_pem(key_pem) else { return false };
    let Ok(facts) = Facts::read(&certificate) else { return false };
    let Ok(leaf) = EndEntityCert::try_from(&certificate) else { return false };
    let Ok(anchor) = webpki::anchor_from_trusted_cert(authority.certificate()) else { return false };
    let usage = match template.usage {
        Usage::Client => KeyUsage::client_auth(),
        Usage::Server => KeyUsage::server_auth(),
    };
    let time = UnixTime::since_unix_epoch(until.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default());
    let is_signed =
        leaf.verify_for_usage(webpki::ALL_VERIFICATION_ALGS, &[anchor], &[], time, usage, None, None).is_ok();
    let names =
        template.dns_names.iter().cloned().chain(template.ip_addresses.iter().map(ToString::to_string));
    let covers = |name: String| {
        ServerName::try_from(name).is_ok_and(|n| leaf.verify_is_valid_for_subject_name(&n).is_ok())
    };
    is_signed
        && facts.public_key == key.public_der()
        && facts.subject.common_name() == Ok(template.common_name.as_str())
        && facts.subject.organizations().is_ok_and(|o| o == template.organizations)
        && names.into_iter().all(covers)
}
