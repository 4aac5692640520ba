//! The few fields of a public area that decide how a key is used here. Verifiers read the rest.

use crate::wire::{Malformed, Reader, only_sized};

/// Attributes of an object (TCG, `TPMA_OBJECT`).
pub(crate) mod attribute {
    pub(crate) const FIXED_TPM: u32 = 1 << 1;
    pub(crate) const FIXED_PARENT: u32 = 1 << 4;
    pub(crate) const SENSITIVE_DATA_ORIGIN: u32 = 1 << 5;
    pub(crate) const USER_WITH_AUTH: u32 = 1 << 6;
    pub(crate) const ADMIN_WITH_POLICY: u32 = 1 << 7;
    pub(crate) const NO_DA: u32 = 1 << 10;
    pub(crate) const RESTRICTED: u32 = 1 << 16;
    pub(crate) const DECRYPT: u32 = 1 << 17;
    pub(crate) const SIGN: u32 = 1 << 18;
}

/// The beginning of a public area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// The hash algorithm of its name and policy.
    pub(crate) name_algorithm: u16,
    /// Its attributes.
    attributes: u32,
}

impl Header {
    /// Reads a `TPM2B_PUBLIC`.
    pub(crate) fn of(public: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(only_sized(public)?);
        let _kind = reader.u16()?;
        Ok(Self { name_algorithm: reader.u16()?, attributes: reader.u32()? })
    }

    /// Whether all of these attributes are set.
    pub(crate) fn has(self, attributes: u32) -> bool {
        self.attributes & attributes == attributes
    }
}
