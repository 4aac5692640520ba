//! Why an ABAC policy file answers as it does. Walks all lines; deciding does not come here.

use std::fmt;

use super::AbacPolicyFile;
use crate::request::Attributes;

/// Why a request is allowed or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Explanation {
    /// The first line that allows it.
    Allowed {
        /// The line of the file, from 1.
        line: usize,
    },
    /// No line allows it. The lines that are for this user and came furthest, in the order of the file; none when
    /// no line is for this user.
    NotAllowed(Vec<NearMiss>),
}

/// A line that is for the user of a request and does not allow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NearMiss {
    /// The line of the file, from 1.
    pub line: usize,
    /// What did not match.
    pub miss: Miss,
}

/// The first thing about a policy that does not match a request; the later, the nearer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Miss {
    /// The policy names neither user nor group (AB-24).
    Nobody,
    /// Another user.
    User,
    /// A group that the user is not in.
    Group,
    /// The policy only lets read.
    ReadOnly,
    /// Another path; for non-resource requests.
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
    /// Why a request is allowed or not.
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
