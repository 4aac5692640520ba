//! Rules shared by volumes and claims.

use portcullis_apimachinery::field_error::FieldError;
use serde_json::{Value, json};

use crate::Map;
use crate::fields::{Errors, Members};
use crate::resources::formats::dns_subdomain;
use crate::schema::values;

/// The access modes with their abbreviations, in the order of tables.
const MODES: &[(&str, &str)] = &[
    ("ReadWriteOnce", "RWO"),
    ("ReadOnlyMany", "ROX"),
    ("ReadWriteMany", "RWX"),
    ("ReadWriteOncePod", "RWOP"),
];
/// The mode that cannot be combined with others.
const ALONE: &str = "ReadWriteOncePod";
/// The table cell of a class or mode that is not set.
pub(super) const UNSET: &str = "<unset>";
/// The annotation that preceded `storageClassName`.
pub(super) const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// Validates the access modes of a spec.
pub(super) fn mode_errors(spec: &Map) -> Errors {
    let field = "spec.accessModes";
    let is_known = |mode: &str| values::VOLUME_ACCESS_MODES.contains(&mode);
    let mut errors = Errors::new();
    if spec.texts("accessModes").len() == 0 {
        errors.push(FieldError::required(field, "at least 1 access mode is required"));
    }
    let known = values::VOLUME_ACCESS_MODES;
    let unknown = spec.texts("accessModes").filter(|mode| !is_known(mode));
    errors.extend(unknown.map(|mode| FieldError::not_supported(field, mode, known)));
    let has_alone = spec.texts("accessModes").any(|mode| mode == ALONE);
    if has_alone && spec.texts("accessModes").any(|mode| mode != ALONE && is_known(mode)) {
        errors.push(FieldError::forbidden(field, "may not use ReadWriteOncePod with other access modes"));
    }
    errors
}

/// AP-92: the abbreviated access modes.
pub(super) fn modes_cell(map: &Map) -> Value {
    let modes = MODES.iter().filter(|(mode, _)| map.texts("accessModes").any(|it| it == *mode));
    Value::from(modes.map(|(_, short)| *short).collect::<Vec<_>>().join(","))
}

/// Validates the mode of a volume.
pub(super) fn volume_mode_errors(spec: &Map) -> Option<FieldError> {
    let mode = spec.text("volumeMode");
    let is_fine = !spec.has("volumeMode") || values::VOLUME_MODES.contains(&mode);
    (!is_fine).then(|| FieldError::not_supported("spec.volumeMode", mode, values::VOLUME_MODES))
}

/// Validates the name of a class; an empty one means none.
pub(super) fn class_name_errors(spec: &Map, member: &str) -> Errors {
    match spec.text(member) {
        "" => Errors::new(),
        class => dns_subdomain(&format!("spec.{member}"), class),
    }
}

/// The storage class of a volume or claim; empty if there is none.
pub(super) fn class(object_: &Map) -> &str {
    match object_.metadata().object("annotations").get(CLASS_ANNOTATION) {
        Some(class) => class.as_str().unwrap_or_default(),
        None => object_.object("spec").text("storageClassName"),
    }
}

/// The table cell of a string in the spec.
pub(super) fn or_unset(spec: &Map, member: &str) -> Value {
    Value::from(if spec.has(member) { spec.text(member) } else { UNSET })
}

/// The table cell of the phase.
pub(super) fn phase_cell(object_: &Map) -> Value {
    match crate::meta::is_terminating(object_) {
        true => Value::from("Terminating"),
        false => Value::from(object_.object("status").text("phase")),
    }
}

/// AP-57: adds a finalizer, which a controller removes when the object is unused.
pub(super) fn protect(object: &mut Map, finalizer: &str) {
    let Some(metadata) = object.object_or_new("metadata") else { return };
    if metadata.texts("finalizers").any(|it| it == finalizer) {
        return;
    }
    match metadata.get_mut("finalizers") {
        Some(Value::Array(finalizers)) => finalizers.push(Value::from(finalizer)),
        _ => {
            metadata.insert("finalizers".to_owned(), json!([finalizer]));
        }
    }
}
