//! Validation of persistent volumes.

use portcullis_apimachinery::field_error::FieldError;
use serde_json::Value;

use super::sources;
use crate::Map;
use crate::fields::{ErrorList, Errors, Members};
use crate::resources::core::storage::{class_name_errors, mode_errors, volume_mode_errors};
use crate::resources::formats::dns_subdomain;
use crate::resources::quantities::{negative_error, positive_error};
use crate::resources::scheduling::validate_node_selector;
use crate::schema::values;

/// The annotation that preceded `mountOptions`.
const MOUNT_OPTIONS: &str = "volume.beta.kubernetes.io/mount-options";

/// Renamed node labels.
const RENAMED_LABELS: &[(&str, &str)] = &[
    ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
    ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
    ("beta.kubernetes.io/os", "kubernetes.io/os"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
];

pub(super) fn validate(volume: &Map) -> Errors {
    let mut errors = spec_errors(volume);
    errors.extend(mount_option_error(volume));
    errors
}

/// AP-133. Errors of the spec are reported twice, because the volume is validated on its own and as an update.
pub(super) fn validate_update(volume: &Map, old: &Map) -> Errors {
    let mut errors = validate(volume);
    errors.extend(spec_errors(volume));
    let (spec, old_spec) = (volume.object("spec"), old.object("spec"));
    if sources::of(spec, old_spec) != sources::of(old_spec, old_spec) {
        let detail = "spec.persistentvolumesource is immutable after creation";
        errors.push(FieldError::forbidden("spec.persistentvolumesource", detail));
    }
    if spec.get("volumeMode") != old_spec.get("volumeMode") {
        errors.push(FieldError::invalid("volumeMode", spec.text("volumeMode"), "field is immutable"));
    }
    if old_spec.has("nodeAffinity") && !is_same_affinity(spec, old_spec) {
        let affinity = Value::Object(spec.object("nodeAffinity").clone()).to_string();
        let detail = "field is immutable, except for updating from beta label to GA";
        errors.push(FieldError::invalid("nodeAffinity", affinity, detail));
    }
    if old_spec.has("volumeAttributesClassName") && !spec.has("volumeAttributesClassName") {
        let detail = "update from non-nil value to nil is forbidden";
        errors.push(FieldError::forbidden("spec.volumeAttributesClassName", detail));
    }
    errors
}

/// Returns whether the node affinity is unchanged; labels may have been renamed.
fn is_same_affinity(spec: &Map, old: &Map) -> bool {
    if !spec.has("nodeAffinity") {
        return false;
    }
    let mut masked = old.object("nodeAffinity").clone();
    let terms = spec.object("nodeAffinity").object("required").objects("nodeSelectorTerms");
    if let Some(required) = masked.get_mut("required").and_then(Value::as_object_mut) {
        for (was, is) in required.objects_mut("nodeSelectorTerms").zip(terms) {
            for member in ["matchExpressions", "matchFields"] {
                for (was, is) in was.objects_mut(member).zip(is.objects(member)) {
                    let pair = (was.text("key"), is.text("key"));
                    if RENAMED_LABELS.contains(&pair) {
                        was.insert("key".to_owned(), Value::from(is.text("key")));
                    }
                }
            }
        }
    }
    masked == *spec.object("nodeAffinity")
}

/// Returns an error if the volume does not support mount options.
fn mount_option_error(volume: &Map) -> Option<FieldError> {
    let has_option = volume.metadata().object("annotations").contains_key(MOUNT_OPTIONS);
    let takes_options = sources::takes_mount_options(volume.object("spec"));
    (has_option && !takes_options).then(|| {
        let field = format!("metadata.annotations.{MOUNT_OPTIONS}");
        FieldError::forbidden(field, "may not specify mount options for this volume type")
    })
}

fn spec_errors(volume: &Map) -> Errors {
    let spec = volume.object("spec");
    let mut errors = mode_errors(spec);
    capacity_errors(spec, &mut errors);
    match spec.text("persistentVolumeReclaimPolicy") {
        "" => {}
        known if values::RECLAIM_POLICIES.contains(&known) => {}
        policy => errors.push(FieldError::not_supported(
            "spec.persistentVolumeReclaimPolicy",
            policy,
            values::RECLAIM_POLICIES,
        )),
    }
    if spec.has("nodeAffinity") {
        let affinity = spec.object("nodeAffinity");
        match affinity.has("required") {
            true => errors
                .extend(validate_node_selector("spec.nodeAffinity.required", affinity.object("required"))),
            false => errors.push(FieldError::required(
                "spec.nodeAffinity.required",
                "must specify required node constraints",
            )),
        }
    }
    errors.extend(sources::errors(spec, volume.metadata().text("name")));
    errors.extend(class_name_errors(spec, "storageClassName"));
    errors.extend(volume_mode_errors(spec));
    if spec.has("volumeAttributesClassName") {
        let field = "spec.volumeAttributesClassName";
        match spec.text("volumeAttributesClassName") {
            "" => errors.push(FieldError::required(field, "an empty string is disallowed")),
            class => errors.extend(dns_subdomain(field, class)),
        }
        let detail = "has to be specified when using volumeAttributesClassName";
        errors.push_if(!spec.has("csi"), || FieldError::required("spec.csi", detail));
    }
    errors
}

/// The capacity must contain storage only.
fn capacity_errors(spec: &Map, errors: &mut Errors) {
    let capacity = spec.object("capacity");
    let field = "spec.capacity";
    errors.push_if(capacity.is_empty(), || FieldError::required(field, ""));
    if !capacity.contains_key("storage") || capacity.len() > 1 {
        let shown = Value::Object(capacity.clone()).to_string();
        errors.push(FieldError::not_supported(field, shown, &["storage"]));
    }
    for resource in capacity.keys() {
        let Some(amount) = crate::resources::quantities::quantity(capacity, resource) else { continue };
        let field = format!("{field}[{resource}]");
        errors.extend(negative_error(&field, &amount));
        errors.extend(positive_error(&field, &amount));
    }
}
