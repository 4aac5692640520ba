//! Errors of state files: what is wrong, where, and what to do about it.

use std::fmt;
use std::path::{Path, PathBuf};

use portcullis_apimachinery::json::JsonError;

/// A state could not be loaded: the first error, in the order of the files.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct StateError {
    /// The file or directory.
    pub file: PathBuf,
    /// The line, from 1; none if the error concerns the whole file.
    pub line: Option<usize>,
    /// The field, such as `items[3].spec.nodeName`; empty if the error concerns no field.
    pub field: String,
    /// The fault, and how to fix it.
    pub reason: String,
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        if !self.field.is_empty() {
            write!(f, " {}:", self.field)?;
        }
        write!(f, " {}", self.reason)
    }
}

impl StateError {
    /// Creates an error for a whole file or directory.
    pub(super) fn whole(file: &Path, reason: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line: None, field: String::new(), reason: reason.into() }
    }

    /// Creates an error at a place in a file.
    pub(super) fn of(file: &Path, error: JsonError) -> Self {
        let reason = match error.reason.strip_prefix("EOF while") {
            Some(rest) => format!("the file ends while{rest}: it is truncated, write it again"),
            None => error.reason,
        };
        Self { file: file.to_owned(), line: Some(error.line), field: error.path, reason }
    }
}
