//! ReplicaSets, which keep a number of equal pods running.

use std::borrow::Cow;

use portcullis_apimachinery::field_error::FieldError;
use serde_json::{Value, json};

use super::APPS;
use super::scale::of_selector;
use super::templates::{CONTAINERS, IMAGES, SELECTOR, container_cells, validate_selected};
use crate::Map;
use crate::fields::{Errors, Members};
use crate::resource::{Resource, Selectable, Subresource};
use crate::resources::cells::{AGE, NAME, age, integer_column, name};
use crate::resources::formats::{immutable, not_negative};
use crate::resources::label_selectors;
use crate::resources::pods::default_template;
use crate::resources::status;
use crate::schema::apps::{REPLICA_SET, REPLICA_SET_STATUS};
use crate::table::{Column, Row};

/// The row of ReplicaSets.
pub static REPLICA_SETS: Resource = Resource {
    kind: "ReplicaSet",
    plural: "replicasets",
    short_names: &["rs"],
    categories: &["all"],
    subresources: &[of_selector(), Subresource::status("ReplicaSet")],
    schema: &REPLICA_SET,
    selectable: &[Selectable::new("status.replicas", replicas)],
    default,
    prepare_create: |set| status::begin(set, &REPLICA_SET_STATUS),
    validate_create: |set| validate(set, None),
    prepare_update: status::keep,
    validate_update: |set, old| {
        let selector = |object: &Map| object.object("spec").get("selector").cloned();
        let mut errors = validate(set, Some(old));
        errors.extend(immutable("spec.selector", selector(set), selector(old)));
        errors
    },
    prepare_status: status::keep_spec,
    validate_status: |set, _| validate_status(set),
    columns: COLUMNS,
    row,
    ..APPS
};

pub(super) const COLUMNS: &[Column] = &[
    NAME,
    integer_column("Desired", "How many pods are wanted."),
    integer_column("Current", "How many pods there are."),
    integer_column("Ready", "How many pods are ready."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

/// The number of pods, as field selectors compare it.
pub(super) fn replicas(set: &Map) -> Cow<'_, str> {
    Cow::Owned(set.object("status").number("replicas").to_string())
}

fn default(set: &mut Map) {
    let Some(spec) = set.object_or_new("spec") else { return };
    spec.default_value("replicas", 1);
    if let Some(template) = spec.object_or_new("template") {
        default_template(template);
    }
}

fn validate(set: &Map, old: Option<&Map>) -> Errors {
    let spec = set.object("spec");
    let mut errors = not_negative("spec", spec, &["replicas", "minReadySeconds"]);
    errors.extend(validate_selected("deployment", spec, old.map(|old| old.object("spec")), old.is_none()));
    errors
}

/// For replica sets and replication controllers.
pub(super) fn validate_status(set: &Map) -> Errors {
    let counters = [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "terminatingReplicas",
        "observedGeneration",
    ];
    let status = set.object("status");
    let mut errors = not_negative("status", status, &counters);
    let parts = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
    let more = parts.into_iter().filter(|part| status.number(part) > status.number("replicas"));
    errors.extend(more.map(|part| more_than(status, part, "replicas")));
    if status.number("availableReplicas") > status.number("readyReplicas") {
        errors.push(more_than(status, "availableReplicas", "readyReplicas"));
    }
    errors
}

fn more_than(status: &Map, part: &str, whole: &str) -> FieldError {
    FieldError::invalid(
        format!("status.{part}"),
        status.number(part).to_string(),
        format!("cannot be greater than status.{whole}"),
    )
}

fn row(set: &Map, now: i64) -> Row {
    let selector = label_selectors::text(set.object("spec").object("selector"));
    row_with(set, now, selector)
}

/// The row of a set with this selector.
pub(super) fn row_with(set: &Map, now: i64, selector: String) -> Row {
    let (spec, status) = (set.object("spec"), set.object("status"));
    let [containers, images] = container_cells(spec.object("template"));
    let count = |of: &Map, member: &str| json!(of.number(member));
    let cells: Vec<Value> = vec![
        name(set),
        count(spec, "replicas"),
        count(status, "replicas"),
        count(status, "readyReplicas"),
        age(set, now),
        containers,
        images,
        label_selectors::cell(selector),
    ];
    Row::of(cells)
}
