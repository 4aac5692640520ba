//! Deployments, which replace pods of one template by those of the next.

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::quote::quoted;
use serde_json::{Value, json};

use super::APPS;
use super::rollout::rolling_errors;
use super::scale::of_selector;
use super::templates::{CONTAINERS, IMAGES, SELECTOR, container_cells, validate_selected};
use crate::Map;
use crate::fields::{ErrorList, Errors, Members, raise_generation};
use crate::resource::{Resource, Subresource};
use crate::resources::cells::{AGE, NAME, age, name, text_column};
use crate::resources::formats::{immutable, not_negative};
use crate::resources::label_selectors;
use crate::resources::pods::{default_template, same_value};
use crate::resources::status;
use crate::schema::apps::{DEPLOYMENT, DEPLOYMENT_STATUS};
use crate::schema::values;
use crate::table::{Column, Row};

/// The row of Deployments.
pub static DEPLOYMENTS: Resource = Resource {
    kind: "Deployment",
    plural: "deployments",
    short_names: &["deploy"],
    categories: &["all"],
    subresources: &[of_selector(), Subresource::status("Deployment")],
    schema: &DEPLOYMENT,
    default,
    prepare_create: |deployment| status::begin(deployment, &DEPLOYMENT_STATUS),
    validate_create: |deployment| validate(deployment, None),
    prepare_update,
    validate_update,
    status_resets: &["spec", "metadata.labels"],
    prepare_status,
    validate_status: |deployment, _| validate_status(deployment),
    columns: COLUMNS,
    row,
    ..APPS
};

const COLUMNS: &[Column] = &[
    NAME,
    text_column("Ready", "How many pods are ready, of those that are wanted."),
    text_column("Up-to-date", "How many pods are of the current template."),
    text_column("Available", "How many pods have been ready for long enough."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

fn default(deployment: &mut Map) {
    let Some(spec) = deployment.object_or_new("spec") else { return };
    spec.default_value("replicas", 1);
    if let Some(template) = spec.object_or_new("template") {
        default_template(template);
    }
    if let Some(strategy) = spec.object_or_new("strategy") {
        strategy.default_text("type", "RollingUpdate");
        if strategy.text("type") == "RollingUpdate"
            && let Some(rolling) = strategy.object_or_new("rollingUpdate")
        {
            rolling.default_value("maxUnavailable", "25%");
            rolling.default_value("maxSurge", "25%");
        }
    }
    spec.default_value("revisionHistoryLimit", 10);
    spec.default_value("progressDeadlineSeconds", 600);
}

/// An update of the annotations is a new generation too: the history of a rollout is in them.
fn prepare_update(deployment: &mut Map, old: &Map) {
    deployment.copy("status", old);
    let annotations = |object: &Map| object.metadata().get("annotations").cloned();
    let has_changed =
        !same_value(deployment.get("spec"), old.get("spec")) || annotations(deployment) != annotations(old);
    raise_generation(deployment, old, has_changed);
}

fn prepare_status(deployment: &mut Map, old: &Map) {
    status::keep_spec(deployment, old);
    if let Some(metadata) = deployment.object_or_new("metadata") {
        metadata.copy("labels", old.metadata());
    }
}

fn validate(deployment: &Map, old: Option<&Map>) -> Errors {
    let spec = deployment.object("spec");
    let mut errors = not_negative("spec", spec, &["replicas"]);
    errors.extend(validate_selected("deployment", spec, old.map(|old| old.object("spec")), old.is_none()));
    errors.extend(validate_strategy(spec.object("strategy")));
    errors.extend(not_negative(
        "spec",
        spec,
        &["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"],
    ));
    if let Some(deadline) = spec.number_if_set("progressDeadlineSeconds")
        && deadline <= spec.number("minReadySeconds")
    {
        let detail = "must be greater than minReadySeconds";
        errors.push(FieldError::invalid("spec.progressDeadlineSeconds", deadline.to_string(), detail));
    }
    errors
}

fn validate_strategy(strategy: &Map) -> Errors {
    let field = "spec.strategy.rollingUpdate";
    let mut errors = Errors::new();
    match strategy.text("type") {
        "Recreate" => errors.push_if(strategy.has("rollingUpdate"), || {
            FieldError::forbidden(field, "may not be specified when strategy `type` is 'Recreate'")
        }),
        "RollingUpdate" => errors.extend(rolling_errors(field, strategy.object("rollingUpdate"))),
        other => errors.push(FieldError::not_supported(
            "spec.strategy.type",
            quoted(other),
            values::DEPLOYMENT_STRATEGIES,
        )),
    }
    errors
}

fn validate_update(deployment: &Map, old: &Map) -> Errors {
    let selector = |object: &Map| object.object("spec").get("selector").cloned();
    let mut errors = validate(deployment, Some(old));
    errors.extend(immutable("spec.selector", selector(deployment), selector(old)));
    errors
}

fn validate_status(deployment: &Map) -> Errors {
    let counters = [
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ];
    not_negative("status", deployment.object("status"), &counters)
}

fn row(deployment: &Map, now: i64) -> Row {
    let (spec, status) = (deployment.object("spec"), deployment.object("status"));
    let [containers, images] = container_cells(spec.object("template"));
    Row::of(vec![
        name(deployment),
        Value::from(format!("{}/{}", status.number("readyReplicas"), spec.number("replicas"))),
        json!(status.number("updatedReplicas")),
        json!(status.number("availableReplicas")),
        age(deployment, now),
        containers,
        images,
        label_selectors::cell(label_selectors::text(spec.object("selector"))),
    ])
}
