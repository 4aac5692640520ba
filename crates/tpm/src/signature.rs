//! Signatures of a TPM, and ECDSA signatures as TLS and certificates have them.

use crate::wire::{Malformed, Reader};

const ECDSA: u16 = 0x0018;
/// The largest coordinate here: P-384.
const MAX_NUMBER_BYTES: usize = 48;
const DER_INTEGER: u8 = 0x02;
const DER_SEQUENCE: u8 = 0x30;

/// An ECDSA signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    raw: Vec<u8>,
    der: Vec<u8>,
}

impl Signature {
    /// Reads a `TPMT_SIGNATURE` with ECDSA.
    ///
    /// # Errors
    /// It is none, or one of its two numbers is zero or has more than 48 bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        if reader.u16()? != ECDSA {
            return Err(Malformed("the signature is not ECDSA"));
        }
        let _hash = reader.u16()?;
        let (r, s) = (integer(reader.sized()?)?, integer(reader.sized()?)?);
        reader.finish()?;
        let content = [r, s].concat();
        // Two integers of at most 49 bytes: the length fits into one byte.
        let length =
            u8::try_from(content.len()).map_err(|_| Malformed("a number of the signature is too large"))?;
        Ok(Self { raw: bytes.to_vec(), der: [&[DER_SEQUENCE, length], &*content].concat() })
    }

    /// The `TPMT_SIGNATURE`.
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// The DER form: a sequence of two integers.
    pub fn der(&self) -> &[u8] {
        &self.der
    }
}

/// A DER integer: without leading zeros, but with one where the number would be negative otherwise.
fn integer(number: &[u8]) -> Result<Vec<u8>, Malformed> {
    let start =
        number.iter().position(|byte| *byte != 0).ok_or(Malformed("a number of the signature is zero"))?;
    let number = number.get(start..).unwrap_or_default();
    if number.len() > MAX_NUMBER_BYTES {
        return Err(Malformed("a number of the signature is too large"));
    }
    let zero: &[u8] = if number.first().is_some_and(|byte| byte & 0x80 != 0) { &[0] } else { &[] };
    let length = u8::try_from(number.len().saturating_add(zero.len()));
    let length = length.map_err(|_| Malformed("a number of the signature is too large"))?;
    Ok([&[DER_INTEGER, length], zero, number].concat())
}
