//! Explains the decision of an ABAC policy file. Walks all lines; decisions do not use this module.

use std::fmt;

use super::AbacPolicyFile;
use crate::request::Attributes;

/// Why a request is or is not allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Explanation {
    /// The first line that allows it.
    Allowed {
        /// The line of the file, from 1.
        line: usize,
    },
    /// No line allows it. The lines for this user that match best, in the order of the file; empty if no line is for
    /// this user.
    NotAllowed(Vec<NearMiss>),
}

/// A line that is for the request's user but does not allow the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NearMiss {
    /// The line of the file, from 1.
    pub line: usize,
    /// The first mismatch.
    pub miss: Miss,
}

/// The first property of a policy that does not match a request. Later variants are closer to a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Miss {
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

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allowed { line } => write!(f, "allowed by line {line} of the policy file"),
            Self::NotAllowed(misses) if misses.is_empty() => f.write_str("no line is for this user"),
            Self::NotAllowed(misses) => {
                f.write_str("no line allows it; the nearest:")?;
                misses.iter().try_for_each(|near| write!(f, "\nline {}: {}", near.line, near.miss))
            }
        }
    }
}

impl AbacPolicyFile {
    /// Why a request is or is not allowed.
    pub fn explain(&self, attributes: &Attributes<'_>) -> Explanation {
        let mut nearest: Vec<NearMiss> = Vec::new();
        for policy in &self.policies {
            let miss = match policy.allows(attributes) {
                Ok(()) => return Explanation::Allowed { line: policy.line },
                Err(Miss::Nobody | Miss::User | Miss::Group) => continue,
                Err(miss) => miss,
            };
            let best = nearest.first().map_or(miss, |near| near.miss);
            if miss > best {
                nearest.clear();
            }
            if miss >= best {
                nearest.push(NearMiss { line: policy.line, miss });
            }
        }
        Explanation::NotAllowed(nearest)
    }
}
