//! Signatures of TPMs (TPMT_SIGNATURE).

use tpm2_protocol::data::{TpmAlgId, TpmtSignature, TpmuSignature};

use super::hash::HashAlgorithm;
use super::public::{PublicArea, Scheme, unsigned};
use super::{TpmError, whole};
use crate::der::{SEQUENCE, element_of, only};
use crate::signature::{Hash, PublicKey, SignatureKind};

const WHAT: &str = "TPMT_SIGNATURE";

/// Returns whether a key signed a message, with its own scheme and hash function (AT-119.9).
///
/// # Errors
/// The signature is malformed.
pub fn verify(key: &PublicArea, message: &[u8], signature: &[u8]) -> Result<bool, TpmError> {
    let (scheme, bytes) = parse(signature)?;
    if key.scheme() != Some(scheme) {
        return Ok(false);
    }
    let public_key = only(key.public_key_der()).and_then(|info| PublicKey::read(&info));
    let Ok(Some(public_key)) = public_key else { return Ok(false) };
    Ok(public_key.has_signed(kind(scheme), message, &bytes).unwrap_or(false))
}

/// Reads a signature. One of ECDSA becomes DER.
fn parse(bytes: &[u8]) -> Result<(Scheme, Vec<u8>), TpmError> {
    let signature: TpmtSignature = whole(bytes, WHAT)?;
    let hash = |id: TpmAlgId| {
        HashAlgorithm::of(id).ok_or(TpmError::Unsupported("the signature must be over SHA-256 or longer"))
    };
    Ok(match signature.signature {
        TpmuSignature::Rsassa(rsa) => (Scheme::RsaPkcs1(hash(rsa.hash)?), rsa.sig.to_vec()),
        TpmuSignature::Rsapss(rsa) => (Scheme::RsaPss(hash(rsa.hash)?), rsa.sig.to_vec()),
        TpmuSignature::Ecdsa(ecdsa) => {
            let (r, s) = (unsigned(&ecdsa.signature_r), unsigned(&ecdsa.signature_s));
            (Scheme::Ecdsa(hash(ecdsa.hash)?), element_of(SEQUENCE, &[&r, &s]))
        }
        _ => return Err(TpmError::Unsupported("the signature must be RSASSA, RSAPSS or ECDSA")),
    })
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
