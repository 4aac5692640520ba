//! Node identities. This is the only module that parses `system:node:` user names.

use crate::request::User;

/// The prefix that every node's user name starts with (NA-1, NB-3).
pub const NODE_USER_PREFIX: &str = "system:node:";
/// The group of all nodes (NA-1).
pub const NODES_GROUP: &str = "system:nodes";

/// The identity of a node (NA-1 to NA-7). It can only be derived from a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeIdentity<'a> {
    name: &'a str,
}

impl<'a> NodeIdentity<'a> {
    /// Returns the node identity of a user who is a node, by name prefix and group, both byte-exact (NA-1, NA-2, NA-3).
    ///
    /// The Node object need not exist (NA-7). The uid, extra and other groups are ignored (NA-5).
    pub fn of(user: &'a User) -> Option<Self> {
        let name = user.name.strip_prefix(NODE_USER_PREFIX)?;
        user.in_group(NODES_GROUP).then_some(Self { name })
    }

    /// The node's name. It may be empty (NA-4); such a node is always refused.
    pub fn name(self) -> &'a str {
        self.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_needs_prefix_and_group_na_1_to_na_4() {
        let name = |user: &str, group: &str| {
            NodeIdentity::of(&User::new(user, [group])).map(|n| n.name().to_owned())
        };
        assert_eq!(name("system:node:n0", "system:nodes").as_deref(), Some("n0"));
        assert_eq!(name("system:node:a:b", "system:nodes").as_deref(), Some("a:b"));
        assert_eq!(name("system:node:x/y", "system:nodes").as_deref(), Some("x/y"));
        assert_eq!(name("system:node:system:node:n", "system:nodes").as_deref(), Some("system:node:n"));
        assert_eq!(name("system:node:", "system:nodes").as_deref(), Some(""));
        assert_eq!(name("System:node:n0", "system:nodes"), None);
        assert_eq!(name("system:node:n0", "System:nodes"), None);
        assert_eq!(name("system:node", "system:nodes"), None);
        assert_eq!(name("n0", "system:nodes"), None);
        assert_eq!(name("system:node:n0", "system:authenticated"), None);
    }
}
