//! Directives: the members of a strategic merge patch that say how the rest of it is merged (AP-64).

use serde_json::Value;

use crate::patch::PatchError;

/// The directive for the object or entry that contains it.
pub(super) const DIRECTIVE: &str = "$patch";
/// The members of the stored object to keep.
pub(super) const RETAIN_KEYS: &str = "$retainKeys";
/// The prefix of a directive with the values to delete from a list of plain values.
pub(super) const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
/// The prefix of a directive with the order of a list's entries.
pub(super) const SET_ORDER: &str = "$setElementOrder";

/// The message omits the value, because a patch of a Secret is confidential.
pub(super) fn unknown_directive() -> PatchError {
    PatchError::Internal(format!("unknown patch type: {DIRECTIVE} takes replace, merge and delete"))
}

/// The name of the list of a directive; `None` for another member.
pub(super) fn name_after<'a>(member: &'a str, directive: &str) -> Result<Option<&'a str>, PatchError> {
    let Some(rest) = member.strip_prefix(directive) else { return Ok(None) };
    let malformed = || PatchError::Malformed(format!("{member:?} names no list: write {directive}/NAME"));
    rest.strip_prefix('/').map(Some).ok_or_else(malformed)
}

/// Cleans a newly added value: removes nulls and directives, which have nothing to apply to. `None` for an object that
/// is itself a directive.
pub(super) fn without_directives(value: Value) -> Option<Value> {
    Some(match value {
        Value::Array(entries) => {
            entries.into_iter().filter_map(without_directives).collect::<Vec<_>>().into()
        }
        Value::Object(members) => {
            if members.contains_key(DIRECTIVE) {
                return None;
            }
            let kept = members.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.filter_map(|(name, value)| Some((name, without_directives(value)?))).collect())
        }
        value => value,
    })
}
