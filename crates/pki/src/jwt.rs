//! JSON Web Tokens: signing and verifying. The only module that uses the token library.
//!
//! This module never interprets claims, and never looks at the time. It never trusts the algorithm that a token names: each
//! key of service accounts has one algorithm, and a token that names another one is refused (AN-71). Those of other issuers are
//! in [`jwks`](crate::jwks).

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header};
use rustls_pki_types::PrivateKeyDer;
use serde::de::{DeserializeOwned, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use x509_cert::Certificate;
use x509_cert::der::asn1::UintRef;
use x509_cert::der::oid::db::rfc5912::{ID_EC_PUBLIC_KEY, RSA_ENCRYPTION, SECP_256_R_1, SECP_384_R_1};
use x509_cert::der::{Decode, Encode, Tag};
use x509_cert::spki::SubjectPublicKeyInfoRef;

use crate::der::only;
use crate::hash::sha256;
use crate::jwks::{Head, KeySet, Verdict};
use crate::key::{KeyError, KeyPair};
use crate::pem;

/// RSA keys below this size are refused. Bytes.
const MIN_RSA_BYTES: usize = 256;

/// A key that cannot be used for tokens.
#[derive(Debug, thiserror::Error)]
pub enum TokenKeyError {
    /// There is no key in the text.
    #[error("no public or private key in PEM form")]
    Empty,
    /// A key of another kind.
    // DIVERGES: the token library has no ES512.
    #[error("key {0} cannot be used for tokens: need RSA of at least 2048 bits, or ECDSA on P-256 or P-384")]
    Unsupported(usize),
    /// A private key that cannot be read.
    #[error("key {0}: {1}")]
    Private(usize, KeyError),
}

/// A token that no key verifies. The error shows nothing of the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// There is no key with the id that the token names (AN-71).
    #[error("invalid signature, no keys found")]
    NoKey,
    /// No key verifies the signature.
    #[error("invalid signature")]
    Signature,
    /// The token is signed in a way that is not accepted.
    #[error("the token is signed with an algorithm that is not accepted, or not signed")]
    Algorithm,
}

/// Claims that cannot be read: which one is missing or has another type.
#[derive(Debug, thiserror::Error)]
#[error("the claims of the token cannot be read: {0}")]
pub struct ClaimsError(String);

/// A token cannot be signed.
#[derive(Debug, thiserror::Error)]
#[error("the token cannot be signed")]
pub struct SignError;

/// A public key that verifies tokens, by its own algorithm alone.
#[derive(Clone)]
pub struct PublicKey {
    algorithm: Algorithm,
    id: String,
    jwk: Jwk,
    key: DecodingKey,
}

/// A public key as published for other verifiers (RFC 7517).
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub struct Jwk {
    r#use: &'static str,
    kty: &'static str,
    kid: String,
    alg: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    n: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    e: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    crv: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    x: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    y: Option<String>,
}

impl PublicKey {
    /// Reads a DER SubjectPublicKeyInfo.
    ///
    /// # Errors
    /// A kind of key that tokens are not signed with here.
    pub fn from_der(der: &[u8]) -> Result<Self, TokenKeyError> {
        Self::of(der).ok_or(TokenKeyError::Unsupported(0))
    }

    fn of(der: &[u8]) -> Option<Self> {
        let info = SubjectPublicKeyInfoRef::from_der(der).ok()?;
        let bits = info.subject_public_key.as_bytes()?;
        // AN-72
        let id = encoded(&sha256(der));
        let jwk = Jwk {
            r#use: "sig",
            kty: "",
            kid: id.clone(),
            alg: "",
            n: None,
            e: None,
            crv: None,
            x: None,
            y: None,
        };
        if info.algorithm.oid == RSA_ENCRYPTION {
            let mut parts = only(bits).ok()?.children(Tag::Sequence).ok()?;
            let n = parts.required().ok()?.decode::<UintRef<'_>>().ok()?.as_bytes();
            let e = parts.required().ok()?.decode::<UintRef<'_>>().ok()?.as_bytes();
            if n.len() < MIN_RSA_BYTES {
                return None;
            }
            let jwk = Jwk { kty: "RSA", alg: "RS256", n: Some(encoded(n)), e: Some(encoded(e)), ..jwk };
            return Some(Self {
                algorithm: Algorithm::RS256,
                id,
                jwk,
                key: DecodingKey::from_rsa_raw_components(n, e),
            });
        }
        if info.algorithm.oid != ID_EC_PUBLIC_KEY {
            return None;
        }
        let curve = info.algorithm.parameters_oid().ok()?;
        let (algorithm, alg, crv) = match curve {
            SECP_256_R_1 => (Algorithm::ES256, "ES256", "P-256"),
            SECP_384_R_1 => (Algorithm::ES384, "ES384", "P-384"),
            _ => return None,
        };
        // An uncompressed point: 4, x, y.
        let (4, point) = bits.split_first()? else { return None };
        let (x, y) = point.split_at_checked(point.len() / 2)?;
        let jwk = Jwk { kty: "EC", alg, crv: Some(crv), x: Some(encoded(x)), y: Some(encoded(y)), ..jwk };
        Some(Self { algorithm, id, jwk, key: DecodingKey::from_ec_der(bits) })
    }

    /// Reads all keys of a text in PEM form: public keys, private keys and certificates (AN-71). Other blocks are skipped.
    ///
    /// # Errors
    /// There is no key, or one that is not supported.
    pub fn all_from_pem(text: &[u8]) -> Result<Vec<Self>, TokenKeyError> {
        let mut keys = Vec::new();
        for (i, block) in pem::blocks(text).into_iter().enumerate() {
            let unsupported = || TokenKeyError::Unsupported(i);
            let der = match block.label.as_str() {
                "PUBLIC KEY" => block.der,
                "CERTIFICATE" => {
                    let certificate = Certificate::from_der(&block.der).map_err(|_| unsupported())?;
                    let info = certificate.tbs_certificate().subject_public_key_info();
                    info.to_der().map_err(|_| unsupported())?
                }
                "PRIVATE KEY" | "EC PRIVATE KEY" | "RSA PRIVATE KEY" => {
                    let single = pem::encode(&block.label, &block.der);
                    let key =
                        KeyPair::from_pem(single.as_bytes()).map_err(|e| TokenKeyError::Private(i, e))?;
                    key.public_der().to_vec()
                }
                _ => continue,
            };
            keys.push(Self::of(&der).ok_or_else(unsupported)?);
        }
        if keys.is_empty() {
            return Err(TokenKeyError::Empty);
        }
        Ok(keys)
    }

    /// The id of the key (AN-72).
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The name of its algorithm: `RS256`, `ES256` or `ES384`.
    pub fn algorithm(&self) -> &'static str {
        self.jwk.alg
    }

    /// The key as published for other verifiers.
    pub fn jwk(&self) -> &Jwk {
        &self.jwk
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PublicKey").field("id", &self.id).finish_non_exhaustive()
    }
}

fn encoded(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A key that signs tokens.
pub struct SigningKey {
    key: EncodingKey,
    public: PublicKey,
}

impl SigningKey {
    /// Signs with this key.
    ///
    /// # Errors
    /// A kind of key that tokens are not signed with here.
    pub fn new(key: &KeyPair) -> Result<Self, TokenKeyError> {
        let public = PublicKey::from_der(key.public_der())?;
        let encoding = key.token_key_der().ok_or(TokenKeyError::Unsupported(0))?;
        let key = match public.algorithm {
            Algorithm::RS256 => EncodingKey::from_rsa_der(&encoding),
            _ => EncodingKey::from_ec_der(&encoding),
        };
        Ok(Self { key, public })
    }

    /// The public key.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Signs a token with these claims. Its header has the id of the key.
    ///
    /// # Errors
    /// The claims are not a JSON object, or the system has no randomness.
    pub fn sign(&self, claims: &impl Serialize) -> Result<String, SignError> {
        let header =
            Header { typ: None, kid: Some(self.public.id.clone()), ..Header::new(self.public.algorithm) };
        jsonwebtoken::encode(&header, claims, &self.key).map_err(|_| SignError)
    }
}

impl fmt::Debug for SigningKey {
    /// Never shows the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(..)")
    }
}

/// A token before verification, with the issuer that it claims.
pub struct UnverifiedToken<'t> {
    issuer: String,
    payload: Vec<u8>,
    /// Header and payload, as they were signed.
    message: &'t [u8],
    signature: &'t str,
}

impl<'t> UnverifiedToken<'t> {
    /// Splits a token (AN-70) into its three parts, of which the second is a JSON object with an issuer. `None` for anything
    /// else.
    pub fn read(token: &'t [u8]) -> Option<Self> {
        let text = std::str::from_utf8(token).ok()?;
        let (message, signature) = text.rsplit_once('.')?;
        let (head, payload) = message.split_once('.')?;
        if head.contains('.') || payload.contains('.') {
            return None;
        }
        let payload = URL_SAFE_NO_PAD.decode(payload).ok()?;
        let LastIssuer(issuer) = serde_json::from_slice(&payload).ok()?;
        Some(Self { issuer, payload, message: message.as_bytes(), signature })
    }

    /// The claimed issuer. Only good for choosing the verifier.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The claims of the token before its signature is verified. They may only serve to refuse the token early.
    ///
    /// # Errors
    /// A claim is missing or has another type.
    pub fn unverified<C: DeserializeOwned>(&self) -> Result<C, ClaimsError> {
        claims(&self.payload)
    }

    /// Verifies the signature with the keys of another issuer.
    ///
    /// # Errors
    /// No key verifies it. [`SignatureError::Algorithm`]: no other key will, either.
    pub fn verify_by(&self, keys: &KeySet) -> Result<VerifiedToken, SignatureError> {
        let head = self.message.split(|byte| *byte == b'.').next().and_then(Head::read);
        let head = head.ok_or(SignatureError::Algorithm)?;
        let signature = URL_SAFE_NO_PAD.decode(self.signature).map_err(|_| SignatureError::Algorithm)?;
        match keys.verify(&head, self.message, &signature) {
            Verdict::Signed => {
                Ok(VerifiedToken { issuer: self.issuer.clone(), payload: self.payload.clone() })
            }
            Verdict::NotSigned => Err(SignatureError::Signature),
            Verdict::NoKey => Err(SignatureError::NoKey),
        }
    }

    /// Verifies the signature (AN-71) with the key that the token names, or with every key if it names none.
    ///
    /// # Errors
    /// No key verifies it.
    pub fn verify(self, keys: &[PublicKey]) -> Result<VerifiedToken, SignatureError> {
        let head = jsonwebtoken::decode_header([self.message, b".", self.signature.as_bytes()].concat())
            .map_err(|_| SignatureError::Signature)?;
        // Critical extensions (RFC 7515, 4.1.11): none is supported.
        if head.crit.is_some() {
            return Err(SignatureError::Signature);
        }
        let mut is_known = false;
        for key in keys.iter().filter(|key| head.kid.as_ref().is_none_or(|id| *id == key.id)) {
            is_known = true;
            let verdict = (head.alg == key.algorithm)
                .then(|| jsonwebtoken::crypto::verify(self.signature, self.message, &key.key, key.algorithm));
            if let Some(Ok(true)) = verdict {
                return Ok(VerifiedToken { issuer: self.issuer, payload: self.payload });
            }
        }
        Err(if is_known { SignatureError::Signature } else { SignatureError::NoKey })
    }
}

/// The claims of a verified token. Only [`UnverifiedToken::verify`] and [`UnverifiedToken::verify_by`] create one.
pub struct VerifiedToken {
    issuer: String,
    payload: Vec<u8>,
}

impl VerifiedToken {
    /// The issuer.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The claims. Their type says which of them are required.
    ///
    /// # Errors
    /// A claim is missing or has another type.
    pub fn claims<C: DeserializeOwned>(&self) -> Result<C, ClaimsError> {
        claims(&self.payload)
    }
}

fn claims<C: DeserializeOwned>(payload: &[u8]) -> Result<C, ClaimsError> {
    // The library's text may show a value: only the position is kept.
    serde_json::from_slice(payload).map_err(|error| ClaimsError(place(&error)))
}

/// The claim `iss`; the last one of several, as everywhere in Kubernetes.
struct LastIssuer(String);

impl<'de> Deserialize<'de> for LastIssuer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = LastIssuer;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("claims with an issuer")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<LastIssuer, A::Error> {
                let mut issuer = None;
                while let Some(name) = members.next_key::<Name>()? {
                    match name {
                        Name::Iss => issuer = Some(members.next_value()?),
                        Name::Other => drop(members.next_value::<IgnoredAny>()?),
                    }
                }
                issuer.map(LastIssuer).ok_or_else(|| A::Error::missing_field("iss"))
            }
        }
        #[derive(Deserialize)]
        #[serde(field_identifier, rename_all = "lowercase")]
        enum Name {
            Iss,
            #[serde(other)]
            Other,
        }
        deserializer.deserialize_map(Members)
    }
}

fn place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.split_once("missing field `").and_then(|(_, rest)| rest.split_once('`')) {
        Some((field, _)) => format!("{field} is missing"),
        None => format!("something is of the wrong type at byte {}", error.column()),
    }
}

impl KeyPair {
    /// The private key in the form that the token library reads: PKCS#1 for RSA, PKCS#8 for ECDSA.
    fn token_key_der(&self) -> Option<Vec<u8>> {
        match self.private_der() {
            PrivateKeyDer::Pkcs1(der) => Some(der.secret_pkcs1_der().to_vec()),
            PrivateKeyDer::Pkcs8(der) if self.is_rsa() => {
                // version, algorithm, key
                let mut parts = only(der.secret_pkcs8_der()).ok()?.children(Tag::Sequence).ok()?;
                parts.required().ok()?;
                parts.required().ok()?;
                Some(parts.required().ok()?.contents().to_vec())
            }
            _ => self.to_pkcs8(),
        }
    }
}
