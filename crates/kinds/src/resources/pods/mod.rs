//! Pods: their row in the table of kinds, and what the server does to them besides. Functions take and give objects as
//! maps. What they need of other objects, of time and of chance is an argument.

use std::borrow::Cow;

use serde_json::Value;

use crate::Map;
use crate::resource::{Resource, STATUS_VERBS, Selectable, Subresource};
use crate::schema::core::POD;

use read::Members;

pub mod admission;
mod amount;
mod defaults;
mod image;
mod prepare;
mod qos;
mod read;
mod status;
mod subresources;
mod syntax;
mod table;
mod update;
mod validate;
mod volume_defaults;

#[cfg(test)]
mod tests;

pub use prepare::{prepare_ephemeral_containers, prepare_resize};
pub use subresources::{
    BindError, Deletion, add_topology_labels, bind, check_binding, check_eviction, mark_evicted, terminate,
};
pub use update::{refusal_of_mirror, validate_ephemeral_containers, validate_resize};

/// Pods.
pub static PODS: Resource = Resource {
    kind: "Pod",
    plural: "pods",
    short_names: &["po"],
    categories: &["all"],
    subresources: &SUBRESOURCES,
    schema: &POD,
    selectable: &SELECTABLE,
    deletes_to_object: true,
    default: defaults::default,
    prepare_create: prepare::prepare_create,
    validate_create: validate::validate_create,
    prepare_update: prepare::prepare_update,
    validate_update: update::validate_update,
    prepare_status: prepare::prepare_status,
    validate_status: status::validate_status,
    columns: table::COLUMNS,
    row: table::row,
    ..Resource::USUAL
};

const CREATE: &[&str] = &["create"];
const CONNECT: &[&str] = &["create", "get"];
const PROXY: &[&str] = &["create", "delete", "get", "patch", "update"];

/// AP-101, AP-102.
static SUBRESOURCES: [Subresource; 10] = [
    subresource("attach", "PodAttachOptions", CONNECT),
    subresource("binding", "Binding", CREATE),
    subresource("ephemeralcontainers", "Pod", STATUS_VERBS),
    Subresource {
        name: "eviction",
        kind: "Eviction",
        group: Some("policy"),
        version: Some("v1"),
        verbs: CREATE,
    },
    subresource("exec", "PodExecOptions", CONNECT),
    subresource("log", "Pod", &["get"]),
    subresource("portforward", "PodPortForwardOptions", CONNECT),
    subresource("proxy", "PodProxyOptions", PROXY),
    subresource("resize", "Pod", STATUS_VERBS),
    Subresource::status("Pod"),
];

const fn subresource(name: &'static str, kind: &'static str, verbs: &'static [&'static str]) -> Subresource {
    Subresource { name, kind, group: None, version: None, verbs }
}

/// AP-74.
static SELECTABLE: [Selectable; 9] = [
    Selectable { name: "spec.hostNetwork", value: |pod| flag(pod, "hostNetwork") },
    Selectable { name: "spec.nodeName", value: |pod| text(pod, "spec", "nodeName") },
    Selectable { name: "spec.restartPolicy", value: |pod| text(pod, "spec", "restartPolicy") },
    Selectable { name: "spec.schedulerName", value: |pod| text(pod, "spec", "schedulerName") },
    Selectable { name: "spec.serviceAccountName", value: |pod| text(pod, "spec", "serviceAccountName") },
    Selectable { name: "status.nominatedNodeName", value: |pod| text(pod, "status", "nominatedNodeName") },
    Selectable { name: "status.phase", value: |pod| text(pod, "status", "phase") },
    Selectable { name: "status.podIP", value: pod_ip },
    // Kubernetes takes the name, but no pod has a value under it.
    Selectable { name: "status.podIPs", value: |_| Cow::Borrowed("") },
];

fn text<'a>(pod: &'a Map, part: &str, field: &str) -> Cow<'a, str> {
    Cow::Borrowed(pod.object(part).map_or("", |part| part.text(field)))
}

fn flag<'a>(pod: &'a Map, field: &str) -> Cow<'a, str> {
    let is_set = pod.object("spec").and_then(|spec| spec.flag(field)).unwrap_or_default();
    Cow::Borrowed(if is_set { "true" } else { "false" })
}

fn pod_ip(pod: &Map) -> Cow<'_, str> {
    let first = pod.object("status").and_then(|status| status.list("podIPs").first());
    Cow::Borrowed(first.and_then(|ip| ip.get("ip")).and_then(Value::as_str).unwrap_or_default())
}
