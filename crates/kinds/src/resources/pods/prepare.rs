//! Fields that a client cannot set: dropped at creation, restored in updates (AP-30, AP-42, AP-114, AP-122, AP-137).

use std::collections::{HashMap, VecDeque};

use serde_json::{Value, json};

use crate::Map;
use crate::fields;
use crate::fields::Errors;
use crate::fields::{Field, Members};
use crate::resources::pods::amount;
use crate::resources::pods::defaults::CONTAINER_LISTS;
use crate::resources::pods::qos;
use crate::resources::pods::validate::security;

/// The prefix of the annotations with the AppArmor profile of a container, which preceded the field.
pub(super) const APP_ARMOR_PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Prepares a new pod: sets its generation and status (AP-114), drops fields of disabled feature gates, and sets fields
/// that derive from labels and annotations.
///
/// The condition of a gated pod uses `metadata.creationTimestamp` as its time, if already set.
pub(super) fn prepare_create(pod: &mut Map) {
    let class = qos::class(pod);
    let created = pod.metadata().get("creationTimestamp").cloned();
    fields::begin_generation(pod);
    drop_disabled(pod, None);
    let is_gated = !pod.object("spec").list("schedulingGates").is_empty();
    let mut status = Map::new();
    status.insert("phase".to_owned(), "Pending".into());
    status.insert("qosClass".to_owned(), class.into());
    if is_gated {
        let condition = json!([{
            "lastProbeTime": null,
            "lastTransitionTime": created.unwrap_or(Value::Null),
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "reason": "SchedulingGated",
            "status": "False",
            "type": "PodScheduled",
        }]);
        status.insert("conditions".to_owned(), condition);
    }
    pod.insert("status".to_owned(), Value::Object(status));
    merge_label_keys(pod);
    copy_app_armor(pod);
}

/// Prepares an update of the pod itself: keeps the status (AP-42).
pub(super) fn prepare_update(pod: &mut Map, old: &Map) {
    pod.copy("status", old);
    drop_disabled(pod, Some(old));
    raise_generation(pod, old);
}

/// Prepares an update of the status: keeps the spec and the owners, and the QoS class if omitted (AP-42, AP-114).
pub(super) fn prepare_status(pod: &mut Map, old: &Map) {
    pod.copy("spec", old);
    let (Some(old_metadata), Some(old_status)) = (old.object_if_set("metadata"), old.object_if_set("status"))
    else {
        return;
    };
    if let Some(metadata) = pod.object_or_new("metadata") {
        metadata.copy("ownerReferences", old_metadata);
        // The server sets the deletion fields; the metadata rules keep them.
        metadata.copy("deletionTimestamp", old_metadata);
        metadata.copy("deletionGracePeriodSeconds", old_metadata);
    }
    if let Some(status) = pod.object_or_new("status") {
        if status.text("qosClass").is_empty() {
            status.copy("qosClass", old_status);
        }
        keep_observed_generations(status, old_status);
    }
}

/// Prepares an update of the ephemeral containers: restores everything else (AP-122, MP-8).
pub fn prepare_ephemeral_containers(pod: &mut Map, old: &Map) {
    let containers = pod.object("spec").get("ephemeralContainers").cloned();
    restore(pod, old);
    if let Some(spec) = pod.object_or_new("spec") {
        match containers {
            Some(containers) => spec.insert("ephemeralContainers".to_owned(), containers),
            None => spec.remove("ephemeralContainers"),
        };
    }
    raise_generation(pod, old);
}

/// Prepares a resize: restores everything but resources (MP-8). If containers were added, removed or reordered, the
/// spec is left unchanged, and validation refuses it.
pub fn prepare_resize(pod: &mut Map, old: &Map) {
    let spec = pod.object("spec").clone();
    let old_spec = old.object("spec");
    let lists = ["containers", "initContainers"];
    if lists.iter().any(|list| spec.list(list).len() != old_spec.list(list).len()) {
        return;
    }
    restore(pod, old);
    if let Some(restored) = pod.object_or_new("spec") {
        restored.copy("resources", &spec);
        for list in lists {
            resize_containers(restored, &spec, list);
        }
    }
    raise_generation(pod, old);
}

fn resize_containers(restored: &mut Map, sent: &Map, list: &str) {
    let names = |spec: &Map| -> Vec<String> {
        spec.list(list)
            .iter()
            .map(|container| container.as_object().map_or("", |c| c.text("name")).to_owned())
            .collect()
    };
    if names(restored) != names(sent) {
        restored.copy(list, sent);
        return;
    }
    for (container, sent) in restored.objects_mut(list).zip(sent.list(list)) {
        if let Some(sent) = sent.as_object() {
            container.copy("resizePolicy", sent);
            container.copy("resources", sent);
        }
    }
}

/// Restores everything of the old pod that these subresources cannot change.
fn restore(pod: &mut Map, old: &Map) {
    pod.copy("spec", old);
    pod.copy("status", old);
    fields::keep_metadata(pod, old);
    if let Some(metadata) = pod.object_or_new("metadata") {
        metadata.copy("deletionGracePeriodSeconds", old.metadata());
    }
}

fn raise_generation(pod: &mut Map, old: &Map) {
    let has_changed = !amount::same_optional(pod.get("spec"), old.get("spec"));
    fields::raise_generation(pod, old, has_changed);
}

/// Restores an omitted observed generation from the old condition of the same type.
fn keep_observed_generations(status: &mut Map, old: &Map) {
    if status.number("observedGeneration") == 0 && old.has("observedGeneration") {
        status.copy("observedGeneration", old);
    }
    // Of several conditions of a type, the first goes with the first.
    let mut known: HashMap<&str, VecDeque<i64>> = HashMap::new();
    for condition in old.objects("conditions") {
        known.entry(condition.text("type")).or_default().push_back(condition.number("observedGeneration"));
    }
    for condition in status.objects_mut("conditions") {
        let generation = known.get_mut(condition.text("type")).and_then(VecDeque::pop_front);
        if let Some(generation) = generation.filter(|generation| *generation != 0) {
            condition.default_number("observedGeneration", generation);
        }
    }
}

/// Drops fields of disabled feature gates, unless the old pod already uses them.
fn drop_disabled(pod: &mut Map, old: Option<&Map>) {
    let old_spec = old.and_then(|old| old.object_if_set("spec"));
    let uses_projection = |name: &str| {
        let volumes = old_spec.map_or(&[][..], |spec| spec.list("volumes"));
        let mut sources = volumes
            .iter()
            .filter_map(|volume| volume.get("projected").and_then(|projected| projected.get("sources")))
            .filter_map(Value::as_array)
            .flatten();
        sources.any(|source| source.get(name).is_some())
    };
    let dropped: Vec<&str> =
        ["clusterTrustBundle", "podCertificate"].into_iter().filter(|name| !uses_projection(name)).collect();
    let keeps_group = old_spec.is_some_and(|spec| spec.has("schedulingGroup"));
    let keeps_signals = old_spec.is_some_and(uses_stop_signals);
    let Some(spec) = pod.object_mut("spec") else { return };
    for volume in spec.objects_mut("volumes") {
        let Some(projected) = volume.object_mut("projected") else { continue };
        for source in projected.objects_mut("sources") {
            source.retain(|name, _| !dropped.contains(&name.as_str()));
        }
    }
    if !keeps_group {
        spec.remove("schedulingGroup");
    }
    if !keeps_signals {
        for list in CONTAINER_LISTS {
            spec.objects_mut(list).for_each(drop_stop_signal);
        }
    }
}

fn uses_stop_signals(spec: &Map) -> bool {
    CONTAINER_LISTS.iter().flat_map(|list| spec.list(list)).any(|container| {
        container.get("lifecycle").and_then(|lifecycle| lifecycle.get("stopSignal")).is_some()
    })
}

fn drop_stop_signal(container: &mut Map) {
    let Some(lifecycle) = container.object_mut("lifecycle") else { return };
    if lifecycle.remove("stopSignal").is_some() && lifecycle.is_empty() {
        container.remove("lifecycle");
    }
}

/// The maximum size of the value of a label, in bytes. A longer one is refused later, and not copied before.
const MAX_LABEL_VALUE: usize = 63;

/// Converts `matchLabelKeys` and `mismatchLabelKeys` of terms to expressions with the pod's own label values.
fn merge_label_keys(pod: &mut Map) {
    let labels = pod.metadata().object("labels").clone();
    let Some(spec) = pod.object_mut("spec") else { return };
    if let Some(affinity) = spec.object_mut("affinity") {
        for kind in ["podAffinity", "podAntiAffinity"] {
            let Some(kind) = affinity.object_mut(kind) else { continue };
            for weighted in kind.objects_mut("preferredDuringSchedulingIgnoredDuringExecution") {
                if let Some(term) = weighted.object_mut("podAffinityTerm") {
                    merge_keys(term, &labels);
                }
            }
            for term in kind.objects_mut("requiredDuringSchedulingIgnoredDuringExecution") {
                merge_keys(term, &labels);
            }
        }
    }
    for constraint in spec.objects_mut("topologySpreadConstraints") {
        merge_keys(constraint, &labels);
    }
}

fn merge_keys(term: &mut Map, labels: &Map) {
    let mut added = Vec::new();
    for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for key in term.list(field).iter().filter_map(Value::as_str) {
            if let Some(value) =
                labels.get(key).and_then(Value::as_str).filter(|it| it.len() <= MAX_LABEL_VALUE)
            {
                added.push(json!({ "key": key, "operator": operator, "values": [value] }));
            }
        }
    }
    // Without a selector a term matches nothing, whatever its keys.
    if let Some(selector) = term.object_mut("labelSelector") {
        for expression in added {
            selector.push_to("matchExpressions", expression);
        }
    }
}

/// AP-137: copies an old AppArmor annotation to the field of its container, unless it is the same as the pod's profile.
fn copy_app_armor(pod: &mut Map) {
    let annotations = pod.metadata().object_if_set("annotations").cloned().unwrap_or_default();
    let Some(spec) = pod.object_mut("spec") else { return };
    if spec.object("os").text("name") == "windows" {
        return;
    }
    let of_pod = spec.object("securityContext").get("appArmorProfile").cloned();
    for list in CONTAINER_LISTS {
        for container in spec.objects_mut(list) {
            let annotation = format!("{APP_ARMOR_PREFIX}{}", container.text("name"));
            let Some(profile) = annotations.get(&annotation).and_then(Value::as_str).and_then(app_armor)
            else {
                continue;
            };
            let has_own = container.object("securityContext").has("appArmorProfile");
            if has_own || Some(&profile) == of_pod.as_ref() {
                continue;
            }
            if let Some(context) = container.object_or_new("securityContext") {
                context.insert("appArmorProfile".to_owned(), profile);
            }
        }
    }
}

/// The profile from an annotation, if valid.
fn app_armor(annotation: &str) -> Option<Value> {
    let profile = match annotation {
        "runtime/default" => json!({ "type": "RuntimeDefault" }),
        "unconfined" => json!({ "type": "Unconfined" }),
        _ => {
            let name = annotation.strip_prefix("localhost/")?;
            json!({ "localhostProfile": name, "type": "Localhost" })
        }
    };
    let mut errors = Errors::new();
    security::app_armor(&Field::at("", Some(&profile)), &mut errors);
    errors.is_empty().then_some(profile)
}
