//! Templates of pods inside other objects: their validation, and the table cells that show them.

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::quote::quoted;
use serde_json::Value;

use crate::Map;
use crate::fields::{ErrorList, Errors, Members};
use crate::resources::cells::wide_column;
use crate::resources::label_selectors::{is_empty, selects};
use crate::resources::pods;
use crate::resources::scheduling::{validate_label_selector, validate_labels};
use crate::table::Column;

/// The wide columns that show the containers of a template, and the selector of its pods.
pub(super) const CONTAINERS: Column = wide_column("Containers", "The containers of a pod.");
pub(super) const IMAGES: Column = wide_column("Images", "The images of the containers.");
pub(super) const SELECTOR: Column = wide_column("Selector", "Which pods belong to it.");

/// The names of the containers of a template, and their images.
pub(super) fn container_cells(template: &Map) -> [Value; 2] {
    let joined = |member: &str| {
        let of_all = template.object("spec").objects("containers").map(|container| container.text(member));
        Value::from(of_all.collect::<Vec<_>>().join(","))
    };
    [joined("name"), joined("image")]
}

/// Validates a template, `old` being the one that it replaces.
pub(super) fn validate(field: &str, template: &Map, old: Option<&Map>) -> Errors {
    let mut errors = validate_labels(&format!("{field}.labels"), template.metadata().object("labels"));
    errors.extend(pods::template_errors(field, template, old));
    errors
}

/// Validates the template of pods that always run, with the selector that must select them. `owner` is the kind in
/// messages.
pub(super) fn validate_selected(owner: &str, spec: &Map, old: Option<&Map>, checks_values: bool) -> Errors {
    let mut errors = Errors::new();
    match spec.object_if_set("selector") {
        None => errors.push(FieldError::required("spec.selector", "")),
        Some(selector) => {
            errors.extend(validate_label_selector("spec.selector", selector, checks_values));
            errors.push_if(is_empty(selector), || {
                FieldError::invalid("spec.selector", "{}", format!("empty selector is invalid for {owner}"))
            });
        }
    }
    let template = spec.object("template");
    if let Some(selector) = spec.object_if_set("selector")
        && !selects(selector, template)
    {
        errors.push(unselected(template));
    }
    errors.extend(validate("spec.template", template, old.map(|old| old.object("template"))));
    errors.extend(always_runs(template));
    errors
}

/// The error of a template with labels that the selector does not select.
pub(super) fn unselected(template: &Map) -> FieldError {
    let labels = Value::Object(template.metadata().object("labels").clone()).to_string();
    FieldError::invalid(
        "spec.template.metadata.labels",
        labels,
        "`selector` does not match template `labels`",
    )
}

/// The pods are restarted, whatever happens.
pub(super) fn always_runs(template: &Map) -> Errors {
    let pod = template.object("spec");
    let (policy, mut errors) = (pod.text("restartPolicy"), Errors::new());
    errors.push_if(policy != "Always", || {
        FieldError::not_supported("spec.template.spec.restartPolicy", quoted(policy), &["Always"])
    });
    errors.push_if(pod.has("activeDeadlineSeconds"), || {
        FieldError::forbidden("spec.template.spec.activeDeadlineSeconds", "is not supported in this template")
    });
    errors
}
