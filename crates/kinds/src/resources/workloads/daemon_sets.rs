//! DaemonSets, which run a pod on every node.

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::quote::quoted;
use serde_json::json;

use super::APPS;
use super::rollout::rolling_errors;
use super::templates::{CONTAINERS, IMAGES, SELECTOR, container_cells, validate_selected};
use crate::Map;
use crate::fields::{ErrorList, Errors, Members};
use crate::resource::{Resource, Subresource};
use crate::resources::cells::{AGE, NAME, age, integer_column, name, text_column};
use crate::resources::formats::{immutable, not_negative};
use crate::resources::label_selectors::{cell, labels_text, text};
use crate::resources::pods::{default_template, same_value};
use crate::resources::status;
use crate::schema::apps::{DAEMON_SET, DAEMON_SET_STATUS};
use crate::schema::values;
use crate::table::{Column, Row};

/// The row of DaemonSets.
pub static DAEMON_SETS: Resource = Resource {
    kind: "DaemonSet",
    plural: "daemonsets",
    short_names: &["ds"],
    categories: &["all"],
    subresources: &[Subresource::status("DaemonSet")],
    schema: &DAEMON_SET,
    default,
    prepare_create: |set| {
        status::begin(set, &DAEMON_SET_STATUS);
        let first = template_generation(set).max(1);
        set_template_generation(set, first);
    },
    validate_create: |set| validate(set, None),
    prepare_update,
    validate_update: |set, old| {
        let selector = |object: &Map| object.object("spec").get("selector").cloned();
        let mut errors = validate(set, Some(old));
        errors.extend(immutable("spec.selector", selector(set), selector(old)));
        errors
    },
    prepare_status: status::keep_spec,
    validate_status: |set, _| not_negative("status", set.object("status"), &COUNTERS),
    columns: COLUMNS,
    row,
    ..APPS
};

const COLUMNS: &[Column] = &[
    NAME,
    integer_column("Desired", "How many nodes should run a pod."),
    integer_column("Current", "How many of them run a pod."),
    integer_column("Ready", "How many of those pods are ready."),
    integer_column("Up-to-date", "How many pods are of the current template."),
    integer_column("Available", "How many pods have been ready for long enough."),
    text_column("Node Selector", "Which nodes should run a pod."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

const COUNTERS: [&str; 9] = [
    "collisionCount",
    "currentNumberScheduled",
    "desiredNumberScheduled",
    "numberAvailable",
    "numberMisscheduled",
    "numberReady",
    "numberUnavailable",
    "observedGeneration",
    "updatedNumberScheduled",
];

/// Counts the templates that a set has had. It was a field before `apps/v1`, and controllers still read it.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn template_generation(set: &Map) -> i64 {
    set.metadata().object("annotations").text(TEMPLATE_GENERATION).parse().unwrap_or_default()
}

fn set_template_generation(set: &mut Map, generation: i64) {
    let annotations =
        set.object_or_new("metadata").and_then(|metadata| metadata.object_or_new("annotations"));
    if let Some(annotations) = annotations {
        annotations.insert(TEMPLATE_GENERATION.to_owned(), generation.to_string().into());
    }
}

fn default(set: &mut Map) {
    let Some(spec) = set.object_or_new("spec") else { return };
    if let Some(template) = spec.object_or_new("template") {
        default_template(template);
    }
    if let Some(strategy) = spec.object_or_new("updateStrategy") {
        strategy.default_text("type", "RollingUpdate");
        if strategy.text("type") == "RollingUpdate"
            && let Some(rolling) = strategy.object_or_new("rollingUpdate")
        {
            rolling.default_value("maxUnavailable", 1);
            rolling.default_value("maxSurge", 0);
        }
    }
    spec.default_value("revisionHistoryLimit", 10);
}

fn prepare_update(set: &mut Map, old: &Map) {
    status::keep(set, old);
    let template = |object: &Map| object.object("spec").get("template").cloned();
    let has_changed = !same_value(template(set).as_ref(), template(old).as_ref());
    let generation = template_generation(old).saturating_add(i64::from(has_changed));
    set_template_generation(set, generation);
}

fn validate(set: &Map, old: Option<&Map>) -> Errors {
    let spec = set.object("spec");
    let mut errors = validate_selected("daemonset", spec, old.map(|old| old.object("spec")), old.is_none());
    errors.extend(not_negative("spec", spec, &["minReadySeconds", "revisionHistoryLimit"]));
    let strategy = spec.object("updateStrategy");
    match strategy.text("type") {
        "OnDelete" => {}
        "RollingUpdate" => {
            let rolling = strategy.object("rollingUpdate");
            let field = "spec.updateStrategy.rollingUpdate";
            errors.extend(rolling_errors(field, rolling));
            let is_some = |member: &str| {
                rolling.get(member).is_some_and(|amount| *amount != json!(0) && *amount != json!("0%"))
            };
            errors.push_if(is_some("maxUnavailable") && is_some("maxSurge"), || {
                let detail = "may not be set when maxUnavailable is non-zero";
                FieldError::invalid(format!("{field}.maxSurge"), "", detail)
            });
        }
        other => errors.push(FieldError::not_supported(
            "spec.updateStrategy.type",
            quoted(other),
            values::DAEMON_SET_STRATEGIES,
        )),
    }
    errors
}

fn row(set: &Map, now: i64) -> Row {
    let (spec, status) = (set.object("spec"), set.object("status"));
    let template = spec.object("template");
    let [containers, images] = container_cells(template);
    let count = |member: &str| json!(status.number(member));
    Row::of(vec![
        name(set),
        count("desiredNumberScheduled"),
        count("currentNumberScheduled"),
        count("numberReady"),
        count("updatedNumberScheduled"),
        count("numberAvailable"),
        cell(labels_text(template.object("spec").object("nodeSelector"))),
        age(set, now),
        containers,
        images,
        cell(text(spec.object("selector"))),
    ])
}
