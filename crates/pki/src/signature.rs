//! Signatures of certificate requests: the kind of key, the signature algorithm, and the verification (CS-18).
//!
//! `aws-lc-rs` does all the arithmetic. What it can verify and Kubernetes accepts is accepted here, weak kinds included; the
//! caller sees the kind of key and signature and may refuse weak ones. This module never decides what is strong enough.
//!
//! DIVERGES: Kubernetes also accepts what `aws-lc-rs` cannot verify: keys on P-224, RSA keys of more than 8192 bits, and
//! RSA keys below 2048 bits with SHA-384 or RSA-PSS. They are refused: no kept library verifies them without a second
//! cryptographic stack in the build.

use aws_lc_rs::digest::{self, Digest};
use aws_lc_rs::signature as aws;
use aws_lc_rs::signature::{UnparsedPublicKey, VerificationAlgorithm};
use x509_cert::der::asn1::{BitString, ObjectIdentifier, UintRef};
use x509_cert::der::oid::db::rfc5912::{
    ECDSA_WITH_SHA_256, ECDSA_WITH_SHA_384, ECDSA_WITH_SHA_512, ID_EC_PUBLIC_KEY, ID_MGF_1, ID_RSASSA_PSS,
    ID_SHA_256, ID_SHA_384, ID_SHA_512, RSA_ENCRYPTION, SECP_224_R_1, SECP_256_R_1, SECP_384_R_1,
    SECP_521_R_1, SHA_1_WITH_RSA_ENCRYPTION, SHA_256_WITH_RSA_ENCRYPTION, SHA_384_WITH_RSA_ENCRYPTION,
    SHA_512_WITH_RSA_ENCRYPTION,
};
use x509_cert::der::oid::db::rfc8410::ID_ED_25519;
use x509_cert::der::{Error, ErrorKind, Tag};

use crate::der::{Element, only};

/// A kind of public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// Ed25519.
    Ed25519,
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

/// The hash function of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    /// SHA-1, which is broken: collisions can be computed.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

/// How a request is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureKind {
    /// ECDSA over a hash.
    Ecdsa(Hash),
    /// Ed25519, which includes its hash function.
    Ed25519,
    /// RSA with the padding of PKCS#1 version 1.5.
    RsaPkcs1(Hash),
    /// RSA-PSS.
    RsaPss(Hash),
}

static CURVES: [(ObjectIdentifier, KeyKind); 3] =
    [(SECP_256_R_1, KeyKind::P256), (SECP_384_R_1, KeyKind::P384), (SECP_521_R_1, KeyKind::P521)];

/// The signature algorithms whose identifier names the hash. Their parameters are ignored, as in Go.
static SIGNATURES: [(ObjectIdentifier, SignatureKind); 9] = [
    (SHA_1_WITH_RSA_ENCRYPTION, SignatureKind::RsaPkcs1(Hash::Sha1)),
    (ObjectIdentifier::new_unwrap("1.3.14.3.2.29"), SignatureKind::RsaPkcs1(Hash::Sha1)),
    (SHA_256_WITH_RSA_ENCRYPTION, SignatureKind::RsaPkcs1(Hash::Sha256)),
    (SHA_384_WITH_RSA_ENCRYPTION, SignatureKind::RsaPkcs1(Hash::Sha384)),
    (SHA_512_WITH_RSA_ENCRYPTION, SignatureKind::RsaPkcs1(Hash::Sha512)),
    (ObjectIdentifier::new_unwrap("1.2.840.10045.4.1"), SignatureKind::Ecdsa(Hash::Sha1)),
    (ECDSA_WITH_SHA_256, SignatureKind::Ecdsa(Hash::Sha256)),
    (ECDSA_WITH_SHA_384, SignatureKind::Ecdsa(Hash::Sha384)),
    (ECDSA_WITH_SHA_512, SignatureKind::Ecdsa(Hash::Sha512)),
];

/// The hash functions of RSA-PSS, each with the length of its output in bytes.
static HASHES: [(ObjectIdentifier, (Hash, u32)); 3] =
    [(ID_SHA_256, (Hash::Sha256, 32)), (ID_SHA_384, (Hash::Sha384, 48)), (ID_SHA_512, (Hash::Sha512, 64))];

/// An AlgorithmIdentifier.
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

/// A public key that can verify signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PublicKey {
    kind: KeyKind,
    /// The point, the 32 bytes of Ed25519, or an RSAPublicKey.
    bytes: Vec<u8>,
}

impl PublicKey {
    /// Reads a SubjectPublicKeyInfo. `None` for a kind of key that is not supported.
    ///
    /// # Errors
    /// A malformed key of a known kind.
    pub(crate) fn read(info: &Element<'_>) -> Result<Option<Self>, Error> {
        let mut fields = info.children(Tag::Sequence)?;
        let algorithm = Algorithm::read(&fields.required()?)?;
        let bits = fields.required()?.decode::<BitString>()?;
        let malformed = || Error::from(ErrorKind::Failed);
        let bytes = bits.as_bytes().ok_or_else(malformed)?.to_vec();
        let kind = match algorithm.oid {
            RSA_ENCRYPTION => {
                let parameters = algorithm.parameters.ok_or_else(malformed)?;
                parameters.tag().assert_eq(Tag::Null)?;
                KeyKind::Rsa { bits: modulus_bits(&bytes)? }
            }
            ID_EC_PUBLIC_KEY => {
                let curve = algorithm.parameters.ok_or_else(malformed)?.decode::<ObjectIdentifier>()?;
                // Points are written in full: the byte 4, and both coordinates.
                if bytes.first() != Some(&4) {
                    return Err(malformed());
                }
                // P-224, which cannot be verified here.
                if curve == SECP_224_R_1 {
                    return Ok(None);
                }
                lookup(&CURVES, curve).ok_or_else(malformed)?
            }
            ID_ED_25519 if algorithm.parameters.is_none() && bytes.len() == 32 => KeyKind::Ed25519,
            ID_ED_25519 => return Err(malformed()),
            _ => return Ok(None),
        };
        Ok(Some(Self { kind, bytes }))
    }

    pub(crate) fn kind(&self) -> KeyKind {
        self.kind
    }

    /// Whether the private key made this signature. `None` for a combination of key and algorithm that is not supported.
    pub(crate) fn has_signed(&self, kind: SignatureKind, message: &[u8], signature: &[u8]) -> Option<bool> {
        let verify = |algorithm: &'static dyn VerificationAlgorithm| {
            UnparsedPublicKey::new(algorithm, &self.bytes).verify(message, signature).is_ok()
        };
        match (self.kind, kind) {
            (KeyKind::Ed25519, SignatureKind::Ed25519) => Some(verify(&aws::ED25519)),
            (KeyKind::P384, SignatureKind::Ecdsa(Hash::Sha1)) => {
                Some(self.has_signed_sha1_on_p384(message, signature))
            }
            (curve, SignatureKind::Ecdsa(hash)) => Some(ecdsa(curve, hash).is_some_and(verify)),
            (KeyKind::Rsa { bits }, SignatureKind::RsaPkcs1(_) | SignatureKind::RsaPss(_)) => {
                rsa(bits, kind).map(verify)
            }
            _ => Some(false),
        }
    }

    /// ECDSA over SHA-1 on P-384, for which `aws-lc-rs` has no algorithm. ECDSA reads the hash as a number, which leading
    /// zeros do not change, so the padded hash is verified by the algorithm for a longer one.
    fn has_signed_sha1_on_p384(&self, message: &[u8], signature: &[u8]) -> bool {
        let short = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, message);
        let mut long = vec![0; digest::SHA256.output_len().saturating_sub(short.as_ref().len())];
        long.extend_from_slice(short.as_ref());
        Digest::import_less_safe(&long, &digest::SHA256).is_ok_and(|digest| {
            UnparsedPublicKey::new(&aws::ECDSA_P384_SHA256_ASN1, &self.bytes)
                .verify_digest(&digest, signature)
                .is_ok()
        })
    }
}

/// Returns whether a key, given as a DER SubjectPublicKeyInfo, signed a message: P-256 over SHA-256, P-384 over SHA-384, or
/// Ed25519. False for other keys.
pub fn verify(public_key_der: &[u8], message: &[u8], signature: &[u8]) -> bool {
    let key = only(public_key_der).and_then(|info| PublicKey::read(&info));
    let Ok(Some(key)) = key else { return false };
    let kind = match key.kind() {
        KeyKind::P256 => SignatureKind::Ecdsa(Hash::Sha256),
        KeyKind::P384 => SignatureKind::Ecdsa(Hash::Sha384),
        KeyKind::Ed25519 => SignatureKind::Ed25519,
        KeyKind::P521 | KeyKind::Rsa { .. } => return false,
    };
    key.has_signed(kind, message, signature).unwrap_or(false)
}

/// The length of the modulus of an RSAPublicKey.
fn modulus_bits(der: &[u8]) -> Result<u64, Error> {
    let mut fields = only(der)?.children(Tag::Sequence)?;
    let modulus = fields.required()?.decode::<UintRef<'_>>()?;
    let exponent = fields.required()?.decode::<UintRef<'_>>()?;
    let leading_zeros =
        |number: &UintRef<'_>| number.as_bytes().first().map_or(8, |byte| byte.leading_zeros());
    if leading_zeros(&modulus) == 8 || leading_zeros(&exponent) == 8 {
        // A number without leading zero bytes begins with one only when it is zero.
        return Err(ErrorKind::Failed.into());
    }
    Ok((modulus.as_bytes().len() as u64 * 8).saturating_sub(leading_zeros(&modulus).into()))
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

/// The algorithm for an RSA key of this length, if there is one.
fn rsa(bits: u64, kind: SignatureKind) -> Option<&'static dyn VerificationAlgorithm> {
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
    /// Reads an AlgorithmIdentifier. `None` for an algorithm that is not supported.
    ///
    /// # Errors
    /// Malformed DER.
    pub(crate) fn read(element: &Element<'_>) -> Result<Option<Self>, Error> {
        let algorithm = Algorithm::read(element)?;
        Ok(match (algorithm.oid, algorithm.parameters) {
            (ID_ED_25519, parameters) => parameters.is_none().then_some(Self::Ed25519),
            (ID_RSASSA_PSS, parameters) => {
                parameters.and_then(|parameters| pss_hash(&parameters).ok()?).map(Self::RsaPss)
            }
            (oid, _) => lookup(&SIGNATURES, oid),
        })
    }
}

/// The hash function of RSA-PSS parameters. As in Go, the message and the mask must use the same one, and the salt must be
/// as long as the hash.
fn pss_hash(parameters: &Element<'_>) -> Result<Option<Hash>, Error> {
    let mut fields = parameters.children(Tag::Sequence)?;
    let hash = Algorithm::read(&only(fields.required()?.contents())?)?;
    let mask = Algorithm::read(&only(fields.required()?.contents())?)?;
    let salt = only(fields.required()?.contents())?.decode::<u32>()?;
    if fields.optional()?.is_some_and(|trailer| trailer.contents() != [2, 1, 1]) {
        return Ok(None);
    }
    let Some(mask_hash) = mask.parameters.filter(|_| mask.oid == ID_MGF_1) else { return Ok(None) };
    let mask_hash = Algorithm::read(&mask_hash)?;
    let is_null =
        |parameters: &Option<Element<'_>>| parameters.as_ref().is_some_and(|p| p.tag() == Tag::Null);
    let found = lookup(&HASHES, hash.oid)
        .filter(|_| mask_hash.oid == hash.oid && is_null(&hash.parameters) && is_null(&mask_hash.parameters));
    Ok(found.filter(|(_, length)| salt == *length).map(|(hash, _)| hash))
}
