//! Services: one address for many pods.

mod allocation;
mod families;
mod status;
mod update;
mod validation;

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::{Value, json};

pub use self::allocation::{AllocationError, FreePool, Pool, allocate};
use super::nodes::PROXY_VERBS;
use crate::Map;
use crate::resource::{NameRule, Resource, Selectable, Subresource};
use crate::resources::cells::{AGE, NAME, age, name, text_column, wide_column};
use crate::resources::fields::{
    default_text, is_present, list, number, object, object_mut, objects, objects_mut, text, texts,
};
use crate::schema;
use crate::table::{Column, NONE, Row, UNKNOWN};

/// The row of Services. Before an object is validated it needs [`allocate`].
pub static SERVICES: Resource = Resource {
    kind: "Service",
    plural: "services",
    short_names: &["svc"],
    categories: &["all"],
    subresources: &[
        Subresource {
            name: "proxy",
            kind: "ServiceProxyOptions",
            group: None,
            version: None,
            verbs: PROXY_VERBS,
        },
        Subresource::status("Service"),
    ],
    schema: &schema::core::service::SERVICE,
    // The name is a label of the cluster's DNS.
    names: NameRule::Label,
    selectable: &[
        Selectable { name: "spec.clusterIP", value: |service| of_spec(service, "clusterIP") },
        Selectable { name: "spec.type", value: |service| of_spec(service, "type") },
    ],
    deletes_to_object: true,
    creates_on_update: true,
    default,
    prepare_create: update::prepare_create,
    validate_create: validation::validate,
    prepare_update: update::prepare_update,
    validate_update: validation::validate_update,
    prepare_status: update::prepare_status,
    validate_status: |service, _| status::validate(service),
    columns: COLUMNS,
    row,
    ..Resource::USUAL
};

const CLUSTER_IP: &str = "ClusterIP";
const NODE_PORT: &str = "NodePort";
const LOAD_BALANCER: &str = "LoadBalancer";
const EXTERNAL_NAME: &str = "ExternalName";
/// The address of a service that has none.
const HEADLESS: &str = "None";
/// How long a client stays with a pod, in seconds, unless it is said.
const AFFINITY_SECONDS: i64 = 10_800;

fn of_spec<'a>(service: &'a Map, member: &str) -> Cow<'a, str> {
    Cow::Borrowed(text(object(service, "spec"), member))
}

/// Whether clients outside the cluster reach the service.
fn is_external(spec: &Map) -> bool {
    match text(spec, "type") {
        LOAD_BALANCER | NODE_PORT => true,
        CLUSTER_IP => !list(spec, "externalIPs").is_empty(),
        _ => false,
    }
}

/// Whether the service has a port on which nodes tell that they have pods of it.
fn needs_health_port(spec: &Map) -> bool {
    text(spec, "type") == LOAD_BALANCER && text(spec, "externalTrafficPolicy") == "Local"
}

/// Whether the ports of the service are also ports of the nodes.
fn needs_node_ports(spec: &Map) -> bool {
    matches!(text(spec, "type"), NODE_PORT | LOAD_BALANCER)
}

/// Whether the service has no address of its own.
fn is_headless(spec: &Map) -> bool {
    texts(spec, "clusterIPs").eq([HEADLESS])
}

fn default(service: &mut Map) {
    if let Some(spec) = object_mut(service, "spec") {
        default_spec(spec);
    }
    let has_balancer = text(object(service, "spec"), "type") == LOAD_BALANCER;
    let balancer = object_mut(service, "status").and_then(|status| object_mut(status, "loadBalancer"));
    let Some(balancer) = balancer.filter(|_| has_balancer) else { return };
    for ingress in objects_mut(balancer, "ingress") {
        if !text(ingress, "ip").is_empty() && !is_present(ingress, "ipMode") {
            ingress.insert("ipMode".to_owned(), Value::from("VIP"));
        }
    }
}

fn default_spec(spec: &mut Map) {
    default_text(spec, "sessionAffinity", "None");
    match text(spec, "sessionAffinity") {
        "None" => {
            spec.remove("sessionAffinityConfig");
        }
        "ClientIP"
            if !is_present(object(object(spec, "sessionAffinityConfig"), "clientIP"), "timeoutSeconds") =>
        {
            let config = json!({ "clientIP": { "timeoutSeconds": AFFINITY_SECONDS } });
            spec.insert("sessionAffinityConfig".to_owned(), config);
        }
        _ => {}
    }
    default_text(spec, "type", CLUSTER_IP);
    for port in objects_mut(spec, "ports") {
        default_text(port, "protocol", "TCP");
        let target = port.get("targetPort").unwrap_or(&Value::Null);
        if target.is_null() || *target == json!(0) || *target == json!("") {
            let number = number(port, "port");
            port.insert("targetPort".to_owned(), Value::from(number));
        }
    }
    if is_external(spec) {
        default_text(spec, "externalTrafficPolicy", "Cluster");
    }
    let kind = text(spec, "type");
    let (has_address, has_balancer) =
        (matches!(kind, CLUSTER_IP | NODE_PORT | LOAD_BALANCER), kind == LOAD_BALANCER);
    if has_address && !is_present(spec, "internalTrafficPolicy") {
        spec.insert("internalTrafficPolicy".to_owned(), Value::from("Cluster"));
    }
    if has_balancer && !is_present(spec, "allocateLoadBalancerNodePorts") {
        spec.insert("allocateLoadBalancerNodePorts".to_owned(), Value::from(true));
    }
}

const COLUMNS: &[Column] = &[
    NAME,
    text_column("Type", "From where the service is reached, and how."),
    text_column("Cluster-IP", "The address inside the cluster."),
    text_column("External-IP", "The addresses, or the name, outside the cluster."),
    text_column("Port(s)", "The ports, with those of the nodes, and their protocols."),
    AGE,
    wide_column("Selector", "Which pods answer."),
];

/// AP-92.
fn row(service: &Map, now: i64) -> Row {
    let spec = object(service, "spec");
    let ports: Vec<String> = objects(spec, "ports").map(port_cell).collect();
    let selector: Vec<String> = object(spec, "selector")
        .iter()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    let or_none =
        |parts: Vec<String>| Value::from(if parts.is_empty() { NONE.to_owned() } else { parts.join(",") });
    let cells = vec![
        name(service),
        Value::from(text(spec, "type")),
        Value::from(texts(spec, "clusterIPs").next().unwrap_or(NONE)),
        Value::from(external_address(service)),
        or_none(ports),
        age(service, now),
        or_none(selector),
    ];
    Row { cells, completed: None }
}

fn port_cell(port: &Map) -> String {
    let (number, node_port, protocol) =
        (number(port, "port"), number(port, "nodePort"), text(port, "protocol"));
    match node_port {
        1.. => format!("{number}:{node_port}/{protocol}"),
        _ => format!("{number}/{protocol}"),
    }
}

fn external_address(service: &Map) -> String {
    let spec = object(service, "spec");
    let addresses = texts(spec, "externalIPs");
    match text(spec, "type") {
        CLUSTER_IP | NODE_PORT if addresses.len() == 0 => NONE.to_owned(),
        CLUSTER_IP | NODE_PORT => addresses.collect::<Vec<_>>().join(","),
        LOAD_BALANCER => {
            let balancer = object(object(service, "status"), "loadBalancer");
            let given: BTreeSet<&str> = objects(balancer, "ingress")
                .map(|ingress| match text(ingress, "ip") {
                    "" => text(ingress, "hostname"),
                    ip => ip,
                })
                .filter(|address| !address.is_empty())
                .collect();
            let all: Vec<&str> = given.into_iter().chain(addresses).collect();
            if all.is_empty() { "<pending>".to_owned() } else { all.join(",") }
        }
        EXTERNAL_NAME => text(spec, "externalName").to_owned(),
        _ => UNKNOWN.to_owned(),
    }
}
