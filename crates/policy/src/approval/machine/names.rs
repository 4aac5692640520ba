//! Names of hosts, addresses, and ranges of addresses.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Names of the API server, or of the host itself, in every cluster (NB-107).
const RESERVED: [&str; 2] = ["kubernetes", "localhost"];
/// The API server's service and namespace, which a cluster domain may follow (NB-107).
const API_SERVICE: &str = "kubernetes.default";

/// Normalizes a host name for comparison: without one trailing dot, in lower case (NB-89, NB-115).
pub(super) fn host_key(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// Returns whether two host names are equal, ignoring case and one trailing dot on either side. The empty name equals
/// nothing.
pub(super) fn same_host(left: &str, right: &str) -> bool {
    let strip = |name: &'_ str| name.len() - usize::from(name.ends_with('.'));
    let (l, r) = (left.get(..strip(left)), right.get(..strip(right)));
    matches!((l, r), (Some(l), Some(r)) if !l.is_empty() && l.eq_ignore_ascii_case(r))
}

/// Normalizes an address: an IPv4-mapped IPv6 address becomes IPv4 (NB-116).
pub(super) fn folded(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

/// Parses an address and normalizes it.
pub(super) fn address(text: &str) -> Option<IpAddr> {
    text.parse().ok().map(folded)
}

/// Returns whether the DNS name is reserved for the API server or for the host itself, so that no node may have it
/// (NB-107).
pub(super) fn is_reserved<'a>(name: &str, api_server_names: impl IntoIterator<Item = &'a str>) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let is_or_lies_under = |parent: &str| {
        name.strip_suffix(parent).is_some_and(|before| before.is_empty() || before.ends_with('.'))
    };
    let is_api_service = name.match_indices(API_SERVICE).any(|(start, found)| {
        let (before, after) = name.split_at_checked(start).unwrap_or_default();
        let after = after.strip_prefix(found).unwrap_or_default();
        (before.is_empty() || before.ends_with('.')) && (after.is_empty() || after.starts_with('.'))
    });
    RESERVED.into_iter().any(is_or_lies_under)
        || is_api_service
        || api_server_names.into_iter().any(|own| {
            let own = own.trim_end_matches('.').to_ascii_lowercase();
            !own.is_empty() && is_or_lies_under(&own)
        })
}

/// An address range, such as `10.0.0.0/16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    network: IpAddr,
    prefix: u8,
}

/// An error: the text is not an address range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a range of addresses: write it like 10.0.0.0/16 or fd00::/64")]
pub struct CidrError(String);

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, CidrError> {
        let read = || {
            let (network, prefix) = text.split_once('/')?;
            let network: IpAddr = network.parse().ok()?;
            let digits = prefix.bytes().all(|b| b.is_ascii_digit());
            let prefix: u8 = digits.then(|| prefix.parse().ok()).flatten()?;
            let most = if network.is_ipv4() { 32 } else { 128 };
            (prefix <= most).then_some(Self { network, prefix })
        };
        read().ok_or_else(|| CidrError(text.to_owned()))
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.prefix)
    }
}

impl Cidr {
    /// Returns whether the range contains the address. An IPv4-mapped IPv6 address counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let bits = |address: IpAddr| match address {
            IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
            IpAddr::V6(v6) => v6.to_bits(),
        };
        let address = folded(address);
        if address.is_ipv4() != self.network.is_ipv4() {
            return false;
        }
        let mask = u128::MAX.checked_shl(128 - u32::from(self.prefix)).unwrap_or(0);
        (bits(address) ^ bits(self.network)) & mask == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_compare_without_case_and_one_trailing_dot_nb_89_nb_115() {
        assert!(same_host("Worker.Example", "worker.example."));
        assert!(same_host("worker.", "worker"));
        assert!(!same_host("worker..", "worker"));
        assert!(!same_host("", ""));
        assert!(!same_host(".", ""));
        assert!(!same_host("worker-1", "worker-10"));
        assert_eq!(host_key("Worker.Example."), "worker.example");
    }

    #[test]
    fn names_of_the_api_server_and_of_the_host_itself_are_reserved_nb_107() {
        let own = ["api.example.com"];
        for name in [
            "kubernetes",
            "x.kubernetes",
            "Kubernetes.",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
            "a.kubernetes.default.svc",
            "localhost",
            "n.LOCALHOST",
            "api.example.com",
            "x.api.example.com.",
        ] {
            assert!(is_reserved(name, own), "{name}");
        }
        for name in
            ["kubernetes-0", "xkubernetes.default.svc", "kubernetes.defaults", "example.com", "mylocalhost"]
        {
            assert!(!is_reserved(name, own), "{name}");
        }
        assert!(!is_reserved("a", [""]));
    }

    #[test]
    fn a_range_contains_what_shares_its_prefix() {
        let cidr = |text: &str| text.parse::<Cidr>().unwrap();
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        assert!(cidr("10.0.0.0/8").contains(ip("10.255.0.1")));
        assert!(cidr("10.0.0.0/8").contains(ip("::ffff:10.1.2.3")));
        assert!(!cidr("10.0.0.0/8").contains(ip("11.0.0.1")));
        assert!(cidr("10.1.2.3/32").contains(ip("10.1.2.3")));
        assert!(!cidr("10.1.2.3/32").contains(ip("10.1.2.2")));
        assert!(cidr("0.0.0.0/0").contains(ip("8.8.8.8")));
        assert!(!cidr("0.0.0.0/0").contains(ip("::1")));
        assert!(cidr("fd00::/64").contains(ip("fd00::1:2")));
        assert!(!cidr("fd00::/64").contains(ip("fd00:0:0:1::")));
        for text in
            ["", "10.0.0.0", "10.0.0.0/33", "fd00::/129", "10.0.0.0/+8", "10.0.0.0/", "x/8", "10.0.0.0/8/8"]
        {
            assert!(text.parse::<Cidr>().is_err(), "{text}");
        }
    }
}
