//! PersistentVolumeClaims.

use std::cmp::Reverse;

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::quantity::Quantity;
use serde_json::{Value, json};

use super::storage::{
    CLASS_ANNOTATION, class, class_name_errors, mode_errors, modes_cell, or_unset, phase_cell, protect,
    volume_mode_errors,
};
use crate::Map;
use crate::fields::{ErrorList, Errors, Members};
use crate::resource::{MetadataChecks, Resource, Subresource};
use crate::resources::cells::{AGE, NAME, age, name, text_column, wide_column};
use crate::resources::formats::{dns_label, dns_subdomain, qualified_name};
use crate::resources::quantities::{amount_errors, negative_error, positive_error, quantity, round_amounts};
use crate::resources::resource_names::is_native;
use crate::resources::scheduling::validate_label_selector;
use crate::resources::volume_sources::default_claim_spec;
use crate::schema;
use crate::schema::values;
use crate::table::{Column, Row};

/// The row of PersistentVolumeClaims.
pub static PERSISTENT_VOLUME_CLAIMS: Resource = Resource {
    kind: "PersistentVolumeClaim",
    plural: "persistentvolumeclaims",
    short_names: &["pvc"],
    subresources: &[Subresource::status("PersistentVolumeClaim")],
    schema: &schema::core::claim::PERSISTENT_VOLUME_CLAIM,
    metadata_checks: MetadataChecks { alone: 2, as_update: 1, knows_finalizers: true },
    deletes_to_object: true,
    default,
    prepare_create,
    validate_create: validate,
    prepare_update,
    validate_update,
    prepare_status: |claim, old| claim.copy("spec", old),
    validate_status: |claim, _| validate_status(claim),
    columns: COLUMNS,
    row,
    ..Resource::USUAL
};

/// The finalizer that keeps a claim until no pod uses it (AP-57).
pub const FINALIZER: &str = "kubernetes.io/pvc-protection";
const PENDING: &str = "Pending";
const BOUND: &str = "Bound";
/// The annotations that mark the default storage class.
const DEFAULT_CLASS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

/// AP-113 (table): returns the default StorageClass, the newest of those marked as default.
pub fn default_class<'a>(classes: impl Iterator<Item = &'a Map>) -> Option<&'a str> {
    let is_default = |class: &&Map| {
        let annotations = class.metadata().object("annotations");
        DEFAULT_CLASS.iter().any(|annotation| annotations.text(annotation) == "true")
    };
    let of = |class: &'a Map, member: &str| class.metadata().text(member);
    classes
        .filter(is_default)
        .min_by_key(|class| (Reverse(of(class, "creationTimestamp")), of(class, "name")))
        .map(|class| of(class, "name"))
}

/// AP-113 (table): returns whether a new claim gets the default class, because it names no class, not even the empty
/// one.
pub fn takes_default_class(claim: &Map) -> bool {
    !claim.metadata().object("annotations").contains_key(CLASS_ANNOTATION)
        && !claim.object("spec").has("storageClassName")
}

/// Sets the storage class of a new claim.
pub fn set_class(claim: &mut Map, class: &str) {
    if let Some(spec) = claim.object_or_new("spec") {
        spec.insert("storageClassName".to_owned(), Value::from(class));
    }
}

/// AP-133: returns why an update may not expand a claim, if so. The response is 403, before any validation. `expands`
/// returns whether the StorageClass of this name allows expansion; it is called only if needed.
pub fn growth_refusal(claim: &Map, old: &Map, expands: impl FnOnce(&str) -> bool) -> Option<&'static str> {
    if requested(claim) <= requested(old) {
        return None;
    }
    if old.object("status").text("phase") != BOUND {
        return Some("Only bound persistent volume claims can be expanded");
    }
    let (is, was) = (class(claim), class(old));
    let is_allowed = !is.is_empty() && is == was && expands(is);
    (!is_allowed).then_some(
        "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support \
         resize",
    )
}

/// The storage class of a claim; empty if it has none.
pub(crate) fn storage_class(claim: &Map) -> &str {
    class(claim)
}

/// The VolumeAttributesClasses of a claim: the one that it asks for, has, and is about to get.
pub(crate) fn attributes_classes(claim: &Map) -> Vec<&str> {
    let status = claim.object("status");
    let mut names = vec![
        claim.object("spec").text("volumeAttributesClassName"),
        status.text("currentVolumeAttributesClassName"),
        status.object("modifyVolumeStatus").text("targetVolumeAttributesClassName"),
    ];
    names.retain(|name| !name.is_empty());
    names
}

fn requested(claim: &Map) -> Quantity {
    quantity(claim.object("spec").object("resources").object("requests"), "storage").unwrap_or_default()
}

/// AP-113 (table).
fn default(claim: &mut Map) {
    if let Some(status) = claim.object_or_new("status") {
        status.default_text("phase", PENDING);
        round_amounts(status, "capacity");
        round_amounts(status, "allocatedResources");
    }
    let Some(spec) = claim.object_or_new("spec") else { return };
    default_claim_spec(spec);
}

/// AP-30, AP-57.
fn prepare_create(claim: &mut Map) {
    claim.insert("status".to_owned(), json!({ "phase": PENDING }));
    protect(claim, FINALIZER);
    if let Some(spec) = claim.object_or_new("spec") {
        prepare_data_source(spec, None);
    }
}

fn prepare_update(claim: &mut Map, old: &Map) {
    claim.copy("status", old);
    if let Some(spec) = claim.object_or_new("spec") {
        prepare_data_source(spec, Some(old.object("spec")));
    }
}

/// Synchronizes `dataSource` and `dataSourceRef`. The old field accepts claims and snapshots only, and drops others
/// silently; the new one does not support other namespaces.
fn prepare_data_source(spec: &mut Map, old: Option<&Map>) {
    let (source, reference) = ("dataSource", "dataSourceRef");
    let was_set = |member: &str| old.is_some_and(|old| old.has(member));
    let reaches_out = !spec.object(reference).text("namespace").is_empty();
    if reaches_out && !was_set(reference) {
        spec.remove(reference);
    }
    let is_kept = was_set(source) || was_set(reference) || spec.has(reference);
    if !is_kept && !is_claim_or_snapshot(spec.object(source)) {
        spec.remove(source);
    }
    match (spec.has(source), spec.has(reference)) {
        (true, false) => {
            let copy = Value::Object(spec.object(source).clone());
            spec.insert(reference.to_owned(), copy);
        }
        (false, true) if spec.object(reference).text("namespace").is_empty() => {
            let mut copy = spec.object(reference).clone();
            copy.remove("namespace");
            spec.insert(source.to_owned(), Value::Object(copy));
        }
        _ => {}
    }
}

fn is_claim_or_snapshot(source: &Map) -> bool {
    matches!(
        (source.text("kind"), source.text("apiGroup")),
        ("PersistentVolumeClaim", "") | ("VolumeSnapshot", "snapshot.storage.k8s.io")
    )
}

fn validate(claim: &Map) -> Errors {
    spec_errors(claim.object("spec"), None)
}

fn spec_errors(spec: &Map, old: Option<&Map>) -> Errors {
    let mut errors = mode_errors(spec);
    if spec.has("selector") {
        errors.extend(validate_label_selector("spec.selector", spec.object("selector"), true));
    }
    errors.extend(size_errors(spec));
    errors.extend(class_name_errors(spec, "storageClassName"));
    errors.extend(volume_mode_errors(spec));
    data_source_errors(spec, old, &mut errors);
    errors.extend(class_name_errors(spec, "volumeAttributesClassName"));
    errors
}

fn size_errors(spec: &Map) -> Errors {
    let field = "spec.resources[storage]";
    let requests = spec.object("resources").object("requests");
    let Some(size) = quantity(requests, "storage") else {
        return Errors::from([FieldError::required(field, "")]);
    };
    match positive_error(field, &size) {
        Some(error) => Errors::from([error]),
        None => amount_errors(field, "storage", requests.get("storage").unwrap_or(&Value::Null)),
    }
}

fn data_source_errors(spec: &Map, old: Option<&Map>, errors: &mut Errors) {
    let has_group = |member: &str| old.is_some_and(|old| old.object(member).has("apiGroup"));
    let is_group_free = has_group("dataSource") || has_group("dataSourceRef");
    for member in ["dataSource", "dataSourceRef"] {
        if spec.has(member) {
            source_errors(&format!("spec.{member}"), spec.object(member), is_group_free, errors);
        }
    }
    let (source, reference) = (spec.object("dataSource"), spec.object("dataSourceRef"));
    if !spec.has("dataSource") || !spec.has("dataSourceRef") {
        return;
    }
    let is_same =
        ["apiGroup", "kind", "name"].into_iter().all(|member| source.get(member) == reference.get(member));
    if !reference.text("namespace").is_empty() {
        let detail = "may not be specified when dataSourceRef.namespace is specified";
        errors.push(FieldError::invalid("spec", "spec.dataSource", detail));
    } else if !is_same {
        errors.push(FieldError::invalid("spec", "spec.dataSource", "must match dataSourceRef"));
    }
}

fn source_errors(field: &str, source: &Map, is_group_free: bool, errors: &mut Errors) {
    for member in ["name", "kind"] {
        if source.text(member).is_empty() {
            errors.push(FieldError::required(format!("{field}.{member}"), ""));
        }
    }
    let (group, kind, namespace) = (source.text("apiGroup"), source.text("kind"), source.text("namespace"));
    if group.is_empty() && kind != "PersistentVolumeClaim" {
        let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.push(FieldError::invalid(field, kind, detail));
    }
    if !group.is_empty() && !is_group_free {
        errors.extend(dns_subdomain(&format!("{field}.apiGroup"), group));
    }
    if !namespace.is_empty() {
        errors.extend(dns_label(&format!("{field}.namespace"), namespace));
    }
}

/// AP-133. Errors of the spec are reported twice, because the claim is validated on its own and as an update.
fn validate_update(claim: &Map, old: &Map) -> Errors {
    let (spec, old_spec) = (claim.object("spec"), old.object("spec"));
    let mut errors = spec_errors(spec, Some(old_spec));
    errors.extend(spec_errors(spec, Some(old_spec)));
    let (mut is, mut was) = (spec.clone(), old_spec.clone());
    // The volume name may be set once.
    if old_spec.text("volumeName").is_empty() {
        was.copy("volumeName", spec);
    }
    let annotation = |claim: &Map| {
        claim
            .metadata()
            .object("annotations")
            .get(CLASS_ANNOTATION)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let (class, old_class) = (annotation(claim), annotation(old));
    let named = Some(spec.text("storageClassName")).filter(|_| spec.has("storageClassName"));
    let gets_class = !old_spec.has("storageClassName") && named.is_some();
    let moves_class = gets_class
        && old_class.is_some()
        && old_class.as_deref() == named
        && class.as_ref().is_none_or(|class| Some(class) == old_class.as_ref());
    if !moves_class && class.as_deref().unwrap_or_default() != old_class.as_deref().unwrap_or_default() {
        let field = format!("metadata.annotations.{CLASS_ANNOTATION}");
        errors.push(FieldError::invalid(field, class.unwrap_or_default(), "field is immutable"));
    }
    // The class may be set later, to the class of the annotation if there is one.
    if moves_class || gets_class && (old_class.is_none() || old_class.as_deref() == named) {
        is.copy("storageClassName", old_spec);
    }
    if claim.object("status").text("phase") == BOUND {
        unify_bound(&mut is, old_spec);
    }
    unify_amounts(&mut is, &was);
    let detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName for \
            bound claims";
    errors.push_if(is != was, || FieldError::forbidden("spec", detail));
    let (size, capacity) = (requested(claim), old.object("status").object("capacity"));
    if size < requested(old) && size <= quantity(capacity, "storage").unwrap_or_default() {
        let detail = "field can not be less than status.capacity";
        errors.push(FieldError::forbidden("spec.resources.requests.storage", detail));
    }
    if spec.get("volumeMode") != old_spec.get("volumeMode") {
        errors.push(FieldError::invalid("volumeMode", spec.text("volumeMode"), "field is immutable"));
    }
    let attributes = "volumeAttributesClassName";
    if old_spec.has(attributes)
        && spec.text(attributes).is_empty()
        && spec.get(attributes) != old_spec.get(attributes)
    {
        let detail = "update from non-nil value to nil or an empty string is forbidden";
        errors.push(FieldError::forbidden("spec.volumeAttributesClassName", detail));
    }
    errors
}

/// The same amount may have another notation.
fn unify_amounts(is: &mut Map, was: &Map) {
    let Some(resources) = is.get_mut("resources").and_then(Value::as_object_mut) else { return };
    for member in ["limits", "requests"] {
        let was = was.object("resources").object(member);
        let Some(amounts) = resources.get_mut(member).and_then(Value::as_object_mut) else { continue };
        for resource in was.keys() {
            if quantity(amounts, resource) == quantity(was, resource) {
                amounts.copy(resource, was);
            }
        }
    }
}

/// A bound claim may request another size and another volume attributes class.
fn unify_bound(is: &mut Map, old: &Map) {
    if is.has("volumeAttributesClassName") {
        is.copy("volumeAttributesClassName", old);
    }
    let old_requests = old.object("resources").object("requests");
    let requests = is
        .get_mut("resources")
        .and_then(|resources| resources.get_mut("requests"))
        .and_then(Value::as_object_mut);
    if let Some(requests) = requests {
        requests.copy("storage", old_requests);
    }
}

fn validate_status(claim: &Map) -> Errors {
    let status = claim.object("status");
    let mut errors = Errors::new();
    if claim.object("spec").list("accessModes").is_empty() {
        // Kubernetes reports this path.
        errors.push(FieldError::required("Spec.accessModes", ""));
    }
    let capacity = status.object("capacity");
    for resource in capacity.keys() {
        let amount = quantity(capacity, resource).unwrap_or_default();
        errors.extend(negative_error(&format!("status.capacity[{resource}]"), &amount));
    }
    let field = "status.allocatedResourceStatus";
    for (resource, state) in status.object("allocatedResourceStatuses") {
        errors.extend(resource_errors(field, resource));
        if !state.as_str().is_some_and(|state| values::CLAIM_RESIZES.contains(&state)) {
            errors.push(FieldError::not_supported(field, resource.as_str(), values::CLAIM_RESIZES));
        }
    }
    let allocated = status.object("allocatedResources");
    for (resource, amount) in allocated {
        let faults = resource_errors("status.allocatedResources", resource);
        if faults.is_empty() {
            errors.extend(amount_errors(
                &format!("status.allocatedResources[{resource}]"),
                "storage",
                amount,
            ));
        }
        errors.extend(faults);
    }
    errors
}

/// The only resource of Kubernetes itself that can be allocated is storage.
fn resource_errors(field: &str, resource: &str) -> Errors {
    let errors = qualified_name(field, resource);
    if !errors.is_empty() || !is_native(resource) || resource == "storage" {
        return errors;
    }
    Errors::from([FieldError::not_supported(field, resource, &["storage"])])
}

const COLUMNS: &[Column] = &[
    NAME,
    text_column("Status", "Whether the claim is bound to a volume."),
    text_column("Volume", "The volume."),
    text_column("Capacity", "How much the volume holds."),
    text_column("Access Modes", "From how many nodes the volume is used, and how."),
    text_column("StorageClass", "Of which class the volume is to be."),
    text_column("VolumeAttributesClass", "Which class of attributes the volume is to have."),
    AGE,
    wide_column("VolumeMode", "Whether the volume is a file system or a device."),
];

/// AP-92: once a claim has a volume, its capacity and access modes come from the status.
fn row(claim: &Map, now: i64) -> Row {
    let (spec, status) = (claim.object("spec"), claim.object("status"));
    let volume = spec.text("volumeName");
    let (capacity, modes) = match volume {
        "" => (Value::from(""), Value::from("")),
        _ => {
            let capacity = quantity(status.object("capacity"), "storage").unwrap_or_default();
            (Value::from(capacity.to_string()), modes_cell(status))
        }
    };
    Row::of(vec![
        name(claim),
        phase_cell(claim),
        Value::from(volume),
        capacity,
        modes,
        Value::from(class(claim)),
        or_unset(spec, "volumeAttributesClassName"),
        age(claim, now),
        or_unset(spec, "volumeMode"),
    ])
}
