//! Reports decisions to people and to the API server (NB-60 to NB-64).

use portcullis_apimachinery::time::Instant;
use portcullis_policy::approval::machine::{APPROVED_REASON, Machine, Outcome, Request, Verdict};
use serde_json::{Value, json};

use crate::call::{CallError, REQUESTS};
use crate::connect::Connection;
use crate::events::{event, random_id, write_event};

/// The annotation with the last decision.
const DECISION: &str = "portcullis.dev/decision";
/// The length of a Machine's part of an event's name.
const MOST_NAME: usize = 200;
pub(super) const COMPONENT: &str = "portcullis-approver";

/// Adds the condition to the object that was decided on; if it has changed since it was read, nothing is written
/// (NB-62). An existing condition is kept (NB-64).
pub(super) async fn write_condition(
    connection: &Connection,
    object: &Value,
    request: &Request,
    verdict: &Verdict,
) -> Result<(), CallError> {
    let (kind, reason) = match verdict.outcome {
        Outcome::Approve => ("Approved", APPROVED_REASON),
        Outcome::Deny => ("Denied", verdict.reason.as_str()),
        Outcome::Hold | Outcome::Retry => return Ok(()),
    };
    let id = random_id();
    let message = match verdict.outcome {
        Outcome::Approve => format!("Portcullis decision {id}: {} ({})", verdict.reason, verdict.rule),
        _ => format!("Portcullis decision {id}: {} ({}): {}", verdict.reason, verdict.rule, verdict.detail),
    };
    let condition = json!({"type": kind, "status": "True", "reason": reason, "message": message});
    let mut object = object.clone();
    let status = object.as_object_mut().map(|object| object.entry("status").or_insert_with(|| json!({})));
    let Some(Value::Object(status)) = status else { return Ok(()) };
    match status.entry("conditions").or_insert_with(|| json!([])) {
        Value::Array(conditions) => conditions.push(condition),
        other => *other = json!([condition]),
    }
    let path = format!("{}/approval", REQUESTS.object(&request.name));
    connection.replace::<Value>(&path, &object).await.map(|_| ())
}

/// Returns the last decision in the annotation of an object: outcome, reason, detail and rule.
pub(super) fn last_decision(object: &Value) -> Option<[String; 4]> {
    let text = object.get("metadata")?.get("annotations")?.get(DECISION)?.as_str()?;
    let decision: Value = serde_json::from_str(text).ok()?;
    let field = |name: &str| decision.get(name).and_then(Value::as_str).map(str::to_owned);
    Some([field("outcome")?, field("reason")?, field("detail")?, field("rule")?])
}

/// Converts the decision to the form of the annotation.
pub(super) fn decision(verdict: &Verdict) -> [String; 4] {
    [verdict.outcome.to_string(), verdict.reason.to_string(), verdict.detail.clone(), verdict.rule.to_owned()]
}

/// Writes the annotation and the event (NB-61). A failure is only logged.
pub(super) async fn tell(connection: &Connection, request: &Request, verdict: &Verdict, now: Instant) {
    let decision = json!({
        "outcome": verdict.outcome.as_str(),
        "reason": verdict.reason.as_str(),
        "detail": verdict.detail,
        "rule": verdict.rule,
        "at": now.to_string(),
    });
    let patch = json!({"metadata": {"uid": request.uid, "annotations": {DECISION: decision.to_string()}}});
    if let Err(error) = connection.merge::<Value>(&REQUESTS.object(&request.name), &patch).await
        && !error.is_not_found()
    {
        tracing::warn!(csr = request.name, %error, "cannot write the decision into the request");
    }
    write_event(connection, &request.name, &decision_event(request, verdict, now)).await;
}

/// Writes an event about the Machine of a contested request (NB-75a). A failure is only logged.
pub(super) async fn tell_machine(
    connection: &Connection,
    machine: &Machine,
    request: &Request,
    verdict: &Verdict,
    now: Instant,
) {
    let involved = json!({
        "apiVersion": machine.kind.api_version(),
        "kind": "Machine",
        "namespace": machine.namespace,
        "name": machine.name,
        "uid": machine.uid,
    });
    let message = format!("Held CertificateSigningRequest {}: {}", request.name, verdict.detail);
    let name: String = machine.name.chars().take(MOST_NAME).collect();
    let name = name.trim_end_matches(['-', '.']);
    let mut event =
        event(COMPONENT, name, &involved, verdict.reason.as_str(), "Warning", &shortened(message), now);
    if let Some(namespace) = event.pointer_mut("/metadata/namespace") {
        *namespace = machine.namespace.as_str().into();
    }
    write_event(connection, &machine.name, &event).await;
}

fn decision_event(request: &Request, verdict: &Verdict, now: Instant) -> Value {
    let (action, kind) = match verdict.outcome {
        Outcome::Approve => ("Approved", "Normal"),
        Outcome::Deny => ("Denied", "Warning"),
        Outcome::Hold => ("Held", "Warning"),
        Outcome::Retry => ("Waiting", "Normal"),
    };
    let message = shortened(format!("{action} by {}: {}", verdict.rule, verdict.detail));
    let involved = json!({
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "name": request.name,
        "uid": request.uid,
    });
    event(COMPONENT, &request.name, &involved, verdict.reason.as_str(), kind, &message, now)
}

/// Shortens a message to what the API server accepts.
fn shortened(mut message: String) -> String {
    let end = (0..=1000).rev().find(|end| message.is_char_boundary(*end)).unwrap_or(0);
    message.truncate(end);
    message
}
