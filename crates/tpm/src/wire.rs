//! The numbers and length-prefixed fields that commands and responses consist of: big-endian, and bounded.

/// The largest command or response that a TPM of a PC takes or sends, in bytes.
pub(crate) const MAX_BYTES: usize = 4096;

/// Bytes that are not the structure that they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub(crate) &'static str);

/// Writes fields. A field that does not fit is remembered and makes [`Writer::finish`] fail.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
    is_too_large: bool,
}

impl Writer {
    pub(crate) fn u8(self, value: u8) -> Self {
        self.bytes(&[value])
    }

    pub(crate) fn u16(self, value: u16) -> Self {
        self.bytes(&value.to_be_bytes())
    }

    pub(crate) fn u32(self, value: u32) -> Self {
        self.bytes(&value.to_be_bytes())
    }

    /// Bytes as they are.
    pub(crate) fn bytes(mut self, bytes: &[u8]) -> Self {
        if self.bytes.len().saturating_add(bytes.len()) > MAX_BYTES {
            self.is_too_large = true;
        } else {
            self.bytes.extend_from_slice(bytes);
        }
        self
    }

    /// Bytes behind their length in two bytes (a `TPM2B`).
    pub(crate) fn sized(mut self, bytes: &[u8]) -> Self {
        match u16::try_from(bytes.len()) {
            Ok(length) => self.u16(length).bytes(bytes),
            Err(_) => {
                self.is_too_large = true;
                self
            }
        }
    }

    /// A structure behind its length in two bytes.
    pub(crate) fn sized_structure(mut self, structure: Self) -> Self {
        self.is_too_large |= structure.is_too_large;
        self.sized(&structure.bytes)
    }

    /// All that was written.
    ///
    /// # Errors
    /// It is larger than [`MAX_BYTES`].
    pub(crate) fn finish(self) -> Result<Vec<u8>, Malformed> {
        if self.is_too_large { Err(Malformed("more than 4096 bytes")) } else { Ok(self.bytes) }
    }
}

/// Reads fields from the front.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Self {
        Self(bytes)
    }

    /// Exactly this many bytes.
    pub(crate) fn take(&mut self, count: usize) -> Result<&'b [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed("it ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(Malformed("it ends too early"))?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(u8::from_be_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_be_bytes)
    }

    /// The bytes behind a length in two bytes (a `TPM2B`), without the length.
    pub(crate) fn sized(&mut self) -> Result<&'b [u8], Malformed> {
        let length = self.u16()?;
        self.take(usize::from(length))
    }

    /// A number of elements that is at most `limit`.
    pub(crate) fn count(&mut self, limit: u32) -> Result<u32, Malformed> {
        let count = self.u32()?;
        if count > limit { Err(Malformed("it has too many elements")) } else { Ok(count) }
    }

    /// All that is left.
    pub(crate) fn rest(self) -> &'b [u8] {
        self.0
    }

    /// Nothing may be left.
    pub(crate) fn finish(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed("bytes follow its end")) }
    }
}

/// The content of one `TPM2B` that fills the bytes.
pub(crate) fn only_sized(bytes: &[u8]) -> Result<&[u8], Malformed> {
    let mut reader = Reader::new(bytes);
    let content = reader.sized()?;
    reader.finish()?;
    Ok(content)
}
