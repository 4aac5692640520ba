//! Object metadata: the fields that the server sets at creation, the fields that an update cannot change, validation,
//! and selectors.

mod selection;
mod validation;

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::time::Instant;
use serde_json::Value;

use crate::Map;
use crate::fields::Members;
use crate::resource::Resource;

pub use selection::{FieldSelector, UnknownField, labels_match};
pub use validation::{validate, validate_embedded, validate_update, with_metadata};

/// The maximum length of the prefix of a generated name, in bytes.
const MAX_GENERATED_PREFIX: usize = 58;
/// The number of generated characters.
const GENERATED: usize = 5;
/// The generated characters: no vowels, and none that look alike.
const GENERATED_CHARACTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// An error: the body of a create or an update has another namespace than the path (AP-31). A bad request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the namespace of the provided object does not match the namespace sent on the request")]
pub struct OtherNamespace;

/// A string of the metadata; empty if not set.
pub fn text<'a>(object: &'a Map, name: &str) -> &'a str {
    object.metadata().text(name)
}

/// The object's name.
pub fn name(object: &Map) -> &str {
    text(object, "name")
}

/// The object's namespace; empty when it has none.
pub fn namespace(object: &Map) -> &str {
    text(object, "namespace")
}

/// Returns whether the object is terminating.
pub fn is_terminating(object: &Map) -> bool {
    !text(object, "deletionTimestamp").is_empty()
}

/// The mutable metadata, created if missing. Always `Some` then.
pub fn metadata_mut(object: &mut Map) -> Option<&mut Map> {
    let meta = object.entry("metadata").or_insert(Value::Null);
    if !meta.is_object() {
        *meta = Value::Object(Map::new());
    }
    meta.as_object_mut()
}

/// Sets the namespace of an object to that of the request (AP-31): empty for cluster-scoped kinds, for which any value
/// is cleared.
///
/// # Errors
/// The object names another one.
pub fn settle_namespace(object: &mut Map, requested: &str) -> Result<(), OtherNamespace> {
    match namespace(object) {
        own if own == requested && !own.is_empty() => return Ok(()),
        "" => {}
        _ if requested.is_empty() => {}
        _ => return Err(OtherNamespace),
    }
    let Some(meta) = metadata_mut(object) else { return Ok(()) };
    match requested {
        "" => meta.remove("namespace"),
        requested => meta.insert("namespace".to_owned(), Value::from(requested)),
    };
    Ok(())
}

/// Sets the system metadata of a new object, and drops fields that a client cannot set (AP-30). Who manages which fields was
/// recorded before.
pub fn begin(object: &mut Map, uid: &str, now: Instant) {
    let Some(meta) = metadata_mut(object) else { return };
    for name in ["deletionGracePeriodSeconds", "deletionTimestamp", "generation", "selfLink"] {
        meta.remove(name);
    }
    meta.insert("uid".to_owned(), Value::from(uid));
    meta.insert("creationTimestamp".to_owned(), Value::from(now.to_string()));
}

/// Generates the name of an object with `generateName` (AP-32). The name is derived from `random`.
pub fn generate_name(object: &mut Map, random: u64) {
    let prefix = text(object, "generateName");
    if prefix.is_empty() || !name(object).is_empty() {
        return;
    }
    let mut name = kept(prefix).to_owned();
    name.push_str(&suffix(random));
    if let Some(meta) = metadata_mut(object) {
        meta.insert("name".to_owned(), Value::from(name));
    }
}

/// Returns whether a new object has this name, or may be given it by [`generate_name`].
pub fn may_be_named(object: &Map, name: &str) -> bool {
    match text(object, "name") {
        "" => {
            let end = name.strip_prefix(kept(text(object, "generateName")));
            end.is_some_and(|end| end.len() == GENERATED)
        }
        given => given == name,
    }
}

/// The part of a prefix that is kept in a generated name.
fn kept(prefix: &str) -> &str {
    prefix.get(..prefix.floor_char_boundary(MAX_GENERATED_PREFIX)).unwrap_or(prefix)
}

/// Generates a name suffix from `random`.
pub fn suffix(mut random: u64) -> String {
    let mut suffix = String::with_capacity(GENERATED);
    let count = GENERATED_CHARACTERS.len() as u64;
    for _ in 0..GENERATED {
        let index = usize::try_from(random % count).unwrap_or_default();
        suffix.push(GENERATED_CHARACTERS.get(index).map_or('b', |character| char::from(*character)));
        random /= count;
    }
    suffix
}

/// Returns whether a new object has a resourceVersion, and so cannot be created (an internal error by its code).
pub fn has_revision(object: &Map) -> bool {
    !matches!(text(object, "resourceVersion"), "" | "0")
}

/// The error of an update that lacks a required resourceVersion (AP-40).
pub fn missing_revision(object: &Map, resource: &Resource) -> Option<FieldError> {
    let is_missing = !resource.updates_unconditionally && matches!(text(object, "resourceVersion"), "" | "0");
    let error = || FieldError::invalid("metadata.resourceVersion", "", "must be specified for an update");
    is_missing.then(error)
}

/// Restores metadata that an update cannot change or may omit (AP-43). [`validate_update`] reports forbidden changes.
pub fn carry_over(object: &mut Map, old: &Map) {
    let of_old = |name: &str| old.metadata().get(name).filter(|value| !value.is_null());
    let Some(meta) = metadata_mut(object) else { return };
    meta.remove("selfLink");
    meta.remove("generation");
    for name in ["creationTimestamp", "deletionTimestamp", "generation"] {
        if let Some(value) = of_old(name) {
            meta.insert(name.to_owned(), value.clone());
        }
    }
    for name in ["deletionGracePeriodSeconds", "uid"] {
        let is_unset = meta.get(name).is_none_or(|value| value.is_null() || value.as_str() == Some(""));
        if let Some(value) = of_old(name).filter(|_| is_unset) {
            meta.insert(name.to_owned(), value.clone());
        }
    }
}

#[cfg(test)]
mod tests;
