//! Prepares services before validation: sets and keeps server-managed fields.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::spec::{EXTERNAL_NAME, LOAD_BALANCER, needs_health_port, needs_node_ports};
use crate::Map;
use crate::fields::Members;

/// AP-30: drops the status. Sets `clusterIPs` for clients that only know `clusterIP`.
pub(super) fn prepare_create(service: &mut Map) {
    service.insert("status".to_owned(), json!({ "loadBalancer": {} }));
    let Some(spec) = service.object_or_new("spec") else { return };
    let ip = spec.text("clusterIP");
    if !ip.is_empty() && spec.list("clusterIPs").is_empty() {
        let ips = json!([ip]);
        spec.insert("clusterIPs".to_owned(), ips);
    }
    drop_internal_policy(service);
}

/// Keeps allocated values unless the client changes them, and drops those that the new type does not use.
pub(super) fn prepare_update(service: &mut Map, old: &Map) {
    service.copy("status", old);
    let old_spec = old.object("spec");
    if let Some(spec) = service.object_or_new("spec") {
        keep_allocated(spec, old_spec);
        match_addresses(spec, old_spec);
        drop_unused(spec, old_spec);
    }
    if service.object("spec").text("type") != LOAD_BALANCER
        && let Some(status) = service.object_or_new("status")
    {
        status.insert("loadBalancer".to_owned(), json!({}));
    }
    drop_internal_policy(service);
}

pub(super) fn prepare_status(service: &mut Map, old: &Map) {
    service.copy("spec", old);
}

/// An ExternalName service has no internal traffic policy.
fn drop_internal_policy(service: &mut Map) {
    let Some(spec) = service.object_or_new("spec") else { return };
    let is_known = matches!(spec.text("internalTrafficPolicy"), "Cluster" | "Local");
    if spec.text("type") == EXTERNAL_NAME && is_known {
        spec.remove("internalTrafficPolicy");
    }
}

/// Restores allocated values that the client omits.
fn keep_allocated(spec: &mut Map, old: &Map) {
    let needs_address = |spec: &Map| spec.text("type") != EXTERNAL_NAME;
    if needs_address(old) && needs_address(spec) {
        if spec.text("clusterIP").is_empty() {
            spec.copy("clusterIP", old);
        }
        if spec.list("clusterIPs").is_empty() {
            spec.copy("clusterIPs", old);
        }
    }
    if needs_node_ports(old) && needs_node_ports(spec) {
        keep_node_ports(spec, old);
    }
    if needs_health_port(old) && needs_health_port(spec) && spec.number("healthCheckNodePort") == 0 {
        spec.copy("healthCheckNodePort", old);
    }
}

/// A port keeps the node port of the old port with the same name, unless another one uses it.
fn keep_node_ports(spec: &mut Map, old: &Map) {
    let used = |spec: &Map| -> BTreeSet<i64> {
        spec.objects("ports").map(|port| port.number("nodePort")).filter(|port| *port != 0).collect()
    };
    let (was, is) = (used(old), used(spec));
    let by_name: BTreeMap<&str, i64> =
        old.objects("ports").map(|port| (port.text("name"), port.number("nodePort"))).collect();
    for port in spec.objects_mut("ports") {
        if port.number("nodePort") != 0 {
            continue;
        }
        let before = by_name.get(port.text("name")).copied().unwrap_or_default();
        let is_free = !(was.contains(&before) && is.contains(&before));
        if before != 0 && is_free {
            port.insert("nodePort".to_owned(), Value::from(before));
        }
    }
}

/// Updates `clusterIPs` for a client that only knows `clusterIP` and changes it.
fn match_addresses(spec: &mut Map, old: &Map) {
    let (ip, was) = (spec.text("clusterIP"), old.text("clusterIP"));
    if spec.list("clusterIPs").is_empty() && ip == was {
        spec.copy("clusterIPs", old);
        return;
    }
    if ip == was || spec.list("clusterIPs") != old.list("clusterIPs") {
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
    let (kind, old_kind) = (spec.text("type").to_owned(), old.text("type"));
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
        spec.objects("ports").map(|port| port.number("nodePort")).filter(|port| *port != 0).collect()
    };
    if needs_node_ports(old) && !needs_node_ports(spec) && node_ports(old).is_superset(&node_ports(spec)) {
        spec.objects_mut("ports").for_each(|port| {
            port.remove("nodePort");
        });
    }
    if needs_health_port(old) && !needs_health_port(spec) && is_same(spec, "healthCheckNodePort") {
        spec.remove("healthCheckNodePort");
    }
    if old_kind == LOAD_BALANCER && kind != LOAD_BALANCER {
        for member in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if spec.has(member) && is_same(spec, member) {
                spec.remove(member);
            }
        }
    }
    if needs_node_ports(old) && !needs_node_ports(spec) && is_same(spec, "externalTrafficPolicy") {
        spec.remove("externalTrafficPolicy");
    }
}
