//! The three forms of a patch: JSON patch (AP-61), merge patch (AP-62), strategic merge patch (AP-63, AP-64).
//!
//! A patch is applied completely or not at all. The result is not checked against the type or validated here (AP-60).

mod error;
mod json;
mod merge;
mod strategic;

use serde_json::Value;

use crate::Map;
use crate::decode::Problem;
use crate::json::Json;
use crate::schema::Type;

pub use error::{MAX_OPERATIONS, PatchError};
pub use json::MAX_COPIED;

/// The maximum number of duplicate and unknown members that are reported.
const MAX_PROBLEMS: usize = 100;

/// The form of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// A list of operations (RFC 6902).
    Json,
    /// An object to be merged into the stored one (RFC 7386).
    Merge,
    /// A merge patch that merges lists by their keys.
    Strategic,
}

impl PatchKind {
    /// Returns the form for a media type, which must be lower-case and without parameters (AP-10).
    pub fn of_media_type(media_type: &str) -> Option<Self> {
        match media_type {
            "application/json-patch+json" => Some(Self::Json),
            "application/merge-patch+json" => Some(Self::Merge),
            "application/strategic-merge-patch+json" => Some(Self::Strategic),
            _ => None,
        }
    }
}

/// Applies a patch to an object. The type determines how a strategic merge patch treats its fields; the result is not
/// checked against the type.
///
/// # Errors
/// The patch is malformed, or cannot be applied to the object.
pub fn apply(kind: PatchKind, current: Map, patch: &[u8], of_type: &'static Type) -> Result<Map, PatchError> {
    let malformed = |error: &dyn ToString| PatchError::Malformed(error.to_string());
    let patch = crate::json::parse(patch).map_err(|error| malformed(&error))?;
    let patch = patch.into_value().ok_or_else(|| malformed(&"a number is out of range"))?;
    match (kind, patch) {
        (PatchKind::Json, Value::Array(operations)) => json::apply(current, operations),
        // Go treats this as an empty list of operations.
        (PatchKind::Json, Value::Null) => Ok(current),
        (PatchKind::Json, _) => Err(malformed(&"a JSON patch is a list of operations")),
        (PatchKind::Merge, Value::Object(patch)) => Ok(merge::apply(current, patch)),
        (PatchKind::Strategic, Value::Object(patch)) => strategic::apply(current, patch, of_type),
        // Go treats this as an empty object.
        (PatchKind::Strategic, Value::Null) => Ok(current),
        (PatchKind::Merge | PatchKind::Strategic, _) => Err(malformed(&"a merge patch is an object")),
    }
}

/// Returns the `fieldValidation` problems of the patch itself (AP-14): duplicate keys, and unknown members of
/// operations. Empty if it is not JSON.
pub fn problems(kind: PatchKind, patch: &[u8]) -> Vec<Problem> {
    let mut problems = Vec::new();
    if let Ok(patch) = crate::json::parse(patch) {
        find_problems(&patch, "", kind == PatchKind::Json, &mut problems);
    }
    problems.truncate(MAX_PROBLEMS);
    problems
}

fn find_problems(json: &Json<'_>, path: &str, is_operations: bool, problems: &mut Vec<Problem>) {
    match json {
        Json::List(entries) => {
            for (index, entry) in entries.iter().enumerate() {
                if problems.len() >= MAX_PROBLEMS {
                    return;
                }
                let path = format!("{path}[{index}]");
                if let (true, Json::Object(members)) = (is_operations, entry) {
                    let unknown = members.iter().filter(|(name, _)| !json::MEMBERS.contains(&name.as_ref()));
                    problems.extend(unknown.map(|(name, _)| Problem::Unknown(format!("{path}.{name}"))));
                }
                find_problems(entry, &path, false, problems);
            }
        }
        Json::Object(members) => {
            let mut seen = std::collections::HashSet::with_capacity(members.len());
            for (name, value) in members {
                if problems.len() >= MAX_PROBLEMS {
                    return;
                }
                let path = if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
                find_problems(value, &path, false, problems);
                if !seen.insert(name.as_ref()) {
                    problems.push(Problem::Duplicate(path));
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
