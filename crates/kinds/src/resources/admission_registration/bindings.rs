//! Bindings, which put policies into effect.

use std::collections::BTreeSet;

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::quote::quoted;
use serde_json::Value;

use super::USUAL;
use super::rules::{default_matching, validate_matching};
use crate::Map;
use crate::fields::{ErrorList, Errors, Members};
use crate::resource::Resource;
use crate::resources::cells::{AGE, NAME, age, name, text_column};
use crate::resources::formats::{dns_subdomain, immutable, one_of, path_segment};
use crate::resources::scheduling::validate_label_selector;
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
    match spec.text("policyName") {
        "" => errors.push(FieldError::required("spec.policyName", "")),
        name => errors.extend(dns_subdomain("spec.policyName", name)),
    }
    if let Some(reference) = spec.object_if_set("paramRef") {
        let field = "spec.paramRef";
        match (reference.text("name"), reference.object_if_set("selector")) {
            ("", None) => {
                errors.push(FieldError::required(field, "one of name or selector must be specified"));
            }
            ("", Some(selector)) => {
                errors.extend(validate_label_selector(&format!("{field}.selector"), selector, true));
            }
            (name, None) => errors.extend(path_segment(&format!("{field}.name"), name)),
            (_, Some(_)) => {
                let detail = "name and selector are mutually exclusive";
                errors.push(FieldError::forbidden(format!("{field}.name"), detail));
            }
        }
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
    let mut seen = BTreeSet::new();
    for (i, action) in actions.iter().enumerate() {
        let field = format!("{field}[{i}]");
        errors.extend(one_of(&field, action, values::VALIDATION_ACTIONS));
        errors.push_if(!seen.insert(action), || FieldError::duplicate(&field, quoted(action)));
    }
    errors.push_if(actions.contains(&"Deny") && actions.contains(&"Warn"), || {
        FieldError::invalid(
            field,
            actions.join(","),
            "must not contain both Deny and Warn (repeating the same validation failure information in the API response \
             and headers serves no purpose)",
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
