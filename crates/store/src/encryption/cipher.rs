//! The ciphers of the providers. Libraries do the cryptography; this module only joins nonce and encrypted text as
//! Kubernetes does.

use aws_lc_rs::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::cipher::{
    self, DecryptionContext, PaddedBlockDecryptingKey, PaddedBlockEncryptingKey, UnboundCipherKey,
};
use aws_lc_rs::hkdf::{HKDF_SHA256, Prk};
use aws_lc_rs::iv::FixedLength;
use aws_lc_rs::rand;
use crypto_secretbox::aead::{AeadInPlace as _, KeyInit as _};
use crypto_secretbox::{Nonce as BoxNonce, XSalsa20Poly1305};

/// A value cannot be encrypted or decrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CipherError {
    /// A key has the wrong length for its cipher.
    #[error("the key has {found} bytes, expected {expected}")]
    KeyLength {
        /// The length of the key, in bytes.
        found: usize,
        /// The possible lengths, in bytes.
        expected: &'static str,
    },
    /// The provider has no key.
    #[error("the provider has no key")]
    NoKey,
    /// The system has no random numbers.
    #[error("the system has no random numbers")]
    Randomness,
    /// The value was not written with this key, or was changed or moved to another key of the store.
    #[error("another key of the same name, or a changed value")]
    Unreadable,
}

/// One key, ready for use.
pub(super) trait Cipher: Send + Sync {
    /// Encrypts a value with a new nonce. The result starts with the nonce.
    fn encrypt(&self, storage_key: &[u8], value: &[u8]) -> Result<Vec<u8>, CipherError>;

    /// The reverse of [`Cipher::encrypt`].
    fn decrypt(&self, storage_key: &[u8], sealed: &[u8]) -> Result<Vec<u8>, CipherError>;
}

/// Random bytes.
pub(super) fn random<const N: usize>() -> Result<[u8; N], CipherError> {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).map_err(|_| CipherError::Randomness)?;
    Ok(bytes)
}

const AES_LENGTHS: &str = "16, 24 or 32";

pub(super) struct AesCbc {
    encrypting: PaddedBlockEncryptingKey,
    decrypting: PaddedBlockDecryptingKey,
}

impl AesCbc {
    pub(super) fn new(secret: &[u8]) -> Result<Self, CipherError> {
        let wrong = CipherError::KeyLength { found: secret.len(), expected: AES_LENGTHS };
        let algorithm = match secret.len() {
            16 => &cipher::AES_128,
            24 => &cipher::AES_192,
            32 => &cipher::AES_256,
            _ => return Err(wrong),
        };
        let key = || UnboundCipherKey::new(algorithm, secret).map_err(|_| wrong);
        Ok(Self {
            encrypting: PaddedBlockEncryptingKey::cbc_pkcs7(key()?).map_err(|_| wrong)?,
            decrypting: PaddedBlockDecryptingKey::cbc_pkcs7(key()?).map_err(|_| wrong)?,
        })
    }
}

impl Cipher for AesCbc {
    fn encrypt(&self, _: &[u8], value: &[u8]) -> Result<Vec<u8>, CipherError> {
        let mut text = value.to_vec();
        let context = self.encrypting.encrypt(&mut text).map_err(|_| CipherError::Randomness)?;
        let nonce: &[u8] = (&context).try_into().map_err(|_| CipherError::Randomness)?;
        Ok([nonce, &text].concat())
    }

    fn decrypt(&self, _: &[u8], sealed: &[u8]) -> Result<Vec<u8>, CipherError> {
        let (nonce, text) = sealed.split_first_chunk().ok_or(CipherError::Unreadable)?;
        let context = DecryptionContext::Iv128(FixedLength::from(nonce));
        let mut text = text.to_vec();
        let value = self.decrypting.decrypt(&mut text, context).map_err(|_| CipherError::Unreadable)?;
        Ok(value.to_vec())
    }
}

pub(super) struct AesGcm(LessSafeKey);

impl AesGcm {
    pub(super) fn new(secret: &[u8]) -> Result<Self, CipherError> {
        let wrong = CipherError::KeyLength { found: secret.len(), expected: AES_LENGTHS };
        let algorithm = match secret.len() {
            16 => &aead::AES_128_GCM,
            24 => &aead::AES_192_GCM,
            32 => &aead::AES_256_GCM,
            _ => return Err(wrong),
        };
        UnboundKey::new(algorithm, secret).map(|key| Self(LessSafeKey::new(key))).map_err(|_| wrong)
    }
}

impl Cipher for AesGcm {
    fn encrypt(&self, storage_key: &[u8], value: &[u8]) -> Result<Vec<u8>, CipherError> {
        let nonce: [u8; aead::NONCE_LEN] = random()?;
        let mut text = value.to_vec();
        let sealed = self.0.seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(storage_key),
            &mut text,
        );
        sealed.map_err(|_| CipherError::Randomness)?;
        Ok([&nonce, text.as_slice()].concat())
    }

    fn decrypt(&self, storage_key: &[u8], sealed: &[u8]) -> Result<Vec<u8>, CipherError> {
        let (nonce, text) =
            sealed.split_first_chunk::<{ aead::NONCE_LEN }>().ok_or(CipherError::Unreadable)?;
        let mut text = text.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let value = self.0.open_in_place(nonce, Aad::from(storage_key), &mut text);
        value.map(|value| value.to_vec()).map_err(|_| CipherError::Unreadable)
    }
}

/// The length of a seed of [`ExtendedNonce`], and of the bytes that each key is derived with.
pub(super) const SEED: usize = 32;

/// AES-256-GCM with a key of its own for each value, so that one seed may encrypt any number of values. The key is
/// HKDF-Expand, with SHA-256, of the seed and 32 random bytes, which stand before the nonce.
pub(super) struct ExtendedNonce(Prk);

impl ExtendedNonce {
    pub(super) fn new(seed: &[u8]) -> Result<Self, CipherError> {
        let wrong = CipherError::KeyLength { found: seed.len(), expected: "32" };
        let seed: &[u8; SEED] = seed.try_into().map_err(|_| wrong)?;
        Ok(Self(Prk::new_less_safe(HKDF_SHA256, seed)))
    }

    fn derived(&self, info: &[u8; SEED]) -> Result<AesGcm, CipherError> {
        let info: [&[u8]; 1] = [info];
        let key = self.0.expand(&info, &aead::AES_256_GCM).map_err(|_| CipherError::Unreadable)?;
        Ok(AesGcm(LessSafeKey::new(UnboundKey::from(key))))
    }
}

impl Cipher for ExtendedNonce {
    fn encrypt(&self, storage_key: &[u8], value: &[u8]) -> Result<Vec<u8>, CipherError> {
        let info = random()?;
        let sealed = self.derived(&info)?.encrypt(storage_key, value)?;
        Ok([&info, sealed.as_slice()].concat())
    }

    fn decrypt(&self, storage_key: &[u8], sealed: &[u8]) -> Result<Vec<u8>, CipherError> {
        let (info, sealed) = sealed.split_first_chunk().ok_or(CipherError::Unreadable)?;
        self.derived(info)?.decrypt(storage_key, sealed)
    }
}

pub(super) struct SecretBox(XSalsa20Poly1305);

impl SecretBox {
    pub(super) fn new(secret: &[u8]) -> Result<Self, CipherError> {
        XSalsa20Poly1305::new_from_slice(secret)
            .map(Self)
            .map_err(|_| CipherError::KeyLength { found: secret.len(), expected: "32" })
    }
}

/// The length of a nonce of [`SecretBox`].
const BOX_NONCE: usize = 24;

impl Cipher for SecretBox {
    fn encrypt(&self, _: &[u8], value: &[u8]) -> Result<Vec<u8>, CipherError> {
        let nonce: [u8; BOX_NONCE] = random()?;
        let mut text = value.to_vec();
        let sealed = self.0.encrypt_in_place(BoxNonce::from_slice(&nonce), &[], &mut text);
        sealed.map_err(|_| CipherError::Randomness)?;
        Ok([&nonce, text.as_slice()].concat())
    }

    fn decrypt(&self, _: &[u8], sealed: &[u8]) -> Result<Vec<u8>, CipherError> {
        let (nonce, text) = sealed.split_first_chunk::<BOX_NONCE>().ok_or(CipherError::Unreadable)?;
        let mut text = text.to_vec();
        let opened = self.0.decrypt_in_place(BoxNonce::from_slice(nonce), &[], &mut text);
        opened.map(|()| text).map_err(|_| CipherError::Unreadable)
    }
}
