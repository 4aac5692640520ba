//! The bootstrap credential of control-plane machines (NB-10 to NB-15): a signer that signs one certificate.
//!
//! The signer's private key never leaves [`sign_once`]: no returned value holds it, so nobody can keep it (NB-12).

use std::time::{Duration, SystemTime};

use crate::ca::{CaError, CertificateAuthority, Template, Usage};
use crate::key::KeyPair;
use crate::{name, pem};

/// The common name of the signer (NB-10).
pub const SIGNER: &str = "kubelet-bootstrap-kubeconfig-signer";
const SIGNER_UNIT: &str = "openshift";
/// Ten years (NB-11).
pub const LIFETIME: Duration = Duration::from_secs(3650 * 24 * 60 * 60);

/// The result of [`sign_once`]. Holds the client's private key, never the signer's.
pub struct Credential {
    /// The signer's certificate as PEM, which a server has to trust.
    pub authority_pem: String,
    /// The client's certificate as PEM.
    pub certificate_pem: String,
    /// The client's private key as PEM.
    pub key_pem: String,
}

impl std::fmt::Debug for Credential {
    /// Never shows the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credential").field("certificate_pem", &self.certificate_pem).finish_non_exhaustive()
    }
}

/// Creates a signer, signs a client certificate for this user and these groups with it, and drops the signer's key. Both
/// certificates are valid for ten years.
///
/// # Errors
/// The system has no randomness, or a certificate cannot hold a name.
pub fn sign_once(user: &str, groups: &[String], now: SystemTime) -> Result<Credential, CaError> {
    let subject = name::written(&[], Some(SIGNER_UNIT), SIGNER);
    let signer = CertificateAuthority::with_subject(KeyPair::generate()?, &subject, now, LIFETIME)?;
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
