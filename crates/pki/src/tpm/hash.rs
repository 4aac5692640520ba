//! The hash functions of TPMs.

use aws_lc_rs::{digest, hmac};
use tpm2_protocol::data::TpmAlgId;

/// A hash function. SHA-1 is not supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HashAlgorithm {
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

impl HashAlgorithm {
    /// Returns the hash function of this number; `None` if it is not supported.
    pub(super) fn of(id: TpmAlgId) -> Option<Self> {
        match id {
            TpmAlgId::Sha256 => Some(Self::Sha256),
            TpmAlgId::Sha384 => Some(Self::Sha384),
            TpmAlgId::Sha512 => Some(Self::Sha512),
            _ => None,
        }
    }

    /// The number of the hash function in TPM structures.
    pub(super) const fn id(self) -> u16 {
        match self {
            Self::Sha256 => 0x000b,
            Self::Sha384 => 0x000c,
            Self::Sha512 => 0x000d,
        }
    }

    /// The length of a digest, in bytes.
    pub const fn digest_bytes(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }

    /// The digest of the concatenated parts.
    pub fn digest(self, parts: &[&[u8]]) -> Vec<u8> {
        let mut context = digest::Context::new(match self {
            Self::Sha256 => &digest::SHA256,
            Self::Sha384 => &digest::SHA384,
            Self::Sha512 => &digest::SHA512,
        });
        parts.iter().for_each(|part| context.update(part));
        context.finish().as_ref().to_vec()
    }

    /// The HMAC of the concatenated parts.
    pub fn hmac(self, key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
        let algorithm = match self {
            Self::Sha256 => hmac::HMAC_SHA256,
            Self::Sha384 => hmac::HMAC_SHA384,
            Self::Sha512 => hmac::HMAC_SHA512,
        };
        let mut context = hmac::Context::with_key(&hmac::Key::new(algorithm, key));
        parts.iter().for_each(|part| context.update(part));
        context.sign().as_ref().to_vec()
    }
}
