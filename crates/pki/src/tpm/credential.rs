//! Secrets that only one TPM can open, and only for one attestation key (AT-116, AT-120).
//!
//! A TPM opens such a credential if it has the endorsement key and an object of the given name. Making one takes public keys
//! alone. All cryptography is that of `aws-lc-rs`; here are the steps of the TPM 2.0 Library Specification, part 1, section 24.

use aws_lc_rs::agreement::{ECDH_P256, ECDH_P384, EphemeralPrivateKey, UnparsedPublicKey, agree_ephemeral};
use aws_lc_rs::cipher::{AES_128, AES_256, EncryptingKey, EncryptionContext, UnboundCipherKey};
use aws_lc_rs::iv::FixedLength;
use aws_lc_rs::rand::{self, SystemRandom};
use aws_lc_rs::rsa::{
    OAEP_SHA256_MGF1SHA256, OAEP_SHA384_MGF1SHA384, OAEP_SHA512_MGF1SHA512, OaepPublicEncryptingKey,
    PublicEncryptingKey,
};
use x509_cert::der::Tag;
use x509_cert::der::asn1::BitString;

use super::hash::HashAlgorithm;
use super::name::Name;
use super::public::{KeyType, PublicArea};
use crate::der::only;

/// The label of the seed, with the zero byte that ends it.
const IDENTITY: &[u8] = b"IDENTITY\0";
const STORAGE: &[u8] = b"STORAGE\0";
const INTEGRITY: &[u8] = b"INTEGRITY\0";

/// A secret for one TPM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// The encrypted secret and its authentication code: a TPM2B_ID_OBJECT.
    pub blob: Vec<u8>,
    /// The seed, encrypted for the endorsement key: a TPM2B_ENCRYPTED_SECRET.
    pub encrypted_secret: Vec<u8>,
}

/// The credential cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialError {
    /// The key is not one that TPMs have as endorsement keys.
    #[error("the endorsement key must be a storage key with AES")]
    Key,
    /// The secret is longer than the digest of the key's name algorithm.
    #[error("the secret is too long")]
    Secret,
    /// The system has no randomness, or the library refuses the key.
    #[error("cannot encrypt for the endorsement key")]
    Encrypt,
}

/// Makes a credential with this secret, for the TPM with this endorsement key, and for the object of this name in it.
///
/// # Errors
/// See [`CredentialError`].
pub fn make(endorsement_key: &PublicArea, name: &Name, secret: &[u8]) -> Result<Credential, CredentialError> {
    let hash = endorsement_key.name_algorithm();
    let aes_bits = endorsement_key.aes_bits().ok_or(CredentialError::Key)?;
    if secret.len() > hash.digest_bytes() {
        return Err(CredentialError::Secret);
    }
    let (seed, encrypted_seed) = match endorsement_key.key() {
        KeyType::Rsa(_) => rsa_seed(endorsement_key, hash)?,
        KeyType::P256 | KeyType::P384 => ecc_seed(endorsement_key, hash)?,
    };
    let key = kdfa(hash, &seed, STORAGE, name.as_bytes(), aes_bits.into());
    let mut encrypted = sized(secret)?;
    encrypt(&key, &mut encrypted)?;
    let bits = hash.digest_bytes().saturating_mul(8);
    let integrity_key = kdfa(hash, &seed, INTEGRITY, &[], bits);
    let integrity = hash.hmac(&integrity_key, &[&encrypted, name.as_bytes()]);
    let blob = sized(&[sized(&integrity)?, encrypted].concat())?;
    Ok(Credential { blob, encrypted_secret: sized(&encrypted_seed)? })
}

/// A random seed, and the seed encrypted with OAEP.
fn rsa_seed(key: &PublicArea, hash: HashAlgorithm) -> Result<(Vec<u8>, Vec<u8>), CredentialError> {
    let mut seed = vec![0; hash.digest_bytes()];
    rand::fill(&mut seed).map_err(|_| CredentialError::Encrypt)?;
    let algorithm = match hash {
        HashAlgorithm::Sha256 => &OAEP_SHA256_MGF1SHA256,
        HashAlgorithm::Sha384 => &OAEP_SHA384_MGF1SHA384,
        HashAlgorithm::Sha512 => &OAEP_SHA512_MGF1SHA512,
    };
    let encrypted = (|| {
        let key =
            OaepPublicEncryptingKey::new(PublicEncryptingKey::from_der(key.public_key_der()).ok()?).ok()?;
        let mut encrypted = vec![0; key.ciphertext_size()];
        key.encrypt(algorithm, &seed, &mut encrypted, Some(IDENTITY)).ok()?;
        Some(encrypted)
    })();
    Ok((seed, encrypted.ok_or(CredentialError::Encrypt)?))
}

/// The seed that the key agrees on with a key of the moment, and the public part of that: both coordinates, each with its
/// length.
fn ecc_seed(key: &PublicArea, hash: HashAlgorithm) -> Result<(Vec<u8>, Vec<u8>), CredentialError> {
    let algorithm = if key.key() == KeyType::P256 { &ECDH_P256 } else { &ECDH_P384 };
    let length = key.key().field_bytes().ok_or(CredentialError::Key)?;
    let agreed = (|| {
        let random = SystemRandom::new();
        let ephemeral = EphemeralPrivateKey::generate(algorithm, &random).ok()?;
        let own = ephemeral.compute_public_key().ok()?;
        let (own_x, own_y) = coordinates(own.as_ref(), length)?;
        let (own_x, own_y) = (own_x.to_vec(), own_y.to_vec());
        let point = point(key.public_key_der())?;
        let (key_x, _) = coordinates(&point, length)?;
        let seed = agree_ephemeral(ephemeral, UnparsedPublicKey::new(algorithm, &point), (), |shared| {
            Ok(kdfe(hash, shared, &own_x, key_x))
        });
        Some((seed.ok()?, [sized(&own_x).ok()?, sized(&own_y).ok()?].concat()))
    })();
    agreed.ok_or(CredentialError::Encrypt)
}

/// The point of a SubjectPublicKeyInfo.
fn point(public_key_der: &[u8]) -> Option<Vec<u8>> {
    let mut fields = only(public_key_der).ok()?.children(Tag::Sequence).ok()?;
    fields.required().ok()?;
    fields.required().ok()?.decode::<BitString>().ok()?.as_bytes().map(<[u8]>::to_vec)
}

/// The coordinates of a point that is written in full.
fn coordinates(point: &[u8], length: usize) -> Option<(&[u8], &[u8])> {
    let (&4, coordinates) = point.split_first()? else { return None };
    (coordinates.len() == length.checked_mul(2)?).then_some(())?;
    coordinates.split_at_checked(length)
}

/// KDFa: keys from a key, by HMAC in counter mode.
fn kdfa(hash: HashAlgorithm, key: &[u8], label: &[u8], context: &[u8], bits: usize) -> Vec<u8> {
    let size = u32::try_from(bits).unwrap_or(u32::MAX).to_be_bytes();
    expand(hash, bits, |counter| hash.hmac(key, &[counter, label, context, &size]))
}

/// KDFe: a key from an agreed secret. The length is that of the hash.
fn kdfe(hash: HashAlgorithm, shared: &[u8], party_u: &[u8], party_v: &[u8]) -> Vec<u8> {
    let bits = hash.digest_bytes().saturating_mul(8);
    expand(hash, bits, |counter| hash.digest(&[counter, shared, IDENTITY, party_u, party_v]))
}

/// As many bytes as asked for, from blocks that are numbered from 1.
fn expand(hash: HashAlgorithm, bits: usize, block: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let length = bits / 8;
    let blocks = u32::try_from(length.div_ceil(hash.digest_bytes())).unwrap_or_default();
    let mut out: Vec<u8> = (1..=blocks).flat_map(|counter| block(&counter.to_be_bytes())).collect();
    out.truncate(length);
    out
}

/// AES in the CFB mode, with an initialization vector of zeros: the key is used only once.
fn encrypt(key: &[u8], in_out: &mut [u8]) -> Result<(), CredentialError> {
    let algorithm = if key.len() == 16 { &AES_128 } else { &AES_256 };
    let key = UnboundCipherKey::new(algorithm, key).and_then(EncryptingKey::cfb128);
    let zeros = EncryptionContext::Iv128(FixedLength::from([0; 16]));
    let done = key.and_then(|key| key.less_safe_encrypt(in_out, zeros).map(|_| ()));
    done.map_err(|_| CredentialError::Encrypt)
}

/// Bytes with their length in front (TPM2B).
fn sized(bytes: &[u8]) -> Result<Vec<u8>, CredentialError> {
    let length = u16::try_from(bytes.len()).map_err(|_| CredentialError::Secret)?;
    Ok([&length.to_be_bytes()[..], bytes].concat())
}
