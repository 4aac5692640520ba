//! The certificates that a signer returned, before they are used (AT-36).

use std::time::SystemTime;

use rustls_pki_types::CertificateDer;
use x509_cert::Certificate;
use x509_cert::der::Decode as _;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::ext::pkix::{BasicConstraints, ExtendedKeyUsage};

use crate::cert::Facts;
use crate::hash::sha256;
use crate::name::SubjectError;
use crate::pem;
use crate::usage::{CLIENT_AUTH, SERVER_AUTH};

/// The most certificates that are read.
const MAX_CERTIFICATES: usize = 10;

/// A certificate with its intermediates. Nothing about who signed it is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuedCertificate {
    chain: Vec<CertificateDer<'static>>,
    public_key: Vec<u8>,
    /// In hexadecimal digits.
    serial: String,
    not_before: SystemTime,
    not_after: SystemTime,
    common_name: String,
    organizations: Vec<String>,
    purposes: Vec<ObjectIdentifier>,
    is_authority: bool,
}

impl IssuedCertificate {
    /// Reads certificates in PEM form: the leaf, then its issuers.
    ///
    /// # Errors
    /// There is none, too many, or the first cannot be read.
    pub fn from_pem(text: &[u8]) -> Result<Self, String> {
        let chain: Vec<_> = pem::certificates(text).take(MAX_CERTIFICATES.saturating_add(1)).collect();
        if chain.len() > MAX_CERTIFICATES {
            return Err(format!("more than {MAX_CERTIFICATES} certificates"));
        }
        let first = chain.first().ok_or("there is no certificate")?;
        let facts = Facts::read(first).map_err(|error| error.to_string())?;
        let der = |error: x509_cert::der::Error| error.to_string();
        let certificate = Certificate::from_der(first).map_err(der)?;
        let fields = certificate.tbs_certificate();
        let constraints = fields.get_extension::<BasicConstraints>().map_err(der)?;
        let purposes = fields.get_extension::<ExtendedKeyUsage>().map_err(der)?;
        let names = |error: SubjectError| error.to_string();
        let organizations = facts.subject.organizations().map_err(names)?;
        Ok(Self {
            not_before: facts.validity.not_before.to_system_time(),
            not_after: facts.validity.not_after.to_system_time(),
            common_name: facts.subject.common_name().map_err(names)?.to_owned(),
            organizations: organizations.into_iter().map(str::to_owned).collect(),
            public_key: facts.public_key,
            serial: facts.serial.iter().map(|byte| format!("{byte:02X}")).collect(),
            purposes: purposes.map(|(_, usages)| usages.0).unwrap_or_default(),
            is_authority: constraints.is_some_and(|(_, constraints)| constraints.ca),
            chain,
        })
    }

    /// The certificates in PEM form, without anything else.
    pub fn to_pem(&self) -> String {
        self.chain.iter().map(|der| pem::encode("CERTIFICATE", der)).collect()
    }

    /// The public key: a DER SubjectPublicKeyInfo.
    pub fn public_key_der(&self) -> &[u8] {
        &self.public_key
    }

    /// The serial number in hexadecimal digits, as OpenSSL prints it.
    pub fn serial(&self) -> &str {
        &self.serial
    }

    /// The SHA-256 digest of the certificate, which an API server gives as the credential of its holder (AN-45).
    pub fn digest(&self) -> [u8; 32] {
        self.chain.first().map(|certificate| sha256(certificate)).unwrap_or_default()
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

    /// Whether it is for clients, and for nothing that a client does not need: neither for servers nor to sign others.
    pub fn is_for_clients_only(&self) -> bool {
        self.purposes.contains(&CLIENT_AUTH) && !self.purposes.contains(&SERVER_AUTH) && !self.is_authority
    }
}
