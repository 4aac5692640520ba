//! CertificateSigningRequests (CS-1 to CS-34). The certificates inside are read by the server, on request of the hooks.

mod conditions;
mod pods;
mod signer_name;

use std::borrow::Cow;
use std::collections::BTreeSet;

use portcullis_apimachinery::duration;
use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::names::NameRule;
use portcullis_apimachinery::quote::quoted;
use serde_json::{Value, json};

use super::cells::{AGE, NAME, age, name, text_column};
use crate::Map;
use crate::decode::bytes;
use crate::fields::{ErrorList, Errors, Members};
use crate::resource::{
    Context, Keeps, OnRequest, Refusal, Requester, Resource, Selectable, Subresource, Update,
};
use crate::schema::certificates::CERTIFICATE_SIGNING_REQUEST;
use crate::schema::values;
use crate::table::{Column, NONE, Row};
use portcullis_apimachinery::time::Instant;

pub use conditions::{APPROVED, DENIED, FAILED, stamp as stamp_conditions};
use conditions::{Path, has};
pub use pods::{CLUSTER_TRUST_BUNDLES, POD_CERTIFICATE_REQUESTS};

/// The row of CertificateSigningRequests (CS-2 to CS-7).
pub static CERTIFICATE_SIGNING_REQUESTS: Resource = Resource {
    group: "certificates.k8s.io",
    kind: "CertificateSigningRequest",
    plural: "certificatesigningrequests",
    schema: &CERTIFICATE_SIGNING_REQUEST,
    short_names: &["csr"],
    is_namespaced: false,
    subresources: &[
        Subresource::object(
            "approval",
            "CertificateSigningRequest",
            &Update {
                prepare: prepare_approval,
                validate: validate_approval,
                on_request: OnRequest { complete: stamp, ..OnRequest::NOTHING },
                keeps: Keeps::Except(&["spec", "status.certificate"]),
                ..Update::NOTHING
            },
        ),
        Subresource::status("CertificateSigningRequest"),
    ],
    names: NameRule::PathSegment,
    selectable: &[Selectable::new("spec.signerName", |request| {
        Cow::Borrowed(request.object("spec").text("signerName"))
    })],
    selects_namespace: false,
    prepare_create,
    validate_create: |request| validate_create(request, None),
    on_create: OnRequest {
        complete: |request, _, context| {
            set_requester(request, context.requester);
            Ok(())
        },
        validate: Some(|request, _, context| {
            validate_create(request, request_fault(request, context).as_deref())
        }),
        ..OnRequest::NOTHING
    },
    prepare_update: |request, old| {
        request.copy("spec", old);
        request.copy("status", old);
    },
    validate_update: |request, old| validate_update(request, old, Path::Main),
    resets: &["spec", "status"],
    status_resets: &["spec", "status.conditions"],
    prepare_status,
    validate_status: |request, old| validate_status(request, old, None),
    on_status: OnRequest {
        complete: stamp,
        validate: Some(|request, old, context| {
            let old = old.unwrap_or(request);
            validate_status(request, old, certificate_fault(request, context).as_deref())
        }),
        ..OnRequest::NOTHING
    },
    columns: COLUMNS,
    row,
    ..Resource::USUAL
};

const COLUMNS: &[Column] = &[
    NAME,
    AGE,
    text_column("SignerName", "Who is asked to sign."),
    text_column("Requestor", "Who asks."),
    text_column("RequestedDuration", "How long the certificate is to be valid."),
    text_column("Condition", "What has been decided, and whether there is a certificate."),
];

/// The signer that v1 no longer supports (CS-13).
const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";
/// The minimum requested validity, in seconds (CS-14).
const MIN_EXPIRATION: i64 = 600;

/// CS-1: drops the requester and the status sent by the client.
fn prepare_create(request: &mut Map) {
    if let Some(spec) = request.object_or_new("spec") {
        ["username", "uid", "groups", "extra"].into_iter().for_each(|name| drop(spec.remove(name)));
    }
    request.insert("status".to_owned(), json!({}));
}

/// CS-1: sets the requester of a new request, after `prepare_create`.
pub fn set_requester(request: &mut Map, requester: Requester<'_>) {
    let Some(spec) = request.object_or_new("spec") else { return };
    let mut set = |name: &str, is_empty: bool, value: Value| {
        if !is_empty {
            spec.insert(name.to_owned(), value);
        }
    };
    let Requester { name, uid, groups, extra } = requester;
    set("username", name.is_empty(), json!(name));
    set("uid", uid.is_empty(), json!(uid));
    set("groups", groups.is_empty(), json!(groups));
    set("extra", extra.is_empty(), json!(extra));
}

/// CS-33: the times that an update leaves out.
fn stamp(request: &mut Map, old: Option<&Map>, context: &Context<'_>) -> Result<(), Refusal> {
    let now = Instant::of_seconds(context.now).to_string();
    old.into_iter().for_each(|old| stamp_conditions(request, old, &now));
    Ok(())
}

/// CS-11: what is wrong with the signing request inside.
fn request_fault(request: &Map, context: &Context<'_>) -> Option<String> {
    match bytes(request, "spec", "request") {
        Ok(pem) => context.certificates.request_fault(&pem),
        Err(error) => Some(error.to_string()),
    }
}

/// CS-23: what is wrong with the certificate inside.
fn certificate_fault(request: &Map, context: &Context<'_>) -> Option<String> {
    match bytes(request, "status", "certificate") {
        Ok(pem) if pem.is_empty() => None,
        Ok(pem) => context.certificates.certificates_fault(&pem),
        Err(error) => Some(error.to_string()),
    }
}

/// Restores the fields that an update of `approval` cannot change. The arguments are the new and the old object.
pub fn prepare_approval(request: &mut Map, old: &Map) {
    request.copy("spec", old);
    if let Some(status) = request.object_or_new("status") {
        status.copy("certificate", old.object("status"));
    }
}

fn prepare_status(request: &mut Map, old: &Map) {
    request.copy("spec", old);
    conditions::restore_decision(request, old);
}

/// Validates a new request, without its metadata. `request_error` is the error of the PKCS#10 request (CS-11), if any.
pub fn validate_create(request: &Map, request_error: Option<&str>) -> Errors {
    validate(request, None, request_error)
}

/// Everything wrong with an update through `status`, apart from the metadata (first the new, then the old object). Whether
/// the request was approved plays no part (CS-27).
/// `certificate_error` is what is wrong with the new certificate (CS-23), if something is; that of a certificate that
/// has not changed does not count (CS-24).
pub fn validate_status(request: &Map, old: &Map, certificate_error: Option<&str>) -> Errors {
    let mut errors = validate(request, Some(old), None);
    if let Some(error) = certificate_error.filter(|_| certificate(request) != certificate(old)) {
        errors.push(FieldError::invalid("status.certificate", "<certificate data>", error));
    }
    errors.extend(conditions::validate_changes(request, old, Path::Status));
    errors.extend(validate_certificate_change(request, old, true));
    errors
}

/// Validates an update of `approval`, without the metadata. The arguments are the new and the old object.
pub fn validate_approval(request: &Map, old: &Map) -> Errors {
    validate_update(request, old, Path::Approval)
}

fn validate_update(request: &Map, old: &Map, path: Path) -> Errors {
    let mut errors = validate(request, Some(old), None);
    errors.extend(conditions::validate_changes(request, old, path));
    errors.extend(validate_certificate_change(request, old, false));
    errors
}

/// CS-10 to CS-14, CS-19, CS-24. Errors that the old object also has are tolerated. What is inside the request is the
/// signer's business (CS-15, CS-16).
fn validate(request: &Map, old: Option<&Map>, request_error: Option<&str>) -> Errors {
    let spec = request.object("spec");
    let old_spec = old.map(|old| old.object("spec"));
    let mut errors = Errors::new();
    if let Some(error) = request_error {
        errors.push(FieldError::invalid("spec.request", quoted(spec.text("request")), error));
    }
    validate_usages(spec, old_spec, &mut errors);
    let signer = spec.text("signerName");
    if signer != LEGACY_SIGNER {
        errors.extend(signer_name::validate("spec.signerName", signer));
    } else if old_spec.is_none_or(|old| old.text("signerName") != LEGACY_SIGNER) {
        let detail = "the legacy signerName is not allowed via this API version";
        errors.push(FieldError::invalid("spec.signerName", quoted(signer), detail));
    }
    let expiration = spec.get("expirationSeconds").and_then(Value::as_i64);
    if let Some(seconds) = expiration.filter(|&seconds| seconds < MIN_EXPIRATION) {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.push(FieldError::invalid("spec.expirationSeconds", seconds.to_string(), detail));
    }
    errors.extend(conditions::validate(request, old));
    errors
}

/// CS-12: the unknown ones first, then the duplicates.
fn validate_usages(spec: &Map, old_spec: Option<&Map>, errors: &mut Errors) {
    let usages = || spec.texts("usages");
    errors.push_if(usages().len() == 0, || FieldError::required("spec.usages", ""));
    let is_known = |usage: &str| values::KEY_USAGES.contains(&usage);
    if old_spec.is_none_or(|old| old.texts("usages").all(is_known)) {
        let unknown = usages().enumerate().filter(|(_, usage)| !is_known(usage));
        errors.extend(
            unknown
                .map(|(i, usage)| FieldError::not_supported(at_usage(i), quoted(usage), values::KEY_USAGES)),
        );
    }
    if old_spec.is_none_or(|old| duplicate_usages(old).next().is_none()) {
        let duplicates = duplicate_usages(spec);
        errors.extend(duplicates.map(|(i, usage)| FieldError::duplicate(at_usage(i), quoted(usage))));
    }
}

fn at_usage(i: usize) -> String {
    format!("spec.usages[{i}]")
}

fn duplicate_usages(spec: &Map) -> impl Iterator<Item = (usize, &str)> {
    let mut seen = BTreeSet::new();
    spec.texts("usages").enumerate().filter(move |(_, usage)| !seen.insert(*usage))
}

/// CS-22, CS-26.
fn validate_certificate_change(request: &Map, old: &Map, may_set: bool) -> Option<FieldError> {
    let detail = match () {
        () if certificate(request) == certificate(old) => return None,
        () if !may_set => "updates may not set certificate content",
        () if !certificate(old).is_empty() => "updates may not modify existing certificate content",
        () => return None,
    };
    Some(FieldError::forbidden("status.certificate", detail))
}

fn certificate(request: &Map) -> &str {
    request.object("status").text("certificate")
}

fn row(request: &Map, now: i64) -> Row {
    let spec = request.object("spec");
    let or_none = |text: &str| Value::from(if text.is_empty() { NONE } else { text });
    let expiration = spec.get("expirationSeconds").and_then(Value::as_i64);
    Row::of(vec![
        name(request),
        age(request, now),
        or_none(spec.text("signerName")),
        Value::from(spec.text("username")),
        Value::from(expiration.map_or_else(|| NONE.to_owned(), duration::human)),
        Value::from(condition(request)),
    ])
}

/// The decision, and whether the certificate was issued.
fn condition(request: &Map) -> String {
    let mut shown = match () {
        () if has(request, DENIED) => "Denied",
        () if has(request, APPROVED) => "Approved",
        () => "Pending",
    }
    .to_owned();
    if has(request, FAILED) {
        shown.push_str(",Failed");
    }
    if !certificate(request).is_empty() {
        shown.push_str(",Issued");
    }
    shown
}
