//! What is done to a pod rather than changed in it: binding (AP-120), eviction (AP-121) and deletion (AP-55).

use serde_json::{Value, json};

use crate::Map;
use crate::resources::pods::read::Members;
use crate::resources::pods::status;
use crate::time::Instant;

/// Why a pod is not bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindError {
    /// The name in the Binding is not that in the path: 400.
    Name(String),
    /// The target is none: 500, without a reason.
    Target(String),
    /// The pod cannot be bound: 409.
    Conflict(String),
}

/// Looks a Binding over before the pod is looked for (AP-120).
///
/// # Errors
/// Its name is not `name`, or its target is not a Node with a name.
pub fn check_binding(binding: &Map, name: &str) -> Result<(), BindError> {
    if binding.object("metadata").map_or("", |metadata| metadata.text("name")) != name {
        let detail = "name in URL does not match name in Binding object";
        return Err(BindError::Name(detail.to_owned()));
    }
    let target = binding.object("target");
    let kind = target.map_or("", |target| target.text("kind"));
    if !matches!(kind, "" | "Node") {
        let detail =
            format!("target.kind: Unsupported value: {kind:?}: supported values: \"Node\", \"<empty>\"");
        return Err(BindError::Target(detail));
    }
    if target.map_or("", |target| target.text("name")).is_empty() {
        return Err(BindError::Target("target.name: Required value".to_owned()));
    }
    Ok(())
}

/// Binds a pod: gives it the node, the labels and the annotations of the Binding (AP-120, MP-13, MP-43). `now` is in
/// seconds since 1970. The preconditions of the Binding's metadata are the caller's.
///
/// # Errors
/// The pod is bound, terminating or gated. It is unchanged then.
pub fn bind(pod: &mut Map, binding: &Map, now: i64) -> Result<(), BindError> {
    let metadata = pod.object("metadata");
    let name = metadata.map_or("", |metadata| metadata.text("name"));
    let spec = pod.object("spec");
    let node = spec.map_or("", |spec| spec.text("nodeName"));
    if metadata.is_some_and(|metadata| metadata.has("deletionTimestamp")) {
        return Err(BindError::Conflict(format!(
            "pod {name} is being deleted, cannot be assigned to a host"
        )));
    }
    if !node.is_empty() {
        return Err(BindError::Conflict(format!("pod {name} is already assigned to node {node:?}")));
    }
    if spec.is_some_and(|spec| !spec.list("schedulingGates").is_empty()) {
        return Err(BindError::Conflict(format!("pod {name} has non-empty .spec.schedulingGates")));
    }
    let target = binding.object("target").map_or("", |target| target.text("name")).to_owned();
    if let Some(spec) = pod.object_or_new("spec") {
        spec.insert("nodeName".to_owned(), target.into());
    }
    let of_binding = binding.object("metadata");
    if let Some(metadata) = pod.object_or_new("metadata") {
        for field in ["annotations", "labels"] {
            let Some(added) = of_binding.and_then(|metadata| metadata.object(field)) else { continue };
            if let Some(entries) = metadata.object_or_new(field).filter(|_| !added.is_empty()) {
                entries.extend(added.clone());
            }
        }
        if let Some(generation) = metadata.number("generation") {
            metadata.insert("generation".to_owned(), generation.saturating_add(1).into());
        }
    }
    let mut condition = Map::new();
    condition.insert("type".to_owned(), "PodScheduled".into());
    condition.insert("status".to_owned(), "True".into());
    status::set_condition(pod, condition, &Instant::of_seconds(now).to_string());
    if let Some(status) = pod.object_mut("status") {
        status.remove("nominatedNodeName");
    }
    Ok(())
}

/// Adds the labels of where a node is to what is bound to it: to a Binding, or to a pod created with a node's name.
/// For admission; `node` is the Node, if there is one.
pub fn add_topology_labels(object: &mut Map, node: Option<&Map>) {
    let labels = node.and_then(|node| node.object("metadata")).and_then(|metadata| metadata.object("labels"));
    for name in ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"] {
        let Some(value) = labels.and_then(|labels| labels.get(name)) else { continue };
        let metadata = object.object_or_new("metadata");
        if let Some(labels) = metadata.and_then(|metadata| metadata.object_or_new("labels")) {
            labels.insert(name.to_owned(), value.clone());
        }
    }
}

/// Looks an Eviction over before the pod is looked for (AP-121). Returns the DeleteOptions in it, which take the place
/// of a delete's body.
///
/// # Errors
/// Its name is not `name`: 400.
pub fn check_eviction<'a>(eviction: &'a Map, name: &str) -> Result<Option<&'a Map>, String> {
    if eviction.object("metadata").map_or("", |metadata| metadata.text("name")) != name {
        return Err("name in URL does not match name in Eviction object".to_owned());
    }
    Ok(eviction.object("deleteOptions"))
}

/// Notes in a pod that it is evicted, before it is deleted; not in a dry run (AP-121). `now` is in seconds since 1970.
/// Then the pod is deleted as any is, see [`Deletion::of`].
pub fn mark_evicted(pod: &mut Map, now: i64) {
    let mut condition = Map::new();
    condition.insert("type".to_owned(), "DisruptionTarget".into());
    condition.insert("status".to_owned(), "True".into());
    condition.insert("reason".to_owned(), "EvictionByEvictionAPI".into());
    condition.insert("message".to_owned(), "Eviction API: evicting".into());
    status::set_condition(pod, condition, &Instant::of_seconds(now).to_string());
}

/// What a delete does to a pod (AP-55).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// The pod is terminating already, and stays as it is.
    Pending,
    /// The pod has so many seconds to end. Zero: it goes at once, unless finalizers hold it. [`terminate`] notes it.
    After(i64),
}

impl Deletion {
    /// What a delete of a pod does. `requested` is the period that the request asks for, in seconds.
    pub fn of(pod: &Map, requested: Option<i64>) -> Self {
        let metadata = pod.object("metadata");
        let requested = requested.map(|period| if period < 0 { 1 } else { period });
        if metadata.is_some_and(|metadata| metadata.has("deletionTimestamp")) {
            let Some(period) = metadata.and_then(|metadata| metadata.number("deletionGracePeriodSeconds"))
            else {
                return Self::After(0);
            };
            let period = if period < 0 { 1 } else { period };
            return match requested {
                Some(shorter) if shorter < period => Self::After(shorter),
                _ => Self::Pending,
            };
        }
        let spec = pod.object("spec");
        if spec.is_none_or(|spec| spec.text("nodeName").is_empty()) || status::is_finished(pod) {
            return Self::After(0);
        }
        let period = requested
            .or_else(|| spec.and_then(|spec| spec.number("terminationGracePeriodSeconds")))
            .unwrap_or(0);
        Self::After(if period < 0 { 1 } else { period })
    }
}

/// Notes in a pod that it has so many seconds to end: for the first time from `now`, in seconds since 1970; after that
/// from when it was noted first.
pub fn terminate(pod: &mut Map, period: i64, now: i64) {
    let Some(metadata) = pod.object_or_new("metadata") else { return };
    let end = Instant::parse(metadata.text("deletionTimestamp")).ok().map(|end| end.seconds);
    let begin = match end {
        Some(end) => end.saturating_sub(metadata.number("deletionGracePeriodSeconds").unwrap_or(0)),
        None => {
            // Those who look after the pod have something new to do.
            if let Some(generation) = metadata.number("generation").filter(|generation| *generation > 0) {
                metadata.insert("generation".to_owned(), generation.saturating_add(1).into());
            }
            now
        }
    };
    let end = Instant::of_seconds(begin.saturating_add(period)).to_string();
    metadata.insert("deletionTimestamp".to_owned(), Value::String(end));
    metadata.insert("deletionGracePeriodSeconds".to_owned(), json!(period));
}
