//! What is asked: the user, and the attributes of one request as authorizers see them (AC-40).
//!
//! Authorizers see neither the body nor the stored object (AC-3); those are admission's.

use std::collections::BTreeMap;

use crate::selector::{FieldRequirement, LabelRequirement};

/// Who asks, after authentication and impersonation (AC-2, NA-6).
///
/// INVARIANT: a request always has a user. Where Kubernetes speaks of an absent user (AC-42, AC-62, AB-30, RB-24),
/// the empty user stands here: it has no name and no groups, and no authorizer allows it anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name, compared byte for byte.
    pub name: String,
    /// The unique id, if the authenticator knows one; else empty.
    pub uid: String,
    /// The groups, in the order the authenticator gave them. Nothing is ever added implicitly.
    pub groups: Vec<String>,
    /// Further facts about the user, by key.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// A user with the given name and groups, and nothing else.
    pub fn new<G: Into<String>>(name: impl Into<String>, groups: impl IntoIterator<Item = G>) -> Self {
        Self { name: name.into(), groups: groups.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Whether the user is in exactly this group.
    pub fn in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }
}

/// One request as authorizers see it (AC-40). Everything is borrowed: asking costs no allocation.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    /// Who asks.
    pub user: &'a User,
    /// The verb, verbatim: `get` is not `GET` (AC-151).
    pub verb: &'a str,
    /// The URL path as decoded (AC-11); empty for a review of resource attributes.
    pub path: &'a str,
    /// The resource asked for, or nothing when the request is for the bare path.
    pub resource: Option<ResourceRequest<'a>>,
}

/// The resource part of a request. Absent parts are empty strings, as in Kubernetes.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResourceRequest<'a> {
    /// The namespace; empty for cluster-scoped resources and for requests over all namespaces.
    pub namespace: &'a str,
    /// The API group; empty for the core group.
    pub group: &'a str,
    /// The API version. No authorizer in this crate reads it; webhooks do.
    pub version: &'a str,
    /// The resource, plural.
    pub resource: &'a str,
    /// The subresource, or empty.
    pub subresource: &'a str,
    /// The object's name, or empty.
    pub name: &'a str,
    /// What the field selector demands; empty when there is none or it could not be read (AC-46).
    pub field_selector: &'a [FieldRequirement],
    /// What the label selector demands; empty when there is none or it could not be read (AC-46).
    pub label_selector: &'a [LabelRequirement],
}

/// `a == b`, for texts that are often empty. The empty text lies at no valid address; comparing two of them, the C
/// library's vector code touches it behind a mask, at the price of an exception: some sixty nanoseconds.
pub(crate) fn is_same(a: &str, b: &str) -> bool {
    if a.is_empty() { b.is_empty() } else { a == b }
}

impl Attributes<'_> {
    /// Whether the verb is one that only reads (AC-41): exactly `get`, `list` or `watch`.
    pub fn is_read_only(&self) -> bool {
        matches!(self.verb, "get" | "list" | "watch")
    }
}
