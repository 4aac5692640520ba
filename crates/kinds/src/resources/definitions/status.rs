//! The conditions of definitions, and what becomes of one that is deleted.

use portcullis_apimachinery::time::Instant;
use serde_json::{Value, json};

use crate::Map;
use crate::fields::Members;
use crate::meta;
use crate::resource::Deletion;

/// The finalizer of a definition whose objects are still to be deleted.
pub const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// A condition: its type, whether it holds, the reason, and the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition<'c> {
    /// The type: `Established`.
    pub kind: &'c str,
    /// Whether it holds.
    pub holds: bool,
    /// The reason, in one word.
    pub reason: &'c str,
    /// The message.
    pub message: &'c str,
}

/// Sets a condition. Its time changes only if it holds now and did not before, or the other way round.
pub fn set(definition: &mut Map, condition: Condition<'_>, now: i64) {
    let Condition { kind, holds, reason, message } = condition;
    let status = if holds { "True" } else { "False" };
    let mut time = Value::from(Instant::of_seconds(now).to_string());
    let Some(of) = definition.object_or_new("status") else { return };
    let conditions = of.list("conditions").to_vec();
    let at = conditions.iter().position(|known| known.get("type").and_then(Value::as_str) == Some(kind));
    let before = at.and_then(|at| conditions.get(at)).and_then(Value::as_object);
    if let Some(before) = before.filter(|before| before.text("status") == status) {
        time = before.get("lastTransitionTime").cloned().unwrap_or(time);
    }
    let condition = json!({"type": kind, "status": status, "lastTransitionTime": time, "reason": reason, "message": message});
    let mut conditions = conditions;
    match at.and_then(|at| conditions.get_mut(at)) {
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
    of.insert("conditions".to_owned(), conditions.into());
}

/// Whether a condition holds.
pub fn holds(definition: &Map, kind: &str) -> bool {
    let mut conditions = definition.object("status").objects("conditions");
    conditions.any(|condition| condition.text("type") == kind && condition.text("status") == "True")
}

/// A definition that is deleted stays until its objects are gone.
pub(super) fn begin_deletion(definition: &Map, now: i64) -> Deletion {
    let is_terminating = meta::is_terminating(definition);
    let is_held = definition.metadata().texts("finalizers").any(|name| name == CLEANUP);
    match (is_terminating, is_held) {
        (true, true) => return Deletion::Waits,
        (true, false) => return Deletion::Proceeds,
        (false, _) => {}
    }
    let mut marked = definition.clone();
    if let Some(metadata) = marked.object_or_new("metadata") {
        metadata.insert("deletionTimestamp".to_owned(), Instant::of_seconds(now).to_string().into());
        if !is_held {
            metadata.push_to("finalizers", CLEANUP.into());
        }
    }
    let condition = Condition {
        kind: "Terminating",
        holds: true,
        reason: "InstanceDeletionPending",
        message: "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    };
    set(&mut marked, condition, now);
    Deletion::Begins(marked)
}
