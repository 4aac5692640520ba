//! IP addresses.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::fields::{Errors, Field};
use crate::resources::pods::syntax;

/// An address that is valid, or that the old object had already.
pub(in crate::resources::pods) fn address(
    field: &Field<'_>,
    text: &str,
    kept: &BTreeSet<String>,
    errors: &mut Errors,
) {
    if !kept.contains(text) {
        errors.extend(syntax::ip(text).into_iter().map(|fault| field.invalid(fault)));
    }
}

/// Returns whether there is at most one address of each family.
pub(in crate::resources::pods) fn are_of_two_families(addresses: &[&str]) -> bool {
    let families: Vec<bool> =
        addresses.iter().filter_map(|text| text.parse::<IpAddr>().ok()).map(|ip| ip.is_ipv4()).collect();
    addresses.len() == 2 && matches!(families.as_slice(), [a, b] if a != b)
}
