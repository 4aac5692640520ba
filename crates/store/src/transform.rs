//! Conversion of values between memory and disk, such as encryption.
//!
//! The store calls a [`Transformer`] for each value that it writes or reads. The store itself never interprets values.

use std::borrow::Cow;

/// Converts values to their form on disk, and back. Must be fast: all writers wait for it. Only [`Transformer::open`] may call
/// another process, and must give up after a few seconds.
pub trait Transformer: Send + Sync {
    /// Whether a value of this key could be converted now. The store refuses a commit with a key that fails, so that other
    /// commits do not fail with it.
    ///
    /// # Errors
    /// As [`Transformer::seal`].
    fn check(&self, _key: &str) -> Result<(), TransformError> {
        Ok(())
    }

    /// Converts a value to its form on disk. `key` is the key of the value in the store.
    ///
    /// # Errors
    /// The value cannot be converted, such as encrypted. The store then writes nothing.
    fn seal<'v>(&self, key: &str, value: &'v [u8]) -> Result<Cow<'v, [u8]>, TransformError>;

    /// The reverse of [`Transformer::seal`]. Also reads values that were written with an earlier configuration.
    ///
    /// # Errors
    /// The value cannot be read.
    fn open<'v>(&self, key: &str, sealed: &'v [u8]) -> Result<Opened<'v>, TransformError>;
}

/// Leaves values as they are.
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
    /// Whether [`Transformer::seal`] would now write it differently, such as with another key.
    pub is_stale: bool,
}

/// A value cannot be converted: which one, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the value of {key} {problem}")]
pub struct TransformError {
    /// The key of the value in the store.
    pub key: Box<str>,
    /// The problem, and what to do.
    pub problem: String,
}
