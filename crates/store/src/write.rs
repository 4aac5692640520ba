//! The rules of writes that every backend follows: which commits are valid, when an expectation holds, and how a value gets
//! its revision.

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::{Entry, Expect, Revision, StoreError, Value, Write};

/// Refuses an invalid commit.
pub(crate) fn well_formed(writes: &[Write]) -> Result<(), StoreError> {
    let mut keys = BTreeSet::new();
    for write in writes {
        if writes.len() > 1 && !keys.insert(&*write.key) {
            return Err(StoreError::Refused(format!(
                "the key {:?} is written twice in one commit",
                write.key
            )));
        }
        let Some(Value { bytes, revision_at: Some(at), .. }) = &write.value else { continue };
        if *at > bytes.len() {
            return Err(StoreError::Refused(format!(
                "the revision of the key {:?} cannot be written in at byte {at} of {}",
                write.key,
                bytes.len()
            )));
        }
    }
    Ok(())
}

/// Whether the expectation of a write holds.
pub(crate) fn meets(expect: Expect, current: Option<&Entry>) -> bool {
    match expect {
        Expect::Absent => current.is_none(),
        Expect::Anything => true,
        Expect::Modified(revision) => current.is_some_and(|current| current.modified == revision),
    }
}

/// What the writers of a commit relied on, each key once unless they disagree.
pub(crate) fn relied_on(writes: &[Write]) -> Vec<&(Box<str>, Revision)> {
    let mut found = Vec::new();
    for relies_on in writes.iter().filter_map(|write| write.value.as_ref()?.relies_on.as_ref()) {
        if !found.contains(&relies_on) {
            found.push(relies_on);
        }
    }
    found
}

/// A value with the digits of its revision, copied: the writer's bytes may be part of a larger buffer.
pub(crate) fn with_revision(value: &Value, digits: &str) -> Bytes {
    let (before, after) = value.revision_at.and_then(|at| value.bytes.split_at_checked(at)).unzip();
    let (Some(before), Some(after)) = (before, after) else { return Bytes::copy_from_slice(&value.bytes) };
    Bytes::from([before, digits.as_bytes(), after].concat())
}
