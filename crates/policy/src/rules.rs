//! Rule listings of a user (AC-59, WH-92). For display, never for enforcement (WH-93).

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

/// The rules of one user in one namespace.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RuleListing {
    /// The rules for resources. Unmerged, duplicates included.
    pub resource_rules: Vec<ResourceRule>,
    /// The rules for URL paths. Unmerged, duplicates included.
    pub non_resource_rules: Vec<NonResourceRule>,
    /// Whether the user may have more permissions than are listed.
    pub incomplete: bool,
    /// The errors of the listing, each message once, in order. Not part of the JSON form: see
    /// [`RuleListing::evaluation_error`].
    #[serde(skip)]
    pub errors: Vec<String>,
}

/// One rule over resources.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceRule {
    /// The verbs, `*` for all.
    pub verbs: Vec<String>,
    /// The API groups, `*` for all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    /// The resources, `*` for all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// The object names; empty for any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
}

/// One rule over URL paths.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NonResourceRule {
    /// The verbs, `*` for all.
    pub verbs: Vec<String>,
    /// The paths, with an optional trailing `*`.
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty")]
    pub non_resource_urls: Vec<String>,
}

impl RuleListing {
    /// Appends the rules of a later authorizer (AC-59).
    pub fn append(&mut self, other: Self) {
        self.resource_rules.extend(other.resource_rules);
        self.non_resource_rules.extend(other.non_resource_rules);
        self.incomplete |= other.incomplete;
        self.errors.extend(other.errors);
    }

    /// The errors as one text; `None` if there are none (AC-52).
    pub fn evaluation_error(&self) -> Option<String> {
        aggregate(&self.errors)
    }
}

/// Joins error messages like Kubernetes (AC-52): a single one stays as it is, several are bracketed, duplicates are
/// dropped, and the order is kept.
pub fn aggregate<S: AsRef<str>>(messages: &[S]) -> Option<String> {
    let mut seen = HashSet::with_capacity(messages.len());
    let distinct: Vec<&str> =
        messages.iter().map(AsRef::as_ref).filter(|message| seen.insert(*message)).collect();
    match distinct.as_slice() {
        [] => None,
        [one] => Some((*one).to_owned()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}
