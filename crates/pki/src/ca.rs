//! A certificate authority: makes itself, and issues certificates, for keys that we hold ourselves and for requests whose
//! signature was checked.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use aws_lc_rs::digest::{SHA256, digest};
use rustls_pki_types::CertificateDer;
use x509_cert::der::Tag;
use x509_cert::der::asn1::BitString;

use crate::cert::{Facts, VerifyError};
use crate::csr::{Csr, Names};
use crate::der::only;
use crate::issue::{self, Contents, Period};
use crate::key::{KeyError, KeyPair};
use crate::usage::{CLIENT_AUTH, SERVER_AUTH, Usages};
use crate::{name, pem};

/// A certificate authority that cannot be made, read or used.
#[derive(Debug, thiserror::Error)]
pub enum CaError {
    /// A certificate could not be put together.
    #[error("cannot make a certificate: {0}")]
    Build(String),
    /// The certificate cannot be read.
    #[error("the certificate authority's certificate cannot be read")]
    Certificate(#[from] VerifyError),
    /// The authority's time is over, and that of what it would issue (CS-66).
    #[error("the certificate authority has expired")]
    Expired,
    /// The key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The key is not that of the certificate.
    #[error("the certificate authority's key does not belong to its certificate")]
    Mismatch,
    /// No certificate in the text.
    #[error("no certificate in PEM form")]
    NoCertificate,
    /// The request has a name that no certificate can hold.
    #[error("the request's subject has text that no certificate can hold")]
    Subject,
    /// More than one certificate in the text (CS-72).
    #[error("more than one certificate where the authority's own is expected")]
    TooMany,
}

impl From<x509_cert::der::Error> for CaError {
    fn from(error: x509_cert::der::Error) -> Self {
        Self::Build(error.to_string())
    }
}

/// A certificate authority.
#[derive(Debug)]
pub struct CertificateAuthority {
    key: KeyPair,
    certificate: CertificateDer<'static>,
    /// A DER Name.
    subject: Vec<u8>,
    /// What the certificate calls its key; certificates that it issues repeat that.
    key_identifier: Option<Vec<u8>>,
    not_after: SystemTime,
}

/// What a certificate is to say.
#[derive(Clone, Debug)]
pub struct Template {
    /// The common name.
    pub common_name: String,
    /// The organizations, each a name part of its own, in this order.
    pub organizations: Vec<String>,
    /// DNS names.
    pub dns_names: Vec<String>,
    /// IP addresses.
    pub ip_addresses: Vec<IpAddr>,
    /// What the certificate may be used for.
    pub usage: Usage,
    /// How long it is valid from now on.
    pub lifetime: Duration,
}

/// What a certificate may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// To prove who a client is.
    Client,
    /// To prove who a server is.
    Server,
}

impl CertificateAuthority {
    /// Makes a new authority with a new key.
    ///
    /// # Errors
    /// See [`CaError`].
    pub fn generate(common_name: &str, now: SystemTime, lifetime: Duration) -> Result<Self, CaError> {
        Self::with_key(KeyPair::generate()?, common_name, now, lifetime)
    }

    /// Makes a new certificate for an authority whose key is there already.
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

    /// As [`Self::with_key`], for an authority of this name, a DER Name.
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
    /// Text that holds neither, or a key that is not the certificate's.
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, CaError> {
        let block = pem::blocks(certificate)
            .into_iter()
            .find(|b| b.label == "CERTIFICATE")
            .ok_or(CaError::NoCertificate)?;
        Self::of(CertificateDer::from(block.der), KeyPair::from_pem(key)?)
    }

    /// As [`Self::from_pem`], for a certificate that stands alone (CS-72).
    ///
    /// # Errors
    /// As there, and a second certificate.
    pub fn from_single_pem(certificate: &[u8], key: &[u8]) -> Result<Self, CaError> {
        match pem::blocks(certificate).iter().filter(|block| block.label == "CERTIFICATE").count() {
            0 => Err(CaError::NoCertificate),
            1 => Self::from_pem(certificate, key),
            _ => Err(CaError::TooMany),
        }
    }

    /// Issues a certificate for a key that we hold.
    ///
    /// # Errors
    /// A name that no certificate can hold.
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
        self.sign(&subject, Period::from_now(now, template.lifetime)?, key.public_der(), &usages, &names)
    }

    /// Issues the certificate that was asked for (CS-61 to CS-67): for the time that was asked for, at most for `longest`.
    /// Of the request count the subject, the key and the names; the usages come with it. Who calls this has seen to it
    /// that somebody approved.
    ///
    /// # Errors
    /// The authority has expired, or the subject cannot be written.
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
        self.sign(&subject, period, request.public_key_der(), usages, request.names())
    }

    fn sign(
        &self,
        subject: &[u8],
        period: Period,
        public_key: &[u8],
        usages: &Usages,
        names: &Names,
    ) -> Result<CertificateDer<'static>, CaError> {
        let mut extensions: Vec<Vec<u8>> = issue::usages(usages).collect();
        extensions.push(issue::basic_constraints(false));
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

/// The first 160 bits of the hash of the public key.
fn key_identifier(public_key: &[u8]) -> Result<Vec<u8>, CaError> {
    let mut fields = only(public_key)?.children(Tag::Sequence)?;
    let _algorithm = fields.required()?;
    let hash = digest(&SHA256, fields.required()?.decode::<BitString>()?.raw_bytes());
    Ok(hash.as_ref().iter().copied().take(20).collect())
}
