//! Writes what was decided: annotations, conditions, the certificate, and Events (AT-85, AT-95, AT-101, AT-160, AT-191).

use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use portcullis_attestation::machine::Machine;
use portcullis_attestation::time::instant;
use portcullis_attestation::{Offer, Reason, Refusal};
use serde_json::{Value, json};

use crate::attestation::{CHALLENGE, ENDORSEMENT_KEY, OfferText, SUPPORTED_VERSIONS, Stored};
use crate::call::{CallError, REQUESTS};
use crate::connect::Connection;
use crate::events::{event, write_event};

/// The reason in `Approved` conditions.
const APPROVED: &str = "AttestationVerified";
const COMPONENT: &str = "portcullis-attest";
/// The versions that are read, the preferred one first.
const VERSIONS: &str = "v1";

/// Writes the challenge into the request that asked for it, and the endorsement key that the platform reports. Both
/// replace what the requester may have put there (AT-95).
pub(super) async fn offer(
    connection: &Connection,
    stored: &Stored,
    offer: &Offer,
    machine: &Machine,
) -> Result<(), CallError> {
    let text = serde_json::to_string(&OfferText::new(offer)).unwrap_or_default();
    let key = machine.platform_key.or_else(|| machine.endorsement_keys.first().copied());
    let annotations = json!({CHALLENGE: text, ENDORSEMENT_KEY: key.map(|key| key.to_string())});
    annotate(connection, stored, annotations).await
}

async fn annotate(connection: &Connection, stored: &Stored, annotations: Value) -> Result<(), CallError> {
    let patch = json!({"metadata": {"uid": stored.metadata.uid, "annotations": annotations}});
    connection.merge::<Value>(&REQUESTS.object(&stored.metadata.name), &patch).await.map(|_| ())
}

/// Approves the version of a request that was decided on.
pub(super) async fn approve(
    connection: &Connection,
    stored: &Stored,
    message: &str,
) -> Result<Stored, CallError> {
    condition(connection, stored, "approval", "Approved", APPROVED, message).await
}

/// Why a request is refused, by whichever rules.
#[derive(Clone, Copy, Debug)]
pub(super) struct Why<'a> {
    pub(super) reason: &'static str,
    pub(super) rule: &'static str,
    pub(super) detail: &'a str,
}

impl<'a> From<&'a Refusal> for Why<'a> {
    fn from(refusal: &'a Refusal) -> Self {
        Self { reason: refusal.reason.as_str(), rule: refusal.rule, detail: &refusal.detail }
    }
}

/// Denies a request; one that is approved already fails instead. A request of an unknown version gets the versions that
/// are known (AT-160).
pub(super) async fn refuse(connection: &Connection, stored: &Stored, why: Why<'_>) -> Result<(), CallError> {
    if why.reason == Reason::UnsupportedAttestationVersion.as_str() {
        annotate(connection, stored, json!({SUPPORTED_VERSIONS: VERSIONS})).await?;
        // The annotation made a new version.
        let mut current: Stored = connection.get(&REQUESTS, &stored.metadata.name).await?;
        if current.metadata.uid != stored.metadata.uid || current.is_decided() {
            return Ok(());
        }
        current.spec = stored.spec.clone();
        return deny(connection, &current, why).await;
    }
    deny(connection, stored, why).await
}

async fn deny(connection: &Connection, stored: &Stored, why: Why<'_>) -> Result<(), CallError> {
    let message = format!("{}: {}", why.rule, why.detail);
    let (part, kind) = if stored.has("Approved") { ("status", "Failed") } else { ("approval", "Denied") };
    condition(connection, stored, part, kind, why.reason, &shortened(message)).await.map(|_| ())
}

/// Adds a condition to the version that was read. The object is read again, because a replacement must have all fields.
async fn condition(
    connection: &Connection,
    stored: &Stored,
    part: &str,
    kind: &str,
    reason: &str,
    message: &str,
) -> Result<Stored, CallError> {
    let condition = json!({"type": kind, "status": "True", "reason": reason, "message": message});
    change(connection, stored, part, |status| {
        match status.get_mut("conditions").and_then(Value::as_array_mut) {
            Some(conditions) => conditions.push(condition),
            None => drop(status.insert("conditions".to_owned(), json!([condition]))),
        }
    })
    .await
}

/// Writes the certificate, in PEM (AT-85).
pub(super) async fn issue(
    connection: &Connection,
    stored: &Stored,
    certificates_pem: &str,
) -> Result<(), CallError> {
    let certificate = STANDARD.encode(certificates_pem);
    let put = |status: &mut serde_json::Map<String, Value>| {
        status.insert("certificate".to_owned(), certificate.into());
    };
    change(connection, stored, "status", put).await.map(|_| ())
}

/// Changes the status of the version that was read.
async fn change(
    connection: &Connection,
    stored: &Stored,
    part: &str,
    change: impl FnOnce(&mut serde_json::Map<String, Value>),
) -> Result<Stored, CallError> {
    let path = REQUESTS.object(&stored.metadata.name);
    let mut object: Value = connection.call(http::Method::GET, &path, None).await?;
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("uid".to_owned(), stored.metadata.uid.as_str().into());
        metadata.insert("resourceVersion".to_owned(), stored.metadata.resource_version.as_str().into());
    }
    if let Some(object) = object.as_object_mut() {
        let status = object.entry("status").or_insert_with(|| json!({}));
        if let Some(status) = status.as_object_mut() {
            change(status);
        }
    }
    connection.replace(&format!("{path}/{part}"), &object).await
}

/// Writes an Event about a request, and one about its Machine (AT-191). A failure is only logged.
pub(super) async fn tell(
    workload: &Connection,
    management: &Connection,
    stored: &Stored,
    machine: Option<&Machine>,
    why: Why<'_>,
    now: SystemTime,
) {
    let message = shortened(format!("refused by {}: {}", why.rule, why.detail));
    let reason = why.reason;
    let Stored { metadata, .. } = stored;
    let involved = json!({
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "name": metadata.name,
        "uid": metadata.uid,
    });
    let now = instant(now);
    let about = event(COMPONENT, &metadata.name, &involved, reason, "Warning", &message, now);
    write_event(workload, &metadata.name, &about).await;
    let Some((machine, owner)) = machine.and_then(|machine| Some((machine, machine.owner.as_ref()?))) else {
        return;
    };
    let involved = json!({
        "apiVersion": owner.api_version,
        "kind": "Machine",
        "namespace": owner.namespace,
        "name": owner.name,
        "uid": machine.uid,
    });
    let message = shortened(format!("CertificateSigningRequest {}: {message}", metadata.name));
    let mut about = event(COMPONENT, &owner.name, &involved, reason, "Warning", &message, now);
    if let Some(namespace) = about.pointer_mut("/metadata/namespace") {
        *namespace = owner.namespace.as_str().into();
    }
    write_event(management, &owner.name, &about).await;
}

/// Shortens a message to what the API server accepts in Events and conditions.
fn shortened(mut message: String) -> String {
    let end = (0..=1000).rev().find(|end| message.is_char_boundary(*end)).unwrap_or(0);
    message.truncate(end);
    message
}
