//! Node identities, and the groups that a user name implies. This is the only module that parses `system:node:` user
//! names.

use portcullis_apimachinery::names::{is_dns_label, is_dns_subdomain};

use crate::request::User;

/// The user of a request without credentials (AN-110).
pub const ANONYMOUS: &str = "system:anonymous";
/// The group of every user with credentials (AN-12).
pub const AUTHENTICATED: &str = "system:authenticated";
/// The group of anonymous users (AN-110).
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The prefix of every service account's user name.
pub const ACCOUNT_PREFIX: &str = "system:serviceaccount:";
/// The group of all service accounts. With `:` and a namespace after it, that of the service accounts in it.
pub const ACCOUNTS: &str = "system:serviceaccounts";

/// Returns the namespace and the name of the service account with this user name; none for another user (AN-123).
pub fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(ACCOUNT_PREFIX)?.split_once(':')?;
    (is_dns_label(namespace) && is_dns_subdomain(name)).then_some((namespace, name))
}

/// Adds the groups that an API server adds to an impersonated user: a service account without groups gets its two
/// (AN-124), and everybody is authenticated or not (AN-125).
pub fn add_implied_groups(user: &mut User) {
    if user.groups.is_empty()
        && let Some((namespace, _)) = service_account(&user.name)
    {
        user.groups = vec![ACCOUNTS.to_owned(), format!("{ACCOUNTS}:{namespace}")];
    }
    let implied = if user.name == ANONYMOUS { UNAUTHENTICATED } else { AUTHENTICATED };
    if !user.in_group(implied) && !user.in_group(UNAUTHENTICATED) {
        user.groups.push(implied.to_owned());
    }
}

/// The extra value of a token that is bound to a pod on a node, or to a node: the name of the node.
pub const NODE_NAME_EXTRA: &str = "authentication.kubernetes.io/node-name";

/// Returns the node that the token of a service account is bound to; none for other users, and for a token that is bound to none.
/// Only an authenticator, or who may impersonate this extra value, can set it.
pub fn bound_node(user: &User) -> Option<&str> {
    service_account(&user.name)?;
    match user.extra.get(NODE_NAME_EXTRA)?.as_slice() {
        [node] if !node.is_empty() => Some(node),
        _ => None,
    }
}

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
    fn a_name_implies_the_groups_that_impersonation_adds_an_124_an_125() {
        let groups = |name: &str, given: &[&str]| {
            let mut user = User::new(name, given.iter().copied());
            add_implied_groups(&mut user);
            user.groups
        };
        assert_eq!(groups("jane", &[]), ["system:authenticated"]);
        assert_eq!(groups("jane", &["a"]), ["a", "system:authenticated"]);
        assert_eq!(groups("jane", &["system:authenticated", "a"]), ["system:authenticated", "a"]);
        assert_eq!(groups("jane", &["system:unauthenticated"]), ["system:unauthenticated"]);
        assert_eq!(groups("system:anonymous", &[]), ["system:unauthenticated"]);
        assert_eq!(groups("system:anonymous", &["system:authenticated"]).len(), 2);
        let of_account = ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"];
        assert_eq!(groups("system:serviceaccount:ns:a.b", &[]), of_account);
        assert_eq!(groups("system:serviceaccount:ns:a", &["x"]), ["x", "system:authenticated"]);
        for name in ["system:serviceaccount:ns", "system:serviceaccount:n.s:a", "system:serviceaccount:ns:A"]
        {
            assert_eq!(groups(name, &[]), ["system:authenticated"], "{name}");
        }
        // A node's group is not implied by its name: a certificate says it.
        assert_eq!(groups("system:node:n1", &[]), ["system:authenticated"]);
    }

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
