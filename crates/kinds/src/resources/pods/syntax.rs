//! The syntaxes of texts in a pod. Each function lists what is wrong with a text: Kubernetes reports every fault as an
//! error of its own, so their number matters.

use std::borrow::Cow;

use portcullis_policy::selector::syntax::{label_key_errors, label_value_errors};

use crate::names;
use crate::resource::NameRule;

/// What is wrong with a text.
pub(super) type Faults = Vec<Cow<'static, str>>;

const TOO_LONG: &str = "must not be longer than the limit of its kind";

fn faults(checks: &[(bool, &'static str)]) -> Faults {
    checks.iter().filter(|(is_wrong, _)| *is_wrong).map(|(_, fault)| Cow::Borrowed(*fault)).collect()
}

fn is_label(text: &str, is_inner: fn(u8) -> bool) -> bool {
    let is_edge =
        |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let bytes = text.as_bytes();
    is_edge(bytes.first()) && is_edge(bytes.last()) && bytes.iter().all(|byte| is_inner(*byte))
}

fn is_lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'
}

/// A DNS label: at most 63 of `[-a-z0-9]`.
pub(super) fn label(text: &str) -> Faults {
    names::label_errors(text)
}

/// A DNS subdomain: DNS labels joined by dots, at most 253 characters in all.
pub(super) fn subdomain(text: &str) -> Faults {
    names::subdomain_errors(text)
}

/// The beginning of a name: a DNS subdomain that may end in `-`.
pub(super) fn subdomain_prefix(text: &str) -> Faults {
    NameRule::Subdomain.prefix_errors(text)
}

/// A DNS subdomain in whose labels `_` may stand, also at the start.
pub(super) fn search_domain(text: &str) -> Faults {
    let is_inner = |byte| is_lower(byte) || byte == b'_';
    let is_part = |part: &str| is_label(part.strip_prefix('_').unwrap_or(part), is_inner);
    faults(&[
        (text.len() > 253, TOO_LONG),
        (
            !text.split('.').all(is_part),
            "must be labels of lower case letters, digits, '-' and '_', joined by '.'",
        ),
    ])
}

/// A qualified name: a name of at most 63 characters, perhaps after a DNS subdomain and a slash. Keys of labels are.
pub(super) fn qualified_name(text: &str) -> Faults {
    label_key_errors(text).into_iter().map(Cow::Owned).collect()
}

/// The value of a label: empty, or a name of at most 63 characters.
pub(super) fn label_value(text: &str) -> Faults {
    label_value_errors(text).into_iter().map(Cow::Owned).collect()
}

/// The name of a port.
pub(super) fn port_name(text: &str) -> Faults {
    faults(&[
        (text.len() > 15, TOO_LONG),
        (
            text.is_empty() || !text.bytes().all(is_lower),
            "must consist of lower case letters, digits and '-'",
        ),
        (!text.bytes().any(|byte| byte.is_ascii_lowercase()), "must contain a letter"),
        (text.contains("--"), "must not contain '--'"),
        (text.starts_with('-') || text.ends_with('-'), "must not begin or end with '-'"),
    ])
}

/// The name of an environment variable: anything printable in ASCII but `=`.
pub(super) fn env_name(text: &str) -> Faults {
    let is_allowed = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'=';
    faults(&[
        (text.is_empty(), "must not be empty"),
        (!text.bytes().all(is_allowed), "must consist of printable ASCII characters other than '='"),
    ])
}

/// A key of a Secret or ConfigMap.
pub(super) fn config_key(text: &str) -> Faults {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    faults(&[
        (text.len() > 253, TOO_LONG),
        (
            text.is_empty() || !text.bytes().all(is_allowed),
            "must consist of letters, digits, '-', '_' and '.'",
        ),
        (text == "." || text.starts_with(".."), "must not be '.' nor begin with '..'"),
    ])
}

/// The name of a header.
pub(super) fn header_name(text: &str) -> Faults {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    faults(&[(text.is_empty() || !text.bytes().all(is_allowed), "must consist of letters, digits and '-'")])
}

/// A path that stays below where it starts.
pub(super) fn descending_path(text: &str) -> Faults {
    let mut wrong = faults(&[(text.starts_with('/'), "must be a relative path")]);
    wrong.extend(no_backsteps(text));
    wrong
}

/// A path without `..`.
pub(super) fn no_backsteps(text: &str) -> Faults {
    faults(&[(text.split('/').any(|part| part == ".."), "must not contain '..'")])
}

/// A path that stays below where it starts and does not begin with `..`.
pub(super) fn unreserved_path(text: &str) -> Faults {
    let mut wrong = descending_path(text);
    let is_reserved = text.starts_with("..") && !text.starts_with("../");
    // A bare `..` is two faults: a step back, and a reserved beginning.
    wrong.extend(faults(&[(is_reserved, "must not begin with '..'")]));
    wrong
}

/// An IP address, in one way of writing: no leading zeros, no IPv4 address in an IPv6 address.
pub(super) fn ip(text: &str) -> Faults {
    use std::net::{IpAddr, Ipv6Addr};
    let is_mapped = |address: Ipv6Addr| address.to_ipv4_mapped().is_some();
    let is_wrong = match text.parse::<IpAddr>() {
        Err(_) => true,
        Ok(IpAddr::V4(_)) => false,
        Ok(IpAddr::V6(address)) => is_mapped(address),
    };
    faults(&[(is_wrong, "must be an IP address such as 10.9.8.7 or 2001:db8::ffff")])
}

/// The name of a sysctl: segments of `[-_a-z0-9]` joined by `.` or `/`.
pub(super) fn sysctl(text: &str) -> Faults {
    let is_inner = |byte| is_lower(byte) || byte == b'_';
    let is_valid = text.len() <= 253 && text.split(['.', '/']).all(|part| is_label(part, is_inner));
    faults(&[(
        !is_valid,
        "must be segments of lower case letters, digits and inner '-' and '_', joined by '.' or '/'",
    )])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of faults that Kubernetes reports for a text.
    #[test]
    fn every_fault_counts_as_kubernetes_counts_it() {
        let long = "a".repeat(64);
        assert_eq!(label(&long).len(), 1);
        assert_eq!(label(&format!("{long}_")).len(), 2);
        assert_eq!(label("").len(), 1);
        assert_eq!(qualified_name("").len(), 2, "empty, and not a name");
        assert_eq!(qualified_name("/a").len(), 1);
        assert_eq!(qualified_name("a b").len(), 1);
        assert_eq!(qualified_name("A/B").len(), 1);
        assert_eq!(qualified_name("a/b/c").len(), 1);
        assert_eq!(port_name("").len(), 2);
        assert_eq!(port_name("-1-").len(), 2);
        assert_eq!(port_name("http").len(), 0);
        assert_eq!(config_key("..").len(), 1);
        assert_eq!(unreserved_path("..").len(), 2);
        assert_eq!(unreserved_path("../a").len(), 1);
        assert_eq!(unreserved_path("/../a").len(), 2);
        assert_eq!(search_domain("_a.b_c").len(), 0);
        assert_eq!(ip("010.0.0.1").len(), 1);
        assert_eq!(ip("::ffff:1.2.3.4").len(), 1);
        assert_eq!(ip("fd00::1").len(), 0);
    }
}
