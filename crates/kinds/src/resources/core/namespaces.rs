//! Namespaces, and their deletion (AP-58, AP-59).

use std::borrow::Cow;

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::names::NameRule;
use serde_json::Value;

use crate::Map;
use crate::fields::{Errors, Members};
use crate::meta::{is_terminating, name};
use crate::resource::{Deletion, Keeps, Resource, Selectable, Subresource, Update};
use crate::resources::cells::{AGE, NAME, age, name as name_cell, text_column};
use crate::resources::core::names::finalizer_errors;
use crate::schema;
use crate::table::{Column, Row};
use portcullis_apimachinery::time::Instant;

/// The row of Namespaces.
pub static NAMESPACES: Resource = Resource {
    kind: "Namespace",
    plural: "namespaces",
    short_names: &["ns"],
    is_namespaced: false,
    is_namespace: true,
    // Some are trusted to bootstrap nodes.
    grants_permissions: true,
    // They cannot be deleted as a collection (AP-2).
    verbs: &["create", "delete", "get", "list", "patch", "update", "watch"],
    subresources: &[
        Subresource {
            verbs: &["update"],
            ..Subresource::object(
                "finalize",
                "Namespace",
                &Update {
                    prepare: prepare_finalize,
                    validate: |namespace, _| validate_finalize(namespace),
                    keeps: Keeps::Except(&["status"]),
                    ..Update::NOTHING
                },
            )
        },
        Subresource::status("Namespace"),
    ],
    schema: &schema::core::small::NAMESPACE,
    names: NameRule::Label,
    selectable: &[Selectable::new("status.phase", |namespace| Cow::Borrowed(phase(namespace)))],
    selects_namespace: false,
    deletes_to_object: true,
    default,
    prepare_create,
    validate_create: validate,
    prepare_update,
    validate_update: |namespace, _| validate(namespace),
    prepare_status: |namespace, old| namespace.copy("spec", old),
    validate_status: |namespace, _| validate_phase(namespace),
    delete: |namespace, _, now| delete(namespace, now),
    is_held,
    columns: &[NAME, STATUS, AGE],
    row: |namespace, now| {
        Row::of(vec![name_cell(namespace), Value::from(phase(namespace)), age(namespace, now)])
    },
    ..Resource::USUAL
};

const STATUS: Column = text_column("Status", "Whether the namespace is in use or being emptied.");

/// The label that repeats the name (AP-58).
pub const NAME_LABEL: &str = "kubernetes.io/metadata.name";
/// The entry of `spec.finalizers` that keeps a namespace until it is empty (AP-58).
pub const FINALIZER: &str = "kubernetes";
/// The namespaces that cannot be deleted (403).
pub const UNDELETABLE: &[&str] = &["default", "kube-public", "kube-system"];
/// The phase of an active namespace.
pub const ACTIVE: &str = "Active";
/// The phase of a namespace that is being deleted.
pub const TERMINATING: &str = "Terminating";

/// AP-59: the first delete only begins, even of a namespace without finalizers: the deletion time and the phase are
/// set. Later ones wait for `spec.finalizers`, and then the namespace is deleted as any object.
fn delete(namespace: &Map, now: i64) -> Deletion {
    if is_terminating(namespace) {
        return if is_held(namespace) { Deletion::Waits } else { Deletion::Proceeds };
    }
    let mut marked = namespace.clone();
    if let Some(metadata) = marked.object_or_new("metadata") {
        metadata.insert("deletionTimestamp".to_owned(), Value::from(Instant::of_seconds(now).to_string()));
    }
    if let Some(status) = marked.object_or_new("status") {
        status.insert("phase".to_owned(), Value::from(TERMINATING));
    }
    Deletion::Begins(marked)
}

/// AP-44: the spec of a namespace has finalizers, too.
fn is_held(namespace: &Map) -> bool {
    namespace.object("spec").texts("finalizers").len() > 0
}

/// AP-58: an update of `finalize` keeps the status. The arguments are the new and the old object.
pub fn prepare_finalize(namespace: &mut Map, old: &Map) {
    namespace.copy("status", old);
    name_label(namespace);
}

/// Validates an update of `finalize`, without the metadata.
pub fn validate_finalize(namespace: &Map) -> Errors {
    namespace
        .object("spec")
        .texts("finalizers")
        .enumerate()
        .flat_map(|(i, finalizer)| finalizer_errors(&format!("spec.finalizers[{i}]"), finalizer))
        .collect()
}

fn phase(namespace: &Map) -> &str {
    namespace.object("status").text("phase")
}

fn default(namespace: &mut Map) {
    name_label(namespace);
    if let Some(status) = namespace.object_or_new("status") {
        status.default_text("phase", ACTIVE);
    }
}

/// AP-58: sets the label to the name. A name from `generateName` is not known at first.
fn name_label(namespace: &mut Map) {
    let name = name(namespace).to_owned();
    if name.is_empty() {
        return;
    }
    let labels = namespace.object_or_new("metadata").and_then(|metadata| metadata.object_or_new("labels"));
    if let Some(labels) = labels {
        labels.insert(NAME_LABEL.to_owned(), Value::from(name));
    }
}

/// AP-58: adds finalizer `kubernetes`, sets the phase to Active, and drops any other status (AP-30).
fn prepare_create(namespace: &mut Map) {
    name_label(namespace);
    namespace.insert("status".to_owned(), serde_json::json!({ "phase": ACTIVE }));
    let Some(spec) = namespace.object_or_new("spec") else { return };
    if spec.texts("finalizers").any(|finalizer| finalizer == FINALIZER) {
        return;
    }
    let finalizers = spec.entry("finalizers").or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(finalizers) = finalizers {
        finalizers.push(Value::from(FINALIZER));
    }
}

/// AP-58: `spec.finalizers` can only be changed through `finalize`; AP-42.
fn prepare_update(namespace: &mut Map, old: &Map) {
    namespace.copy("spec", old);
    namespace.copy("status", old);
    name_label(namespace);
}

fn validate(namespace: &Map) -> Errors {
    namespace
        .object("spec")
        .texts("finalizers")
        .flat_map(|finalizer| finalizer_errors("spec.finalizers", finalizer))
        .collect()
}

/// The phase must match whether the namespace is being deleted.
fn validate_phase(namespace: &Map) -> Errors {
    let (expected, detail) = match is_terminating(namespace) {
        true => (TERMINATING, "may only be 'Terminating' if `deletionTimestamp` is not empty"),
        false => (ACTIVE, "may only be 'Active' if `deletionTimestamp` is empty"),
    };
    match phase(namespace) {
        phase if phase == expected => Errors::new(),
        phase => Errors::from([FieldError::invalid("status.Phase", phase, detail)]),
    }
}
