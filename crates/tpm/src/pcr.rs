//! Platform configuration registers (PCRs), which hold what the machine booted. Only the SHA-256 bank is used.

use crate::error::TpmError;
use crate::wire::{Malformed, Reader, Writer};

const SHA256: u16 = 0x000b;
const SHA256_BYTES: usize = 32;
/// A PC has the PCRs 0 to 23: three bytes of bits.
const COUNT: u8 = 24;
const BITMAP_BYTES: usize = 3;

/// A selection of PCRs of the SHA-256 bank, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pcrs(u32);

/// PCRs with their values, in ascending order.
pub type PcrValues = Vec<(u8, [u8; 32])>;

impl Pcrs {
    /// These PCRs, each from 0 to 23.
    ///
    /// # Errors
    /// There is none, or one is larger than 23.
    pub fn new(indexes: &[u8]) -> Result<Self, TpmError> {
        let bad = |why| TpmError::Argument { what: "selection of PCRs", why: Malformed(why) };
        let mut bits = 0;
        for index in indexes {
            if *index >= COUNT {
                return Err(bad("PCRs are numbered from 0 to 23"));
            }
            bits |= 1 << index;
        }
        if bits == 0 { Err(bad("it is empty")) } else { Ok(Self(bits)) }
    }

    /// The PCRs in ascending order.
    pub fn indexes(self) -> impl Iterator<Item = u8> {
        (0..COUNT).filter(move |index| self.0 >> index & 1 == 1)
    }

    /// Those that are not in `other`, or none if all are.
    pub(crate) fn without(self, other: Self) -> Option<Self> {
        let left = self.0 & !other.0;
        (left != 0).then_some(Self(left))
    }

    pub(crate) fn contains_all_of(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }
}

/// Writes a `TPML_PCR_SELECTION`. The bit of PCR n is bit n mod 8 of byte n / 8.
pub(crate) fn write(writer: Writer, pcrs: Option<Pcrs>) -> Writer {
    let Some(Pcrs(bits)) = pcrs else { return writer.u32(0) };
    let [first, second, third, _] = bits.to_le_bytes();
    writer.u32(1).u16(SHA256).u8(3).bytes(&[first, second, third])
}

/// Reads what `TPM2_PCR_Read` returns: the counter of changes, the PCRs that it read, and their values.
pub(crate) fn read_values(reader: &mut Reader<'_>) -> Result<(u32, Pcrs, PcrValues), Malformed> {
    let changes = reader.u32()?;
    if reader.count(1)? != 1 || reader.u16()? != SHA256 {
        return Err(Malformed("it has no PCRs of the SHA-256 bank"));
    }
    if usize::from(reader.u8()?) != BITMAP_BYTES {
        return Err(Malformed("it selects PCRs that a PC does not have"));
    }
    let bits = reader.take(BITMAP_BYTES)?.iter().rev().fold(0, |bits, byte| bits << 8 | u32::from(*byte));
    let read = Pcrs(bits);
    let values = reader.count(u32::from(COUNT))?;
    if bits == 0 || bits.count_ones() != values {
        return Err(Malformed("it does not have one value for each PCR"));
    }
    let value = |index| {
        let digest = reader.sized()?;
        let digest =
            <[u8; SHA256_BYTES]>::try_from(digest).map_err(|_| Malformed("a PCR has no 32 bytes"))?;
        Ok((index, digest))
    };
    let values = read.indexes().map(value).collect::<Result<_, Malformed>>()?;
    Ok((changes, read, values))
}
