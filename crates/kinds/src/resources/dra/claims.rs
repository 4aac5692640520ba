//! ResourceClaims and ResourceClaimTemplates.

use portcullis_apimachinery::field_error::FieldError;
use serde_json::{Value, json};

use super::{USUAL, allocation, requests};
use crate::Map;
use crate::resource::{MetadataChecks, Need, OnRequest, Resource, Subresource};
use crate::resources::cells::{AGE, NAME, age, name, text_column};
use crate::resources::fields::{
    is_present, is_set, is_terminating, keep, keep_metadata, list, metadata, object, object_mut, objects,
    text,
};
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
    default: |claim| object_mut(claim, "spec").into_iter().for_each(requests::default),
    prepare_create: |claim| drop(claim.insert("status".to_owned(), json!({}))),
    validate_create: validate_claim,
    on_create: OnRequest {
        needs: |claim| need(object(claim, "spec")),
        validate: Some(|claim, _, context| {
            let error = admin_access(object(claim, "spec"), context.namespace);
            error.into_iter().chain(validate_claim(claim)).collect()
        }),
        ..OnRequest::NOTHING
    },
    prepare_update: |claim, old| keep(claim, old, "status"),
    validate_update: validate_same_spec,
    prepare_status: |claim, old| {
        keep(claim, old, "spec");
        keep_metadata(claim, old);
        allocation::drop_released(claim, old);
    },
    validate_status: allocation::validate,
    columns: &[NAME, text_column("State", "Whether devices have been allocated, and are in use."), AGE],
    row: |claim, now| Row {
        cells: vec![name(claim), Value::from(state(claim)), age(claim, now)],
        completed: None,
    },
    ..USUAL
};

/// The row of ResourceClaimTemplates.
pub static RESOURCE_CLAIM_TEMPLATES: Resource = Resource {
    kind: "ResourceClaimTemplate",
    plural: "resourceclaimtemplates",
    schema: &RESOURCE_CLAIM_TEMPLATE,
    metadata_checks: MetadataChecks { alone: 0, as_update: 1, knows_finalizers: true },
    default: |template| {
        let spec = object_mut(template, "spec").and_then(|outer| object_mut(outer, "spec"));
        spec.into_iter().for_each(requests::default);
    },
    validate_create: validate_template,
    on_create: OnRequest {
        needs: |template| need(object(object(template, "spec"), "spec")),
        validate: Some(|template, _, context| {
            let error = admin_access(object(object(template, "spec"), "spec"), context.namespace);
            error.into_iter().chain(validate_template(template)).collect()
        }),
        ..OnRequest::NOTHING
    },
    validate_update: validate_same_spec,
    columns: &[NAME, AGE],
    row: |template, now| Row { cells: vec![name(template), age(template, now)], completed: None },
    ..USUAL
};

/// The label, with value `true`, of a namespace in which claims may request admin access.
const ADMIN_ACCESS_LABEL: &str = "resource.kubernetes.io/admin-access";

/// The first request for the access of an administrator.
fn admin_request(spec: &Map) -> Option<usize> {
    let mut requests = objects(object(spec, "devices"), "requests");
    requests.position(|request| is_set(object(request, "exactly"), "adminAccess"))
}

fn need(spec: &Map) -> Need {
    admin_request(spec).map_or(Need::Nothing, |_| Need::Namespace)
}

/// The error of a claim that asks for the access of an administrator, in a namespace without [`ADMIN_ACCESS_LABEL`]. It
/// comes before the other errors of a create.
fn admin_access(spec: &Map, namespace: Option<&Map>) -> Option<FieldError> {
    let i = admin_request(spec)?;
    let labels = namespace.map(|namespace| object(metadata(namespace), "labels"));
    if labels.is_some_and(|labels| text(labels, ADMIN_ACCESS_LABEL) == "true") {
        return None;
    }
    let detail = format!("admin access needs the label `{ADMIN_ACCESS_LABEL}: true` on the namespace");
    Some(FieldError::forbidden(format!("spec.devices.requests[{i}].adminAccess"), detail))
}

/// AP-133.
fn validate_same_spec(claim: &Map, old: &Map) -> Vec<FieldError> {
    immutable("spec", object(claim, "spec"), object(old, "spec")).into_iter().collect()
}

fn validate_claim(claim: &Map) -> Vec<FieldError> {
    requests::validate("spec", object(claim, "spec"))
}

fn validate_template(template: &Map) -> Vec<FieldError> {
    let spec = object(template, "spec");
    let labels = object(metadata(spec), "labels");
    let mut errors = validate_labels("spec.metadata.labels", labels);
    errors.extend(requests::validate("spec.spec", object(spec, "spec")));
    errors
}

/// AP-92.
fn state(claim: &Map) -> String {
    let status = object(claim, "status");
    let (is_allocated, is_deleted) = (is_present(status, "allocation"), is_terminating(claim));
    let states = [
        ("deleted", is_deleted),
        ("pending", !is_allocated && !is_deleted),
        ("allocated", is_allocated),
        ("reserved", is_allocated && !list(status, "reservedFor").is_empty()),
    ];
    let shown: Vec<&str> = states.into_iter().filter(|(_, holds)| *holds).map(|(state, _)| state).collect();
    shown.join(",")
}
