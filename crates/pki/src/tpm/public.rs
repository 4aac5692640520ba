//! The public area of a key in a TPM (TPM2B_PUBLIC).

use tpm2_protocol::data::{
    TpmAlgId, TpmEccCurve, TpmaObject, TpmsEccParms, TpmsEccPoint, TpmsRsaParms, TpmtPublic,
    TpmtSymDefObject, TpmuAsymScheme, TpmuPublicId, TpmuPublicParms, TpmuSymKeyBits, TpmuSymMode,
};
use x509_cert::der::Encode;
use x509_cert::der::asn1::{Null, ObjectIdentifier};
use x509_cert::der::oid::db::rfc5912::{ID_EC_PUBLIC_KEY, RSA_ENCRYPTION, SECP_256_R_1, SECP_384_R_1};

use super::hash::HashAlgorithm;
use super::name::Name;
use super::{TpmError, sized, whole};
use crate::der::{self, SEQUENCE, element, element_of};
use crate::hash::sha256;

const WHAT: &str = "TPM2B_PUBLIC";
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
/// The sizes of RSA keys that are read. Bits.
const RSA_BITS: std::ops::RangeInclusive<u16> = 2048..=4096;
/// The public exponent that a TPM writes as 0.
const USUAL_EXPONENT: u32 = 65537;

/// The kind of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyType {
    /// RSA, with a modulus of this many bits.
    Rsa(u16),
    /// A point on P-256.
    P256,
    /// A point on P-384.
    P384,
}

impl KeyType {
    /// The length of a coordinate, in bytes; `None` for RSA.
    pub(super) const fn field_bytes(self) -> Option<usize> {
        match self {
            Self::Rsa(_) => None,
            Self::P256 => Some(32),
            Self::P384 => Some(48),
        }
    }
}

/// The signature scheme of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// RSA with the padding of PKCS#1 version 1.5.
    RsaPkcs1(HashAlgorithm),
    /// RSA-PSS.
    RsaPss(HashAlgorithm),
    /// ECDSA.
    Ecdsa(HashAlgorithm),
}

/// The attributes of a key: what the TPM lets it do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes(TpmaObject);

impl Attributes {
    fn has(self, attribute: TpmaObject) -> bool {
        self.0.contains(attribute)
    }

    /// The key cannot leave this TPM.
    pub fn is_fixed_tpm(self) -> bool {
        self.has(TpmaObject::FIXED_TPM)
    }

    /// The key cannot be moved to another parent.
    pub fn is_fixed_parent(self) -> bool {
        self.has(TpmaObject::FIXED_PARENT)
    }

    /// The TPM generated the key.
    pub fn is_generated(self) -> bool {
        self.has(TpmaObject::SENSITIVE_DATA_ORIGIN)
    }

    /// The password of the key is enough to use it.
    pub fn is_user_with_auth(self) -> bool {
        self.has(TpmaObject::USER_WITH_AUTH)
    }

    /// The key signs only statements of the TPM, or decrypts only for the TPM.
    pub fn is_restricted(self) -> bool {
        self.has(TpmaObject::RESTRICTED)
    }

    /// The key decrypts.
    pub fn is_decrypting(self) -> bool {
        self.has(TpmaObject::DECRYPT)
    }

    /// The key signs.
    pub fn is_signing(self) -> bool {
        self.has(TpmaObject::SIGN_ENCRYPT)
    }
}

/// The public area of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicArea {
    name: Name,
    name_algorithm: HashAlgorithm,
    attributes: Attributes,
    policy: Vec<u8>,
    key: KeyType,
    scheme: Option<Scheme>,
    aes_bits: Option<u16>,
    public_key_der: Vec<u8>,
}

impl PublicArea {
    /// Reads a TPM2B_PUBLIC, which must take all of the bytes.
    ///
    /// # Errors
    /// Malformed bytes, or a key that is not RSA of 2048 to 4096 bits, or on P-256 or P-384.
    pub fn parse(bytes: &[u8]) -> Result<Self, TpmError> {
        let area = sized(bytes, WHAT)?;
        let public: TpmtPublic = whole(area, WHAT)?;
        let name_algorithm = HashAlgorithm::of(public.name_alg).ok_or(TpmError::Unsupported(
            "the hash function of the name must be SHA-256, SHA-384 or SHA-512",
        ))?;
        let parts = match (&public.parameters, &public.unique) {
            (TpmuPublicParms::Rsa(parameters), TpmuPublicId::Rsa(modulus)) => rsa(parameters, modulus)?,
            (TpmuPublicParms::Ecc(parameters), TpmuPublicId::Ecc(point)) => ecc(parameters, point)?,
            _ => return Err(TpmError::Unsupported("the key must be RSA or ECC")),
        };
        Ok(Self {
            name: Name::of(name_algorithm, area),
            name_algorithm,
            attributes: Attributes(public.object_attributes),
            policy: public.auth_policy.to_vec(),
            key: parts.key,
            scheme: parts.scheme,
            aes_bits: parts.aes_bits,
            public_key_der: parts.public_key_der,
        })
    }

    /// The name of the key, computed from these bytes.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The hash function of the name.
    pub fn name_algorithm(&self) -> HashAlgorithm {
        self.name_algorithm
    }

    /// The attributes.
    pub fn attributes(&self) -> Attributes {
        self.attributes
    }

    /// The digest of the policy for using the key; empty if there is none.
    pub fn policy(&self) -> &[u8] {
        &self.policy
    }

    /// The kind of the key.
    pub fn key(&self) -> KeyType {
        self.key
    }

    /// The scheme that the key always signs with; none if each signature may have another.
    pub fn scheme(&self) -> Option<Scheme> {
        self.scheme
    }

    /// The size of the AES key that protects children of the key, or secrets for it. In bits; none if it has no AES key.
    pub(super) fn aes_bits(&self) -> Option<u16> {
        self.aes_bits
    }

    /// The public key: a DER SubjectPublicKeyInfo. Coordinates have the length of the field (AT-37).
    pub fn public_key_der(&self) -> &[u8] {
        &self.public_key_der
    }

    /// The SHA-256 digest of the SubjectPublicKeyInfo, by which inventories list endorsement keys (AT-95).
    pub fn digest(&self) -> [u8; 32] {
        sha256(&self.public_key_der)
    }
}

/// What differs between RSA and ECC.
struct Parts {
    key: KeyType,
    scheme: Option<Scheme>,
    aes_bits: Option<u16>,
    public_key_der: Vec<u8>,
}

fn rsa(parameters: &TpmsRsaParms, modulus: &[u8]) -> Result<Parts, TpmError> {
    let bits = parameters.key_bits.value();
    let is_full =
        modulus.len() == usize::from(bits / 8) && modulus.first().is_some_and(|first| *first >= 0x80);
    if !RSA_BITS.contains(&bits) || !bits.is_multiple_of(8) || !is_full {
        return Err(TpmError::Unsupported("RSA keys must have a modulus of 2048 to 4096 bits"));
    }
    let exponent = match parameters.exponent.value() {
        0 => USUAL_EXPONENT,
        other => other,
    };
    let key = element_of(SEQUENCE, &[&unsigned(modulus), &unsigned(&exponent.to_be_bytes())]);
    let null = Null.to_der().map_err(|_| TpmError::Malformed(WHAT))?;
    Ok(Parts {
        key: KeyType::Rsa(bits),
        scheme: scheme(parameters.scheme.scheme, parameters.scheme.details)?,
        aes_bits: aes_bits(&parameters.symmetric)?,
        public_key_der: subject_public_key_info(RSA_ENCRYPTION, &null, &key),
    })
}

fn ecc(parameters: &TpmsEccParms, point: &TpmsEccPoint) -> Result<Parts, TpmError> {
    let (key, oid, length) = match parameters.curve_id {
        TpmEccCurve::NistP256 => (KeyType::P256, SECP_256_R_1, 32),
        TpmEccCurve::NistP384 => (KeyType::P384, SECP_384_R_1, 48),
        _ => return Err(TpmError::Unsupported("ECC keys must be on P-256 or P-384")),
    };
    // Neither coordinate of a point on these curves is zero in any key that a TPM makes.
    let coordinate = |bytes: &[u8]| padded(bytes, length).ok_or(TpmError::Malformed(WHAT));
    let bytes = [&[4][..], &coordinate(&point.x)?, &coordinate(&point.y)?].concat();
    Ok(Parts {
        key,
        scheme: scheme(parameters.scheme.scheme, parameters.scheme.details)?,
        aes_bits: aes_bits(&parameters.symmetric)?,
        public_key_der: subject_public_key_info(ID_EC_PUBLIC_KEY, &der::oid(oid), &bytes),
    })
}

/// A number with zero bytes in front up to this length; `None` if it is longer.
pub(super) fn padded(bytes: &[u8], length: usize) -> Option<Vec<u8>> {
    let mut out = vec![0; length.checked_sub(bytes.len())?];
    out.extend_from_slice(bytes);
    Some(out)
}

/// A DER INTEGER that is not negative.
pub(super) fn unsigned(bytes: &[u8]) -> Vec<u8> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let digits = bytes.get(zeros..).unwrap_or_default();
    let has_sign = digits.first().is_none_or(|first| *first >= 0x80);
    let sign: &[u8] = if has_sign { &[0] } else { &[] };
    element_of(INTEGER, &[sign, digits])
}

fn subject_public_key_info(algorithm: ObjectIdentifier, parameters: &[u8], key: &[u8]) -> Vec<u8> {
    let algorithm = element_of(SEQUENCE, &[&der::oid(algorithm), parameters]);
    element_of(SEQUENCE, &[&algorithm, &element(BIT_STRING, &[&[0], key].concat())])
}

fn scheme(id: TpmAlgId, details: TpmuAsymScheme) -> Result<Option<Scheme>, TpmError> {
    let make = match id {
        TpmAlgId::Null => return Ok(None),
        TpmAlgId::Rsassa => Scheme::RsaPkcs1,
        TpmAlgId::Rsapss => Scheme::RsaPss,
        TpmAlgId::Ecdsa => Scheme::Ecdsa,
        _ => return Err(TpmError::Unsupported("the scheme must be RSASSA, RSAPSS or ECDSA")),
    };
    let hash = match details {
        TpmuAsymScheme::Hash(hash) => HashAlgorithm::of(hash.hash_alg),
        TpmuAsymScheme::Null => None,
    };
    hash.map(make).map(Some).ok_or(TpmError::Unsupported("the hash function must be SHA-256 or longer"))
}

/// The size of an AES key. TPMs use it in the CFB mode only.
fn aes_bits(symmetric: &TpmtSymDefObject) -> Result<Option<u16>, TpmError> {
    match (symmetric.algorithm, symmetric.key_bits, symmetric.mode) {
        (TpmAlgId::Null, ..) => Ok(None),
        (_, TpmuSymKeyBits::Aes(bits), TpmuSymMode::Aes(TpmAlgId::Cfb))
            if matches!(bits.value(), 128 | 256) =>
        {
            Ok(Some(bits.value()))
        }
        _ => Err(TpmError::Unsupported("the symmetric algorithm must be AES-CFB with 128 or 256 bits")),
    }
}
