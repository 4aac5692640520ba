//! Actions on pods: binding (AP-120), eviction (AP-121) and deletion (AP-55).

use portcullis_apimachinery::time::Instant;
use serde_json::{Value, json};

use crate::Map;
use crate::fields::Members;
use crate::meta::is_terminating;
use crate::resource;
use crate::resources::pods::{disruption::mark_disrupted, status};

/// An error of binding a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindError {
    /// The name in the Binding differs from the path: 400.
    Name(String),
    /// The target is invalid: 500, without a reason.
    Target(String),
    /// The pod cannot be bound: 409.
    Conflict(String),
}

/// Validates a Binding before the pod is looked up (AP-120).
///
/// # Errors
/// Its name is not `name`, or its target is not a Node with a name.
pub fn check_binding(binding: &Map, name: &str) -> Result<(), BindError> {
    if binding.metadata().text("name") != name {
        let detail = "name in URL does not match name in Binding object";
        return Err(BindError::Name(detail.to_owned()));
    }
    let target = binding.object("target");
    let kind = target.text("kind");
    if !matches!(kind, "" | "Node") {
        let detail =
            format!("target.kind: Unsupported value: {kind:?}: supported values: \"Node\", \"<empty>\"");
        return Err(BindError::Target(detail));
    }
    if target.text("name").is_empty() {
        return Err(BindError::Target("target.name: Required value".to_owned()));
    }
    Ok(())
}

/// Binds a pod: sets the node, and adds the labels and annotations of the Binding (AP-120, MP-13, MP-43). `now` is in
/// seconds since 1970. The caller checks the preconditions in the Binding's metadata.
///
/// # Errors
/// The pod is already bound, terminating or gated. It is not changed then.
pub fn bind(pod: &mut Map, binding: &Map, now: i64) -> Result<(), BindError> {
    let (metadata, spec) = (pod.metadata(), pod.object("spec"));
    let (name, node) = (metadata.text("name"), spec.text("nodeName"));
    if metadata.has("deletionTimestamp") {
        return Err(BindError::Conflict(format!(
            "pod {name} is being deleted, cannot be assigned to a host"
        )));
    }
    if !node.is_empty() {
        return Err(BindError::Conflict(format!("pod {name} is already assigned to node {node:?}")));
    }
    if !spec.list("schedulingGates").is_empty() {
        return Err(BindError::Conflict(format!("pod {name} has non-empty .spec.schedulingGates")));
    }
    let target = binding.object("target").text("name").to_owned();
    if let Some(spec) = pod.object_or_new("spec") {
        spec.insert("nodeName".to_owned(), target.into());
    }
    if let Some(metadata) = pod.object_or_new("metadata") {
        for field in ["annotations", "labels"] {
            let Some(added) = binding.metadata().object_if_set(field) else { continue };
            if let Some(entries) = metadata.object_or_new(field).filter(|_| !added.is_empty()) {
                entries.extend(added.clone());
            }
        }
        if let Some(generation) = metadata.number_if_set("generation") {
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

/// Adds the topology labels of a node to a Binding, or to a pod that is created with a node name. For admission; `node`
/// is the Node, if it exists.
pub fn add_topology_labels(object: &mut Map, node: Option<&Map>) {
    let labels = node.map(|node| node.metadata().object("labels"));
    for name in ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"] {
        let Some(value) = labels.and_then(|labels| labels.get(name)) else { continue };
        let metadata = object.object_or_new("metadata");
        if let Some(labels) = metadata.and_then(|metadata| metadata.object_or_new("labels")) {
            labels.insert(name.to_owned(), value.clone());
        }
    }
}

/// Validates an Eviction before the pod is looked up (AP-121). Returns its DeleteOptions, which are used like the body
/// of a delete.
///
/// # Errors
/// Its name is not `name`: 400.
pub fn check_eviction<'a>(eviction: &'a Map, name: &str) -> Result<Option<&'a Map>, String> {
    if eviction.metadata().text("name") != name {
        return Err("name in URL does not match name in Eviction object".to_owned());
    }
    Ok(eviction.object_if_set("deleteOptions"))
}

/// Sets the eviction condition of a pod before its deletion; not in a dry run (AP-121). `now` is in seconds since 1970.
/// The pod is then deleted as usual, see [`Deletion::of`].
pub fn mark_evicted(pod: &mut Map, now: i64) {
    mark_disrupted(pod, "EvictionByEvictionAPI", "Eviction API: evicting", now);
}

/// The effect of a delete on a pod (AP-55), mirror pods included (MP-28, MP-29).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// The pod is already terminating, and is not changed.
    Pending,
    /// The pod has this grace period in seconds, which [`terminate`] sets. Zero: it is removed at once, unless it has
    /// finalizers.
    After(i64),
}

impl Deletion {
    /// Returns the effect of deleting a pod. `requested` is the grace period of the request, in seconds.
    pub fn of(pod: &Map, requested: Option<i64>) -> Self {
        let metadata = pod.metadata();
        let requested = requested.map(|period| if period < 0 { 1 } else { period });
        if metadata.has("deletionTimestamp") {
            let Some(period) = metadata.number_if_set("deletionGracePeriodSeconds") else {
                return Self::After(0);
            };
            let period = if period < 0 { 1 } else { period };
            return match requested {
                Some(shorter) if shorter < period => Self::After(shorter),
                _ => Self::Pending,
            };
        }
        let spec = pod.object("spec");
        if spec.text("nodeName").is_empty() || status::is_finished(pod) {
            return Self::After(0);
        }
        let period = requested.unwrap_or_else(|| spec.number("terminationGracePeriodSeconds"));
        Self::After(if period < 0 { 1 } else { period })
    }
}

/// A delete of a pod: it has a time to end in. Once that is over, it goes like every other object.
pub(super) fn delete(pod: &Map, requested: Option<i64>, now: i64) -> resource::Deletion {
    if is_terminating(pod) && pod.metadata().number("deletionGracePeriodSeconds") == 0 {
        return resource::Deletion::Proceeds;
    }
    let Deletion::After(seconds) = Deletion::of(pod, requested) else { return resource::Deletion::Waits };
    let mut marked = pod.clone();
    terminate(&mut marked, seconds, now);
    match seconds {
        0 => resource::Deletion::Ends(marked),
        _ => resource::Deletion::Begins(marked),
    }
}

/// Marks a pod as terminating, with this grace period in seconds. The period starts at `now`, in seconds since 1970, or
/// at the start of an earlier termination.
pub fn terminate(pod: &mut Map, period: i64, now: i64) {
    let Some(metadata) = pod.object_or_new("metadata") else { return };
    let end = Instant::parse(metadata.text("deletionTimestamp")).ok().map(|end| end.seconds);
    let begin = match end {
        Some(end) => end.saturating_sub(metadata.number("deletionGracePeriodSeconds")),
        None => {
            // The generation changes, because controllers have to act.
            if let Some(generation) =
                metadata.number_if_set("generation").filter(|generation| *generation > 0)
            {
                metadata.insert("generation".to_owned(), generation.saturating_add(1).into());
            }
            now
        }
    };
    let end = Instant::of_seconds(begin.saturating_add(period)).to_string();
    metadata.insert("deletionTimestamp".to_owned(), Value::String(end));
    metadata.insert("deletionGracePeriodSeconds".to_owned(), json!(period));
}
