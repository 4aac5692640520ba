//! The account that is charged for what the server holds and does for a caller.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, BuildHasherDefault, Hasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::LazyLock;

use policy::User;
use policy::identity::NodeIdentity;

/// The extra of a user whose token is bound to a pod: the name of the pod.
pub(crate) const POD_NAME: &str = "authentication.kubernetes.io/pod-name";
/// The extra of a user whose token is bound to a pod.
pub(crate) const POD_UID: &str = "authentication.kubernetes.io/pod-uid";
/// The part of an IPv6 address that one customer usually has to itself.
const IPV6_NETWORK: u128 = u128::MAX << 64;

/// A user, or the address of callers whose user is not known. It is a hash with a random key, so that nobody can choose
/// to share the account of somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Account(u64);

static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// A map by account.
pub(crate) type ByAccount<T> = HashMap<Account, T, BuildHasherDefault<AccountHasher>>;

/// Uses the hash that an account is.
#[derive(Default)]
pub(crate) struct AccountHasher(u64);

impl Hasher for AccountHasher {
    fn write(&mut self, bytes: &[u8]) {
        // Accounts are written as one number.
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, account: u64) {
        self.0 = account;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl Account {
    /// Returns the account of an authenticated user. Each pod of a service account has its own: all nodes may run one.
    pub(crate) fn of_user(user: &User) -> Self {
        let pod = user.extra.get(POD_UID).and_then(|uids| uids.first());
        Self(HASHER.hash_one((0_u8, &user.name, pod)))
    }

    /// Returns the account of everybody at an address whose user is not known. An IPv6 network counts as one address.
    pub(crate) fn of_address(address: Option<IpAddr>) -> Self {
        let address = address.map(|address| match address.to_canonical() {
            IpAddr::V4(address) => IpAddr::V4(address),
            IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from(u128::from(address) & IPV6_NETWORK)),
        });
        Self(HASHER.hash_one((1_u8, address)))
    }
}

/// Returns whether a user is one machine or one process: a node, or a pod.
pub(crate) fn is_machine(user: &User) -> bool {
    NodeIdentity::of(user).is_some() || user.extra.contains_key(POD_UID)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_user(name: &str) -> Account {
        Account::of_user(&User::new(name, [""; 0]))
    }

    #[test]
    fn an_ipv6_network_is_one_account_and_ipv4_addresses_are_one_each() {
        let of = |text: &str| Account::of_address(Some(text.parse().unwrap()));
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"));
        assert_ne!(of_user("192.0.2.1"), of("192.0.2.1"));
    }

    #[test]
    fn each_pod_of_a_service_account_has_its_own_account() {
        let of_pod = |uid: &str| {
            let mut user = User::new("system:serviceaccount:kube-system:agent", [""; 0]);
            user.extra.insert(POD_UID.to_owned(), vec![uid.to_owned()]);
            Account::of_user(&user)
        };
        assert_ne!(of_pod("1"), of_pod("2"));
        assert_eq!(of_pod("1"), of_pod("1"));
        assert_ne!(of_pod("1"), of_user("system:serviceaccount:kube-system:agent"));
    }
}
