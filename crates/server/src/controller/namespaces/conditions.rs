//! The deletion conditions in the status of a namespace.

use kinds::Map;
use serde_json::{Value, json};

use super::content::Content;
use crate::registry::meta;

/// The desired state of a condition.
struct Condition {
    kind: &'static str,
    is_true: bool,
    reason: &'static str,
    message: String,
}

/// Returns the conditions, in the order of Kubernetes.
fn conditions(content: &Content) -> [Condition; 5] {
    let condition = |kind, fault: Option<(&'static str, String)>, (reason, message): (_, &str)| match fault {
        Some((reason, message)) => Condition { kind, is_true: true, reason, message },
        None => Condition { kind, is_true: false, reason, message: message.to_owned() },
    };
    let remaining: Vec<String> = content
        .remaining
        .iter()
        .map(|((group, plural), count)| format!("{plural}.{group} has {count} resource instances"))
        .collect();
    let finalizers: Vec<String> = content
        .finalizers
        .iter()
        .map(|(finalizer, count)| format!("{finalizer} in {count} resource instances"))
        .collect();
    let some = |reason, prefix: &str, list: Vec<String>| {
        (!list.is_empty()).then(|| (reason, format!("{prefix}: {}", list.join(", "))))
    };
    [
        condition(
            "NamespaceDeletionDiscoveryFailure",
            None,
            ("ResourcesDiscovered", "All kinds of objects are known"),
        ),
        condition(
            "NamespaceDeletionGroupVersionParsingFailure",
            None,
            ("ParsedGroupVersions", "All API versions could be read"),
        ),
        condition(
            "NamespaceDeletionContentFailure",
            content.error().map(|error| ("ContentDeletionFailed", error)),
            ("ContentDeleted", "All content was deleted; objects with finalizers may remain"),
        ),
        condition(
            "NamespaceContentRemaining",
            some("SomeResourcesRemain", "Some resources are remaining", remaining),
            ("ContentRemoved", "Nothing is left"),
        ),
        condition(
            "NamespaceFinalizersRemaining",
            some(
                "SomeFinalizersRemain",
                "Some content in the namespace has finalizers remaining",
                finalizers,
            ),
            ("ContentHasNoFinalizers", "No finalizer holds anything"),
        ),
    ]
}

/// Updates the conditions of a namespace. Conditions of other types are kept, and so are times if only the message
/// changes.
pub(super) fn update(namespace: &mut Map, content: &Content, now: i64) {
    let Some(status) = namespace.get_mut("status").and_then(Value::as_object_mut) else { return };
    let present = status.entry("conditions").or_insert(Value::Null);
    if !present.is_array() {
        *present = json!([]);
    }
    let Some(present) = present.as_array_mut() else { return };
    for Condition { kind, is_true, reason, message } in conditions(content) {
        let state = if is_true { "True" } else { "False" };
        let old = present.iter_mut().find(|old| old.get("type").and_then(Value::as_str) == Some(kind));
        let since = match &old {
            Some(old) if old.get("status").and_then(Value::as_str) == Some(state) => {
                old.get("lastTransitionTime").cloned()
            }
            _ => None,
        };
        let new = json!({
            "type": kind,
            "status": state,
            "lastTransitionTime": since.unwrap_or_else(|| meta::time(now).into()),
            "reason": reason,
            "message": message,
        });
        match old {
            Some(old) => *old = new,
            None => present.push(new),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespace() -> Map {
        let namespace =
            json!({"status": {"phase": "Terminating", "conditions": [{"type": "X", "status": "True"}]}});
        namespace.as_object().unwrap().clone()
    }

    fn of<'n>(namespace: &'n Map, kind: &str) -> &'n Value {
        let conditions = namespace["status"]["conditions"].as_array().unwrap();
        conditions.iter().find(|condition| condition["type"] == kind).unwrap()
    }

    #[test]
    fn what_is_left_is_said_and_what_others_said_stays() {
        let mut namespace = namespace();
        let mut content = Content::default();
        content.remaining.insert(("", "pods"), 2);
        content.finalizers.insert("a.example/b".to_owned(), 1);
        update(&mut namespace, &content, 0);
        assert_eq!(of(&namespace, "X")["status"], "True");
        let remaining = of(&namespace, "NamespaceContentRemaining");
        assert_eq!(remaining["status"], "True");
        assert_eq!(remaining["message"], "Some resources are remaining: pods. has 2 resource instances");
        assert_eq!(of(&namespace, "NamespaceDeletionContentFailure")["status"], "False");
        assert_eq!(of(&namespace, "NamespaceFinalizersRemaining")["reason"], "SomeFinalizersRemain");
    }

    #[test]
    fn a_time_changes_only_with_the_state() {
        let mut namespace = namespace();
        let mut content = Content::default();
        content.remaining.insert(("", "pods"), 2);
        update(&mut namespace, &content, 0);
        content.remaining.insert(("", "pods"), 1);
        update(&mut namespace, &content, 100);
        assert_eq!(of(&namespace, "NamespaceContentRemaining")["lastTransitionTime"], meta::time(0));
        content.remaining.clear();
        update(&mut namespace, &content, 200);
        assert_eq!(of(&namespace, "NamespaceContentRemaining")["lastTransitionTime"], meta::time(200));
        let before = namespace.clone();
        update(&mut namespace, &content, 300);
        assert_eq!(namespace, before);
    }
}
