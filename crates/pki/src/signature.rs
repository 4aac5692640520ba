//! Signatures over certificate requests: which key, which algorithm, and whether one made the other (CS-18).
//!
//! What Kubernetes accepts is accepted here, weak kinds among it, and is named so that those who want better can refuse it.
//! Nothing here decides what is strong enough.

mod p224;
mod rsa;

use aws_lc_rs::digest::{self, Digest};
use aws_lc_rs::signature as aws;
use aws_lc_rs::signature::{UnparsedPublicKey, VerificationAlgorithm};
use x509_cert::der::asn1::{BitString, ObjectIdentifier};
use x509_cert::der::{Error, ErrorKind, Tag};

use crate::der::{Element, only};

/// A kind of key, and how long it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// Ed25519.
    Ed25519,
    /// ECDSA on P-224, which is weaker than what is asked for today.
    P224,
    /// ECDSA on P-256.
    P256,
    /// ECDSA on P-384.
    P384,
    /// ECDSA on P-521.
    P521,
    /// RSA.
    Rsa {
        /// The length of the modulus. Bits.
        bits: u64,
    },
}

impl KeyKind {
    /// Whether a key of this kind is what is asked for today (NB-82): P-256, P-384, P-521, Ed25519, or RSA of at least 2048
    /// bits.
    pub fn is_strong(self) -> bool {
        match self {
            Self::P224 => false,
            Self::Rsa { bits } => bits >= 2048,
            Self::Ed25519 | Self::P256 | Self::P384 | Self::P521 => true,
        }
    }
}

/// The hash that is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    /// SHA-1, which is broken: two requests with one hash can be made.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

impl Hash {
    fn of(self, message: &[u8]) -> Digest {
        digest::digest(self.algorithm(), message)
    }

    fn algorithm(self) -> &'static digest::Algorithm {
        match self {
            Self::Sha1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
            Self::Sha256 => &digest::SHA256,
            Self::Sha384 => &digest::SHA384,
            Self::Sha512 => &digest::SHA512,
        }
    }
}

/// How a request is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureKind {
    /// ECDSA over a hash.
    Ecdsa(Hash),
    /// Ed25519, which hashes by itself.
    Ed25519,
    /// RSA with the padding of PKCS#1 version 1.5.
    RsaPkcs1(Hash),
    /// RSA-PSS.
    RsaPss(Hash),
}

const ECDSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");
const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const RSA_PSS: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.10");
const MGF1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.8");

static CURVES: [(ObjectIdentifier, KeyKind); 4] = [
    (ObjectIdentifier::new_unwrap("1.3.132.0.33"), KeyKind::P224),
    (ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7"), KeyKind::P256),
    (ObjectIdentifier::new_unwrap("1.3.132.0.34"), KeyKind::P384),
    (ObjectIdentifier::new_unwrap("1.3.132.0.35"), KeyKind::P521),
];

/// The algorithms that name their hash, with parameters that nobody looks at.
static SIGNATURES: [(ObjectIdentifier, SignatureKind); 9] = [
    (ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.5"), SignatureKind::RsaPkcs1(Hash::Sha1)),
    (ObjectIdentifier::new_unwrap("1.3.14.3.2.29"), SignatureKind::RsaPkcs1(Hash::Sha1)),
    (ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.11"), SignatureKind::RsaPkcs1(Hash::Sha256)),
    (ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.12"), SignatureKind::RsaPkcs1(Hash::Sha384)),
    (ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.13"), SignatureKind::RsaPkcs1(Hash::Sha512)),
    (ObjectIdentifier::new_unwrap("1.2.840.10045.4.1"), SignatureKind::Ecdsa(Hash::Sha1)),
    (ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.2"), SignatureKind::Ecdsa(Hash::Sha256)),
    (ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.3"), SignatureKind::Ecdsa(Hash::Sha384)),
    (ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.4"), SignatureKind::Ecdsa(Hash::Sha512)),
];

static HASHES: [(ObjectIdentifier, Hash); 3] = [
    (ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.1"), Hash::Sha256),
    (ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.2"), Hash::Sha384),
    (ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.3"), Hash::Sha512),
];

/// An object identifier and what stands behind it.
struct Algorithm<'a> {
    oid: ObjectIdentifier,
    parameters: Option<Element<'a>>,
}

impl<'a> Algorithm<'a> {
    fn read(element: &Element<'a>) -> Result<Self, Error> {
        let mut fields = element.children(Tag::Sequence)?;
        let oid = fields.required()?.decode()?;
        Ok(Self { oid, parameters: fields.optional()? })
    }
}

fn lookup<T: Copy>(table: &[(ObjectIdentifier, T)], oid: ObjectIdentifier) -> Option<T> {
    table.iter().find(|(known, _)| *known == oid).map(|(_, value)| *value)
}

/// A public key that signatures can be checked with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PublicKey {
    kind: KeyKind,
    /// The point, the 32 bytes of Ed25519, or an RSAPublicKey.
    bytes: Vec<u8>,
}

impl PublicKey {
    /// Reads a SubjectPublicKeyInfo; nothing for a kind that nobody here can check signatures of.
    ///
    /// # Errors
    /// A kind that is known, and a key that is not one.
    pub(crate) fn read(info: &Element<'_>) -> Result<Option<Self>, Error> {
        let mut fields = info.children(Tag::Sequence)?;
        let algorithm = Algorithm::read(&fields.required()?)?;
        let bits = fields.required()?.decode::<BitString>()?;
        let malformed = || Error::from(ErrorKind::Failed);
        let bytes = bits.as_bytes().ok_or_else(malformed)?.to_vec();
        let kind = match algorithm.oid {
            RSA => {
                let parameters = algorithm.parameters.ok_or_else(malformed)?;
                parameters.tag().assert_eq(Tag::Null)?;
                KeyKind::Rsa { bits: rsa::RsaKey::read(&bytes)?.bits() }
            }
            ECDSA => {
                let curve = algorithm.parameters.ok_or_else(malformed)?.decode::<ObjectIdentifier>()?;
                // Points are written in full: the byte 4, and both coordinates.
                if bytes.first() != Some(&4) {
                    return Err(malformed());
                }
                lookup(&CURVES, curve).ok_or_else(malformed)?
            }
            ED25519 if algorithm.parameters.is_none() && bytes.len() == 32 => KeyKind::Ed25519,
            ED25519 => return Err(malformed()),
            _ => return Ok(None),
        };
        Ok(Some(Self { kind, bytes }))
    }

    pub(crate) fn kind(&self) -> KeyKind {
        self.kind
    }

    /// Whether the holder of the key made this signature.
    pub(crate) fn has_signed(&self, kind: SignatureKind, message: &[u8], signature: &[u8]) -> bool {
        let verify = |algorithm: &'static dyn VerificationAlgorithm| {
            UnparsedPublicKey::new(algorithm, &self.bytes).verify(message, signature).is_ok()
        };
        match (self.kind, kind) {
            (KeyKind::Ed25519, SignatureKind::Ed25519) => verify(&aws::ED25519),
            (KeyKind::P224, SignatureKind::Ecdsa(hash)) => {
                p224::has_signed(&self.bytes, hash.of(message).as_ref(), signature)
            }
            (curve, SignatureKind::Ecdsa(hash)) => match ecdsa(curve, hash) {
                Some(algorithm) => verify(algorithm),
                None => self.has_signed_sha1_on_p384(curve, hash, message, signature),
            },
            (KeyKind::Rsa { bits }, SignatureKind::RsaPkcs1(_) | SignatureKind::RsaPss(_)) => {
                match rsa_algorithm(bits, kind) {
                    Some(algorithm) => verify(algorithm),
                    None => rsa::RsaKey::read(&self.bytes)
                        .is_ok_and(|key| key.has_signed(kind, message, signature)),
                }
            }
            _ => false,
        }
    }

    /// The library has no SHA-1 on P-384. A hash is a number to ECDSA, and zeros before a number do not change it.
    fn has_signed_sha1_on_p384(&self, curve: KeyKind, hash: Hash, message: &[u8], signature: &[u8]) -> bool {
        if (curve, hash) != (KeyKind::P384, Hash::Sha1) {
            return false;
        }
        let short = hash.of(message);
        let mut long = vec![0; digest::SHA256.output_len().saturating_sub(short.as_ref().len())];
        long.extend_from_slice(short.as_ref());
        Digest::import_less_safe(&long, &digest::SHA256).is_ok_and(|digest| {
            UnparsedPublicKey::new(&aws::ECDSA_P384_SHA256_ASN1, &self.bytes)
                .verify_digest(&digest, signature)
                .is_ok()
        })
    }
}

fn ecdsa(curve: KeyKind, hash: Hash) -> Option<&'static dyn VerificationAlgorithm> {
    Some(match (curve, hash) {
        (KeyKind::P256, Hash::Sha1) => &aws::ECDSA_P256_SHA1_ASN1,
        (KeyKind::P256, Hash::Sha256) => &aws::ECDSA_P256_SHA256_ASN1,
        (KeyKind::P256, Hash::Sha384) => &aws::ECDSA_P256_SHA384_ASN1,
        (KeyKind::P256, Hash::Sha512) => &aws::ECDSA_P256_SHA512_ASN1,
        (KeyKind::P384, Hash::Sha256) => &aws::ECDSA_P384_SHA256_ASN1,
        (KeyKind::P384, Hash::Sha384) => &aws::ECDSA_P384_SHA384_ASN1,
        (KeyKind::P384, Hash::Sha512) => &aws::ECDSA_P384_SHA512_ASN1,
        (KeyKind::P521, Hash::Sha1) => &aws::ECDSA_P521_SHA1_ASN1,
        (KeyKind::P521, Hash::Sha256) => &aws::ECDSA_P521_SHA256_ASN1,
        (KeyKind::P521, Hash::Sha384) => &aws::ECDSA_P521_SHA384_ASN1,
        (KeyKind::P521, Hash::Sha512) => &aws::ECDSA_P521_SHA512_ASN1,
        _ => return None,
    })
}

/// What the library offers for RSA.
fn rsa_algorithm(bits: u64, kind: SignatureKind) -> Option<&'static dyn VerificationAlgorithm> {
    Some(match kind {
        _ if bits > 8192 => return None,
        SignatureKind::RsaPkcs1(Hash::Sha1) if bits >= 1024 => {
            &aws::RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY
        }
        SignatureKind::RsaPkcs1(Hash::Sha256) if bits >= 1024 => {
            &aws::RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY
        }
        SignatureKind::RsaPkcs1(Hash::Sha512) if bits >= 1024 => {
            &aws::RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY
        }
        SignatureKind::RsaPkcs1(Hash::Sha384) if bits >= 2048 => &aws::RSA_PKCS1_2048_8192_SHA384,
        SignatureKind::RsaPss(Hash::Sha256) if bits >= 2048 => &aws::RSA_PSS_2048_8192_SHA256,
        SignatureKind::RsaPss(Hash::Sha384) if bits >= 2048 => &aws::RSA_PSS_2048_8192_SHA384,
        SignatureKind::RsaPss(Hash::Sha512) if bits >= 2048 => &aws::RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

impl SignatureKind {
    /// Reads an AlgorithmIdentifier; nothing for one that is not accepted.
    ///
    /// # Errors
    /// It is none.
    pub(crate) fn read(element: &Element<'_>) -> Result<Option<Self>, Error> {
        let algorithm = Algorithm::read(element)?;
        Ok(match (algorithm.oid, algorithm.parameters) {
            (ED25519, parameters) => parameters.is_none().then_some(Self::Ed25519),
            (RSA_PSS, parameters) => {
                parameters.and_then(|parameters| pss_hash(&parameters).ok()?).map(Self::RsaPss)
            }
            (oid, _) => lookup(&SIGNATURES, oid),
        })
    }
}

/// The hash of RSA-PSS: one for the message and for the mask, with a salt as long as the hash.
fn pss_hash(parameters: &Element<'_>) -> Result<Option<Hash>, Error> {
    let mut fields = parameters.children(Tag::Sequence)?;
    let hash = Algorithm::read(&only(fields.required()?.contents())?)?;
    let mask = Algorithm::read(&only(fields.required()?.contents())?)?;
    let salt = only(fields.required()?.contents())?.decode::<u32>()?;
    if fields.optional()?.is_some_and(|trailer| trailer.contents() != [2, 1, 1]) {
        return Ok(None);
    }
    let Some(mask_hash) = mask.parameters.filter(|_| mask.oid == MGF1) else { return Ok(None) };
    let mask_hash = Algorithm::read(&mask_hash)?;
    let is_null =
        |parameters: &Option<Element<'_>>| parameters.as_ref().is_some_and(|p| p.tag() == Tag::Null);
    let found = lookup(&HASHES, hash.oid)
        .filter(|_| mask_hash.oid == hash.oid && is_null(&hash.parameters) && is_null(&mask_hash.parameters));
    Ok(found.filter(|found| usize::try_from(salt) == Ok(found.algorithm().output_len())))
}
