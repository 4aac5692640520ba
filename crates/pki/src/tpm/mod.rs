//! What a TPM says: public keys, statements that its keys sign, and secrets that only it can open (AT-110 to AT-120).
//!
//! A TPM has an endorsement key (EK), whose certificate the manufacturer signs; an attestation key (AK), which signs only
//! statements of the TPM itself; and the key of the kubelet. Knowing that all three are in one TPM takes three links: the
//! TPM opens a secret that is made for its EK and the name of its AK ([`credential`]); the AK certifies the name of the
//! kubelet's key ([`Statement`]); and that name is the hash of the public key in the certificate request ([`PublicArea`]).
//!
//! Nothing here talks to a TPM.

pub mod credential;
pub mod endorsement;
pub mod evidence;
mod hash;
mod name;
mod public;
mod signature;
mod statement;

pub use hash::HashAlgorithm;
pub use name::Name;
pub use public::{Attributes, KeyType, PublicArea, Scheme};
pub use signature::Signature;
pub use statement::{Body, Clock, CreationData, PcrSelection, Statement};

/// A structure of a TPM that is malformed, or of a kind that is not supported (`TpmMalformed`, AT-119.1).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TpmError {
    /// The bytes are not this structure, or more than it.
    #[error("not a {0}")]
    Malformed(&'static str),
    /// The structure is valid, but of a kind that is not supported.
    #[error("{0}")]
    Unsupported(&'static str),
}

/// Reads the contents of a structure with a length of two bytes in front (TPM2B). The length must be that of the rest.
fn sized<'a>(bytes: &'a [u8], what: &'static str) -> Result<&'a [u8], TpmError> {
    let (length, contents) = bytes.split_first_chunk().ok_or(TpmError::Malformed(what))?;
    match usize::from(u16::from_be_bytes(*length)) == contents.len() {
        true => Ok(contents),
        false => Err(TpmError::Malformed(what)),
    }
}

/// Reads a structure that takes all of the bytes.
fn whole<T: tpm2_protocol::TpmUnmarshal>(bytes: &[u8], what: &'static str) -> Result<T, TpmError> {
    match T::unmarshal(bytes) {
        Ok((structure, [])) => Ok(structure),
        _ => Err(TpmError::Malformed(what)),
    }
}
