//! Validation of services.

use std::collections::BTreeSet;

use portcullis_apimachinery::field_error::FieldError;
use serde_json::Value;

use super::families;
use super::spec::{
    CLUSTER_IP, EXTERNAL_NAME, LOAD_BALANCER, NODE_PORT, is_external, is_headless, needs_health_port,
};
use crate::Map;
use crate::fields::{ErrorList, Errors, Members};
use crate::resources::addresses;
use crate::resources::formats::{dns_label, dns_subdomain, qualified_name};
use crate::resources::ports::{number_errors, number_or_name_errors, protocol_errors};
use crate::resources::scheduling::validate_labels;
use crate::schema::values;

/// The maximum timeout of session affinity, in seconds.
const MAX_AFFINITY_SECONDS: i64 = 86_400;
const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
/// The annotation that preceded `loadBalancerSourceRanges`.
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

pub(super) fn validate_update(service: &Map, old: &Map) -> Errors {
    let (spec, old_spec) = (service.object("spec"), old.object("spec"));
    let mut errors = families::change_errors(spec, old_spec);
    let is_balanced = |spec: &Map| spec.text("type") == LOAD_BALANCER;
    if is_balanced(spec)
        && is_balanced(old_spec)
        && spec.get("loadBalancerClass") != old_spec.get("loadBalancerClass")
    {
        let class = spec.text("loadBalancerClass");
        errors.push(FieldError::invalid("spec.loadBalancerClass", class, "may not change once set"));
    }
    errors.extend(class_errors(spec));
    if needs_health_port(spec)
        && needs_health_port(old_spec)
        && spec.number("healthCheckNodePort") != old_spec.number("healthCheckNodePort")
    {
        errors.push(FieldError::forbidden("spec.healthCheckNodePort", "field is immutable"));
    }
    errors.extend(validate(service));
    errors
}

pub(super) fn validate(service: &Map) -> Errors {
    let annotations = service.metadata().object("annotations");
    let spec = service.object("spec");
    let mut errors: Errors = topology_errors(annotations).into_iter().collect();
    let kind = spec.text("type");
    if spec.list("ports").is_empty() && !is_headless(spec) && kind != EXTERNAL_NAME {
        errors.push(FieldError::required("spec.ports", ""));
    }
    errors.extend(type_errors(spec));
    ports_errors(spec, &mut errors);
    errors.extend(validate_labels("spec.selector", spec.object("selector")));
    errors.extend(affinity_errors(spec));
    errors.extend(families::errors(spec));
    for (i, ip) in spec.texts("externalIPs").enumerate() {
        let field = format!("spec.externalIPs[{i}]");
        errors.extend(addresses::errors(&field, ip).or_else(|| addresses::special_errors(&field, ip)));
    }
    match kind {
        known if values::SERVICE_TYPES.contains(&known) => {}
        "" => errors.push(FieldError::required("spec.type", "")),
        kind => errors.push(FieldError::not_supported("spec.type", kind, values::SERVICE_TYPES)),
    }
    port_set_errors(spec, &mut errors);
    source_range_errors(spec, annotations, &mut errors);
    errors.extend(balancer_errors(spec));
    errors.extend(class_errors(spec));
    external_policy_errors(spec, &mut errors);
    errors.extend(internal_policy_errors(spec));
    match spec.text("trafficDistribution") {
        "PreferClose" | "PreferSameNode" | "PreferSameZone" => {}
        "" if !spec.has("trafficDistribution") => {}
        other => errors.push(FieldError::not_supported(
            "spec.trafficDistribution",
            other,
            &["PreferClose", "PreferSameNode", "PreferSameZone"],
        )),
    }
    errors
}

fn topology_errors(annotations: &Map) -> Option<FieldError> {
    let (mode, hints) = (annotations.get(TOPOLOGY_MODE)?, annotations.get(TOPOLOGY_HINTS)?);
    (mode != hints).then(|| {
        let field = format!("metadata.annotations[{TOPOLOGY_MODE}]");
        let detail = format!("must match annotations[{TOPOLOGY_HINTS}] when both are specified");
        FieldError::invalid(field, mode.as_str().unwrap_or_default(), detail)
    })
}

fn type_errors(spec: &Map) -> Errors {
    let kind = spec.text("type");
    match kind {
        LOAD_BALANCER | NODE_PORT if is_headless(spec) => {
            let detail = format!("may not be set to 'None' for {kind} services");
            Errors::from([FieldError::invalid("spec.clusterIPs[0]", "None", detail)])
        }
        EXTERNAL_NAME => external_name_errors(spec),
        _ => Errors::new(),
    }
}

fn external_name_errors(spec: &Map) -> Errors {
    let set = [
        ("spec.clusterIPs", !spec.list("clusterIPs").is_empty()),
        ("spec.ipFamilies", !spec.list("ipFamilies").is_empty()),
        ("spec.ipFamilyPolicy", spec.has("ipFamilyPolicy")),
    ];
    let mut errors: Errors = set
        .into_iter()
        .filter(|(_, is_set)| *is_set)
        .map(|(field, _)| FieldError::forbidden(field, "may not be set for ExternalName services"))
        .collect();
    let name = spec.text("externalName");
    // A fully qualified name may end in a dot.
    match name.strip_suffix('.').unwrap_or(name) {
        "" => errors.push(FieldError::required("spec.externalName", "")),
        name => errors.extend(dns_subdomain("spec.externalName", name)),
    }
    errors
}

fn ports_errors(spec: &Map, errors: &mut Errors) {
    let needs_name = spec.list("ports").len() > 1;
    let mut names = BTreeSet::new();
    for (i, port) in spec.objects("ports").enumerate() {
        let field = format!("spec.ports[{i}]");
        match port.text("name") {
            "" if needs_name => errors.push(FieldError::required(format!("{field}.name"), "")),
            "" => {}
            name => {
                errors.extend(dns_label(&format!("{field}.name"), name));
                errors.push_if(!names.insert(name), || FieldError::duplicate(format!("{field}.name"), name));
            }
        }
        errors.extend(number_errors(&format!("{field}.port"), port.number("port")));
        errors.extend(protocol_errors(&format!("{field}.protocol"), port.text("protocol")));
        let target = port.get("targetPort").unwrap_or(&Value::Null);
        errors.extend(number_or_name_errors(&format!("{field}.targetPort"), target));
        if let Some(Value::String(protocol)) = port.get("appProtocol") {
            errors.extend(qualified_name(&format!("{field}.appProtocol"), protocol));
        }
    }
}

/// Validates the combination of ports.
fn port_set_errors(spec: &Map, errors: &mut Errors) {
    let node_ports = || {
        spec.objects("ports").enumerate().filter(|(_, port)| port.number("nodePort") != 0).map(|(i, port)| {
            (format!("spec.ports[{i}].nodePort"), port.text("protocol"), port.number("nodePort"))
        })
    };
    if spec.text("type") == CLUSTER_IP {
        let detail = "may not be used when `type` is 'ClusterIP'";
        errors.extend(node_ports().map(|(field, _, _)| FieldError::forbidden(field, detail)));
    }
    let mut seen = BTreeSet::new();
    for (field, protocol, port) in node_ports() {
        errors.push_if(!seen.insert((protocol, port)), || FieldError::duplicate(field, port.to_string()));
    }
    let mut seen = BTreeSet::new();
    for (i, port) in spec.objects("ports").enumerate() {
        let (protocol, number) = (port.text("protocol"), port.number("port"));
        if !seen.insert((protocol, number)) {
            errors.push(FieldError::duplicate(format!("spec.ports[{i}]"), format!("{number}/{protocol}")));
        }
    }
}

fn affinity_errors(spec: &Map) -> Errors {
    let field = "spec.sessionAffinityConfig";
    match spec.text("sessionAffinity") {
        "None" if spec.has("sessionAffinityConfig") => {
            Errors::from([FieldError::forbidden(field, "must not be set when session affinity is None")])
        }
        "None" => Errors::new(),
        "ClientIP" => client_ip_error(field, spec).into_iter().collect(),
        "" => Errors::from([FieldError::required("spec.sessionAffinity", "")]),
        other => Errors::from([FieldError::not_supported(
            "spec.sessionAffinity",
            other,
            values::SESSION_AFFINITIES,
        )]),
    }
}

fn client_ip_error(field: &str, spec: &Map) -> Option<FieldError> {
    let config = spec.object("sessionAffinityConfig");
    let client_ip = config.object("clientIP");
    let missing = [
        (field.to_owned(), spec.has("sessionAffinityConfig")),
        (format!("{field}.clientIP"), config.has("clientIP")),
        (format!("{field}.clientIP.timeoutSeconds"), client_ip.has("timeoutSeconds")),
    ];
    if let Some((field, _)) = missing.into_iter().find(|(_, is_there)| !is_there) {
        return Some(FieldError::required(field, "when session affinity type is ClientIP"));
    }
    let seconds = client_ip.number("timeoutSeconds");
    (!(1..=MAX_AFFINITY_SECONDS).contains(&seconds)).then(|| {
        let field = format!("{field}.clientIP.timeoutSeconds");
        FieldError::invalid(field, seconds.to_string(), "must be greater than 0 and less than 86400")
    })
}

fn source_range_errors(spec: &Map, annotations: &Map, errors: &mut Errors) {
    let misplaced = |field: &str| {
        (spec.text("type") != LOAD_BALANCER)
            .then(|| FieldError::forbidden(field, "may only be used when `type` is 'LoadBalancer'"))
    };
    if !spec.list("loadBalancerSourceRanges").is_empty() {
        // Kubernetes reports this path.
        let field = "spec.LoadBalancerSourceRanges";
        errors.extend(misplaced(field));
        for (i, range) in spec.texts("loadBalancerSourceRanges").enumerate() {
            errors.extend(addresses::range_errors(&format!("{field}[{i}]"), range.trim()));
        }
    } else if annotations.contains_key(SOURCE_RANGES) {
        let field = format!("metadata.annotations[{SOURCE_RANGES}]");
        errors.extend(misplaced(&field));
        let ranges = annotations.text(SOURCE_RANGES).trim();
        if !ranges.is_empty() {
            errors
                .extend(ranges.split(',').filter_map(|range| addresses::range_errors(&field, range.trim())));
        }
    }
}

fn balancer_errors(spec: &Map) -> Option<FieldError> {
    match (spec.text("type") == LOAD_BALANCER, spec.has("allocateLoadBalancerNodePorts")) {
        (false, true) => Some(FieldError::forbidden(
            "spec.allocateLoadBalancerNodePorts",
            "may only be used when `type` is 'LoadBalancer'",
        )),
        // Kubernetes omits the start of this path.
        (true, false) => Some(FieldError::required("allocateLoadBalancerNodePorts", "")),
        _ => None,
    }
}

fn class_errors(spec: &Map) -> Errors {
    let field = "spec.loadBalancerClass";
    match spec.get("loadBalancerClass") {
        None | Some(Value::Null) => Errors::new(),
        Some(class) if spec.text("type") == LOAD_BALANCER => {
            qualified_name(field, class.as_str().unwrap_or_default())
        }
        Some(_) => {
            Errors::from([FieldError::forbidden(field, "may only be used when `type` is 'LoadBalancer'")])
        }
    }
}

fn external_policy_errors(spec: &Map, errors: &mut Errors) {
    let (field, policy) = ("spec.externalTrafficPolicy", spec.text("externalTrafficPolicy"));
    match (is_external(spec), policy) {
        (false, "") | (true, "Cluster" | "Local") => {}
        (true, "") => errors.push(FieldError::required(field, "")),
        (true, other) => errors.push(FieldError::not_supported(field, other, values::TRAFFIC_POLICIES)),
        (false, other) => {
            let detail = "may only be set for externally-accessible services";
            errors.push(FieldError::invalid(field, other, detail));
        }
    }
    let (field, port) = ("spec.healthCheckNodePort", spec.number("healthCheckNodePort"));
    match (needs_health_port(spec), port) {
        (false, 0) => {}
        (true, 0) => errors.push(FieldError::required(field, "")),
        (true, port) => errors.extend(number_errors(field, port)),
        (false, port) => {
            let detail =
                "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            errors.push(FieldError::invalid(field, port.to_string(), detail));
        }
    }
}

fn internal_policy_errors(spec: &Map) -> Option<FieldError> {
    let field = "spec.internalTrafficPolicy";
    match spec.text("internalTrafficPolicy") {
        "Cluster" | "Local" => None,
        "" if !spec.has("internalTrafficPolicy") => {
            let is_needed = matches!(spec.text("type"), CLUSTER_IP | NODE_PORT | LOAD_BALANCER);
            is_needed.then(|| FieldError::required(field, ""))
        }
        other => Some(FieldError::not_supported(field, other, values::TRAFFIC_POLICIES)),
    }
}
