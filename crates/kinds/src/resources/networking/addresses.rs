//! ServiceCIDRs, the ranges from which services get addresses, and IPAddresses, the addresses that are taken.

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::names::NameRule;
use portcullis_apimachinery::quote::quoted;
use serde_json::Value;

use super::USUAL;
use crate::Map;
use crate::fields::{ErrorList, Errors, Members};
use crate::resource::{Resource, Subresource};
use crate::resources::addresses::{is_ipv6_range, parse, range_errors};
use crate::resources::cells::{AGE, NAME, age, name, text_column};
use crate::resources::formats::immutable;
use crate::resources::status;
use crate::schema::networking::{IP_ADDRESS, SERVICE_CIDR, SERVICE_CIDR_STATUS};
use crate::table::Row;

/// The row of IPAddresses.
pub static IP_ADDRESSES: Resource = Resource {
    kind: "IPAddress",
    plural: "ipaddresses",
    short_names: &["ip"],
    is_namespaced: false,
    schema: &IP_ADDRESS,
    // Validation says more: the name is an address.
    names: NameRule::PathSegment,
    validate_create: validate_address,
    validate_update: |address, old| {
        let mut errors = validate_parent(address);
        let parent = |address: &Map| address.object("spec").get("parentRef").cloned();
        errors.extend(immutable("spec.parentRef", parent(address), parent(old)));
        errors
    },
    columns: &[NAME, text_column("ParentRef", "What has the address."), AGE],
    row: |address, now| {
        let parent = address.object("spec").object("parentRef");
        let parts = ["group", "resource", "namespace", "name"].map(|member| parent.text(member));
        let shown = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/");
        Row::of(vec![name(address), Value::from(shown), age(address, now)])
    },
    ..USUAL
};

/// The row of ServiceCIDRs.
pub static SERVICE_CIDRS: Resource = Resource {
    kind: "ServiceCIDR",
    plural: "servicecidrs",
    is_namespaced: false,
    subresources: &[Subresource::status("ServiceCIDR")],
    schema: &SERVICE_CIDR,
    prepare_create: |range| status::reset(range, &SERVICE_CIDR_STATUS),
    validate_create: validate_ranges,
    prepare_update: |range, old| range.copy("status", old),
    validate_update: |range, old| {
        let ranges = |range: &Map| range.object("spec").get("cidrs").cloned();
        immutable("spec.cidrs", ranges(range), ranges(old)).into_iter().collect()
    },
    prepare_status: status::keep_spec,
    columns: &[NAME, text_column("CIDRs", "The ranges."), AGE],
    row: |range, now| {
        let ranges = range.object("spec").texts("cidrs").collect::<Vec<_>>().join(",");
        Row::of(vec![name(range), Value::from(ranges), age(range, now)])
    },
    ..USUAL
};

fn validate_address(address: &Map) -> Errors {
    let name = address.metadata().text("name");
    let mut errors = validate_parent(address);
    errors.push_if(parse(name).is_none_or(|address| address.to_string() != name), || {
        FieldError::invalid("metadata.name", quoted(name), "must be a valid IP address in canonical form")
    });
    errors
}

fn validate_parent(address: &Map) -> Errors {
    let field = "spec.parentRef";
    let Some(parent) = address.object("spec").object_if_set("parentRef") else {
        return Errors::from([FieldError::required(field, "")]);
    };
    let missing = ["resource", "name"].into_iter().filter(|member| parent.text(member).is_empty());
    missing.map(|member| FieldError::required(format!("{field}.{member}"), "")).collect()
}

fn validate_ranges(range: &Map) -> Errors {
    let ranges: Vec<&str> = range.object("spec").texts("cidrs").collect();
    let field = "spec.cidrs";
    match ranges.as_slice() {
        [] => Errors::from([FieldError::required(field, "at least one CIDR required")]),
        [first, second] if is_ipv6_range(first) == is_ipv6_range(second) => {
            let detail =
                "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/96";
            Errors::from([FieldError::invalid(field, ranges.join(","), detail)])
        }
        [_] | [_, _] => {
            let errors = ranges.iter().enumerate();
            errors.filter_map(|(i, range)| range_errors(&format!("{field}[{i}]"), range)).collect()
        }
        many => Errors::from([FieldError::too_many(field, many.len(), 2)]),
    }
}
