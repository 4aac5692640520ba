//! ResourceClaims and ResourceClaimTemplates.

use portcullis_apimachinery::field_error::FieldError;
use serde_json::{Value, json};

use super::selectors::{Faults, NO_FAULTS, of_claim};
use super::{USUAL, allocation, requests};
use crate::Map;
use crate::fields::{Errors, Members, keep_metadata};
use crate::meta::is_terminating;
use crate::resource::{MetadataChecks, Need, OnRequest, Resource, Subresource};
use crate::resources::cells::{AGE, NAME, age, name, text_column};
use crate::resources::formats::immutable;
use crate::resources::scheduling::validate_labels;
use crate::schema::resource::claim::{RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE};
use crate::table::Row;

/// The row of ResourceClaims.
pub static RESOURCE_CLAIMS: Resource = Resource {
    kind: "ResourceClaim",
    plural: "resourceclaims",
    schema: &RESOURCE_CLAIM,
    subresources: &[Subresource::status("ResourceClaim")],
    default: |claim| claim.object_or_new("spec").into_iter().for_each(requests::default),
    prepare_create: |claim| drop(claim.insert("status".to_owned(), json!({}))),
    validate_create: |claim| validate_claim(claim, &NO_FAULTS),
    on_create: OnRequest {
        needs: |claim| need(claim.object("spec")),
        expressions: |claim, _| of_claim(claim.object("spec")).into_iter().collect(),
        validate: Some(|claim, _, context| {
            let error = admin_access(claim.object("spec"), context.namespace);
            error.into_iter().chain(validate_claim(claim, context.expression_faults)).collect()
        }),
        ..OnRequest::NOTHING
    },
    prepare_update: |claim, old| claim.copy("status", old),
    validate_update: validate_same_spec,
    status_resets: &["metadata", "spec"],
    prepare_status: |claim, old| {
        claim.copy("spec", old);
        keep_metadata(claim, old);
        allocation::drop_released(claim, old);
    },
    validate_status: allocation::validate,
    on_status: OnRequest {
        needs: |claim| admin_result(claim).map_or(Need::Nothing, |_| Need::Namespace),
        validate: Some(|claim, old, context| {
            let old = old.unwrap_or(claim);
            let error = admin_status(claim, old, context.namespace);
            error.into_iter().chain(allocation::validate(claim, old)).collect()
        }),
        ..OnRequest::NOTHING
    },
    columns: &[NAME, text_column("State", "Whether devices have been allocated, and are in use."), AGE],
    row: |claim, now| Row::of(vec![name(claim), Value::from(state(claim)), age(claim, now)]),
    ..USUAL
};

/// The row of ResourceClaimTemplates.
pub static RESOURCE_CLAIM_TEMPLATES: Resource = Resource {
    kind: "ResourceClaimTemplate",
    plural: "resourceclaimtemplates",
    schema: &RESOURCE_CLAIM_TEMPLATE,
    metadata_checks: MetadataChecks { alone: 0, as_update: 1, knows_finalizers: true },
    default: |template| {
        let spec = template.object_or_new("spec").and_then(|outer| outer.object_or_new("spec"));
        spec.into_iter().for_each(requests::default);
    },
    validate_create: |template| validate_template(template, &NO_FAULTS),
    on_create: OnRequest {
        needs: |template| need(template.object("spec").object("spec")),
        expressions: |template, _| of_claim(template.object("spec").object("spec")).into_iter().collect(),
        validate: Some(|template, _, context| {
            let error = admin_access(template.object("spec").object("spec"), context.namespace);
            error.into_iter().chain(validate_template(template, context.expression_faults)).collect()
        }),
        ..OnRequest::NOTHING
    },
    validate_update: validate_same_spec,
    columns: &[NAME, AGE],
    row: |template, now| Row::of(vec![name(template), age(template, now)]),
    ..USUAL
};

/// The label, with value `true`, of a namespace in which claims may request admin access.
const ADMIN_ACCESS_LABEL: &str = "resource.kubernetes.io/admin-access";

/// The first request for the access of an administrator.
fn admin_request(spec: &Map) -> Option<usize> {
    let mut requests = spec.object("devices").objects("requests");
    requests.position(|request| request.object("exactly").is_true("adminAccess"))
}

fn need(spec: &Map) -> Need {
    admin_request(spec).map_or(Need::Nothing, |_| Need::Namespace)
}

/// The error of a claim that asks for the access of an administrator, in a namespace without [`ADMIN_ACCESS_LABEL`]. It
/// comes before the other errors of a create.
fn admin_access(spec: &Map, namespace: Option<&Map>) -> Option<FieldError> {
    let i = admin_request(spec)?;
    without_label(format!("spec.devices.requests[{i}].adminAccess"), namespace)
}

/// The first allocated device with the access of an administrator.
fn admin_result(claim: &Map) -> Option<usize> {
    let allocation = claim.object("status").object("allocation");
    allocation.object("devices").objects("results").position(|result| result.is_true("adminAccess"))
}

/// The error of a status that gives the access of an administrator, which it did not before, in a namespace without
/// [`ADMIN_ACCESS_LABEL`] (NR-110).
fn admin_status(claim: &Map, old: &Map, namespace: Option<&Map>) -> Option<FieldError> {
    let i = admin_result(claim).filter(|_| admin_result(old).is_none())?;
    without_label(format!("status.allocation.devices.results[{i}].adminAccess"), namespace)
}

fn without_label(field: String, namespace: Option<&Map>) -> Option<FieldError> {
    let labels = namespace.map(|namespace| namespace.metadata().object("labels"));
    if labels.is_some_and(|labels| labels.text(ADMIN_ACCESS_LABEL) == "true") {
        return None;
    }
    let detail = format!("admin access needs the label `{ADMIN_ACCESS_LABEL}: true` on the namespace");
    Some(FieldError::forbidden(field, detail))
}

/// AP-133.
fn validate_same_spec(claim: &Map, old: &Map) -> Errors {
    immutable("spec", claim.object("spec"), old.object("spec")).into_iter().collect()
}

fn validate_claim(claim: &Map, faults: &Faults) -> Errors {
    requests::validate("spec", claim.object("spec"), faults)
}

fn validate_template(template: &Map, faults: &Faults) -> Errors {
    let spec = template.object("spec");
    let labels = spec.metadata().object("labels");
    let mut errors = validate_labels("spec.metadata.labels", labels);
    errors.extend(requests::validate("spec.spec", spec.object("spec"), faults));
    errors
}

/// AP-92.
fn state(claim: &Map) -> String {
    let status = claim.object("status");
    let (is_allocated, is_deleted) = (status.has("allocation"), is_terminating(claim));
    let states = [
        ("deleted", is_deleted),
        ("pending", !is_allocated && !is_deleted),
        ("allocated", is_allocated),
        ("reserved", is_allocated && !status.list("reservedFor").is_empty()),
    ];
    let shown: Vec<&str> = states.into_iter().filter(|(_, holds)| *holds).map(|(state, _)| state).collect();
    shown.join(",")
}
