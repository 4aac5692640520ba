//! Bindings, which put policies into effect.

use portcullis_apimachinery::field_error::FieldError;
use serde_json::Value;

use super::USUAL;
use super::rules::{default_matching, validate_matching};
use crate::Map;
use crate::fields::{ErrorList, Errors, Members};
use crate::resource::Resource;
use crate::resources::cells::{AGE, NAME, age, name, text_column};
use crate::resources::formats::{immutable, one_of};
use crate::resources::status;
use crate::schema::admission_registration::{
    MUTATING_ADMISSION_POLICY_BINDING, VALIDATING_ADMISSION_POLICY_BINDING,
};
use crate::schema::values;
use crate::table::Row;

/// The row of MutatingAdmissionPolicyBindings.
pub static MUTATING_ADMISSION_POLICY_BINDINGS: Resource = Resource {
    kind: "MutatingAdmissionPolicyBinding",
    plural: "mutatingadmissionpolicybindings",
    schema: &MUTATING_ADMISSION_POLICY_BINDING,
    validate_create: validate,
    validate_update: |binding, old| validate_update(binding, old, validate),
    ..BINDINGS
};

/// The row of ValidatingAdmissionPolicyBindings.
pub static VALIDATING_ADMISSION_POLICY_BINDINGS: Resource = Resource {
    kind: "ValidatingAdmissionPolicyBinding",
    plural: "validatingadmissionpolicybindings",
    schema: &VALIDATING_ADMISSION_POLICY_BINDING,
    validate_create: validate_validating,
    validate_update: |binding, old| validate_update(binding, old, validate_validating),
    ..BINDINGS
};

const BINDINGS: Resource = Resource {
    default,
    prepare_update: status::raise,
    columns: &[
        NAME,
        text_column("PolicyName", "The policy."),
        text_column("ParamRef", "The object with its parameters."),
        AGE,
    ],
    row,
    ..USUAL
};

fn default(binding: &mut Map) {
    let Some(spec) = binding.object_or_new("spec") else { return };
    if let Some(reference) = spec.object_mut("paramRef") {
        reference.default_value("parameterNotFoundAction", "Deny");
    }
    if let Some(resources) = spec.object_mut("matchResources") {
        default_matching(resources);
    }
}

fn validate(binding: &Map) -> Errors {
    let spec = binding.object("spec");
    let mut errors = Errors::new();
    errors.push_if(spec.text("policyName").is_empty(), || FieldError::required("spec.policyName", ""));
    if let Some(reference) = spec.object_if_set("paramRef") {
        let field = "spec.paramRef";
        let (has_name, has_selector) = (!reference.text("name").is_empty(), reference.has("selector"));
        errors.push_if(has_name == has_selector, || {
            FieldError::required(field, "one of name or selector must be specified")
        });
        let action = reference.text("parameterNotFoundAction");
        errors.extend(one_of(
            &format!("{field}.parameterNotFoundAction"),
            action,
            values::PARAMETER_NOT_FOUND_ACTIONS,
        ));
    }
    if let Some(resources) = spec.object_if_set("matchResources") {
        validate_matching("spec.matchResources", resources, &mut errors);
    }
    errors
}

fn validate_validating(binding: &Map) -> Errors {
    let actions: Vec<&str> = binding.object("spec").texts("validationActions").collect();
    let field = "spec.validationActions";
    let mut errors = validate(binding);
    errors.push_if(actions.is_empty(), || {
        FieldError::required(field, "at least one validation action is required")
    });
    for (i, action) in actions.iter().enumerate() {
        errors.extend(one_of(&format!("{field}[{i}]"), action, values::VALIDATION_ACTIONS));
    }
    errors.push_if(actions.contains(&"Deny") && actions.contains(&"Warn"), || {
        FieldError::invalid(
            field,
            actions.join(","),
            "must not contain both Deny and Warn (repeating the same message)",
        )
    });
    errors
}

fn validate_update(binding: &Map, old: &Map, validate: fn(&Map) -> Errors) -> Errors {
    let policy = |binding: &Map| binding.object("spec").text("policyName").to_owned();
    let mut errors = validate(binding);
    errors.extend(immutable("spec.policyName", policy(binding), policy(old)));
    errors
}

fn row(binding: &Map, now: i64) -> Row {
    let spec = binding.object("spec");
    let reference = spec.object_if_set("paramRef").map_or_else(
        || "<unset>".to_owned(),
        |reference| match (reference.text("namespace"), reference.text("name")) {
            ("", name) => name.to_owned(),
            (namespace, name) => format!("{namespace}/{name}"),
        },
    );
    let policy = Value::from(spec.text("policyName"));
    Row::of(vec![name(binding), policy, Value::from(reference), age(binding, now)])
}
