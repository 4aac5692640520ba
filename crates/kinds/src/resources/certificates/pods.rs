//! PodCertificateRequests, by which nodes ask for certificates of pods, and ClusterTrustBundles, which verify them.
//!
//! Both are beta, and served only if `certificates.k8s.io/v1beta1` is enabled. Nothing here signs the requests.

use std::borrow::Cow;

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::names::NameRule;
use portcullis_apimachinery::quote::quoted;
use serde_json::Value;

use super::signer_name;
use crate::Map;
use crate::fields::{ErrorList, Errors, Members};
use crate::resource::{MetadataChecks, Resource, Selectable, Subresource};
use crate::resources::cells::{AGE, NAME, age, name, text_column};
use crate::resources::formats::immutable;
use crate::resources::status;
use crate::schema::certificates_v1beta1::{
    CLUSTER_TRUST_BUNDLE, POD_CERTIFICATE_REQUEST, POD_CERTIFICATE_REQUEST_STATUS,
};
use crate::table::Row;

/// The row of ClusterTrustBundles.
pub static CLUSTER_TRUST_BUNDLES: Resource = Resource {
    kind: "ClusterTrustBundle",
    plural: "clustertrustbundles",
    is_namespaced: false,
    schema: &CLUSTER_TRUST_BUNDLE,
    names: NameRule::PathSegment,
    selectable: &[Selectable::new("spec.signerName", |bundle| text(bundle, "signerName"))],
    selects_namespace: false,
    validate_create: validate_bundle,
    validate_update: |bundle, old| {
        let mut errors = validate_bundle(bundle);
        errors.extend(immutable("spec.signerName", text(bundle, "signerName"), text(old, "signerName")));
        errors
    },
    columns: &[NAME, text_column("SignerName", "Whose certificates the bundle verifies.")],
    row: |bundle, _| {
        let signer = text(bundle, "signerName");
        Row::of(vec![name(bundle), Value::from(if signer.is_empty() { "<none>" } else { &*signer })])
    },
    ..BETA
};

/// The row of PodCertificateRequests. What nodes may ask for is judged elsewhere (NR-76 to NR-89).
pub static POD_CERTIFICATE_REQUESTS: Resource = Resource {
    kind: "PodCertificateRequest",
    plural: "podcertificaterequests",
    subresources: &[Subresource::status("PodCertificateRequest")],
    schema: &POD_CERTIFICATE_REQUEST,
    selectable: &[
        Selectable::new("spec.nodeName", |request| text(request, "nodeName")),
        Selectable::new("spec.podName", |request| text(request, "podName")),
        Selectable::new("spec.signerName", |request| text(request, "signerName")),
    ],
    default: |request| {
        if let Some(spec) = request.object_or_new("spec") {
            spec.default_value("maxExpirationSeconds", DAY);
        }
    },
    prepare_create: |request| status::reset(request, &POD_CERTIFICATE_REQUEST_STATUS),
    validate_create: validate_request,
    prepare_update: |request, old| {
        request.copy("spec", old);
        request.copy("status", old);
    },
    prepare_status: status::keep_spec,
    validate_status,
    columns: &[
        NAME,
        text_column("PodName", "The pod that the certificate is for."),
        text_column("ServiceAccountName", "The account of the pod."),
        text_column("NodeName", "The node of the pod."),
        text_column("SignerName", "Who is asked to sign."),
        text_column("State", "What has become of the request."),
        AGE,
    ],
    row,
    ..BETA
};

const BETA: Resource = Resource {
    group: "certificates.k8s.io",
    version: "v1beta1",
    metadata_checks: MetadataChecks { alone: 0, as_update: 1, knows_finalizers: true },
    updates_unconditionally: false,
    ..Resource::USUAL
};

const DAY: i64 = 24 * 60 * 60;
/// The shortest and the longest validity that can be asked for, in seconds.
const EXPIRATION: std::ops::RangeInclusive<i64> = 60 * 60..=91 * DAY;

fn text<'a>(object: &'a Map, field: &str) -> Cow<'a, str> {
    Cow::Borrowed(object.object("spec").text(field))
}

/// The name of a bundle of a signer begins with that of the signer.
fn validate_bundle(bundle: &Map) -> Errors {
    let (spec, name) = (bundle.object("spec"), bundle.metadata().text("name"));
    let signer = spec.text("signerName");
    let mut errors = Errors::new();
    if signer.is_empty() {
        errors.push_if(name.contains(':'), || {
            let detail = "ClusterTrustBundle without signer name must not have \":\" in its name";
            FieldError::invalid("metadata.name", quoted(name), detail)
        });
    } else {
        errors.extend(signer_name::validate("spec.signerName", signer));
        let prefix = format!("{}:", signer.replace('/', ":"));
        errors.push_if(!name.starts_with(&prefix), || {
            let detail =
                format!("ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}");
            FieldError::invalid("metadata.name", quoted(name), detail)
        });
    }
    errors.push_if(!spec.text("trustBundle").contains("-----BEGIN CERTIFICATE-----"), || {
        FieldError::invalid(
            "spec.trustBundle",
            "<value omitted>",
            "at least one trust anchor must be provided",
        )
    });
    errors
}

fn validate_request(request: &Map) -> Errors {
    let spec = request.object("spec");
    let mut errors = signer_name::validate("spec.signerName", spec.text("signerName"));
    let required = ["podName", "podUID", "serviceAccountName", "serviceAccountUID", "nodeName", "nodeUID"];
    for member in required.into_iter().filter(|member| spec.text(member).is_empty()) {
        errors.push(FieldError::required(format!("spec.{member}"), ""));
    }
    let has_key = !spec.text("pkixPublicKey").is_empty() && !spec.text("proofOfPossession").is_empty();
    errors.push_if(!has_key && spec.text("stubPKCS10Request").is_empty(), || {
        FieldError::required("spec.stubPKCS10Request", "")
    });
    let seconds = spec.number("maxExpirationSeconds");
    errors.push_if(!EXPIRATION.contains(&seconds), || {
        let detail = "must be between one hour and 91 days";
        FieldError::invalid("spec.maxExpirationSeconds", seconds.to_string(), detail)
    });
    errors
}

/// A request that was issued, denied or failed stays as it is.
fn validate_status(request: &Map, old: &Map) -> Errors {
    let known = ["Denied", "Failed", "Issued"];
    let mut errors = Errors::new();
    let conditions = request.object("status").objects("conditions");
    let decisions = conditions.clone().filter(|condition| known.contains(&condition.text("type"))).count();
    errors.push_if(decisions > 1, || {
        let detail = "may have at most one of the conditions Issued, Denied and Failed";
        FieldError::invalid("status.conditions", "", detail)
    });
    if state(old) != PENDING {
        errors.extend(immutable("status", request.get("status"), old.get("status")));
    }
    errors
}

/// The state of a request without a decision.
const PENDING: &str = "Pending";

fn state(request: &Map) -> &'static str {
    let has = |kind: &str| {
        let mut conditions = request.object("status").objects("conditions");
        conditions.any(|condition| condition.text("type") == kind && condition.text("status") == "True")
    };
    ["Issued", "Denied", "Failed"].into_iter().find(|kind| has(kind)).unwrap_or(PENDING)
}

fn row(request: &Map, now: i64) -> Row {
    let spec = request.object("spec");
    let of = |member: &str| Value::from(spec.text(member));
    Row::of(vec![
        name(request),
        of("podName"),
        of("serviceAccountName"),
        of("nodeName"),
        of("signerName"),
        Value::from(state(request)),
        age(request, now),
    ])
}
