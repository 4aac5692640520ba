//! ReplicationControllers, the older form of ReplicaSets.

use portcullis_apimachinery::field_error::FieldError;

use super::APPS;
use super::replica_sets::{COLUMNS, replicas, row_with, validate_status};
use super::scale::of_labels;
use super::templates::{always_runs, unselected, validate as validate_template};
use crate::Map;
use crate::fields::{ErrorList, Errors, Members};
use crate::resource::{Dependents, Resource, Selectable, Subresource};
use crate::resources::formats::not_negative;
use crate::resources::label_selectors::labels_text;
use crate::resources::pods::default_template;
use crate::resources::scheduling::validate_labels;
use crate::resources::status;
use crate::schema::core::replication::{REPLICATION_CONTROLLER, REPLICATION_CONTROLLER_STATUS};

/// The row of ReplicationControllers.
pub static REPLICATION_CONTROLLERS: Resource = Resource {
    group: "",
    kind: "ReplicationController",
    plural: "replicationcontrollers",
    short_names: &["rc"],
    categories: &["all"],
    subresources: &[of_labels(), Subresource::status("ReplicationController")],
    schema: &REPLICATION_CONTROLLER,
    selectable: &[Selectable::new("status.replicas", replicas)],
    default,
    prepare_create: |controller| status::begin(controller, &REPLICATION_CONTROLLER_STATUS),
    validate_create: |controller| validate(controller, None),
    prepare_update: status::keep,
    validate_update: |controller, old| validate(controller, Some(old)),
    prepare_status: status::keep_spec,
    validate_status: |controller, _| validate_status(controller),
    // As of Jobs.
    dependents: Dependents::Orphaned,
    columns: COLUMNS,
    row: |controller, now| {
        row_with(controller, now, labels_text(controller.object("spec").object("selector")))
    },
    ..APPS
};

/// The selector and the labels of the controller itself default to the labels of the template.
fn default(controller: &mut Map) {
    let labels = controller.object("spec").object("template").metadata().object("labels").clone();
    if let Some(spec) = controller.object_or_new("spec") {
        spec.default_value("replicas", 1);
        if spec.object("selector").is_empty() && !labels.is_empty() {
            spec.insert("selector".to_owned(), labels.clone().into());
        }
        if let Some(template) = spec.object_mut("template") {
            default_template(template);
        }
    }
    if controller.metadata().object("labels").is_empty()
        && !labels.is_empty()
        && let Some(metadata) = controller.object_or_new("metadata")
    {
        metadata.insert("labels".to_owned(), labels.into());
    }
}

fn validate(controller: &Map, old: Option<&Map>) -> Errors {
    let spec = controller.object("spec");
    let selector = spec.object("selector");
    let mut errors = not_negative("spec", spec, &["replicas", "minReadySeconds"]);
    errors.push_if(selector.is_empty(), || FieldError::required("spec.selector", ""));
    errors.extend(validate_labels("spec.selector", selector));
    let Some(template) = spec.object_if_set("template") else {
        errors.push(FieldError::required("spec.template", ""));
        return errors;
    };
    let labels = template.metadata().object("labels");
    if selector.iter().any(|(key, value)| labels.get(key) != Some(value)) {
        errors.push(unselected(template));
    }
    let old = old.map(|old| old.object("spec").object("template"));
    errors.extend(validate_template("spec.template", template, old));
    errors.extend(always_runs(template));
    errors
}
