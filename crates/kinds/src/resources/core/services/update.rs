//! Prepares services before validation: sets and keeps server-managed fields.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::families::fill_in;
use super::spec::{EXTERNAL_NAME, LOAD_BALANCER, needs_health_port, needs_node_ports};
use crate::Map;
use crate::resources::fields::{
    is_present, keep, list, number, object, object_mut, objects, objects_mut, text,
};

/// AP-30: drops the status. Sets `clusterIPs` for clients that only know `clusterIP`.
pub(super) fn prepare_create(service: &mut Map) {
    service.insert("status".to_owned(), json!({ "loadBalancer": {} }));
    let Some(spec) = object_mut(service, "spec") else { return };
    let ip = text(spec, "clusterIP");
    if !ip.is_empty() && list(spec, "clusterIPs").is_empty() {
        let ips = json!([ip]);
        spec.insert("clusterIPs".to_owned(), ips);
    }
    // Inconsistent fields are reported when addresses are allocated.
    let _ = fill_in(service, None);
    drop_internal_policy(service);
}

/// Keeps allocated values unless the client changes them, and drops those that the new type does not use.
pub(super) fn prepare_update(service: &mut Map, old: &Map) {
    keep(service, old, "status");
    let old_spec = object(old, "spec");
    if let Some(spec) = object_mut(service, "spec") {
        keep_allocated(spec, old_spec);
        match_addresses(spec, old_spec);
    }
    // Inconsistent fields are reported when addresses are allocated.
    let _ = fill_in(service, Some(old));
    if let Some(spec) = object_mut(service, "spec") {
        drop_unused(spec, old_spec);
    }
    if text(object(service, "spec"), "type") != LOAD_BALANCER
        && let Some(status) = object_mut(service, "status")
    {
        status.insert("loadBalancer".to_owned(), json!({}));
    }
    drop_internal_policy(service);
}

pub(super) fn prepare_status(service: &mut Map, old: &Map) {
    keep(service, old, "spec");
}

/// An ExternalName service has no internal traffic policy.
fn drop_internal_policy(service: &mut Map) {
    let Some(spec) = object_mut(service, "spec") else { return };
    let is_known = matches!(text(spec, "internalTrafficPolicy"), "Cluster" | "Local");
    if text(spec, "type") == EXTERNAL_NAME && is_known {
        spec.remove("internalTrafficPolicy");
    }
}

/// Restores allocated values that the client omits.
fn keep_allocated(spec: &mut Map, old: &Map) {
    let needs_address = |spec: &Map| text(spec, "type") != EXTERNAL_NAME;
    if needs_address(old) && needs_address(spec) {
        if text(spec, "clusterIP").is_empty() {
            keep(spec, old, "clusterIP");
        }
        if list(spec, "clusterIPs").is_empty() {
            keep(spec, old, "clusterIPs");
        }
    }
    if needs_node_ports(old) && needs_node_ports(spec) {
        keep_node_ports(spec, old);
    }
    if needs_health_port(old) && needs_health_port(spec) && number(spec, "healthCheckNodePort") == 0 {
        keep(spec, old, "healthCheckNodePort");
    }
}

/// A port keeps the node port of the old port with the same name, unless another one uses it.
fn keep_node_ports(spec: &mut Map, old: &Map) {
    let used = |spec: &Map| -> BTreeSet<i64> {
        objects(spec, "ports").map(|port| number(port, "nodePort")).filter(|port| *port != 0).collect()
    };
    let (was, is) = (used(old), used(spec));
    let by_name: BTreeMap<&str, i64> =
        objects(old, "ports").map(|port| (text(port, "name"), number(port, "nodePort"))).collect();
    for port in objects_mut(spec, "ports") {
        if number(port, "nodePort") != 0 {
            continue;
        }
        let before = by_name.get(text(port, "name")).copied().unwrap_or_default();
        let is_free = !(was.contains(&before) && is.contains(&before));
        if before != 0 && is_free {
            port.insert("nodePort".to_owned(), Value::from(before));
        }
    }
}

/// Updates `clusterIPs` for a client that only knows `clusterIP` and changes it.
fn match_addresses(spec: &mut Map, old: &Map) {
    let (ip, was) = (text(spec, "clusterIP"), text(old, "clusterIP"));
    if list(spec, "clusterIPs").is_empty() && ip == was {
        keep(spec, old, "clusterIPs");
        return;
    }
    if ip == was || list(spec, "clusterIPs") != list(old, "clusterIPs") {
        return;
    }
    if ip.is_empty() {
        spec.remove("clusterIPs");
        return;
    }
    let ips = json!([ip]);
    spec.insert("clusterIPs".to_owned(), ips);
}

/// Drops values that the new type does not use, if the client has not changed them.
fn drop_unused(spec: &mut Map, old: &Map) {
    let is_same = |spec: &Map, member: &str| spec.get(member) == old.get(member);
    let (kind, old_kind) = (text(spec, "type").to_owned(), text(old, "type"));
    if old_kind != EXTERNAL_NAME && kind == EXTERNAL_NAME {
        if is_same(spec, "clusterIP") && is_same(spec, "clusterIPs") {
            spec.remove("clusterIP");
            spec.remove("clusterIPs");
        }
        for member in ["ipFamilies", "ipFamilyPolicy"] {
            if is_same(spec, member) {
                spec.remove(member);
            }
        }
    }
    let node_ports = |spec: &Map| -> BTreeSet<i64> {
        objects(spec, "ports").map(|port| number(port, "nodePort")).filter(|port| *port != 0).collect()
    };
    if needs_node_ports(old) && !needs_node_ports(spec) && node_ports(old).is_superset(&node_ports(spec)) {
        objects_mut(spec, "ports").for_each(|port| {
            port.remove("nodePort");
        });
    }
    if needs_health_port(old) && !needs_health_port(spec) && is_same(spec, "healthCheckNodePort") {
        spec.remove("healthCheckNodePort");
    }
    if old_kind == LOAD_BALANCER && kind != LOAD_BALANCER {
        for member in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if is_present(spec, member) && is_same(spec, member) {
                spec.remove(member);
            }
        }
    }
    if needs_node_ports(old) && !needs_node_ports(spec) && is_same(spec, "externalTrafficPolicy") {
        spec.remove("externalTrafficPolicy");
    }
}
