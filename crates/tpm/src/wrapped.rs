//! Keys and data as they are kept outside of the TPM (AT-122).

use crate::wire::{Malformed, Reader, Writer};

/// A key or data, encrypted by the TPM: only the same TPM can load it, also after a restart (AT-122).
///
/// The bytes are a `TPM2B_PUBLIC` and a `TPM2B_PRIVATE`, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrapped {
    public: Vec<u8>,
    private: Vec<u8>,
}

impl Wrapped {
    /// Reads what [`Self::to_bytes`] wrote.
    ///
    /// # Errors
    /// These are not two non-empty structures with their lengths, and nothing else.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let read = Self::read(&mut reader)?;
        reader.finish()?;
        Ok(read)
    }

    /// The bytes to keep.
    pub fn to_bytes(&self) -> Vec<u8> {
        [&*self.public, &*self.private].concat()
    }

    /// The public area, a `TPM2B_PUBLIC`.
    pub fn public(&self) -> &[u8] {
        &self.public
    }

    /// The encrypted private area, a `TPM2B_PRIVATE`.
    pub fn private(&self) -> &[u8] {
        &self.private
    }

    /// The two structures, public first.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let public = sized(reader)?;
        Ok(Self { public, private: sized(reader)? })
    }

    /// The two structures, private first: as the TPM returns them.
    pub(crate) fn read_created(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let private = sized(reader)?;
        Ok(Self { public: sized(reader)?, private })
    }
}

/// A structure that is not empty, with its length.
fn sized(reader: &mut Reader<'_>) -> Result<Vec<u8>, Malformed> {
    let content = reader.sized()?;
    if content.is_empty() {
        return Err(Malformed("a public or private area is empty"));
    }
    Writer::default().sized(content).finish()
}
