//! The providers of an encryption configuration: they write the prefix of an encrypted value, and find the key that the
//! prefix names.

use std::borrow::Cow;
use std::fmt;

use super::cipher::{AesCbc, AesGcm, Cipher, CipherError, SecretBox};
use super::kms::{Kms, KmsError};

/// The start of every encrypted value. No JSON and no protobuf of Kubernetes begins with it.
pub const PREFIX: &[u8] = b"k8s:enc:";

/// The provider and version in the prefix of values.
const AES_CBC: &str = "aescbc:v1:";
const AES_GCM: &str = "aesgcm:v1:";
const SECRET_BOX: &str = "secretbox:v1:";

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
    /// A KMS plug-in: AES-GCM with keys that are derived from a seed, which the plug-in encrypts. The key of the store is
    /// additional data.
    Kms(Kms),
}

/// A value cannot be encrypted or decrypted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ProviderError {
    #[error(transparent)]
    Cipher(#[from] CipherError),
    #[error(transparent)]
    Kms(#[from] KmsError),
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

    /// Whether a value can be encrypted now.
    pub(super) fn check(&self) -> Result<(), ProviderError> {
        if let Self::Kms(kms) = self { Ok(kms.check()?) } else { Ok(()) }
    }

    /// Encrypts with the first key.
    pub(super) fn seal<'v>(
        &self,
        storage_key: &str,
        value: &'v [u8],
    ) -> Result<Cow<'v, [u8]>, ProviderError> {
        let (name, keys) = match self {
            Self::Identity => return Ok(Cow::Borrowed(value)),
            Self::Kms(kms) => {
                return Ok(Cow::Owned([PREFIX, &kms.seal(storage_key, value)?].concat()));
            }
            Self::AesCbc(keys) => (AES_CBC, keys),
            Self::AesGcm(keys) => (AES_GCM, keys),
            Self::SecretBox(keys) => (SECRET_BOX, keys),
        };
        let first = keys.first().ok_or(CipherError::NoKey)?;
        let sealed = first.cipher.encrypt(storage_key.as_bytes(), value)?;
        Ok(Cow::Owned([PREFIX, name.as_bytes(), first.name.as_bytes(), b":", &sealed].concat()))
    }

    /// Decrypts `body`, the value after [`PREFIX`], and returns whether new values are encrypted the same way, as far as this
    /// provider knows. `None` if the value names another provider, or a key that this provider does not have.
    pub(super) fn open(
        &self,
        storage_key: &str,
        body: &[u8],
    ) -> Option<Result<(Vec<u8>, bool), ProviderError>> {
        let (name, keys) = match self {
            Self::Identity => return None,
            Self::Kms(kms) => return Some(kms.open(storage_key, body)?.map_err(ProviderError::Kms)),
            Self::AesCbc(keys) => (AES_CBC, keys),
            Self::AesGcm(keys) => (AES_GCM, keys),
            Self::SecretBox(keys) => (SECRET_BOX, keys),
        };
        let body = body.strip_prefix(name.as_bytes())?;
        let mut last = None;
        for (at, key) in keys.iter().enumerate() {
            let sealed = body.strip_prefix(key.name.as_bytes()).and_then(|rest| rest.strip_prefix(b":"));
            let Some(sealed) = sealed else { continue };
            match key.cipher.decrypt(storage_key.as_bytes(), sealed) {
                Ok(value) => return Some(Ok((value, at == 0))),
                Err(error) => last = Some(Err(error.into())),
            }
        }
        last
    }
}
