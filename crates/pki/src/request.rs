//! Certificate requests (PKCS#10) for our own keys.

use std::net::IpAddr;

use crate::csr::Names;
use crate::der::{SEQUENCE, SET, element, element_of, oid};
use crate::evidence::ProviderIdOids;
use crate::hash::sha256;
use crate::issue;
use crate::key::{KeyError, KeyPair};
use crate::{name, pem};
use x509_cert::der::Encode;
use x509_cert::der::oid::db::rfc5912::{ECDSA_WITH_SHA_256, ID_EXTENSION_REQ};

const BIT_STRING: u8 = 0x03;
/// The version, 0.
const VERSION: [u8; 3] = [0x02, 0x01, 0x00];
/// The tag of the attributes.
const ATTRIBUTES: u8 = 0xa0;

/// The contents of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The common name.
    pub common_name: String,
    /// The organizations in order, each a relative distinguished name of its own.
    pub organizations: Vec<String>,
    /// DNS names.
    pub dns_names: Vec<String>,
    /// IP addresses.
    pub ip_addresses: Vec<IpAddr>,
    /// The provider ID of the machine, for requests with evidence (AT-40); empty for none.
    pub provider_id: String,
}

impl Request {
    /// The request in PEM form, for this key and signed with it.
    ///
    /// # Errors
    /// Signing fails.
    pub fn to_pem(&self, key: &KeyPair) -> Result<String, KeyError> {
        let info = self.info(key.public_der());
        let algorithm = key.signature_algorithm().to_der().map_err(|_| KeyError::Sign)?;
        Ok(signed(&info, &algorithm, &key.sign(&info)?))
    }

    /// The request in PEM form, for a key on P-256 that is elsewhere, such as in a TPM. `sign` gets the SHA-256 digest of
    /// what is signed, and returns the signature in DER form.
    ///
    /// # Errors
    /// Those of `sign`.
    pub fn to_pem_by<E>(
        &self,
        public_key_der: &[u8],
        sign: impl FnOnce(&[u8; 32]) -> Result<Vec<u8>, E>,
    ) -> Result<String, E> {
        let info = self.info(public_key_der);
        let algorithm = element(SEQUENCE, &oid(ECDSA_WITH_SHA_256));
        let signature = sign(&sha256(&info))?;
        Ok(signed(&info, &algorithm, &signature))
    }

    fn info(&self, public_key_der: &[u8]) -> Vec<u8> {
        let subject = name::written(&self.organizations, None, &self.common_name);
        let attributes = element(ATTRIBUTES, &self.attributes(&subject));
        element_of(SEQUENCE, &[&VERSION, &subject, public_key_der, &attributes])
    }

    fn attributes(&self, subject: &[u8]) -> Vec<u8> {
        let mut extensions = Vec::new();
        let names = Names { dns: self.dns_names.clone(), ip: self.ip_addresses.clone(), ..Names::default() };
        extensions.extend(issue::subject_alt_names(&names, subject).unwrap_or_default());
        if !self.provider_id.is_empty() {
            extensions.extend(issue::provider_id(&ProviderIdOids::default(), &self.provider_id));
        }
        if extensions.is_empty() {
            return extensions;
        }
        let extensions = element(SEQUENCE, &extensions);
        element_of(SEQUENCE, &[&oid(ID_EXTENSION_REQ), &element(SET, &extensions)])
    }
}

/// A signed request in PEM form.
fn signed(info: &[u8], algorithm: &[u8], signature: &[u8]) -> String {
    let signature = element_of(BIT_STRING, &[&[0], signature]);
    let request = element_of(SEQUENCE, &[info, algorithm, &signature]);
    pem::encode("CERTIFICATE REQUEST", &request)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Csr;

    #[test]
    fn a_request_says_what_it_was_made_of() {
        let key = KeyPair::generate().unwrap();
        let bare = Request {
            common_name: "system:node:é*".into(),
            organizations: vec!["system:nodes".into(), "b".into()],
            ..Request::default()
        };
        let named = Request {
            dns_names: vec!["a.example".into()],
            ip_addresses: vec!["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()],
            ..bare.clone()
        };
        for request in [bare, named] {
            let read = Csr::from_pem(request.to_pem(&key).unwrap().as_bytes()).unwrap();
            assert_eq!(read.subject().common_name().unwrap(), request.common_name);
            assert_eq!(read.subject().organizations().unwrap(), request.organizations);
            assert_eq!((&read.names().dns, &read.names().ip), (&request.dns_names, &request.ip_addresses));
            assert_eq!(read.public_key_der(), key.public_der());
            assert!(!read.has_trailing_data());
        }
    }
}
