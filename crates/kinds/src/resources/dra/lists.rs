//! Lists with a limit.

use std::collections::HashSet;
use std::hash::Hash;

use portcullis_apimachinery::field_error::FieldError;

use crate::fields::Errors;

/// Validates the entries of a list. The entries of a list that is too long are not validated.
pub(super) fn validate_list<T>(
    field: &str,
    entries: impl ExactSizeIterator<Item = T>,
    limit: usize,
    check: impl Fn(&str, T) -> Errors,
) -> Errors {
    if entries.len() > limit {
        return Errors::from([FieldError::too_many(field, entries.len(), limit)]);
    }
    entries.enumerate().flat_map(|(i, entry)| check(&format!("{field}[{i}]"), entry)).collect()
}

/// Like [`validate_list`]; in addition, keys must be unique.
pub(super) fn validate_set<T, K: Eq + Hash>(
    field: &str,
    entries: impl ExactSizeIterator<Item = T> + Clone,
    limit: usize,
    check: impl Fn(&str, T) -> Errors,
    key: impl Fn(T) -> K,
) -> Errors {
    let is_too_long = entries.len() > limit;
    let mut errors = validate_list(field, entries.clone(), limit, check);
    if is_too_long {
        return errors;
    }
    let mut seen = HashSet::new();
    for (i, entry) in entries.enumerate() {
        if !seen.insert(key(entry)) {
            errors.push(FieldError::duplicate(format!("{field}[{i}]"), "the entry"));
        }
    }
    errors
}
