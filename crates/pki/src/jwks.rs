//! Public keys of token issuers: key sets (RFC 7517), and the signatures that they verify (RFC 7518).
//!
//! Accepted are RSA keys with RS256, RS384, RS512, PS256, PS384 and PS512, and EC keys on P-256, P-384 and P-521 with ES256,
//! ES384 and ES512. The token names the algorithm, and only a key of its kind is tried: a public key is never taken for the
//! secret of an HMAC. `use` and `alg` of a key do not matter, as in Kubernetes. Keys of other kinds are left out.
//!
//! DIVERGES: a set has at most 64 keys, and RSA keys have 2048 to 8192 bits. Kubernetes has no such limits; a token without the
//! id of a key is tried with all of them, so their number is bounded.

use aws_lc_rs::signature::{
    self as aws, EcdsaVerificationAlgorithm, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

/// The most keys of a set, usable or not.
const MAX_KEYS: usize = 64;
/// The lengths of the modulus of an RSA key, in bytes.
const RSA_BYTES: std::ops::RangeInclusive<usize> = 256..=1024;
/// The most bytes of the exponent of an RSA key.
const EXPONENT_BYTES: usize = 8;

/// A text that is no key set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeySetError {
    /// It has another form.
    #[error("not a JSON Web Key Set: {0}")]
    Syntax(String),
    /// It has too many keys.
    #[error("it has {0} keys: at most {MAX_KEYS} are taken")]
    TooMany(usize),
}

/// The keys of an issuer.
#[derive(Clone, Debug, Default)]
pub struct KeySet(Vec<IssuerKey>);

/// Whether one of the keys has signed a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// One has.
    Signed,
    /// None of those that the token allows.
    NotSigned,
    /// The token allows none of them.
    NoKey,
}

#[derive(Clone, Debug)]
struct IssuerKey {
    /// Empty: none.
    id: String,
    material: Material,
}

#[derive(Clone, Debug)]
enum Material {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    Ec { curve: Curve, point: Vec<u8> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Curve {
    P256,
    P384,
    P521,
}

/// A key as it is written.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Written {
    kty: String,
    kid: String,
    n: String,
    e: String,
    crv: String,
    x: String,
    y: String,
}

impl KeySet {
    /// Reads a key set. Keys that cannot verify anything here are left out (RFC 7517, 5).
    ///
    /// # Errors
    /// See [`KeySetError`].
    pub fn read(text: &[u8]) -> Result<Self, KeySetError> {
        #[derive(Deserialize)]
        struct Set {
            #[serde(default)]
            keys: Option<Vec<Value>>,
        }
        // The position alone: the text is not ours to show.
        let set: Set = serde_json::from_slice(text).map_err(|error| {
            KeySetError::Syntax(format!("line {}, column {}", error.line(), error.column()))
        })?;
        let keys = set.keys.unwrap_or_default();
        if keys.len() > MAX_KEYS {
            return Err(KeySetError::TooMany(keys.len()));
        }
        let written = keys.into_iter().filter_map(|key| serde_json::from_value::<Written>(key).ok());
        Ok(Self(written.filter_map(IssuerKey::of).collect()))
    }

    /// The number of usable keys.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no key is usable.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Verifies a signature with the keys that the header of the token allows.
    pub(crate) fn verify(&self, head: &Head, message: &[u8], signature: &[u8]) -> Verdict {
        let mut verdict = Verdict::NoKey;
        for key in self.0.iter().filter(|key| head.key.is_empty() || head.key == key.id) {
            if key.has_signed(head.algorithm, message, signature) {
                return Verdict::Signed;
            }
            verdict = Verdict::NotSigned;
        }
        verdict
    }
}

impl IssuerKey {
    fn of(written: Written) -> Option<Self> {
        let decoded = |text: &str| URL_SAFE_NO_PAD.decode(text).ok();
        let material = match written.kty.as_str() {
            "RSA" => {
                let (n, e) = (number(decoded(&written.n)?), number(decoded(&written.e)?));
                let is_usable = RSA_BYTES.contains(&n.len()) && (1..=EXPONENT_BYTES).contains(&e.len());
                is_usable.then_some(Material::Rsa { n, e })?
            }
            "EC" => {
                let curve = Curve::named(&written.crv)?;
                let (x, y) = (decoded(&written.x)?, decoded(&written.y)?);
                if x.len() != curve.bytes() || y.len() != curve.bytes() {
                    return None;
                }
                // An uncompressed point. Whether it is on the curve is checked with each signature.
                Material::Ec { curve, point: [&[4], x.as_slice(), &y].concat() }
            }
            _ => return None,
        };
        Some(Self { id: written.kid, material })
    }

    fn has_signed(&self, algorithm: SignatureAlgorithm, message: &[u8], signature: &[u8]) -> bool {
        match (&self.material, algorithm) {
            (Material::Rsa { n, e }, SignatureAlgorithm::Rsa(parameters)) => {
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature).is_ok()
            }
            (Material::Ec { curve, point }, SignatureAlgorithm::Ec(needed, algorithm)) => {
                *curve == needed
                    && UnparsedPublicKey::new(algorithm, point).verify(message, signature).is_ok()
            }
            _ => false,
        }
    }
}

/// A number without leading zeros.
fn number(bytes: Vec<u8>) -> Vec<u8> {
    bytes.into_iter().skip_while(|byte| *byte == 0).collect()
}

impl Curve {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "P-256" => Self::P256,
            "P-384" => Self::P384,
            "P-521" => Self::P521,
            _ => return None,
        })
    }

    /// The length of a coordinate.
    fn bytes(self) -> usize {
        match self {
            Self::P256 => 32,
            Self::P384 => 48,
            Self::P521 => 66,
        }
    }
}

/// A signature algorithm for tokens of issuers.
#[derive(Clone, Copy)]
pub(crate) enum SignatureAlgorithm {
    Rsa(&'static RsaParameters),
    Ec(Curve, &'static EcdsaVerificationAlgorithm),
}

impl SignatureAlgorithm {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "RS256" => Self::Rsa(&aws::RSA_PKCS1_2048_8192_SHA256),
            "RS384" => Self::Rsa(&aws::RSA_PKCS1_2048_8192_SHA384),
            "RS512" => Self::Rsa(&aws::RSA_PKCS1_2048_8192_SHA512),
            "PS256" => Self::Rsa(&aws::RSA_PSS_2048_8192_SHA256),
            "PS384" => Self::Rsa(&aws::RSA_PSS_2048_8192_SHA384),
            "PS512" => Self::Rsa(&aws::RSA_PSS_2048_8192_SHA512),
            "ES256" => Self::Ec(Curve::P256, &aws::ECDSA_P256_SHA256_FIXED),
            "ES384" => Self::Ec(Curve::P384, &aws::ECDSA_P384_SHA384_FIXED),
            "ES512" => Self::Ec(Curve::P521, &aws::ECDSA_P521_SHA512_FIXED),
            _ => return None,
        })
    }
}

/// The header of a token, as far as it matters.
pub(crate) struct Head {
    algorithm: SignatureAlgorithm,
    /// The id of the key. Empty: any.
    key: String,
}

impl Head {
    /// Reads the header of a token; none with an algorithm that is not accepted, or with critical extensions (RFC 7515, 4.1.11).
    pub(crate) fn read(encoded: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Header {
            alg: String,
            #[serde(default)]
            kid: Option<String>,
            #[serde(default)]
            crit: Option<IgnoredAny>,
        }
        let text = URL_SAFE_NO_PAD.decode(encoded).ok()?;
        let header: Header = serde_json::from_slice(&text).ok()?;
        let algorithm = SignatureAlgorithm::named(&header.alg)?;
        header.crit.is_none().then(|| Self { algorithm, key: header.kid.unwrap_or_default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(keys: &str) -> Result<usize, KeySetError> {
        KeySet::read(format!(r#"{{"keys":{keys}}}"#).as_bytes()).map(|set| set.len())
    }

    #[test]
    fn only_keys_that_can_verify_are_taken() {
        let n = URL_SAFE_NO_PAD.encode([0xff; 256]);
        let short = URL_SAFE_NO_PAD.encode([0xff; 128]);
        let coordinate = URL_SAFE_NO_PAD.encode([1; 32]);
        for (key, expected) in [
            (format!(r#"{{"kty":"RSA","n":"{n}","e":"AQAB"}}"#), 1),
            (format!(r#"{{"kty":"RSA","n":"{short}","e":"AQAB"}}"#), 0),
            (format!(r#"{{"kty":"RSA","n":"{n}"}}"#), 0),
            (format!(r#"{{"kty":"RSA","n":"{n}","e":"{n}"}}"#), 0),
            (format!(r#"{{"kty":"EC","crv":"P-256","x":"{coordinate}","y":"{coordinate}"}}"#), 1),
            (format!(r#"{{"kty":"EC","crv":"P-384","x":"{coordinate}","y":"{coordinate}"}}"#), 0),
            (format!(r#"{{"kty":"EC","crv":"P-224","x":"{coordinate}","y":"{coordinate}"}}"#), 0),
            (format!(r#"{{"kty":"OKP","crv":"Ed25519","x":"{coordinate}"}}"#), 0),
            (format!(r#"{{"kty":"oct","k":"{coordinate}"}}"#), 0),
            (r#"{"kty":7}"#.to_owned(), 0),
            ("7".to_owned(), 0),
        ] {
            assert_eq!(set(&format!("[{key}]")), Ok(expected), "{key}");
        }
        assert_eq!(set("null"), Ok(0));
        assert!(matches!(KeySet::read(b"<html>"), Err(KeySetError::Syntax(_))));
        assert!(matches!(set("7"), Err(KeySetError::Syntax(_))));
    }

    #[test]
    fn the_number_of_keys_is_bounded() {
        let keys = |count: usize| format!("[{}]", vec!["{}"; count].join(","));
        assert_eq!(set(&keys(MAX_KEYS)), Ok(0));
        assert_eq!(set(&keys(MAX_KEYS + 1)), Err(KeySetError::TooMany(MAX_KEYS + 1)));
    }
}
