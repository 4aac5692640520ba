//! The user and the attributes of one request, as authorizers see them (AC-40).
//!
//! Authorizers see neither the body nor the stored object (AC-3); only admission does.

use std::collections::BTreeMap;

use portcullis_apimachinery::selector::{FieldRequirement, LabelRequirement};

/// The user who makes a request, after authentication and impersonation (AC-2, NA-6).
///
/// Name, uid, groups and extra (AN-1).
///
/// INVARIANT: a request always has a user. Kubernetes' absent user (AC-42, AC-62, AB-30, RB-24) is the empty user here:
/// it has no name and no groups, and no authorizer allows its requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name, compared byte for byte.
    pub name: String,
    /// The UID, if the authenticator knows one; else empty.
    pub uid: String,
    /// The groups, in the order of the authenticator. None is added implicitly.
    pub groups: Vec<String>,
    /// Extra information about the user, by key.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// Creates a user with the given name and groups only.
    pub fn new<G: Into<String>>(name: impl Into<String>, groups: impl IntoIterator<Item = G>) -> Self {
        Self { name: name.into(), groups: groups.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Returns whether the user is in exactly this group.
    pub fn in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }
}

/// One request as authorizers see it (AC-40). Everything is borrowed, so a decision allocates nothing.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    /// The user who makes the request.
    pub user: &'a User,
    /// The verb, verbatim: `get` is not `GET` (AC-151).
    pub verb: &'a str,
    /// The decoded URL path (AC-11); empty for a review of resource attributes.
    pub path: &'a str,
    /// The requested resource; `None` for a non-resource request.
    pub resource: Option<ResourceRequest<'a>>,
}

/// The resource part of a request. Absent parts are empty strings, as in Kubernetes.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResourceRequest<'a> {
    /// The namespace; empty for cluster-scoped resources and for requests over all namespaces.
    pub namespace: &'a str,
    /// The API group; empty for the core group.
    pub group: &'a str,
    /// The API version. Only webhooks read it, not the authorizers of this crate.
    pub version: &'a str,
    /// The resource, plural.
    pub resource: &'a str,
    /// The subresource, or empty.
    pub subresource: &'a str,
    /// The object's name, or empty.
    pub name: &'a str,
    /// The requirements of the field selector; empty if there is none or it could not be parsed (AC-46). Read by the
    /// Node authorizer, webhooks and match conditions alone (AC-48).
    pub field_selector: &'a [FieldRequirement],
    /// The requirements of the label selector; empty if there is none or it could not be parsed (AC-46).
    pub label_selector: &'a [LabelRequirement],
}

impl Attributes<'_> {
    /// Returns whether the verb is read-only (AC-41): exactly `get`, `list` or `watch`.
    pub fn is_read_only(&self) -> bool {
        matches!(self.verb, "get" | "list" | "watch")
    }
}
