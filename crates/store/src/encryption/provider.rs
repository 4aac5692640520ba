//! The providers of an encryption configuration: they write the prefix of an encrypted value, and find the key that the
//! prefix names.

use std::borrow::Cow;
use std::fmt;

use super::PREFIX;
use super::cipher::{AesCbc, AesGcm, Cipher, CipherError, SecretBox};

/// Encrypts and decrypts values.
#[derive(Debug)]
pub enum Provider {
    /// No encryption. Reads values that are not encrypted.
    Identity,
    /// AES in CBC mode with PKCS#7 padding. Does not detect changed values.
    AesCbc(Vec<Key>),
    /// AES in Galois/Counter mode with random nonces. The key of the store is additional data, so that a value cannot be
    /// moved to another key.
    AesGcm(Vec<Key>),
    /// XSalsa20 and Poly1305.
    SecretBox(Vec<Key>),
}

/// A named key of a provider.
pub struct Key {
    name: String,
    cipher: Box<dyn Cipher>,
}

impl fmt::Debug for Key {
    /// Only the name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Key {
    /// A key of [`Provider::AesCbc`].
    ///
    /// # Errors
    /// The secret is not 16, 24 or 32 bytes long.
    pub fn aes_cbc(name: impl Into<String>, secret: &[u8]) -> Result<Self, CipherError> {
        Ok(Self { name: name.into(), cipher: Box::new(AesCbc::new(secret)?) })
    }

    /// A key of [`Provider::AesGcm`].
    ///
    /// # Errors
    /// The secret is not 16, 24 or 32 bytes long.
    pub fn aes_gcm(name: impl Into<String>, secret: &[u8]) -> Result<Self, CipherError> {
        Ok(Self { name: name.into(), cipher: Box::new(AesGcm::new(secret)?) })
    }

    /// A key of [`Provider::SecretBox`].
    ///
    /// # Errors
    /// The secret is not 32 bytes long.
    pub fn secret_box(name: impl Into<String>, secret: &[u8]) -> Result<Self, CipherError> {
        Ok(Self { name: name.into(), cipher: Box::new(SecretBox::new(secret)?) })
    }
}

impl Provider {
    /// Whether it is [`Provider::Identity`].
    #[must_use]
    pub fn is_identity(&self) -> bool {
        matches!(self, Self::Identity)
    }

    /// The provider and version in the prefix of values, and the keys.
    fn parts(&self) -> Option<(&'static str, &[Key])> {
        match self {
            Self::Identity => None,
            Self::AesCbc(keys) => Some(("aescbc:v1:", keys)),
            Self::AesGcm(keys) => Some(("aesgcm:v1:", keys)),
            Self::SecretBox(keys) => Some(("secretbox:v1:", keys)),
        }
    }

    /// Encrypts with the first key.
    pub(super) fn seal<'v>(&self, storage_key: &str, value: &'v [u8]) -> Result<Cow<'v, [u8]>, CipherError> {
        let Some((name, keys)) = self.parts() else { return Ok(Cow::Borrowed(value)) };
        let first = keys.first().ok_or(CipherError::NoKey)?;
        let sealed = first.cipher.encrypt(storage_key.as_bytes(), value)?;
        Ok(Cow::Owned([PREFIX, name.as_bytes(), first.name.as_bytes(), b":", &sealed].concat()))
    }

    /// Decrypts `body`, the value after [`PREFIX`], and returns whether the first key did. `None` if the value names another
    /// provider, or a key that this provider does not have.
    pub(super) fn open(
        &self,
        storage_key: &str,
        body: &[u8],
    ) -> Option<Result<(Vec<u8>, bool), CipherError>> {
        let (name, keys) = self.parts()?;
        let body = body.strip_prefix(name.as_bytes())?;
        let mut last = None;
        for (at, key) in keys.iter().enumerate() {
            let sealed = body.strip_prefix(key.name.as_bytes()).and_then(|rest| rest.strip_prefix(b":"));
            let Some(sealed) = sealed else { continue };
            match key.cipher.decrypt(storage_key.as_bytes(), sealed) {
                Ok(value) => return Some(Ok((value, at == 0))),
                Err(error) => last = Some(Err(error)),
            }
        }
        last
    }
}
