//! The claims of service account tokens (AN-75, AN-80).

use serde::{Deserialize, Deserializer, Serialize};

/// The issuer of legacy tokens, which are stored in secrets (AN-75).
pub(crate) const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";

/// The audiences of a token.
#[derive(Debug, Deserialize)]
pub(crate) struct Audience {
    #[serde(default, deserialize_with = "one_or_many")]
    pub(crate) aud: Vec<String>,
}

/// The claims of a token that was requested (AN-80).
///
/// DIVERGES: `sub`, `aud`, `exp` and `kubernetes.io` with the account are required; Kubernetes, which always writes
/// them, accepts a token without `exp` as one that does not expire (AN-82), and a token without audiences as one for
/// itself (AN-73).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Bound {
    #[serde(deserialize_with = "one_or_many")]
    pub(crate) aud: Vec<String>,
    #[serde(deserialize_with = "seconds")]
    pub(crate) exp: i64,
    #[serde(default, deserialize_with = "optional_seconds")]
    pub(crate) iat: Option<i64>,
    pub(crate) iss: String,
    #[serde(default)]
    pub(crate) jti: String,
    #[serde(rename = "kubernetes.io")]
    pub(crate) kubernetes: Kubernetes,
    #[serde(default, deserialize_with = "optional_seconds")]
    pub(crate) nbf: Option<i64>,
    pub(crate) sub: String,
}

/// The objects that a token is bound to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Kubernetes {
    pub(crate) namespace: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<Reference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pod: Option<Reference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<Reference>,
    pub(crate) serviceaccount: Reference,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional_seconds")]
    pub(crate) warnafter: Option<i64>,
}

/// A reference to an object.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) uid: String,
}

/// The claims of a legacy token (AN-75).
///
/// DIVERGES: a `jti` is written, and not read. Without it, an RSA signature is identical for every secret of the same
/// name: the token of a secret that was deleted to revoke it would become valid again with the next secret of that name
/// (NB-33).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Legacy {
    pub(crate) iss: String,
    #[serde(rename = "kubernetes.io/serviceaccount/namespace")]
    pub(crate) namespace: String,
    #[serde(rename = "kubernetes.io/serviceaccount/secret.name")]
    pub(crate) secret: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.name")]
    pub(crate) account: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.uid")]
    pub(crate) uid: String,
    #[serde(skip_deserializing)]
    pub(crate) jti: String,
    pub(crate) sub: String,
}

/// RFC 7519, 4.1.3: one audience, or a list of them.
fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMany {
        One(String),
        Many(Vec<String>),
    }
    Ok(match OneOrMany::deserialize(deserializer)? {
        OneOrMany::One(one) => vec![one],
        OneOrMany::Many(many) => many,
    })
}

/// RFC 7519, 2: seconds since 1970, with an optional fraction, which is dropped.
fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    let number = serde_json::Number::deserialize(deserializer)?;
    let whole = number.to_string();
    let whole = whole.split_once('.').map_or(whole.as_str(), |(whole, _)| whole);
    whole.parse().map_err(|_| serde::de::Error::custom("not a time"))
}

fn optional_seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    seconds(deserializer).map(Some)
}
