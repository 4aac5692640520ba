//! Encryption rules that can be replaced while a store is in use (ET-50: reload on change).

use std::borrow::Cow;
use std::sync::Arc;

use arc_swap::ArcSwap;

use super::Encryption;
use crate::transform::{Opened, TransformError, Transformer};

/// The rules in force. Each value is converted by the rules of that moment.
#[derive(Debug, Default)]
pub struct LiveEncryption(ArcSwap<Encryption>);

impl LiveEncryption {
    /// Begins with these rules.
    #[must_use]
    pub fn new(encryption: Encryption) -> Self {
        Self(ArcSwap::from_pointee(encryption))
    }

    /// The rules in force now.
    #[must_use]
    pub fn current(&self) -> Arc<Encryption> {
        self.0.load_full()
    }

    /// Replaces the rules. Start their plug-ins first: see [`Encryption::start`].
    pub fn replace(&self, encryption: Encryption) {
        self.0.store(Arc::new(encryption));
    }
}

impl Transformer for LiveEncryption {
    fn check(&self, key: &str) -> Result<(), TransformError> {
        self.0.load().check(key)
    }

    fn seal<'v>(&self, key: &str, value: &'v [u8]) -> Result<Cow<'v, [u8]>, TransformError> {
        self.0.load().seal(key, value)
    }

    fn open<'v>(&self, key: &str, sealed: &'v [u8]) -> Result<Opened<'v>, TransformError> {
        self.0.load().open(key, sealed)
    }
}
