//! Services.

mod allocation;
mod families;
mod ranges;
mod spec;
mod status;
mod update;
mod validation;

use std::borrow::Cow;
use std::collections::BTreeSet;

use portcullis_apimachinery::names::NameRule;
use serde_json::{Value, json};

pub use self::allocation::{FreePool, allocate};
pub use self::ranges::{AddressRange, AddressRanges, PortRange, RangeError, ServiceRanges};
use self::spec::{CLUSTER_IP, EXTERNAL_NAME, LOAD_BALANCER, NODE_PORT, is_external};
use super::endpoints::ENDPOINTS;
use super::nodes::PROXY_VERBS;
use crate::Map;
use crate::fields::Members;
use crate::resource::{Need, OnRequest, Resource, Selectable, Subresource};
use crate::resources::cells::{AGE, NAME, age, name, text_column, wide_column};
use crate::resources::label_selectors::{cell, labels_text};
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
        Selectable::new("spec.clusterIP", |service| of_spec(service, "clusterIP")),
        Selectable::new("spec.type", |service| of_spec(service, "type")),
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
        allocate(service, old, &mut FreePool::of(context.ranges, context.stored.iter()))
    },
    ..OnRequest::NOTHING
};

/// The default timeout of session affinity, in seconds.
const AFFINITY_SECONDS: i64 = 10_800;

/// How many load balancers and node ports a service counts as in ResourceQuotas. A load balancer counts as the ports of its
/// nodes, too, unless it gets none.
pub(crate) fn counted_by_quotas(service: &Map) -> (i64, i64) {
    let spec = service.object("spec");
    let count = |ports: usize| i64::try_from(ports).unwrap_or(i64::MAX);
    let all = count(spec.objects("ports").len());
    match spec.text("type") {
        NODE_PORT => (0, all),
        LOAD_BALANCER if spec.flag("allocateLoadBalancerNodePorts") == Some(false) => {
            (1, count(spec.objects("ports").filter(|port| port.number("nodePort") != 0).count()))
        }
        LOAD_BALANCER => (1, all),
        _ => (0, 0),
    }
}

fn of_spec<'a>(service: &'a Map, member: &str) -> Cow<'a, str> {
    Cow::Borrowed(service.object("spec").text(member))
}

fn default(service: &mut Map) {
    if let Some(spec) = service.object_or_new("spec") {
        default_spec(spec);
    }
    let has_balancer = service.object("spec").text("type") == LOAD_BALANCER;
    let balancer = service.object_or_new("status").and_then(|status| status.object_or_new("loadBalancer"));
    let Some(balancer) = balancer.filter(|_| has_balancer) else { return };
    for ingress in balancer.objects_mut("ingress") {
        if !ingress.text("ip").is_empty() && !ingress.has("ipMode") {
            ingress.insert("ipMode".to_owned(), Value::from("VIP"));
        }
    }
}

fn default_spec(spec: &mut Map) {
    spec.default_text("sessionAffinity", "None");
    match spec.text("sessionAffinity") {
        "None" => {
            spec.remove("sessionAffinityConfig");
        }
        "ClientIP" if !spec.object("sessionAffinityConfig").object("clientIP").has("timeoutSeconds") => {
            let config = json!({ "clientIP": { "timeoutSeconds": AFFINITY_SECONDS } });
            spec.insert("sessionAffinityConfig".to_owned(), config);
        }
        _ => {}
    }
    spec.default_text("type", CLUSTER_IP);
    for port in spec.objects_mut("ports") {
        port.default_text("protocol", "TCP");
        let target = port.get("targetPort").unwrap_or(&Value::Null);
        if target.is_null() || *target == json!(0) || *target == json!("") {
            let number = port.number("port");
            port.insert("targetPort".to_owned(), Value::from(number));
        }
    }
    if is_external(spec) {
        spec.default_text("externalTrafficPolicy", "Cluster");
    }
    let kind = spec.text("type");
    let (has_address, has_balancer) =
        (matches!(kind, CLUSTER_IP | NODE_PORT | LOAD_BALANCER), kind == LOAD_BALANCER);
    if has_address && !spec.has("internalTrafficPolicy") {
        spec.insert("internalTrafficPolicy".to_owned(), Value::from("Cluster"));
    }
    if has_balancer && !spec.has("allocateLoadBalancerNodePorts") {
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
    let spec = service.object("spec");
    let ports: Vec<String> = spec.objects("ports").map(port_cell).collect();
    let or_none =
        |parts: Vec<String>| Value::from(if parts.is_empty() { NONE.to_owned() } else { parts.join(",") });
    Row::of(vec![
        name(service),
        Value::from(spec.text("type")),
        Value::from(spec.texts("clusterIPs").next().unwrap_or(NONE)),
        Value::from(external_address(service)),
        or_none(ports),
        age(service, now),
        cell(labels_text(spec.object("selector"))),
    ])
}

fn port_cell(port: &Map) -> String {
    let (number, node_port, protocol) = (port.number("port"), port.number("nodePort"), port.text("protocol"));
    match node_port {
        1.. => format!("{number}:{node_port}/{protocol}"),
        _ => format!("{number}/{protocol}"),
    }
}

fn external_address(service: &Map) -> String {
    let spec = service.object("spec");
    let addresses = spec.texts("externalIPs");
    match spec.text("type") {
        CLUSTER_IP | NODE_PORT if addresses.len() == 0 => NONE.to_owned(),
        CLUSTER_IP | NODE_PORT => addresses.collect::<Vec<_>>().join(","),
        LOAD_BALANCER => {
            let balancer = service.object("status").object("loadBalancer");
            let given: BTreeSet<&str> = balancer
                .objects("ingress")
                .map(|ingress| match ingress.text("ip") {
                    "" => ingress.text("hostname"),
                    ip => ip,
                })
                .filter(|address| !address.is_empty())
                .collect();
            let all: Vec<&str> = given.into_iter().chain(addresses).collect();
            if all.is_empty() { "<pending>".to_owned() } else { all.join(",") }
        }
        EXTERNAL_NAME => spec.text("externalName").to_owned(),
        _ => UNKNOWN.to_owned(),
    }
}
