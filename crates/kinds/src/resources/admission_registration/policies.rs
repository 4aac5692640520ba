//! Policies that admit requests by expressions, or change them.

use std::collections::BTreeSet;

use portcullis_apimachinery::cel;
use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::quote::quoted;
use serde_json::{Value, json};

use super::USUAL;
use super::rules::{default_matching, validate_conditions, validate_failure, validate_matching};
use crate::Map;
use crate::fields::{ErrorList, Errors, Members};
use crate::resource::{ExpressionsAbout, OnRequest, Resource, Subresource};
use crate::resources::cells::{AGE, NAME, age, integer_column, name, text_column};
use crate::resources::formats::{one_of, qualified_name};
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
    on_create: COMPILED,
    prepare_update: status::keep,
    validate_update: |policy, _| validate_validating(policy),
    on_update: COMPILED,
    prepare_status: status::keep_spec,
    columns: &[NAME, integer_column("Validations", "How many checks it makes."), PARAM_KIND, AGE],
    row: |policy, now| row(policy, "validations", now),
    ..POLICIES
};

/// The server compiles the expressions.
const COMPILED: OnRequest = OnRequest {
    about: ExpressionsAbout::Policies,
    validate: Some(|policy, _, context| {
        let mut errors = validate_validating(policy);
        errors.extend(context.compile_errors.clone());
        errors
    }),
    ..OnRequest::NOTHING
};

const POLICIES: Resource = Resource { default, ..USUAL };

const PARAM_KIND: Column = text_column("ParamKind", "The kind of the objects with its parameters.");

/// The most annotations of a policy for the audit log, and the longest expression of one, in bytes.
const MAX_ANNOTATIONS: usize = 20;
const MAX_ANNOTATION: usize = 5 << 10;
/// The reasons of refusals.
const REASONS: &[&str] = &["Forbidden", "Invalid", "RequestEntityTooLarge"];

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
    validate_conditions("spec", spec, errors);
    for (i, variable) in spec.objects("variables").enumerate() {
        let (field, name) = (format!("spec.variables[{i}]"), variable.text("name"));
        let is_empty = name.trim().is_empty();
        errors.push_if(is_empty, || FieldError::required(format!("{field}.name"), "name is not specified"));
        errors.push_if(!is_empty && !is_identifier(name), || {
            FieldError::invalid(format!("{field}.name"), quoted(name), "name is not a valid CEL identifier")
        });
        require_expression(&format!("{field}.expression"), variable.text("expression"), errors);
    }
}

fn require_expression(field: &str, text: &str, errors: &mut Errors) {
    errors.push_if(text.trim().is_empty(), || FieldError::required(field, "expression is not specified"));
}

/// Whether a text is a name in expressions.
fn is_identifier(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(is_part)
        && !cel::RESERVED.contains(&name)
}

fn validate_validating(policy: &Map) -> Errors {
    let spec = policy.object("spec");
    let mut errors = Errors::new();
    validate(spec, &mut errors);
    if spec.list("validations").is_empty() && spec.list("auditAnnotations").is_empty() {
        let detail = "validations or auditAnnotations must contain at least one item";
        errors.push(FieldError::required("spec.validations", detail));
        errors.push(FieldError::required("spec.auditAnnotations", detail));
    }
    for (i, validation) in spec.objects("validations").enumerate() {
        validate_validation(&format!("spec.validations[{i}]"), validation, &mut errors);
    }
    let annotations = spec.objects("auditAnnotations");
    if annotations.len() > MAX_ANNOTATIONS {
        errors.push(FieldError::too_many("spec.auditAnnotations", annotations.len(), MAX_ANNOTATIONS));
        return errors;
    }
    let mut keys = BTreeSet::new();
    for (i, annotation) in annotations.enumerate() {
        let (field, key) = (format!("spec.auditAnnotations[{i}]"), annotation.text("key"));
        errors.extend(qualified_name(
            &format!("{field}.key"),
            &format!("{}/{key}", policy.metadata().text("name")),
        ));
        errors.push_if(!keys.insert(key), || FieldError::duplicate(format!("{field}.key"), quoted(key)));
        let (field, text) = (format!("{field}.valueExpression"), annotation.text("valueExpression").trim());
        errors.push_if(text.is_empty(), || FieldError::required(&field, "valueExpression is not specified"));
        errors.push_if(text.len() > MAX_ANNOTATION, || {
            FieldError::required(&field, format!("must not exceed {MAX_ANNOTATION} bytes in length"))
        });
    }
    errors
}

fn validate_validation(field: &str, validation: &Map, errors: &mut Errors) {
    require_expression(&format!("{field}.expression"), validation.text("expression"), errors);
    let expression = validation.text("messageExpression");
    errors.push_if(!expression.is_empty() && expression.trim().is_empty(), || {
        let detail = "must be non-empty if specified";
        FieldError::invalid(format!("{field}.messageExpression"), quoted(expression), detail)
    });
    let message = validation.text("message");
    let detail = match message.trim() {
        "" if !message.is_empty() => Some("message must be non-empty if specified"),
        text if text.contains(['\n', '\r']) => Some("message must not contain line breaks"),
        _ => None,
    };
    errors.extend(
        detail.map(|detail| FieldError::invalid(format!("{field}.message"), quoted(message), detail)),
    );
    if validation.has("reason") {
        errors.extend(one_of(&format!("{field}.reason"), validation.text("reason"), REASONS));
    }
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
