//! Merge patches: RFC 7386 (AP-62).

use serde_json::Value;

use crate::Map;

/// The object with the patch laid over it.
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
            // Kubernetes leaves the nulls within what takes the place of an object.
            (Some(old @ Value::Object(_)), value) => *old = value,
            (_, value) => {
                target.insert(name, without_nulls(value));
            }
        }
    }
}

/// A new value without the members that are null; entries of lists stay.
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
