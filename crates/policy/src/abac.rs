//! The ABAC authorizer: policies in a file, one to a line (AB-1 to AB-62).
//!
//! A policy file is read once and never changes afterwards. A line can only allow: what no line allows is for the
//! next authorizer to decide (AB-45).

mod explain;
mod file;
mod line;

use crate::decision::{Authorizer, Decision, Reason};
use crate::request::{Attributes, ResourceRequest, User};
use crate::rules::{NonResourceRule, ResourceRule, RuleListing};

pub use explain::{Explanation, Miss, NearMiss};
pub use file::{Compatibility, PolicyFileError, ReadYaml};

/// The group that `*` means: everybody who has authenticated (AB-25, AB-26).
const AUTHENTICATED: &str = "system:authenticated";
const ANY: &str = "*";

/// A policy file that was read to its end without an error.
#[derive(Clone, Debug, Default)]
pub struct AbacPolicyFile {
    policies: Vec<Policy>,
    warnings: Vec<String>,
}

/// One policy, after the defaults of its version were filled in (AB-20 to AB-24).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// The line of the file, from 1, skipped lines included (AB-4).
    pub line: usize,
    /// The user's name; empty for any.
    pub user: String,
    /// A group of the user; empty for any. With no user either, the policy is for nobody (AB-24).
    pub group: String,
    /// Only `get`, `list` and `watch`.
    pub readonly: bool,
    /// The API group; `*` for all, empty for the core group.
    pub api_group: String,
    /// The resource, without subresource; `*` for all, empty for none (AB-34, AB-36).
    pub resource: String,
    /// The namespace; `*` for all and for requests without one; empty for requests without one only (AB-34, AB-35).
    pub namespace: String,
    /// The path of non-resource requests, with `*` at its end for everything that begins so (AB-38).
    pub non_resource_path: String,
}

impl Policy {
    /// Whether the policy allows this, and if not, where it fails first.
    fn allows(&self, attributes: &Attributes<'_>) -> Result<(), Miss> {
        self.speaks_of(attributes.user)?;
        // AB-32
        if self.readonly && !attributes.is_read_only() {
            return Err(Miss::ReadOnly);
        }
        match &attributes.resource {
            Some(resource) => self.covers_resource(resource),
            None if self.covers_path(attributes.path) => Ok(()),
            None => Err(Miss::NonResourcePath),
        }
    }

    /// AB-30, AB-31. A policy that names a user and a group wants both.
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

    /// AB-33 to AB-37. Subresource and name play no part.
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

    /// AB-38 to AB-40. The stars at the end are one star.
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
    /// The policies, in the order of the file.
    pub fn policies(&self) -> &[Policy] {
        &self.policies
    }

    /// What was accepted but is worth a look, each with file and line: for the log, once.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// What a user may do in a namespace (AB-50 to AB-54). A policy for paths only, without a namespace, is not
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
