//! Syntax of IP addresses and CIDR ranges. Addresses must be canonical: no leading zeros, and no IPv4-mapped IPv6
//! addresses. Stored values have been validated, so updates need no exception for old values.

use std::net::IpAddr;

use portcullis_apimachinery::field_error::FieldError;

/// Parses an IP address in canonical form.
pub(super) fn parse(text: &str) -> Option<IpAddr> {
    let address: IpAddr = text.parse().ok()?;
    match address {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => None,
        address => Some(address),
    }
}

/// Validates an IP address.
pub(super) fn errors(field: &str, text: &str) -> Option<FieldError> {
    let detail = "must be a valid IP address without leading zeros, (e.g. 10.9.8.7 or 2001:db8::ffff)";
    parse(text).is_none().then(|| FieldError::invalid(field, text, detail))
}

/// Validates the IP address of an endpoint: it must not be unspecified, loopback or link-local.
pub(super) fn special_errors(field: &str, text: &str) -> Option<FieldError> {
    let invalid = |detail: &str| Some(FieldError::invalid(field, text, detail));
    let Ok(address) = text.parse::<IpAddr>() else { return invalid("must be a valid IP address") };
    let address = address.to_canonical();
    let (is_link_local, is_link_local_multicast) = match address {
        IpAddr::V4(v4) => (v4.is_link_local(), matches!(v4.octets(), [224, 0, 0, _])),
        IpAddr::V6(v6) => {
            (v6.is_unicast_link_local(), v6.segments().first().is_some_and(|s| s & 0xff0f == 0xff02))
        }
    };
    if address.is_unspecified() {
        return invalid("may not be unspecified");
    }
    if address.is_loopback() {
        return invalid("may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    if is_link_local {
        return invalid("may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    if is_link_local_multicast {
        return invalid("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
    }
    None
}

/// Parses a range such as `10.1.0.0/24`, without bits beyond its prefix, into its address and prefix length.
pub(super) fn parse_range(text: &str) -> Option<(IpAddr, u32)> {
    let (address, length) = text.split_once('/')?;
    let address = parse(address)?;
    let is_number = !length.is_empty() && length.bytes().all(|c| c.is_ascii_digit());
    if !is_number || (length.len() > 1 && length.starts_with('0')) {
        return None;
    }
    let length: u32 = length.parse().ok()?;
    let (bits, size) = match address {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()), 32),
        IpAddr::V6(v6) => (v6.to_bits(), 128),
    };
    let rest = size - size.min(length);
    let has_no_more_bits = rest == 128 && bits == 0 || rest < 128 && bits & ((1 << rest) - 1) == 0;
    (length <= size && has_no_more_bits).then_some((address, length))
}

/// Returns whether a range is IPv6, even if it is not in canonical form; `None` if it is not a range.
pub(super) fn is_ipv6_range(text: &str) -> Option<bool> {
    let (address, length) = text.split_once('/')?;
    let is_number = !length.is_empty() && length.bytes().all(|c| c.is_ascii_digit());
    let length: u32 = length.parse().ok().filter(|_| is_number)?;
    let address: IpAddr = without_leading_zeros(address).parse().ok()?;
    let size = if address.is_ipv6() { 128 } else { 32 };
    (length <= size).then(|| address.to_canonical().is_ipv6())
}

/// Removes leading zeros from an IPv4 address; any other text is unchanged.
fn without_leading_zeros(address: &str) -> String {
    let octets: Vec<&str> = address.split('.').collect();
    let is_v4 = octets.len() == 4 && octets.iter().all(|it| it.bytes().all(|c| c.is_ascii_digit()));
    if !is_v4 {
        return address.to_owned();
    }
    let short = |octet: &&str| match octet.trim_start_matches('0') {
        "" if !octet.is_empty() => "0".to_owned(),
        rest => rest.to_owned(),
    };
    octets.iter().map(short).collect::<Vec<_>>().join(".")
}

/// Validates a CIDR range.
pub(super) fn range_errors(field: &str, text: &str) -> Option<FieldError> {
    let detail = "must be a valid CIDR value without leading zeros or bits beyond the prefix length, (e.g. \
        10.9.8.0/24 or 2001:db8::/64)";
    parse_range(text).is_none().then(|| FieldError::invalid(field, text, detail))
}
