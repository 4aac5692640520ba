//! The conditions of a CertificateSigningRequest (CS-20, CS-30 to CS-34).

use std::collections::BTreeSet;

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::quote::quoted;
use serde_json::Value;

use crate::Map;
use crate::fields::{ErrorList, Errors, Members};
use crate::resources::formats::one_of;

/// The condition of an approved request.
pub const APPROVED: &str = "Approved";
/// The condition of a denied request.
pub const DENIED: &str = "Denied";
/// The condition of a request that its signer refused to sign.
pub const FAILED: &str = "Failed";

const FIELD: &str = "status.conditions";

/// The endpoint of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Path {
    /// The object itself.
    Main,
    /// Its subresource `approval`.
    Approval,
    /// Its subresource `status`.
    Status,
}

fn conditions(request: &Map) -> impl DoubleEndedIterator<Item = &Map> {
    request.object("status").objects("conditions")
}

fn of_type<'a>(request: &'a Map, kind: &str) -> Vec<&'a Map> {
    conditions(request).filter(|condition| condition.text("type") == kind).collect()
}

/// Returns whether there is a condition of this type.
pub(super) fn has(request: &Map, kind: &str) -> bool {
    conditions(request).any(|condition| condition.text("type") == kind)
}

/// CS-20: an update of `status` keeps the decisions, unless it has a different number of them (which is an error).
pub(super) fn restore_decision(request: &mut Map, old: &Map) {
    for kind in [APPROVED, DENIED] {
        let kept = of_type(old, kind);
        if kept.len() != of_type(request, kind).len() {
            continue;
        }
        let Some(status) = request.object_or_new("status") else { return };
        let replaced = status.objects_mut("conditions").filter(|condition| condition.text("type") == kind);
        replaced.zip(kept).for_each(|(condition, kept)| condition.clone_from(kept));
    }
}

/// CS-33: sets the times that an update omits, after `prepare_status` or [`prepare_approval`](super::prepare_approval).
/// `now` is an RFC 3339 time, such as `2026-01-02T03:04:05Z`.
pub fn stamp(request: &mut Map, old: &Map, now: &str) {
    let Some(status) = request.object_or_new("status") else { return };
    for condition in status.objects_mut("conditions") {
        if condition.text("lastUpdateTime").is_empty() {
            condition.insert("lastUpdateTime".to_owned(), Value::from(now));
        }
        if condition.text("lastTransitionTime").is_empty() {
            let (kind, state) = (condition.text("type"), condition.text("status"));
            let before = conditions(old)
                .filter(|old| old.text("type") == kind && old.text("status") == state)
                .map(|old| old.text("lastTransitionTime"))
                .find(|time| !time.is_empty());
            let time = Value::from(before.unwrap_or(now));
            condition.insert("lastTransitionTime".to_owned(), time);
        }
    }
}

/// CS-30, CS-31, CS-24.
pub(super) fn validate(request: &Map, old: Option<&Map>) -> Errors {
    let excuses = |fault: fn(&Map) -> bool| old.is_some_and(fault);
    let excuses_empty = excuses(|old| has(old, ""));
    let excuses_both = excuses(|old| has(old, APPROVED) && has(old, DENIED));
    let excuses_duplicates = excuses(has_duplicates);
    let mut errors = Errors::new();
    let mut seen = BTreeSet::new();
    for (i, condition) in conditions(request).enumerate() {
        let (kind, status) = (condition.text("type"), condition.text("status"));
        let (at_type, at_status) = (format!("{FIELD}[{i}].type"), format!("{FIELD}[{i}].status"));
        errors.push_if(kind.is_empty() && !excuses_empty, || FieldError::required(&at_type, ""));
        let known: &[&str] = match kind {
            APPROVED | DENIED | FAILED => &["True"],
            _ => &["False", "True", "Unknown"],
        };
        match status {
            "" => errors.push(FieldError::required(at_status, "")),
            status => errors.extend(one_of(&at_status, status, known)),
        }
        let opposite = match kind {
            APPROVED => Some(DENIED),
            DENIED => Some(APPROVED),
            _ => None,
        };
        if opposite.is_some_and(|opposite| seen.contains(opposite)) && !excuses_both {
            let detail = "Approved and Denied conditions are mutually exclusive";
            errors.push(FieldError::invalid(FIELD, quoted(kind), detail));
        }
        if !seen.insert(kind) && !excuses_duplicates {
            errors.push(FieldError::duplicate(at_type, quoted(kind)));
        }
    }
    errors
}

fn has_duplicates(request: &Map) -> bool {
    let mut seen = BTreeSet::new();
    conditions(request).any(|condition| !seen.insert(condition.text("type")))
}

/// CS-20, CS-21.
pub(super) fn validate_changes(request: &Map, old: &Map, path: Path) -> Errors {
    let mut errors = Errors::new();
    for kind in [APPROVED, DENIED, FAILED] {
        errors.push_if(of_type(request, kind).len() < of_type(old, kind).len(), || forbidden("remove", kind));
    }
    if path == Path::Approval {
        return errors;
    }
    for kind in [APPROVED, DENIED] {
        let (new, old) = (of_type(request, kind), of_type(old, kind));
        if new.len() > old.len() {
            errors.push(forbidden("add", kind));
        } else if new.len() == old.len() && new != old {
            errors.push(forbidden("modify", kind));
        }
    }
    errors
}

fn forbidden(what: &str, kind: &str) -> FieldError {
    FieldError::forbidden(FIELD, format!("updates may not {what} a condition of type {kind:?}"))
}
