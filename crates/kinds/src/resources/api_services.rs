//! APIServices, which name the API servers of further groups.
//!
//! DIVERGES: they are stored and served, and no request is passed on to another API server.

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::names::NameRule;
use portcullis_apimachinery::quote::quoted;
use serde_json::{Value, json};

use super::cells::{AGE, NAME, age, name, text_column};
use super::formats::{dns_label, dns_subdomain};
use super::status;
use crate::Map;
use crate::fields::{ErrorList, Errors, Members};
use crate::resource::{MetadataChecks, Resource, Subresource};
use crate::schema::api_registration::{API_SERVICE, API_SERVICE_STATUS};
use crate::table::Row;

/// The row of APIServices.
pub static API_SERVICES: Resource = Resource {
    group: "apiregistration.k8s.io",
    kind: "APIService",
    plural: "apiservices",
    categories: &["api-extensions"],
    is_namespaced: false,
    subresources: &[Subresource::status("APIService")],
    schema: &API_SERVICE,
    names: NameRule::PathSegment,
    metadata_checks: MetadataChecks { alone: 0, as_update: 1, knows_finalizers: true },
    updates_unconditionally: false,
    default: |service| {
        let reference = service.object_mut("spec").and_then(|spec| spec.object_mut("service"));
        if let Some(reference) = reference {
            reference.default_value("port", PORT);
        }
    },
    prepare_create,
    validate_create: validate,
    prepare_update: |service, old| service.copy("status", old),
    validate_update: |service, _| validate(service),
    status_resets: &["metadata", "spec"],
    prepare_status: status::keep_spec,
    columns: &[
        NAME,
        text_column("Service", "The service of the API server."),
        text_column("Available", "Whether the API server answers."),
        AGE,
    ],
    row,
    ..Resource::USUAL
};

/// The port of an API server's service.
const PORT: i64 = 443;
/// The highest priorities of a group and a version.
const MAX_GROUP_PRIORITY: i64 = 20_000;
const MAX_VERSION_PRIORITY: i64 = 1_000;

/// An APIService that names no other server is served by this one, and so is available.
fn prepare_create(service: &mut Map) {
    status::reset(service, &API_SERVICE_STATUS);
    if service.object("spec").has("service") {
        return;
    }
    let created = service.metadata().get("creationTimestamp").cloned();
    let condition = json!({
        "type": "Available",
        "status": "True",
        "lastTransitionTime": created,
        "reason": "Local",
        "message": "served by this API server",
    });
    service.insert("status".to_owned(), json!({"conditions": [condition]}));
}

fn validate(service: &Map) -> Errors {
    let spec = service.object("spec");
    let (group, version) = (spec.text("group"), spec.text("version"));
    let (name, required) = (service.metadata().text("name"), format!("{version}.{group}"));
    let mut errors = Errors::new();
    errors.push_if(name != required, || {
        let detail = format!("must be `spec.version+\".\"+spec.group`: {required:?}");
        FieldError::invalid("metadata.name", quoted(name), detail)
    });
    match (group, version) {
        ("", "v1") => {}
        ("", _) => {
            let detail = "only v1 may have an empty group and it better be legacy kube";
            errors.push(FieldError::required("spec.group", detail));
        }
        (group, _) => errors.extend(dns_subdomain("spec.group", group)),
    }
    errors.extend(dns_label("spec.version", version));
    for (member, most) in
        [("groupPriorityMinimum", MAX_GROUP_PRIORITY), ("versionPriority", MAX_VERSION_PRIORITY)]
    {
        let priority = spec.number(member);
        errors.push_if(!(1..=most).contains(&priority), || {
            let detail = format!("must be positive and less than {most}");
            FieldError::invalid(format!("spec.{member}"), priority.to_string(), detail)
        });
    }
    let (has_bundle, is_insecure) =
        (!spec.text("caBundle").is_empty(), spec.is_true("insecureSkipTLSVerify"));
    match spec.object_if_set("service") {
        None => {
            let detail = "local APIServices may not have a caBundle or skip TLS verification";
            errors.push_if(has_bundle, || FieldError::invalid("spec.caBundle", "", detail));
            errors.push_if(is_insecure, || FieldError::invalid("spec.insecureSkipTLSVerify", "true", detail));
        }
        Some(reference) => {
            for member in ["namespace", "name"] {
                errors.push_if(reference.text(member).is_empty(), || {
                    FieldError::required(format!("spec.service.{member}"), "")
                });
            }
            errors.push_if(has_bundle && is_insecure, || {
                let detail = "may not be true if caBundle is present";
                FieldError::invalid("spec.insecureSkipTLSVerify", "true", detail)
            });
        }
    }
    errors
}

fn row(service: &Map, now: i64) -> Row {
    let reference = service.object("spec").object_if_set("service").map_or_else(
        || "Local".to_owned(),
        |reference| format!("{}/{}", reference.text("namespace"), reference.text("name")),
    );
    let mut conditions = service.object("status").objects("conditions");
    let available = conditions.find(|condition| condition.text("type") == "Available").map_or_else(
        || "Unknown".to_owned(),
        |condition| match (condition.text("status"), condition.text("reason")) {
            ("True", _) => "True".to_owned(),
            (status, reason) => format!("{status} ({reason})"),
        },
    );
    Row::of(vec![name(service), Value::from(reference), Value::from(available), age(service, now)])
}
