//! EndpointSlices: the endpoint addresses of a service.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::quote::quoted;
use serde_json::Value;

use super::cells::{AGE, NAME, age, name, text_column};
use super::formats::{dns_label, dns_subdomain, domain_name, immutable, label_value, one_of, qualified_name};
use super::scheduling::validate_labels;
use crate::Map;
use crate::fields::{ErrorList, Errors, Members, begin_generation, raise_generation};
use crate::resource::{MetadataChecks, Resource};
use crate::schema::discovery::ENDPOINT_SLICE;
use crate::schema::values;
use crate::table::{Column, Row};

/// The row of EndpointSlices.
pub static ENDPOINT_SLICES: Resource = Resource {
    group: "discovery.k8s.io",
    kind: "EndpointSlice",
    plural: "endpointslices",
    schema: &ENDPOINT_SLICE,
    metadata_checks: MetadataChecks { alone: 1, as_update: 0, knows_finalizers: true },
    default,
    prepare_create: |slice| {
        drop_topology(slice);
        begin_generation(slice);
    },
    validate_create: |slice| validate(slice, None),
    prepare_update,
    validate_update: |slice, old| {
        let mut errors = validate(slice, Some(old));
        errors.extend(immutable("addressType", slice.text("addressType"), old.text("addressType")));
        errors
    },
    columns: COLUMNS,
    row,
    ..Resource::USUAL
};

const COLUMNS: &[Column] = &[
    NAME,
    text_column("AddressType", "Of which family the addresses are."),
    text_column("Ports", "The ports that each address serves."),
    text_column("Endpoints", "The addresses."),
    AGE,
];

const MAX_ENDPOINTS: usize = 1000;
const MAX_ADDRESSES: usize = 100;
const MAX_PORTS: usize = 20_000;
const MAX_HINTS: usize = 8;

/// AP-136, and the table of section 12.
fn default(slice: &mut Map) {
    for port in slice.objects_mut("ports") {
        port.default_value("name", "");
        port.default_text("protocol", "TCP");
    }
    slice.empty_to_null("endpoints");
    slice.empty_to_null("ports");
}

/// The topology of old API versions can no longer be set.
fn drop_topology(slice: &mut Map) {
    slice.objects_mut("endpoints").for_each(|endpoint| drop(endpoint.remove("deprecatedTopology")));
}

/// The generation counts changes of the slice and of its labels.
fn prepare_update(slice: &mut Map, old: &Map) {
    drop_topology(slice);
    let is_content = |(name, _): &(&String, &Value)| name.as_str() != "metadata";
    let has_changed = !slice.iter().filter(is_content).eq(old.iter().filter(is_content))
        || slice.metadata().object("labels") != old.metadata().object("labels");
    raise_generation(slice, old, has_changed);
}

/// Unchanged endpoints are not validated again, because they may predate stricter rules.
fn validate(slice: &Map, old: Option<&Map>) -> Errors {
    let mut errors = Errors::new();
    match slice.text("addressType") {
        "" => errors.push(FieldError::required("addressType", "")),
        value => errors.extend(one_of("addressType", value, values::ADDRESS_TYPES)),
    }
    if old.is_none_or(|old| old.list("endpoints") != slice.list("endpoints")) {
        errors.extend(validate_endpoints(slice));
    }
    match slice.list("ports").len() {
        0..=MAX_PORTS => validate_ports(slice, &mut errors),
        count => errors.push(FieldError::too_many("ports", count, MAX_PORTS)),
    }
    errors
}

fn validate_endpoints(slice: &Map) -> Errors {
    let count = slice.list("endpoints").len();
    if count > MAX_ENDPOINTS {
        return Errors::from([FieldError::too_many("endpoints", count, MAX_ENDPOINTS)]);
    }
    let address_type = slice.text("addressType");
    let endpoints = slice.objects("endpoints").enumerate();
    endpoints
        .flat_map(|(i, endpoint)| validate_endpoint(&format!("endpoints[{i}]"), endpoint, address_type))
        .collect()
}

fn validate_endpoint(field: &str, endpoint: &Map, address_type: &str) -> Errors {
    let addresses = format!("{field}.addresses");
    let mut errors = Errors::new();
    match endpoint.list("addresses").len() {
        0 => errors.push(FieldError::required(&addresses, "must contain at least 1 address")),
        1..=MAX_ADDRESSES => {}
        count => errors.push(FieldError::too_many(&addresses, count, MAX_ADDRESSES)),
    }
    for (i, address) in endpoint.texts("addresses").enumerate() {
        let at_address = format!("{addresses}[{i}]");
        match address_type {
            "IPv4" | "IPv6" => validate_ip(&addresses, &at_address, address, address_type, &mut errors),
            "FQDN" => errors.extend(domain_name(&at_address, address)),
            _ => {}
        }
    }
    if endpoint.has("nodeName") {
        errors.extend(dns_subdomain(&format!("{field}.nodeName"), endpoint.text("nodeName")));
    }
    let topology = endpoint.object("deprecatedTopology");
    errors.extend(validate_labels(&format!("{field}.deprecatedTopology"), topology));
    if endpoint.has("hostname") {
        errors.extend(dns_label(&format!("{field}.hostname"), endpoint.text("hostname")));
    }
    let hints = endpoint.object("hints");
    validate_hints(&format!("{field}.hints.forZones"), hints, "forZones", label_value, &mut errors);
    validate_hints(&format!("{field}.hints.forNodes"), hints, "forNodes", dns_subdomain, &mut errors);
    errors
}

/// An address of the wrong family is an error of the list; any other error is one of the address.
fn validate_ip(addresses: &str, field: &str, address: &str, family: &str, errors: &mut Errors) {
    let Some(ip) = address.parse::<IpAddr>().ok().filter(|ip| !is_mapped(ip)) else {
        let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        errors.push(FieldError::invalid(field, quoted(address), detail));
        return;
    };
    if ip.is_ipv4() != (family == "IPv4") {
        errors.push(FieldError::invalid(addresses, quoted(address), format!("must be an {family} address")));
    }
    errors.extend(special(&ip).map(|detail| FieldError::invalid(field, quoted(address), detail)));
}

/// Returns whether this is an IPv4-mapped IPv6 address, which software interprets inconsistently.
fn is_mapped(ip: &IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some())
}

/// Returns why an address cannot be that of an endpoint: it is unspecified, loopback or link-local.
fn special(ip: &IpAddr) -> Option<&'static str> {
    const LOCAL_V4: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 0);
    const LOCAL_V6: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0);
    let (is_link_local, is_link_local_multicast) = match ip {
        IpAddr::V4(ip) => (ip.is_link_local(), ip.to_bits() >> 8 == LOCAL_V4.to_bits() >> 8),
        IpAddr::V6(ip) => {
            (ip.is_unicast_link_local(), ip.to_bits() >> 112 & 0xff0f == LOCAL_V6.to_bits() >> 112 & 0xff0f)
        }
    };
    if ip.is_unspecified() {
        return Some("may not be unspecified");
    }
    if ip.is_loopback() {
        return Some("may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    if is_link_local {
        return Some("may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    is_link_local_multicast
        .then_some("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
}

fn validate_hints(
    field: &str,
    hints: &Map,
    kind: &str,
    check: fn(&str, &str) -> Errors,
    errors: &mut Errors,
) {
    let count = hints.list(kind).len();
    if count > MAX_HINTS {
        errors.push(FieldError::too_many(field, count, MAX_HINTS));
        return;
    }
    let mut names = BTreeSet::new();
    for (i, hint) in hints.objects(kind).enumerate() {
        let (field, hinted) = (format!("{field}[{i}].name"), hint.text("name"));
        errors.push_if(!names.insert(hinted), || FieldError::duplicate(&field, quoted(hinted)));
        errors.extend(check(&field, hinted));
    }
}

fn validate_ports(slice: &Map, errors: &mut Errors) {
    let mut names = BTreeSet::new();
    for (i, port) in slice.objects("ports").enumerate() {
        let field = format!("ports[{i}]");
        let (at_name, port_name) = (format!("{field}.name"), port.text("name"));
        if !port_name.is_empty() {
            errors.extend(dns_label(&at_name, port_name));
        }
        errors.push_if(!names.insert(port_name), || FieldError::duplicate(at_name, quoted(port_name)));
        errors.extend(one_of(&format!("{field}.protocol"), port.text("protocol"), values::PROTOCOLS));
        if port.has("appProtocol") {
            errors.extend(qualified_name(&format!("{field}.appProtocol"), port.text("appProtocol")));
        }
    }
}

/// AP-92.
fn row(slice: &Map, now: i64) -> Row {
    let ports = slice.objects("ports").map(|port| match port.get("port").and_then(Value::as_i64) {
        Some(number) => number.to_string(),
        None if port.has("name") => port.text("name").to_owned(),
        None => "*".to_owned(),
    });
    let addresses =
        slice.objects("endpoints").flat_map(|endpoint| endpoint.texts("addresses")).map(str::to_owned);
    Row::of(vec![
        name(slice),
        Value::from(slice.text("addressType")),
        Value::from(first_three(ports)),
        Value::from(first_three(addresses)),
        age(slice, now),
    ])
}

fn first_three(entries: impl Iterator<Item = String>) -> String {
    let entries: Vec<String> = entries.collect();
    let shown: Vec<&str> = entries.iter().take(3).map(String::as_str).collect();
    match (shown.join(","), entries.len()) {
        (shown, 4..) => format!("{shown} + {} more...", entries.len() - 3),
        (shown, _) if shown.is_empty() => "<unset>".to_owned(),
        (shown, _) => shown,
    }
}
