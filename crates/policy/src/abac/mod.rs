//! The ABAC authorizer: policies in a file, one to a line (AB-1 to AB-62).
//!
//! A policy file is read once and never changes afterwards (AB-1). A line can only allow. A request that no line allows
//! is left to the next authorizer (AB-45).

mod explain;
mod file;
mod line;
mod near;

use std::fmt;

use crate::decision::{Authorizer, Decision, Reason};
use crate::request::{Attributes, ResourceRequest, User};
use crate::rules::{NonResourceRule, ResourceRule, RuleListing};

pub use file::{Compatibility, PolicyFileError, ReadYaml};
pub(crate) use near::needed;

/// The group that `*` stands for: all authenticated users (AB-25, AB-26).
const AUTHENTICATED: &str = "system:authenticated";
const ANY: &str = "*";

/// A policy file that was read completely and without errors.
#[derive(Clone, Debug, Default)]
pub struct AbacPolicyFile {
    policies: Vec<Policy>,
    warnings: Vec<String>,
}

/// One policy, with the defaults of its version applied (AB-20 to AB-24).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// The line of the file, from 1, skipped lines included (AB-4).
    pub line: usize,
    /// The user's name; empty for any.
    pub user: String,
    /// A group of the user; empty for any. If the user is empty too, the policy matches no user (AB-24).
    pub group: String,
    /// Only `get`, `list` and `watch`.
    pub readonly: bool,
    /// The API group; `*` for all, empty for the core group.
    pub api_group: String,
    /// The resource, without subresource; `*` for all, empty for none (AB-34, AB-36).
    pub resource: String,
    /// The namespace; `*` for all and for requests without one; empty for requests without one only (AB-34, AB-35).
    pub namespace: String,
    /// The path of non-resource requests. A trailing `*` matches by prefix (AB-38).
    pub non_resource_path: String,
}

/// The first property of a policy that does not match a request. Later variants are closer to a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Miss {
    /// The policy names neither user nor group (AB-24).
    Nobody,
    /// Another user.
    User,
    /// A group that the user is not in.
    Group,
    /// The policy is read-only.
    ReadOnly,
    /// Another path, for non-resource requests.
    NonResourcePath,
    /// Another namespace.
    Namespace,
    /// Another resource.
    Resource,
    /// Another API group.
    ApiGroup,
}

impl fmt::Display for Miss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nobody => "it names neither a user nor a group",
            Self::User => "it is for another user",
            Self::Group => "it is for a group that the user is not in",
            Self::ReadOnly => "it is read-only, which covers get, list and watch",
            Self::NonResourcePath => "its nonResourcePath does not cover the path",
            Self::Namespace => "it is for another namespace",
            Self::Resource => "it is for another resource",
            Self::ApiGroup => "it is for another API group",
        })
    }
}

impl Policy {
    /// Checks whether the policy allows the request, and returns the first mismatch if not.
    fn allows(&self, attributes: &Attributes<'_>) -> Result<(), Miss> {
        self.speaks_of(attributes.user)?;
        self.covers(attributes)
    }

    /// Checks the request, whoever makes it.
    fn covers(&self, attributes: &Attributes<'_>) -> Result<(), Miss> {
        // AB-32, AB-42
        if self.readonly && !attributes.is_read_only() {
            return Err(Miss::ReadOnly);
        }
        match &attributes.resource {
            Some(resource) => self.covers_resource(resource),
            None if self.covers_path(attributes.path) => Ok(()),
            None => Err(Miss::NonResourcePath),
        }
    }

    /// AB-30, AB-31. A policy that names a user and a group requires both.
    fn speaks_of(&self, user: &User) -> Result<(), Miss> {
        if self.user.is_empty() && self.group.is_empty() {
            return Err(Miss::Nobody);
        }
        if !self.user.is_empty() && self.user != ANY && self.user != user.name {
            return Err(Miss::User);
        }
        if !self.group.is_empty() && self.group != ANY && !user.in_group(&self.group) {
            return Err(Miss::Group);
        }
        Ok(())
    }

    /// AB-33 to AB-37. Subresource and name play no part, and neither does the half for paths (AB-41).
    fn covers_resource(&self, request: &ResourceRequest<'_>) -> Result<(), Miss> {
        let is = |policy: &str, request: &str| policy == ANY || policy == request;
        if !is(&self.namespace, request.namespace) {
            return Err(Miss::Namespace);
        }
        if !is(&self.resource, request.resource) {
            return Err(Miss::Resource);
        }
        if !is(&self.api_group, request.group) {
            return Err(Miss::ApiGroup);
        }
        Ok(())
    }

    /// AB-38 to AB-40. Several trailing stars count as one.
    fn covers_path(&self, path: &str) -> bool {
        let own = self.non_resource_path.as_str();
        own == path || (own.ends_with('*') && path.starts_with(own.trim_end_matches('*')))
    }

    /// AB-51
    fn verbs(&self) -> Vec<String> {
        let verbs: &[&str] = if self.readonly { &["get", "list", "watch"] } else { &[ANY] };
        verbs.iter().map(|&verb| verb.to_owned()).collect()
    }
}

impl Authorizer for AbacPolicyFile {
    /// AB-45: Allow without a reason, or no opinion. Never Deny.
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        if self.policies.iter().any(|policy| policy.allows(attributes).is_ok()) {
            return Decision::Allow(Reason::None);
        }
        Decision::NoOpinion(Reason::Text("No policy matched."))
    }
}

impl AbacPolicyFile {
    /// The policies that allow a request to somebody, whoever makes it, in the order of the file (AU-93).
    pub fn covering<'a>(&'a self, attributes: &'a Attributes<'_>) -> impl Iterator<Item = &'a Policy> {
        self.policies.iter().filter(|policy| policy.covers(attributes).is_ok())
    }

    /// The policies, in the order of the file.
    pub fn policies(&self) -> &[Policy] {
        &self.policies
    }

    /// Warnings about accepted lines, each with file and line. To be logged once.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Lists the rules of a user in a namespace (AB-50 to AB-54). A policy for paths only, without a namespace, is not
    /// listed, although it allows requests (AB-53).
    pub fn rules_for(&self, user: &User, namespace: &str) -> RuleListing {
        let mut listing = RuleListing::default();
        let speaking = self.policies.iter().filter(|policy| policy.speaks_of(user).is_ok());
        for policy in speaking.filter(|policy| policy.namespace == ANY || policy.namespace == namespace) {
            if !policy.resource.is_empty() {
                listing.resource_rules.push(ResourceRule {
                    verbs: policy.verbs(),
                    api_groups: vec![policy.api_group.clone()],
                    resources: vec![policy.resource.clone()],
                    resource_names: Vec::new(),
                });
            }
            if !policy.non_resource_path.is_empty() {
                listing.non_resource_rules.push(NonResourceRule {
                    verbs: policy.verbs(),
                    non_resource_urls: vec![policy.non_resource_path.clone()],
                });
            }
        }
        listing
    }
}

#[cfg(test)]
mod tests;
