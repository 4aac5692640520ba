//! Syntax of strings in pods. Each function returns all faults of a string: Kubernetes reports every fault as a
//! separate error, so their number matters.

use std::borrow::Cow;

use portcullis_apimachinery::names::Faults;

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

/// A DNS subdomain whose labels may contain `_`, also at the start.
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

/// The name of an environment variable: printable ASCII characters except `=`.
pub(super) fn env_name(text: &str) -> Faults {
    let is_allowed = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'=';
    faults(&[
        (text.is_empty(), "must not be empty"),
        (!text.bytes().all(is_allowed), "must consist of printable ASCII characters other than '='"),
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
    // A bare `..` has two faults: a parent reference, and a reserved prefix.
    wrong.extend(faults(&[(is_reserved, "must not begin with '..'")]));
    wrong
}

/// An IP address in canonical form: no leading zeros, no IPv4-mapped IPv6 address.
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
        assert_eq!(port_name("").len(), 2);
        assert_eq!(port_name("-1-").len(), 2);
        assert_eq!(port_name("http").len(), 0);
        assert_eq!(unreserved_path("..").len(), 2);
        assert_eq!(unreserved_path("../a").len(), 1);
        assert_eq!(unreserved_path("/../a").len(), 2);
        assert_eq!(search_domain("_a.b_c").len(), 0);
        assert_eq!(ip("010.0.0.1").len(), 1);
        assert_eq!(ip("::ffff:1.2.3.4").len(), 1);
        assert_eq!(ip("fd00::1").len(), 0);
    }
}
