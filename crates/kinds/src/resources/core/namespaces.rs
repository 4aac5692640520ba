//! Namespaces, and what their deletion waits for (AP-58, AP-59).

use std::borrow::Cow;

use portcullis_policy::field_error::FieldError;
use serde_json::Value;

use crate::Map;
use crate::resource::{NameRule, Resource, Selectable, Subresource};
use crate::resources::cells::{AGE, NAME, age, name as name_cell, text_column};
use crate::resources::core::names::finalizer_errors;
use crate::resources::fields::{default_text, is_terminating, keep, name, object, object_mut, text, texts};
use crate::schema;
use crate::table::{Column, Row};

/// The row of Namespaces.
pub static NAMESPACES: Resource = Resource {
    kind: "Namespace",
    plural: "namespaces",
    short_names: &["ns"],
    is_namespaced: false,
    subresources: &[
        Subresource { name: "finalize", kind: "Namespace", group: None, version: None, verbs: &["update"] },
        Subresource::status("Namespace"),
    ],
    schema: &schema::core::small::NAMESPACE,
    names: NameRule::Label,
    selectable: &[Selectable { name: "status.phase", value: |namespace| Cow::Borrowed(phase(namespace)) }],
    selects_namespace: false,
    deletes_to_object: true,
    default,
    prepare_create,
    validate_create: validate,
    prepare_update,
    validate_update: |namespace, _| validate(namespace),
    prepare_status: |namespace, old| keep(namespace, old, "spec"),
    validate_status: |namespace, _| validate_phase(namespace),
    columns: &[NAME, STATUS, AGE],
    row: |namespace, now| Row {
        cells: vec![name_cell(namespace), Value::from(phase(namespace)), age(namespace, now)],
        completed: None,
    },
    ..Resource::USUAL
};

const STATUS: Column = text_column("Status", "Whether the namespace is in use or being emptied.");

/// The label that repeats the name (AP-58).
pub const NAME_LABEL: &str = "kubernetes.io/metadata.name";
/// The entry of `spec.finalizers` that holds a namespace until it is empty (AP-58).
pub const FINALIZER: &str = "kubernetes";
/// The namespaces that cannot be deleted (403).
pub const UNDELETABLE: &[&str] = &["default", "kube-public", "kube-system"];
/// The phase of a namespace that is in use.
pub const ACTIVE: &str = "Active";
/// The phase of a namespace that is being emptied.
pub const TERMINATING: &str = "Terminating";

/// What a delete of a namespace does (AP-59).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// The first delete: the deletion time is set, and the phase ([`set_terminating`]).
    Begins,
    /// Its `spec.finalizers` hold it as it is.
    Waits,
    /// Nothing of the spec holds it: it is deleted as any object, which `metadata.finalizers` may hold.
    Completes,
}

/// AP-59: the first delete only begins, even of a namespace without finalizers.
pub fn deletion(namespace: &Map) -> Deletion {
    if !is_terminating(namespace) {
        return Deletion::Begins;
    }
    match texts(object(namespace, "spec"), "finalizers").len() {
        0 => Deletion::Completes,
        _ => Deletion::Waits,
    }
}

/// AP-59: the phase of a namespace whose deletion begins.
pub fn set_terminating(namespace: &mut Map) {
    if let Some(status) = object_mut(namespace, "status") {
        status.insert("phase".to_owned(), Value::from(TERMINATING));
    }
}

/// AP-58: an update through `finalize` keeps the status (first the new, then the old object).
pub fn prepare_finalize(namespace: &mut Map, old: &Map) {
    keep(namespace, old, "status");
    name_label(namespace);
}

/// Everything wrong with an update through `finalize`, apart from the metadata.
pub fn validate_finalize(namespace: &Map) -> Vec<FieldError> {
    texts(object(namespace, "spec"), "finalizers")
        .enumerate()
        .flat_map(|(i, finalizer)| finalizer_errors(&format!("spec.finalizers[{i}]"), finalizer))
        .collect()
}

fn phase(namespace: &Map) -> &str {
    text(object(namespace, "status"), "phase")
}

fn default(namespace: &mut Map) {
    name_label(namespace);
    if let Some(status) = object_mut(namespace, "status") {
        default_text(status, "phase", ACTIVE);
    }
}

/// AP-58: the label repeats the name. A name that is made from `generateName` is not there at first.
fn name_label(namespace: &mut Map) {
    let name = name(namespace).to_owned();
    if name.is_empty() {
        return;
    }
    let labels = object_mut(namespace, "metadata").and_then(|metadata| object_mut(metadata, "labels"));
    if let Some(labels) = labels {
        labels.insert(NAME_LABEL.to_owned(), Value::from(name));
    }
}

/// AP-58: `kubernetes` among the finalizers, the phase Active, and no other status (AP-30).
fn prepare_create(namespace: &mut Map) {
    name_label(namespace);
    namespace.insert("status".to_owned(), serde_json::json!({ "phase": ACTIVE }));
    let Some(spec) = object_mut(namespace, "spec") else { return };
    if texts(spec, "finalizers").any(|finalizer| finalizer == FINALIZER) {
        return;
    }
    let finalizers = spec.entry("finalizers").or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(finalizers) = finalizers {
        finalizers.push(Value::from(FINALIZER));
    }
}

/// AP-58: `spec.finalizers` change through `finalize` alone; AP-42.
fn prepare_update(namespace: &mut Map, old: &Map) {
    keep(namespace, old, "spec");
    keep(namespace, old, "status");
    name_label(namespace);
}

fn validate(namespace: &Map) -> Vec<FieldError> {
    texts(object(namespace, "spec"), "finalizers")
        .flat_map(|finalizer| finalizer_errors("spec.finalizers", finalizer))
        .collect()
}

/// The phase says whether the namespace is under deletion.
fn validate_phase(namespace: &Map) -> Vec<FieldError> {
    let (expected, detail) = match is_terminating(namespace) {
        true => (TERMINATING, "may only be 'Terminating' if `deletionTimestamp` is not empty"),
        false => (ACTIVE, "may only be 'Active' if `deletionTimestamp` is empty"),
    };
    match phase(namespace) {
        phase if phase == expected => Vec::new(),
        phase => vec![FieldError::invalid("status.Phase", phase, detail)],
    }
}
