//! Kinds of `authentication.k8s.io`.

use serde::Deserialize;

use super::decode::{List, Text, or_default};

/// A request for a token of a service account.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct TokenRequest<'a> {
    /// Which token.
    #[serde(borrow, deserialize_with = "or_default")]
    pub spec: TokenRequestSpec<'a>,
}

/// Which token is asked for.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct TokenRequestSpec<'a> {
    /// Whom the token is for; none means the API server.
    #[serde(borrow)]
    pub audiences: List<Text<'a>>,
    /// The object that the token dies with.
    #[serde(borrow)]
    pub bound_object_ref: Option<BoundObjectReference<'a>>,
}

/// The object that a token is bound to.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct BoundObjectReference<'a> {
    /// The object's API version.
    #[serde(borrow)]
    pub api_version: Text<'a>,
    /// The object's kind.
    #[serde(borrow)]
    pub kind: Text<'a>,
    /// The object's name.
    #[serde(borrow)]
    pub name: Text<'a>,
    /// The object's unique id.
    #[serde(borrow)]
    pub uid: Text<'a>,
}
