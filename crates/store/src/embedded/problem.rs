//! Error messages about the files of a store. Each says which file, what failed, why, and what to do.

use std::fmt::Display;
use std::io;
use std::path::Path;

use crate::{StoreError, TransformError};

/// Why a file cannot be read or written.
pub(super) enum FileError {
    File(redb::Error),
    Value(TransformError),
}

impl<E: Into<redb::Error>> From<E> for FileError {
    fn from(error: E) -> Self {
        Self::File(error.into())
    }
}

impl FileError {
    /// The error message for a file that was being read.
    pub(super) fn explain(self, path: &Path) -> StoreError {
        match self {
            Self::File(error) => explain(path, error),
            Self::Value(error) => unsealed(path, &error),
        }
    }

    /// The error message for a file that was being written.
    pub(super) fn explain_write(self, path: &Path) -> StoreError {
        match self {
            Self::File(error) => broken(path, "cannot be written", error, "make room or mend the disk"),
            Self::Value(error) => unsealed(path, &error),
        }
    }
}

/// The advice about a lost file, for error messages.
pub(super) const RESTORE: &str =
    "put a backup in its place, or remove it and its .lock file to begin with nothing";

pub(super) fn broken(path: &Path, what: &str, problem: impl Display, remedy: &str) -> StoreError {
    StoreError::Broken(format!("store {}: {what}: {problem}; {remedy}", path.display()))
}

/// The error for a value that the transformer cannot convert.
pub(super) fn unsealed(path: &Path, error: &TransformError) -> StoreError {
    StoreError::Broken(format!("store {}: {error}", path.display()))
}

/// Why a file cannot be opened.
pub(super) fn explain(path: &Path, error: redb::Error) -> StoreError {
    match error {
        redb::Error::DatabaseAlreadyOpen | redb::Error::LockProtocolMismatch => {
            broken(path, "is in use", "another process has it open", "stop that process")
        }
        redb::Error::Io(error) if error.kind() == io::ErrorKind::InvalidData => {
            broken(path, "is not a store", error, RESTORE)
        }
        redb::Error::Io(error) => broken(path, "cannot be read", error, "check permissions and disk"),
        redb::Error::TableDoesNotExist(_) | redb::Error::TableTypeMismatch { .. } => {
            broken(path, "is not a store", "another program's database", "name another file")
        }
        error => broken(path, "is damaged", error, RESTORE),
    }
}
