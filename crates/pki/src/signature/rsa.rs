//! RSA signatures of the sizes and hashes that the crypto library has not, and Kubernetes accepts (CS-18): keys of 1024 bits
//! and of more than 8192.
//!
//! Only checking, so only with what everybody may know. RFC 8017, sections 8.1.2 and 8.2.2.

use num_bigint::BigUint;
use x509_cert::der::{Error, ErrorKind, Tag};

use super::{Hash, SignatureKind};
use crate::der::{Element, only};

/// Keys below this size are refused. Bits.
const MIN_BITS: u64 = 1024;
/// Keys above this size are refused: checking would take long. Bits.
const MAX_BITS: u64 = 16_384;
/// The largest exponent.
const MAX_EXPONENT: u32 = i32::MAX.unsigned_abs();

/// A public key.
pub(super) struct RsaKey {
    modulus: BigUint,
    exponent: BigUint,
}

/// An INTEGER that is not negative.
pub(super) fn positive(element: &Element<'_>) -> Option<BigUint> {
    let bytes = element.contents();
    let is_shortest = match bytes {
        [] => false,
        [0, next, ..] => *next >= 0x80,
        [first, ..] => *first < 0x80,
    };
    (element.tag() == Tag::Integer && (is_shortest || bytes == [0])).then(|| BigUint::from_bytes_be(bytes))
}

impl RsaKey {
    /// Reads an RSAPublicKey.
    pub(super) fn read(der: &[u8]) -> Result<Self, Error> {
        let malformed = || Error::from(ErrorKind::Failed);
        let mut fields = only(der)?.children(Tag::Sequence)?;
        let modulus = positive(&fields.required()?).ok_or_else(malformed)?;
        let exponent = positive(&fields.required()?).ok_or_else(malformed)?;
        if modulus == BigUint::ZERO || exponent == BigUint::ZERO {
            return Err(malformed());
        }
        Ok(Self { modulus, exponent })
    }

    pub(super) fn bits(&self) -> u64 {
        self.modulus.bits()
    }

    /// Whether the holder of the key made this signature.
    pub(super) fn has_signed(&self, kind: SignatureKind, message: &[u8], signature: &[u8]) -> bool {
        let is_usable = (MIN_BITS..=MAX_BITS).contains(&self.bits())
            && self.modulus.bit(0)
            && self.exponent.bit(0)
            && self.exponent > BigUint::from(1_u8)
            && self.exponent <= BigUint::from(MAX_EXPONENT);
        let Ok(length) = usize::try_from(self.bits().div_ceil(8)) else { return false };
        let number = BigUint::from_bytes_be(signature);
        if !is_usable || signature.len() != length || number >= self.modulus {
            return false;
        }
        let opened = padded(&number.modpow(&self.exponent, &self.modulus).to_bytes_be(), length);
        match kind {
            SignatureKind::RsaPkcs1(hash) => opened == pkcs1(hash, hash.of(message).as_ref(), length),
            SignatureKind::RsaPss(hash) => {
                self.is_pss(hash, hash.of(message).as_ref(), &opened).unwrap_or(false)
            }
            SignatureKind::Ecdsa(_) | SignatureKind::Ed25519 => false,
        }
    }

    /// Whether what was signed is the hash, padded for PSS with a salt as long as the hash.
    fn is_pss(&self, hash: Hash, hashed: &[u8], opened: &[u8]) -> Option<bool> {
        let bits = usize::try_from(self.bits()).ok()?.checked_sub(1)?;
        let length = bits.div_ceil(8);
        let (before, encoded) = opened.split_at_checked(opened.len().checked_sub(length)?)?;
        let (rest, trailer) = encoded.split_at_checked(length.checked_sub(1)?)?;
        let (masked, seed) = rest.split_at_checked(rest.len().checked_sub(hashed.len())?)?;
        let unused = length.checked_mul(8)?.checked_sub(bits)?;
        let top = 0xff_u8.checked_shr(u32::try_from(unused).ok()?).unwrap_or(0);
        if before.iter().any(|byte| *byte != 0) || trailer != [0xbc] || masked.first()? & !top != 0 {
            return Some(false);
        }
        let mask = mask(hash, seed, masked.len());
        let mut block: Vec<u8> = masked.iter().zip(mask).map(|(byte, mask)| byte ^ mask).collect();
        *block.first_mut()? &= top;
        let (padding, salt) = block.split_at_checked(block.len().checked_sub(hashed.len())?)?;
        let (one, zeros) = padding.split_last()?;
        let again = hash.of(&[&[0; 8], hashed, salt].concat());
        Some(*one == 1 && zeros.iter().all(|byte| *byte == 0) && again.as_ref() == seed)
    }
}

/// The number with zeros before it, so many bytes in all.
fn padded(number: &[u8], length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length.saturating_sub(number.len())];
    bytes.extend_from_slice(number);
    bytes
}

/// What is signed for a hash: `00 01 ff.. 00` and the hash with its name.
fn pkcs1(hash: Hash, hashed: &[u8], length: usize) -> Vec<u8> {
    // A DigestInfo, up to the hash.
    let prefix: &[u8] = match hash {
        Hash::Sha1 => {
            &[0x30, 0x21, 0x30, 0x09, 0x06, 0x05, 0x2b, 0x0e, 0x03, 0x02, 0x1a, 0x05, 0x00, 0x04, 0x14]
        }
        Hash::Sha256 => &digest_info(0x31, 1, 0x20),
        Hash::Sha384 => &digest_info(0x41, 2, 0x30),
        Hash::Sha512 => &digest_info(0x51, 3, 0x40),
    };
    let fill = length.saturating_sub(3 + prefix.len() + hashed.len());
    [&[0, 1], vec![0xff; fill].as_slice(), &[0], prefix, hashed].concat()
}

/// That of the hashes of the SHA-2 family, which differ in three bytes.
const fn digest_info(whole: u8, last_arc: u8, hash: u8) -> [u8; 19] {
    [
        0x30, whole, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, last_arc, 0x05,
        0x00, 0x04, hash,
    ]
}

/// MGF1.
fn mask(hash: Hash, seed: &[u8], length: usize) -> Vec<u8> {
    let mut mask = Vec::new();
    let mut counter = 0_u32;
    while mask.len() < length {
        mask.extend_from_slice(hash.of(&[seed, &counter.to_be_bytes()].concat()).as_ref());
        counter = counter.wrapping_add(1);
    }
    mask.truncate(length);
    mask
}
