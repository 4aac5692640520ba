//! Services.

mod allocation;
mod families;
mod spec;
mod status;
mod update;
mod validation;

use std::borrow::Cow;
use std::collections::BTreeSet;

use portcullis_apimachinery::names::NameRule;
use serde_json::{Value, json};

pub use self::allocation::{FreePool, Pool, allocate};
use self::spec::{CLUSTER_IP, EXTERNAL_NAME, LOAD_BALANCER, NODE_PORT, is_external};
use super::endpoints::ENDPOINTS;
use super::nodes::PROXY_VERBS;
use crate::Map;
use crate::resource::{Need, OnRequest, Resource, Selectable, Subresource};
use crate::resources::cells::{AGE, NAME, age, name, text_column, wide_column};
use crate::resources::fields::{
    default_text, is_present, number, object, object_mut, objects, objects_mut, text, texts,
};
use crate::schema;
use crate::table::{Column, NONE, Row, UNKNOWN};

/// The row of Services.
pub static SERVICES: Resource = Resource {
    kind: "Service",
    plural: "services",
    short_names: &["svc"],
    categories: &["all"],
    subresources: &[
        Subresource::connect("proxy", "ServiceProxyOptions", PROXY_VERBS),
        Subresource::status("Service"),
    ],
    schema: &schema::core::service::SERVICE,
    // The name is a DNS label.
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
    on_create: ALLOCATES,
    prepare_update: update::prepare_update,
    validate_update: validation::validate_update,
    on_update: ALLOCATES,
    prepare_status: update::prepare_status,
    validate_status: |service, _| status::validate(service),
    removed_with: &[&ENDPOINTS],
    columns: COLUMNS,
    row,
    ..Resource::USUAL
};

/// A service gets what no other service has.
const ALLOCATES: OnRequest = OnRequest {
    needs: |_| Need::AllOfKind,
    complete: |service, old, context| {
        let (network, prefix) = FreePool::NETWORK;
        allocate(service, old, &mut FreePool::of(network, prefix, context.stored.iter()))
    },
    ..OnRequest::NOTHING
};

/// The default timeout of session affinity, in seconds.
const AFFINITY_SECONDS: i64 = 10_800;

fn of_spec<'a>(service: &'a Map, member: &str) -> Cow<'a, str> {
    Cow::Borrowed(text(object(service, "spec"), member))
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
