//! Merge patches: RFC 7386 (AP-62).

use serde_json::Value;

use crate::Map;

/// Applies the patch to the object.
pub(super) fn apply(mut current: Map, patch: Map) -> Map {
    merge(&mut current, patch);
    current
}

fn merge(target: &mut Map, patch: Map) {
    for (name, value) in patch {
        match (target.get_mut(&name), value) {
            (_, Value::Null) => {
                target.remove(&name);
            }
            (Some(Value::Object(inner)), Value::Object(patch)) => merge(inner, patch),
            // Kubernetes keeps the nulls in a value that replaces an object.
            (Some(old @ Value::Object(_)), value) => *old = value,
            (_, value) => {
                target.insert(name, without_nulls(value));
            }
        }
    }
}

/// Removes null members from a new value; list entries are kept.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Array(entries) => entries.into_iter().map(without_nulls).collect::<Vec<_>>().into(),
        Value::Object(members) => {
            let kept = members.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(name, value)| (name, without_nulls(value))).collect())
        }
        value => value,
    }
}
