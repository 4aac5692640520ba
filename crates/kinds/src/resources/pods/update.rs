//! Validation of updates of pods (AP-123), of ephemeral containers (AP-122) and of resources.

use std::collections::{BTreeMap, HashMap, HashSet};

use portcullis_apimachinery::field_error::{FieldError, NO_FIELD};
use serde_json::Value;

use crate::Map;
use crate::fields::{ErrorList, Errors, Field, Members};
use crate::resources::pods::amount;
use crate::resources::pods::mirror;
use crate::resources::pods::qos;
use crate::resources::pods::validate::{self, Kept, MAX_INT32, annotations, containers, scheduling};

/// Validates an update of a pod. The arguments are the new and the old pod.
pub(super) fn validate_update(pod: &Map, old: &Map) -> Errors {
    let kept = Kept::of(old);
    let mut errors = Errors::new();
    validate::pod_and_spec(pod, &kept, &mut errors);
    annotations::validate_update(pod, old, &kept, &mut errors);
    let new_spec = Field::root(pod, "spec");
    let old_spec = Field::root(old, "spec");
    for list in ["containers", "initContainers"] {
        let new_list = new_spec.child(list);
        if new_list.len() != old_spec.child(list).len() {
            errors.push(new_list.forbidden("pod updates may not add or remove containers"));
            return errors;
        }
        for container in new_list.items() {
            errors.require(&container.child("image"));
            containers::image_without_padding(&container, &mut errors);
        }
    }
    if deadline(&new_spec, &old_spec, &mut errors) {
        return errors;
    }
    added_tolerations(&new_spec, &old_spec, &kept, &mut errors);
    removed_gates(&new_spec, &old_spec, &mut errors);
    if pod.get("spec") == old.get("spec") {
        return errors;
    }
    let rest = rest_of_spec(pod, old, &mut errors);
    errors.push_if(!amount::same_optional(rest.as_ref(), old.get("spec")), || new_spec.forbidden(
            "pod updates may not change fields other than `spec.containers[*].image`, \
             `spec.initContainers[*].image`, `spec.activeDeadlineSeconds`, `spec.tolerations` (only additions to \
             existing tolerations), `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
             previously negative)",
        ));
    errors
}

/// A deadline can be set once, and then only be lowered. True if the remaining validation is skipped.
fn deadline(new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) -> bool {
    let deadline = new.child("activeDeadlineSeconds");
    let before = old.child("activeDeadlineSeconds").number_if_set();
    let Some(seconds) = deadline.number_if_set() else {
        if before.is_some() {
            errors.push(deadline.invalid("must not update from a positive integer to nil value"));
        }
        return false;
    };
    if !(0..=MAX_INT32).contains(&seconds) {
        errors.push(deadline.invalid("must be between 0 and 2147483647, inclusive"));
        return true;
    }
    if before.is_some_and(|before| before < seconds) {
        errors.push(deadline.invalid("must be less than or equal to previous value"));
        return true;
    }
    false
}

/// Existing tolerations cannot change, except for their time.
fn added_tolerations(new: &Field<'_>, old: &Field<'_>, kept: &Kept, errors: &mut Errors) {
    let tolerations = new.child("tolerations");
    let identity = |toleration: &Field<'_>| {
        ["effect", "key", "operator", "value"].map(|field| toleration.child(field).text().to_owned())
    };
    let after: HashSet<_> = tolerations.items().map(|toleration| identity(&toleration)).collect();
    let is_kept = |old: Field<'_>| after.contains(&identity(&old));
    if old.child("tolerations").items().all(is_kept) {
        scheduling::tolerations(&tolerations, kept, errors);
    } else {
        errors.push(
            tolerations.forbidden("existing toleration can not be modified except its tolerationSeconds"),
        );
    }
}

fn removed_gates(new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let gates: HashSet<&str> =
        old.child("schedulingGates").items().map(|gate| gate.child("name").text()).collect();
    let mut added: BTreeMap<&str, Field<'_>> = BTreeMap::new();
    for gate in new.child("schedulingGates").items() {
        added.insert(gate.child("name").text(), gate.child("name"));
    }
    for (name, gate) in added {
        if !gates.contains(name) {
            errors.push(gate.forbidden("only deletion is allowed, but found a new scheduling gate"));
        }
    }
}

/// Returns the new spec with all mutable fields reset to the old values. The extra fields that are mutable in gated
/// pods are validated here.
fn rest_of_spec(pod: &Map, old: &Map, errors: &mut Errors) -> Option<Value> {
    let old_spec = old.object_if_set("spec")?;
    let mut rest = pod.object_if_set("spec")?.clone();
    for list in ["containers", "initContainers"] {
        for (container, old) in rest.objects_mut(list).zip(old_spec.list(list)) {
            if let Some(old) = old.as_object() {
                container.copy("image", old);
            }
        }
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        rest.copy(field, old_spec);
    }
    let period = "terminationGracePeriodSeconds";
    if old_spec.number_if_set(period).is_some_and(|period| period < 0)
        && rest.number_if_set(period) == Some(1)
    {
        rest.copy(period, old_spec);
    }
    if !old_spec.list("schedulingGates").is_empty() {
        node_selector_of_gated(pod, old, errors);
        rest.copy("nodeSelector", old_spec);
        node_affinity_of_gated(pod, old, errors);
        restore_node_affinity(&mut rest, old_spec);
    }
    Some(Value::Object(rest))
}

/// The node selector of a gated pod may only be extended.
fn node_selector_of_gated(pod: &Map, old: &Map, errors: &mut Errors) {
    let new = Field::root(pod, "spec").child("nodeSelector");
    let old = Field::root(old, "spec").child("nodeSelector");
    errors.push_if(old.entries().any(|(key, value)| new.key(key).value() != value.value()), || {
        new.invalid("only additions to spec.nodeSelector are allowed (no mutations or deletions)")
    });
}

/// Each required node affinity term of a gated pod may only be extended.
fn node_affinity_of_gated(pod: &Map, old: &Map, errors: &mut Errors) {
    let terms = |pod| {
        let affinity = Field::root(pod, "spec").child("affinity").child("nodeAffinity");
        affinity.child("requiredDuringSchedulingIgnoredDuringExecution").child("nodeSelectorTerms")
    };
    let (new, old) = (terms(pod), terms(old));
    if old.is_empty() {
        return;
    }
    if new.len() != old.len() {
        errors.push(new.invalid("no additions/deletions to non-empty NodeSelectorTerms list are allowed"));
        return;
    }
    for (new, old) in new.items().zip(old.items()) {
        let grows = |list: &str| {
            let (new, old) = (new.child(list), old.child(list));
            new.len() >= old.len()
                && new.items().zip(old.items()).all(|(new, old)| new.value() == old.value())
        };
        let lists = ["matchExpressions", "matchFields"];
        // A term that matches nothing must not be changed to match something.
        let was_empty = lists.iter().all(|list| old.child(list).is_empty());
        let is_empty = lists.iter().all(|list| new.child(list).is_empty());
        if !lists.iter().all(|list| grows(list)) || (was_empty && !is_empty) {
            errors.push(new.invalid("only additions are allowed (no mutations or deletions)"));
        }
    }
}

fn restore_node_affinity(rest: &mut Map, old_spec: &Map) {
    let old = old_spec.object_if_set("affinity");
    let of_node = old.and_then(|affinity| affinity.get("nodeAffinity"));
    match (rest.object_mut("affinity"), of_node) {
        (Some(affinity), Some(of_node)) => {
            affinity.insert("nodeAffinity".to_owned(), of_node.clone());
        }
        (Some(affinity), None) => {
            affinity.remove("nodeAffinity");
            if affinity.is_empty() && old.is_none() {
                rest.remove("affinity");
            }
        }
        (None, Some(of_node)) => {
            rest.insert("affinity".to_owned(), serde_json::json!({ "nodeAffinity": of_node }));
        }
        (None, None) => {}
    }
}

/// Validates an update of the ephemeral containers (AP-122). The arguments are the new and the old pod. An error
/// without a field is the only one: it replaces also those of the metadata.
pub fn validate_ephemeral_containers(pod: &Map, old: &Map) -> Errors {
    if let Some(error) = mirror::refusal(old) {
        return Errors::from([error]);
    }
    let kept = Kept::of(old);
    let mut errors = Errors::new();
    validate::pod_and_spec(pod, &kept, &mut errors);
    annotations::validate_update(pod, old, &kept, &mut errors);
    let containers = Field::root(pod, "spec").child("ephemeralContainers");
    // Of several containers with one name, the last counts.
    let by_name: HashMap<&str, Field<'_>> =
        containers.items().map(|container| (container.child("name").text(), container)).collect();
    for old in Field::root(old, "spec").child("ephemeralContainers").items() {
        match by_name.get(old.child("name").text()) {
            None => errors.push(containers.forbidden("existing ephemeral containers may not be removed")),
            Some(new) if amount::same_optional(new.value(), old.value()) => {}
            Some(_) => errors.push(containers.forbidden("existing ephemeral containers may not be changed")),
        }
    }
    errors
}

/// Validates a change of resources. The arguments are the new and the old pod. An error without a field is the only
/// one: it replaces also those of the metadata.
pub fn validate_resize(pod: &Map, old: &Map) -> Errors {
    if let Some(error) = mirror::refusal(old) {
        return Errors::from([error]);
    }
    let old_spec = Field::root(old, "spec");
    if old_spec.child("os").child("name").text() == "windows" {
        return Errors::from([FieldError::forbidden(NO_FIELD, "windows pods cannot be resized")]);
    }
    let kept = Kept::of(old);
    let mut errors = Errors::new();
    validate::pod_and_spec(pod, &kept, &mut errors);
    let spec = Field::root(pod, "spec");
    let (Some(new_map), Some(old_map)) = (pod.object_if_set("spec"), old.object_if_set("spec")) else {
        return errors;
    };
    if qos::class(old) != qos::of_spec(new_map) {
        errors.push(spec.invalid("Pod QOS Class may not change as a result of resizing"));
    }
    errors
        .push_if(!supports_resize(old), || spec.forbidden("Pod running on node without support for resize"));
    for list in ["initContainers", "containers"] {
        for (new, old) in spec.child(list).items().zip(old_spec.child(list).items()) {
            if list == "containers" || is_sidecar(&old) {
                removed_resources(&new.child("resources"), &old.child("resources"), &mut errors);
            }
        }
    }
    removed_resources(&spec.child("resources"), &old_spec.child("resources"), &mut errors);
    for list in ["containers", "initContainers"] {
        if spec.child(list).len() != old_spec.child(list).len() {
            errors.push(spec.forbidden("containers may not be added or removed"));
            continue;
        }
        for (new, old) in new_map.list(list).iter().zip(old_map.list(list)) {
            let may_change = list == "containers" || is_sidecar(&Field::at("", Some(new)));
            if !amount::same(&without_change(new, old, may_change), old) {
                errors.push(spec.forbidden("only cpu and memory resources are mutable"));
            }
        }
    }
    if !errors.is_empty() {
        return errors;
    }
    let mut rest = new_map.clone();
    rest.copy("containers", old_map);
    rest.copy("initContainers", old_map);
    if let (Some(new), Some(old)) = (new_map.get("resources"), old_map.get("resources")) {
        rest.insert("resources".to_owned(), requirements_without_change(new, old));
    }
    if !amount::same_optional(Some(&Value::Object(rest)), old.get("spec")) {
        errors.push(spec.forbidden("only cpu and memory resources are mutable"));
    }
    errors
}

fn is_sidecar(container: &Field<'_>) -> bool {
    container.child("restartPolicy").text() == "Always"
}

/// A node that supports resizing reports the resources of running containers.
fn supports_resize(pod: &Map) -> bool {
    let statuses = Field::root(pod, "status").child("containerStatuses");
    let mut running = statuses.items().filter(|status| status.child("state").child("running").is_set());
    running.next().is_none_or(|status| status.child("resources").is_set())
}

fn removed_resources(new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    for list in ["requests", "limits"] {
        let (new, old) = (new.child(list), old.child(list));
        if old.entries().any(|(name, _)| !new.key(name).is_set()) {
            errors.push(new.forbidden("resources cannot be removed"));
        }
    }
}

/// The new container with the CPU and memory of the old one.
fn without_change(new: &Value, old: &Value, may_change: bool) -> Value {
    let mut container = new.clone();
    if may_change && let (Some(new), Some(old)) = (container.get_mut("resources"), old.get("resources")) {
        *new = requirements_without_change(new, old);
    }
    container
}

fn requirements_without_change(new: &Value, old: &Value) -> Value {
    let mut requirements = new.as_object().cloned().unwrap_or_default();
    let (Some(old), names) = (old.as_object(), ["cpu", "memory"]) else { return new.clone() };
    for list in ["limits", "requests"] {
        let mut entries = requirements.object(list).clone();
        for name in names {
            entries.copy(name, old.object(list));
        }
        if entries.is_empty() {
            requirements.remove(list);
        } else {
            requirements.insert(list.to_owned(), Value::Object(entries));
        }
    }
    Value::Object(requirements)
}
