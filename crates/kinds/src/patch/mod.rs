//! The three forms of a patch: JSON patch (AP-61), merge patch (AP-62), strategic merge patch (AP-63, AP-64).
//!
//! A patch is applied whole or not at all. Whether its result is an object of the type, and a legal one, is not judged
//! here (AP-60).

mod json;
mod merge;
mod strategic;

use serde_json::Value;

use crate::Map;
use crate::decode::{MAX_DEPTH, Problem};
use crate::json::Json;
use crate::schema::Type;

pub use json::{MAX_COPIED, MAX_OPERATIONS};

/// Duplicates and unknown members after this one are not reported any more.
const MAX_PROBLEMS: usize = 100;

/// The form of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// A list of operations (RFC 6902).
    Json,
    /// An object to be laid over the stored one (RFC 7386).
    Merge,
    /// A merge patch that knows which lists have keys.
    Strategic,
}

/// Why a patch was not applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// It is no patch of its form: 400.
    #[error("{0}")]
    Malformed(String),
    /// It has too many operations: 413.
    #[error("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {0}")]
    TooManyOperations(usize),
    /// It does not fit the object: 422 without causes.
    #[error("{0}")]
    Unprocessable(String),
    /// Its result is no object: 422 with the cause `patch`.
    #[error("the result is no object")]
    NotAnObject,
    /// It asks for a merge that cannot be done: 500.
    #[error("{0}")]
    Internal(String),
}

impl PatchKind {
    /// The form that a media type stands for, given without parameters and in small letters (AP-10).
    pub fn of_media_type(media_type: &str) -> Option<Self> {
        match media_type {
            "application/json-patch+json" => Some(Self::Json),
            "application/merge-patch+json" => Some(Self::Merge),
            "application/strategic-merge-patch+json" => Some(Self::Strategic),
            _ => None,
        }
    }
}

impl PatchError {
    /// The status code of the answer.
    pub fn code(&self) -> u16 {
        match self {
            Self::Malformed(_) => 400,
            Self::TooManyOperations(_) => 413,
            Self::Unprocessable(_) | Self::NotAnObject => 422,
            Self::Internal(_) => 500,
        }
    }
}

/// The object with a patch applied. The type says how a strategic merge patch treats its fields; the result need not
/// be of the type.
///
/// # Errors
/// The patch is none, or does not fit the object.
pub fn apply(
    kind: PatchKind,
    current: &Map,
    patch: &[u8],
    of_type: &'static Type,
) -> Result<Map, PatchError> {
    let malformed = |error: &dyn ToString| PatchError::Malformed(error.to_string());
    let patch = crate::json::parse(patch).map_err(|error| malformed(&error))?;
    let patch = patch.into_value().ok_or_else(|| malformed(&"a number is out of range"))?;
    match (kind, patch) {
        (PatchKind::Json, Value::Array(operations)) => json::apply(current, operations),
        // An empty list of operations, to Go.
        (PatchKind::Json, Value::Null) => Ok(current.clone()),
        (PatchKind::Json, _) => Err(malformed(&"a JSON patch is a list of operations")),
        (PatchKind::Merge, Value::Object(patch)) => Ok(merge::apply(current.clone(), patch)),
        (PatchKind::Strategic, Value::Object(patch)) => strategic::apply(current.clone(), patch, of_type),
        // An empty object, to Go.
        (PatchKind::Strategic, Value::Null) => Ok(current.clone()),
        (PatchKind::Merge | PatchKind::Strategic, _) => Err(malformed(&"a merge patch is an object")),
    }
}

/// What `fieldValidation` is about in a patch itself (AP-14): keys that are given twice, and members that an operation
/// does not have. Nothing for what is no JSON.
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

/// How many levels lie in each other.
fn depth(value: &Value) -> usize {
    let inner = match value {
        Value::Array(entries) => entries.iter().map(depth).max(),
        Value::Object(members) => members.values().map(depth).max(),
        _ => return 0,
    };
    inner.unwrap_or_default() + 1
}

/// So deep may an object be between two operations; what is stored may be [`MAX_DEPTH`] deep.
const MAX_WORKING_DEPTH: usize = 4 * MAX_DEPTH;

#[cfg(test)]
mod tests;
