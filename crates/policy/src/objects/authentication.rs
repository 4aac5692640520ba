//! Kinds of `authentication.k8s.io`.

use serde::Deserialize;

use super::decode::{List, Text, or_default};

/// A request for a token of a service account.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct TokenRequest<'a> {
    /// The spec.
    #[serde(deserialize_with = "or_default")]
    pub spec: TokenRequestSpec<'a>,
}

/// The spec of a token request.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct TokenRequestSpec<'a> {
    /// The audiences of the token; empty means the API server.
    pub audiences: List<Text<'a>>,
    /// The object that the token is bound to.
    pub bound_object_ref: Option<BoundObjectReference<'a>>,
}

/// The object that a token is bound to.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct BoundObjectReference<'a> {
    /// The object's API version.
    pub api_version: Text<'a>,
    /// The object's kind.
    pub kind: Text<'a>,
    /// The object's name.
    pub name: Text<'a>,
    /// The object's unique id.
    pub uid: Text<'a>,
}
