//! Private keys: generating, reading and signing.

use std::fmt;

use aws_lc_rs::encoding::{AsBigEndian as _, AsDer, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, ECDSA_P521_SHA512_ASN1_SIGNING,
    EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use x509_cert::der::asn1::{Any, ObjectIdentifier};
use x509_cert::der::oid::db::rfc5912::{
    ECDSA_WITH_SHA_256, ECDSA_WITH_SHA_384, ECDSA_WITH_SHA_512, SHA_256_WITH_RSA_ENCRYPTION,
};
use x509_cert::der::oid::db::rfc8410::ID_ED_25519;
use x509_cert::spki::AlgorithmIdentifierOwned;

use crate::pem;

/// RSA keys below this size are refused, as verifiers refuse their signatures. Bits.
const MIN_RSA_BITS: usize = 2048;

/// A key that cannot be generated, read or used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The system has no randomness, or the library cannot generate a key.
    #[error("cannot generate a key")]
    Generate,
    /// The text holds no private key.
    #[error("no private key in PEM form: {0}")]
    Pem(String),
    /// A kind of key that is not supported.
    #[error(
        "not a private key that can be used here: need ECDSA P-256, P-384 or P-521, Ed25519, or RSA of at least {MIN_RSA_BITS} bits"
    )]
    Unsupported,
    /// Signing failed.
    #[error("cannot sign")]
    Sign,
}

/// A private key and its public key.
pub struct KeyPair {
    inner: Inner,
    private: PrivateKeyDer<'static>,
    public: Vec<u8>,
}

enum Inner {
    Ecdsa(EcdsaKeyPair, ObjectIdentifier),
    Ed25519(Ed25519KeyPair),
    Rsa(RsaKeyPair),
}

/// The curves, each with the object identifier of its signatures.
static CURVES: [(&EcdsaSigningAlgorithm, ObjectIdentifier); 3] = [
    (&ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_WITH_SHA_256),
    (&ECDSA_P384_SHA384_ASN1_SIGNING, ECDSA_WITH_SHA_384),
    (&ECDSA_P521_SHA512_ASN1_SIGNING, ECDSA_WITH_SHA_512),
];
impl KeyPair {
    /// Generates an ECDSA key on P-256.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn generate() -> Result<Self, KeyError> {
        let [(p256, oid), ..] = CURVES;
        let inner = EcdsaKeyPair::generate(p256).map_err(|_| KeyError::Generate)?;
        let pkcs8 = inner.to_pkcs8v1().map_err(|_| KeyError::Generate)?.as_ref().to_vec();
        Self::of(Inner::Ecdsa(inner, oid), PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(pkcs8)))
    }

    /// Reads a private key in PEM form: PKCS#8, SEC 1 or PKCS#1.
    ///
    /// # Errors
    /// No key in the text, or a kind that is not supported.
    pub fn from_pem(text: &[u8]) -> Result<Self, KeyError> {
        let private = PrivateKeyDer::from_pem_slice(text).map_err(|e| KeyError::Pem(e.to_string()))?;
        for (curve, oid) in CURVES {
            if let Ok(key) = EcdsaKeyPair::from_private_key_der(curve, private.secret_der()) {
                return Self::of(Inner::Ecdsa(key, oid), private);
            }
        }
        if let PrivateKeyDer::Pkcs8(der) = &private
            && let Ok(key) = Ed25519KeyPair::from_pkcs8(der.secret_pkcs8_der())
        {
            return Self::of(Inner::Ed25519(key), private);
        }
        let rsa = match &private {
            PrivateKeyDer::Pkcs1(der) => RsaKeyPair::from_der(der.secret_pkcs1_der()),
            other => RsaKeyPair::from_pkcs8(other.secret_der()),
        };
        match rsa {
            Ok(key) if key.public_modulus_len() * 8 >= MIN_RSA_BITS => Self::of(Inner::Rsa(key), private),
            _ => Err(KeyError::Unsupported),
        }
    }

    fn of(inner: Inner, private: PrivateKeyDer<'static>) -> Result<Self, KeyError> {
        let public = match &inner {
            Inner::Ecdsa(key, _) => AsDer::<PublicKeyX509Der<'_>>::as_der(key.public_key()),
            Inner::Ed25519(key) => AsDer::<PublicKeyX509Der<'_>>::as_der(key.public_key()),
            Inner::Rsa(key) => AsDer::<PublicKeyX509Der<'_>>::as_der(key.public_key()),
        };
        let public = public.map_err(|_| KeyError::Unsupported)?.as_ref().to_vec();
        Ok(Self { inner, private, public })
    }

    /// The private key as PEM text, in the form that it was read in; PKCS#8 for a generated key.
    pub fn to_pem(&self) -> String {
        let label = match &self.private {
            PrivateKeyDer::Pkcs1(_) => "RSA PRIVATE KEY",
            PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
            _ => "PRIVATE KEY",
        };
        pem::encode(label, self.private.secret_der())
    }

    /// The private key's bytes.
    pub fn private_der(&self) -> &PrivateKeyDer<'static> {
        &self.private
    }

    /// Whether it is an RSA key.
    pub fn is_rsa(&self) -> bool {
        matches!(self.inner, Inner::Rsa(_))
    }

    /// An ECDSA key as PKCS#8, whatever form it was read in.
    pub(crate) fn to_pkcs8(&self) -> Option<Vec<u8>> {
        match &self.inner {
            Inner::Ecdsa(key, _) => Some(key.to_pkcs8v1().ok()?.as_ref().to_vec()),
            Inner::Ed25519(_) | Inner::Rsa(_) => None,
        }
    }

    /// The public point (`04`, x and y) and the private number of a key on P-256, for a TPM that holds it; none for other
    /// keys.
    pub fn p256_parts(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        let Inner::Ecdsa(key, ECDSA_WITH_SHA_256) = &self.inner else { return None };
        let private = key.private_key().as_be_bytes().ok()?;
        Some((key.public_key().as_ref().to_vec(), private.as_ref().to_vec()))
    }

    /// The public key: a DER SubjectPublicKeyInfo.
    pub fn public_der(&self) -> &[u8] {
        &self.public
    }

    /// Signs a message: with SHA-256, SHA-384 or SHA-512 after the curve of an ECDSA key, and with SHA-256 for an RSA key.
    ///
    /// # Errors
    /// The library fails.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        let random = SystemRandom::new();
        match &self.inner {
            Inner::Ecdsa(key, _) => {
                Ok(key.sign(&random, message).map_err(|_| KeyError::Sign)?.as_ref().to_vec())
            }
            Inner::Ed25519(key) => Ok(key.sign(message).as_ref().to_vec()),
            Inner::Rsa(key) => {
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).map_err(|_| KeyError::Sign)?;
                Ok(signature)
            }
        }
    }

    pub(crate) fn signature_algorithm(&self) -> AlgorithmIdentifierOwned {
        let (oid, parameters) = match self.inner {
            Inner::Ecdsa(_, oid) => (oid, None),
            Inner::Ed25519(_) => (ID_ED_25519, None),
            Inner::Rsa(_) => (SHA_256_WITH_RSA_ENCRYPTION, Some(Any::null())),
        };
        AlgorithmIdentifierOwned { oid, parameters }
    }
}

impl fmt::Debug for KeyPair {
    /// Never shows the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyPair(..)")
    }
}
