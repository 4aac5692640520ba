//! The bootstrap credential of control-plane machines (NB-10 to NB-15): a signer that signs one certificate and is gone.
//!
//! The signer's private key never leaves [`sign_once`]: nothing that is returned holds it, so nobody can keep it (NB-12).

use std::time::{Duration, SystemTime};

use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::builder::profile::BuilderProfile;
use x509_cert::certificate::TbsCertificate;
use x509_cert::der::asn1::{Any, SetOfVec, Utf8StringRef};
use x509_cert::der::{Decode, Encode};
use x509_cert::ext::pkix::{BasicConstraints, KeyUsage, KeyUsages, SubjectKeyIdentifier};
use x509_cert::ext::{Extension, ToExtension};
use x509_cert::name::{Name, RdnSequence, RelativeDistinguishedName};
use x509_cert::spki::SubjectPublicKeyInfoRef;

use crate::ca::{CaError, CertificateAuthority, Template, Usage, build, key_identifier};
use crate::key::KeyPair;
use crate::name::{COMMON_NAME, ORGANIZATIONAL_UNIT};
use crate::pem;

/// The common name of the signer (NB-10).
pub const SIGNER: &str = "kubelet-bootstrap-kubeconfig-signer";
const SIGNER_UNIT: &str = "openshift";
/// Ten years (NB-11).
pub const LIFETIME: Duration = Duration::from_secs(3650 * 24 * 60 * 60);

/// What is left of a signer that has signed once. Holds the client's private key, never the signer's.
pub struct Credential {
    /// The certificate of the signer, as PEM: what a server has to trust.
    pub authority_pem: String,
    /// The certificate of the client, as PEM.
    pub certificate_pem: String,
    /// The client's private key, as PEM.
    pub key_pem: String,
}

impl std::fmt::Debug for Credential {
    /// Shows no key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credential").field("certificate_pem", &self.certificate_pem).finish_non_exhaustive()
    }
}

/// Makes a signer, has it sign a client certificate for this user and these groups, and forgets its key. Both are valid
/// for ten years.
///
/// # Errors
/// The system has no randomness, or a name is one that no certificate can hold.
pub fn sign_once(user: &str, groups: &[String], now: SystemTime) -> Result<Credential, CaError> {
    let signer = KeyPair::generate()?;
    let subject = subject()?;
    let profile = SignerProfile { subject: subject.clone() };
    let certificate = build(profile, &signer, signer.public_der(), now, LIFETIME)?;
    let signer = CertificateAuthority::of(signer, certificate, subject)?;
    let key = KeyPair::generate()?;
    let template = Template {
        common_name: user.to_owned(),
        organizations: groups.to_vec(),
        dns_names: Vec::new(),
        ip_addresses: Vec::new(),
        usage: Usage::Client,
        lifetime: LIFETIME,
    };
    let leaf = signer.issue(&template, &key, now)?;
    Ok(Credential {
        authority_pem: signer.certificate_pem(),
        certificate_pem: pem::encode("CERTIFICATE", &leaf),
        key_pem: key.to_pem(),
    })
}

fn subject() -> Result<Name, CaError> {
    let mut parts = RdnSequence::default();
    for (oid, text) in [(ORGANIZATIONAL_UNIT, SIGNER_UNIT), (COMMON_NAME, SIGNER)] {
        let value = Any::encode_from(&Utf8StringRef::new(text)?)?;
        let part = SetOfVec::try_from(vec![AttributeTypeAndValue { oid, value }])?;
        parts.push(RelativeDistinguishedName::from(part));
    }
    Ok(Name::from_der(&parts.to_der()?)?)
}

/// The certificate of the signer itself (NB-10).
struct SignerProfile {
    subject: Name,
}

impl BuilderProfile for SignerProfile {
    fn get_issuer(&self, _subject: &Name) -> Name {
        self.subject.clone()
    }

    fn get_subject(&self) -> Name {
        self.subject.clone()
    }

    fn build_extensions(
        &self,
        key: SubjectPublicKeyInfoRef<'_>,
        _issuer_key: SubjectPublicKeyInfoRef<'_>,
        tbs: &TbsCertificate,
    ) -> x509_cert::builder::Result<Vec<Extension>> {
        let mut extensions = Vec::new();
        let subject = tbs.subject();
        let usages = KeyUsages::KeyCertSign | KeyUsages::DigitalSignature | KeyUsages::KeyEncipherment;
        extensions.push(KeyUsage(usages).to_extension(subject, &extensions)?);
        // Nothing below it may sign.
        let constraints = BasicConstraints { ca: true, path_len_constraint: Some(0) };
        extensions.push(constraints.to_extension(subject, &extensions)?);
        extensions.push(SubjectKeyIdentifier(key_identifier(key)?).to_extension(subject, &extensions)?);
        Ok(extensions)
    }
}
