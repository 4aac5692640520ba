//! Pods: their row in the table of kinds, and functions for admission and subresources. The functions work on objects
//! as maps. Other objects, the time and random values are passed as arguments.

use std::borrow::Cow;

use crate::Map;
use crate::fields::{Members, node_name};
use crate::resource::{Action, CREATE_VERBS, Index, Keeps, Resource, Selectable, Subresource, Update};
use crate::schema::core::{BINDING, POD};

pub mod admission;
pub(crate) mod amount;
mod claims;
mod defaults;
mod disruption;
mod image;
mod mirror;
mod prepare;
mod qos;
mod resize;
mod status;
mod subresources;
mod syntax;
mod table;
mod update;
mod validate;
mod volume_defaults;

#[cfg(test)]
mod tests;

pub(super) use amount::same_optional as same_value;
pub use claims::{UsedClaim, used_claims};
pub(crate) use defaults::CONTAINER_LISTS;
pub(super) use defaults::default_template;
pub use disruption::{Stay, has_ended, mark_disrupted, mark_failed, mark_unready, stay};
pub use prepare::{prepare_ephemeral_containers, prepare_resize};
pub(crate) use qos::is_best_effort;
pub use resize::{resize_refusal, resized_on};
pub(crate) use status::is_finished;
pub use subresources::{
    BindError, Deletion, add_topology_labels, bind, check_binding, check_eviction, mark_evicted, terminate,
};
pub use update::{validate_ephemeral_containers, validate_resize};
pub(super) use validate::template_errors;

/// Pods.
pub static PODS: Resource = Resource {
    kind: "Pod",
    plural: "pods",
    short_names: &["po"],
    categories: &["all"],
    subresources: &SUBRESOURCES,
    schema: &POD,
    selectable: &SELECTABLE,
    // Each node watches its own pods.
    index: Some(Index { field: "spec.nodeName", read: node_name }),
    deletes_to_object: true,
    reports_fieldless_alone: true,
    default: defaults::default,
    prepare_create: prepare::prepare_create,
    validate_create: validate::validate_create,
    prepare_update: prepare::prepare_update,
    validate_update: update::validate_update,
    status_resets: &["spec", "metadata.deletionTimestamp", "metadata.ownerReferences"],
    prepare_status: prepare::prepare_status,
    validate_status: status::validate_status,
    delete: subresources::delete,
    columns: table::COLUMNS,
    row: table::row,
    ..Resource::USUAL
};

/// The older way to bind pods (AP-120). Nothing is stored under it.
pub static BINDINGS: Resource = Resource {
    kind: "Binding",
    plural: "bindings",
    schema: &BINDING,
    verbs: CREATE_VERBS,
    action: Some(Action::Bind),
    ..Resource::USUAL
};

const CONNECT: &[&str] = &["create", "get"];
const PROXY: &[&str] = &["create", "delete", "get", "patch", "update"];

/// AP-101, AP-102.
static SUBRESOURCES: [Subresource; 10] = [
    Subresource::connect("attach", "PodAttachOptions", CONNECT),
    Subresource::action("binding", "Binding", Action::Bind),
    Subresource::object(
        "ephemeralcontainers",
        "Pod",
        &Update {
            prepare: prepare_ephemeral_containers,
            validate: validate_ephemeral_containers,
            keeps: Keeps::Only(&["spec.ephemeralContainers"]),
            adds: Some(("spec", "ephemeralContainers")),
            ..Update::NOTHING
        },
    ),
    Subresource {
        group: Some("policy"),
        version: Some("v1"),
        ..Subresource::action("eviction", "Eviction", Action::Evict)
    },
    Subresource::connect("exec", "PodExecOptions", CONNECT),
    Subresource::connect("log", "Pod", &["get"]),
    Subresource::connect("portforward", "PodPortForwardOptions", CONNECT),
    Subresource::connect("proxy", "PodProxyOptions", PROXY),
    Subresource::object(
        "resize",
        "Pod",
        &Update {
            prepare: prepare_resize,
            validate: validate_resize,
            keeps: Keeps::Only(&[
                "spec.containers.*.resources",
                "spec.containers.*.resizePolicy",
                "spec.initContainers.*.resources",
                "spec.initContainers.*.resizePolicy",
                "spec.resources",
            ]),
            ..Update::NOTHING
        },
    ),
    Subresource::status("Pod"),
];

/// AP-74.
static SELECTABLE: [Selectable; 9] = [
    Selectable::new("spec.hostNetwork", |pod| flag(pod, "hostNetwork")),
    Selectable::new("spec.nodeName", |pod| text(pod, "spec", "nodeName")),
    Selectable::new("spec.restartPolicy", |pod| text(pod, "spec", "restartPolicy")),
    Selectable::new("spec.schedulerName", |pod| text(pod, "spec", "schedulerName")),
    Selectable::new("spec.serviceAccountName", |pod| text(pod, "spec", "serviceAccountName")),
    Selectable::new("status.nominatedNodeName", |pod| text(pod, "status", "nominatedNodeName")),
    Selectable::new("status.phase", |pod| text(pod, "status", "phase")),
    Selectable::new("status.podIP", pod_ip),
    // Kubernetes accepts this field, but it never has a value.
    Selectable::new("status.podIPs", |_| Cow::Borrowed("")),
];

fn text<'a>(pod: &'a Map, part: &str, field: &str) -> Cow<'a, str> {
    Cow::Borrowed(pod.object(part).text(field))
}

fn flag<'a>(pod: &'a Map, field: &str) -> Cow<'a, str> {
    Cow::Borrowed(if pod.object("spec").is_true(field) { "true" } else { "false" })
}

fn pod_ip(pod: &Map) -> Cow<'_, str> {
    Cow::Borrowed(pod.object("status").objects("podIPs").next().map_or("", |ip| ip.text("ip")))
}
