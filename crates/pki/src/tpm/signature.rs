//! Signatures of TPMs (TPMT_SIGNATURE).

use tpm2_protocol::data::{TpmAlgId, TpmtSignature, TpmuSignature};

use super::hash::HashAlgorithm;
use super::public::{PublicArea, Scheme, unsigned};
use super::{TpmError, whole};
use crate::der::{SEQUENCE, element_of, only};
use crate::signature::{Hash, PublicKey, SignatureKind};

const WHAT: &str = "TPMT_SIGNATURE";

/// A signature that was read, and not verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    scheme: Scheme,
    /// The bytes as other software has them: those of ECDSA are DER.
    bytes: Vec<u8>,
}

impl Signature {
    /// Reads a signature, which must take all of the bytes.
    ///
    /// # Errors
    /// Malformed bytes, or a scheme other than RSASSA, RSAPSS and ECDSA over SHA-256 or longer.
    pub fn parse(bytes: &[u8]) -> Result<Self, TpmError> {
        let signature: TpmtSignature = whole(bytes, WHAT)?;
        let hash = |id: TpmAlgId| {
            HashAlgorithm::of(id).ok_or(TpmError::Unsupported("the signature must be over SHA-256 or longer"))
        };
        let (scheme, bytes) = match signature.signature {
            TpmuSignature::Rsassa(rsa) => (Scheme::RsaPkcs1(hash(rsa.hash)?), rsa.sig.to_vec()),
            TpmuSignature::Rsapss(rsa) => (Scheme::RsaPss(hash(rsa.hash)?), rsa.sig.to_vec()),
            TpmuSignature::Ecdsa(ecdsa) => {
                let (r, s) = (unsigned(&ecdsa.signature_r), unsigned(&ecdsa.signature_s));
                (Scheme::Ecdsa(hash(ecdsa.hash)?), element_of(SEQUENCE, &[&r, &s]))
            }
            _ => return Err(TpmError::Unsupported("the signature must be RSASSA, RSAPSS or ECDSA")),
        };
        Ok(Self { scheme, bytes })
    }

    /// Returns whether a key made this signature of a message, with the key's own scheme and hash function (AT-119.9).
    pub fn is_by(&self, key: &PublicArea, message: &[u8]) -> bool {
        if key.scheme() != Some(self.scheme) {
            return false;
        }
        let public_key = only(key.public_key_der()).and_then(|info| PublicKey::read(&info));
        let Ok(Some(public_key)) = public_key else { return false };
        public_key.has_signed(kind(self.scheme), message, &self.bytes).unwrap_or(false)
    }
}

fn kind(scheme: Scheme) -> SignatureKind {
    let hash = |hash| match hash {
        HashAlgorithm::Sha256 => Hash::Sha256,
        HashAlgorithm::Sha384 => Hash::Sha384,
        HashAlgorithm::Sha512 => Hash::Sha512,
    };
    match scheme {
        Scheme::RsaPkcs1(of) => SignatureKind::RsaPkcs1(hash(of)),
        Scheme::RsaPss(of) => SignatureKind::RsaPss(hash(of)),
        Scheme::Ecdsa(of) => SignatureKind::Ecdsa(hash(of)),
    }
}
