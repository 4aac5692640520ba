//! Policies that admit requests by expressions, or change them.

use portcullis_apimachinery::field_error::FieldError;
use serde_json::{Value, json};

use super::USUAL;
use super::rules::{default_matching, validate_failure, validate_matching, validate_texts};
use crate::Map;
use crate::fields::{ErrorList, Errors, Members};
use crate::resource::{Resource, Subresource};
use crate::resources::cells::{AGE, NAME, age, integer_column, name, text_column};
use crate::resources::formats::one_of;
use crate::resources::status;
use crate::schema::admission_registration::{
    MUTATING_ADMISSION_POLICY, VALIDATING_ADMISSION_POLICY, VALIDATING_ADMISSION_POLICY_STATUS,
};
use crate::schema::values;
use crate::table::{Column, Row};

/// The row of MutatingAdmissionPolicies.
pub static MUTATING_ADMISSION_POLICIES: Resource = Resource {
    kind: "MutatingAdmissionPolicy",
    plural: "mutatingadmissionpolicies",
    schema: &MUTATING_ADMISSION_POLICY,
    validate_create: validate_mutating,
    prepare_update: status::raise,
    validate_update: |policy, _| validate_mutating(policy),
    columns: &[NAME, integer_column("Mutations", "How many changes it makes."), PARAM_KIND, AGE],
    row: |policy, now| row(policy, "mutations", now),
    ..POLICIES
};

/// The row of ValidatingAdmissionPolicies.
pub static VALIDATING_ADMISSION_POLICIES: Resource = Resource {
    kind: "ValidatingAdmissionPolicy",
    plural: "validatingadmissionpolicies",
    subresources: &[Subresource::status("ValidatingAdmissionPolicy")],
    schema: &VALIDATING_ADMISSION_POLICY,
    prepare_create: |policy| status::begin(policy, &VALIDATING_ADMISSION_POLICY_STATUS),
    validate_create: validate_validating,
    prepare_update: status::keep,
    validate_update: |policy, _| validate_validating(policy),
    prepare_status: status::keep_spec,
    columns: &[NAME, integer_column("Validations", "How many checks it makes."), PARAM_KIND, AGE],
    row: |policy, now| row(policy, "validations", now),
    ..POLICIES
};

const POLICIES: Resource = Resource { default, ..USUAL };

const PARAM_KIND: Column = text_column("ParamKind", "The kind of the objects with its parameters.");

fn default(policy: &mut Map) {
    let Some(spec) = policy.object_or_new("spec") else { return };
    spec.default_value("failurePolicy", "Fail");
    if let Some(constraints) = spec.object_mut("matchConstraints") {
        default_matching(constraints);
    }
}

fn validate(spec: &Map, errors: &mut Errors) {
    validate_failure("spec", spec, errors);
    if let Some(kind) = spec.object_if_set("paramKind") {
        for member in ["apiVersion", "kind"] {
            errors.push_if(kind.text(member).is_empty(), || {
                FieldError::required(format!("spec.paramKind.{member}"), "")
            });
        }
    }
    let field = "spec.matchConstraints";
    match spec.object_if_set("matchConstraints") {
        None => errors.push(FieldError::required(field, "")),
        Some(constraints) => {
            errors.push_if(constraints.list("resourceRules").is_empty(), || {
                FieldError::required(format!("{field}.resourceRules"), "")
            });
            validate_matching(field, constraints, errors);
        }
    }
    for list in ["matchConditions", "variables"] {
        validate_texts("spec", spec, list, &["name", "expression"], errors);
    }
}

fn validate_validating(policy: &Map) -> Errors {
    let spec = policy.object("spec");
    let mut errors = Errors::new();
    validate(spec, &mut errors);
    let is_empty = spec.list("validations").is_empty() && spec.list("auditAnnotations").is_empty();
    errors.push_if(is_empty, || {
        let detail = "validations or auditAnnotations must contain at least one item";
        FieldError::required("spec.validations", detail)
    });
    validate_texts("spec", spec, "validations", &["expression"], &mut errors);
    validate_texts("spec", spec, "auditAnnotations", &["key", "valueExpression"], &mut errors);
    errors
}

fn validate_mutating(policy: &Map) -> Errors {
    let spec = policy.object("spec");
    let mut errors = Errors::new();
    validate(spec, &mut errors);
    errors.push_if(spec.list("mutations").is_empty(), || {
        FieldError::required("spec.mutations", "mutations must contain at least one item")
    });
    let policy = spec.text("reinvocationPolicy");
    errors.extend(one_of("spec.reinvocationPolicy", policy, values::REINVOCATION_POLICIES));
    for (i, mutation) in spec.objects("mutations").enumerate() {
        let field = format!("spec.mutations[{i}]");
        let patch = mutation.text("patchType");
        let member = match patch {
            "ApplyConfiguration" => "applyConfiguration",
            "JSONPatch" => "jsonPatch",
            _ => {
                errors.extend(one_of(&format!("{field}.patchType"), patch, values::PATCH_TYPES));
                continue;
            }
        };
        errors.push_if(mutation.object(member).text("expression").trim().is_empty(), || {
            FieldError::required(format!("{field}.{member}.expression"), "expression is not specified")
        });
    }
    errors
}

fn row(policy: &Map, list: &str, now: i64) -> Row {
    let spec = policy.object("spec");
    let kind = spec.object_if_set("paramKind").map_or_else(
        || "<unset>".to_owned(),
        |kind| format!("{}/{}", kind.text("apiVersion"), kind.text("kind")),
    );
    Row::of(vec![name(policy), json!(spec.list(list).len()), Value::from(kind), age(policy, now)])
}
