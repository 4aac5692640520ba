//! How values are written to disk and read back, such as encrypted.
//!
//! The store calls a [`Transformer`] between memory and disk. It never looks into the values itself.

use std::borrow::Cow;

/// Turns values into what is written to disk, and back. Must be fast, without I/O: all writers wait for it.
pub trait Transformer: Send + Sync {
    /// What is written to disk for a value.
    ///
    /// # Errors
    /// The value cannot be written as it should be; nothing is written then.
    fn seal<'v>(&self, key: &str, value: &'v [u8]) -> Result<Cow<'v, [u8]>, TransformError>;

    /// The reverse of [`Transformer::seal`], also for what was written by an earlier configuration.
    ///
    /// # Errors
    /// The value cannot be read.
    fn open<'v>(&self, key: &str, sealed: &'v [u8]) -> Result<Opened<'v>, TransformError>;
}

/// Writes values as they are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plain;

impl Transformer for Plain {
    fn seal<'v>(&self, _: &str, value: &'v [u8]) -> Result<Cow<'v, [u8]>, TransformError> {
        Ok(Cow::Borrowed(value))
    }

    fn open<'v>(&self, _: &str, sealed: &'v [u8]) -> Result<Opened<'v>, TransformError> {
        Ok(Opened { value: Cow::Borrowed(sealed), is_stale: false })
    }
}

/// A value that was read from disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened<'v> {
    /// The value.
    pub value: Cow<'v, [u8]>,
    /// Whether [`Transformer::seal`] would write it in another way now, such as with another key.
    pub is_stale: bool,
}

/// A value that cannot be transformed: which one, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the value of {key} {problem}")]
pub struct TransformError {
    /// The key of the value in the store.
    pub key: Box<str>,
    /// The problem, and what to do.
    pub problem: String,
}
