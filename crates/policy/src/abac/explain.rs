//! Explains the decision of an ABAC policy file. Walks all lines; decisions do not use this module.

use std::fmt;

use super::AbacPolicyFile;
use crate::request::Attributes;

/// The first property of a policy that does not match a request. Later variants are closer to a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Miss {
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

impl AbacPolicyFile {
    /// Explains why a request is or is not allowed: the first line that allows it, else the lines for this user that
    /// match best, in the order of the file.
    pub fn explain(&self, attributes: &Attributes<'_>) -> String {
        let mut nearest: Vec<(usize, Miss)> = Vec::new();
        for policy in &self.policies {
            let miss = match policy.allows(attributes) {
                Ok(()) => return format!("allowed by line {} of the policy file", policy.line),
                Err(Miss::Nobody | Miss::User | Miss::Group) => continue,
                Err(miss) => miss,
            };
            let best = nearest.first().map_or(miss, |(_, best)| *best);
            if miss > best {
                nearest.clear();
            }
            if miss >= best {
                nearest.push((policy.line, miss));
            }
        }
        if nearest.is_empty() {
            return "no line is for this user".to_owned();
        }
        let lines: String = nearest.iter().map(|(line, miss)| format!("\nline {line}: {miss}")).collect();
        format!("no line allows it; the nearest:{lines}")
    }
}
