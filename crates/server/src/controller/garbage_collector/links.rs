//! The fields of an object that the garbage collector reads: its owners, and whether its deletion waits for dependents.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::registry::deletion::{FOREGROUND, ORPHAN};

/// The metadata of an object that says how it hangs together with others.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Links {
    /// The uid of the object.
    #[serde(default)]
    pub(super) uid: String,
    deletion_timestamp: Option<IgnoredAny>,
    finalizers: Option<Vec<String>>,
    owner_references: Option<Vec<Reference>>,
}

/// A reference to an owner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Reference {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) uid: String,
    block_owner_deletion: Option<bool>,
}

impl Reference {
    /// Whether a deletion of the owner in the foreground waits for the dependent.
    pub(super) fn blocks(&self) -> bool {
        self.block_owner_deletion == Some(true)
    }
}

/// Without one of these words in it, an object has no owners and waits for nothing. Every write is searched for them.
static LINKING: LazyLock<[Finder<'_>; 3]> =
    LazyLock::new(|| ["\"ownerReferences\"", FOREGROUND, "\"orphan\""].map(Finder::new));

impl Links {
    /// Reads a stored object; none if it has no metadata, which no stored object lacks.
    pub(super) fn read(object: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Object {
            metadata: Links,
        }
        serde_json::from_slice(object).ok().map(|Object { metadata }| metadata)
    }

    /// Returns whether a stored object may have owners, or wait for its dependents. Most have not and do not, and need not
    /// be read.
    pub(super) fn are_in(object: &[u8]) -> bool {
        LINKING.iter().any(|word| word.find(object).is_some())
    }

    /// The references to owners.
    pub(super) fn owners(&self) -> &[Reference] {
        self.owner_references.as_deref().unwrap_or_default()
    }

    /// Whether the object is being deleted.
    pub(super) fn is_terminating(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// Whether the object is being deleted and waits until its dependents are.
    pub(super) fn waits_for_dependents(&self) -> bool {
        self.is_terminating() && self.has(FOREGROUND)
    }

    /// Whether the object is being deleted and waits until its dependents have let go of it.
    pub(super) fn waits_for_orphans(&self) -> bool {
        self.is_terminating() && self.has(ORPHAN)
    }

    /// Whether the object has this finalizer.
    pub(super) fn has(&self, finalizer: &str) -> bool {
        self.finalizers.iter().flatten().any(|f| f == finalizer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_objects_with_owners_or_such_finalizers_need_to_be_read() {
        let read = |metadata: &str| {
            let object = format!(r#"{{"kind":"X","metadata":{{"uid":"u"{metadata}}},"spec":{{"a":[1]}}}}"#);
            (Links::are_in(object.as_bytes()), Links::read(object.as_bytes()).unwrap())
        };
        let (is_read, plain) = read(r#","labels":{"a":"b"}"#);
        assert!(!is_read && plain.owners().is_empty() && !plain.is_terminating());
        let (is_read, owned) = read(
            r#","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"o","blockOwnerDeletion":true},{"uid":"q"}]"#,
        );
        assert!(is_read && owned.owners()[0].blocks() && !owned.owners()[1].blocks());
        let (_, marked) = read(r#","finalizers":["foregroundDeletion"],"deletionTimestamp":null"#);
        assert!(!marked.waits_for_dependents(), "nobody deletes it");
        let at = r#","deletionTimestamp":"2026-01-02T03:04:05Z""#;
        let (is_read, waiting) = read(&format!(r#"{at},"finalizers":["a/b","foregroundDeletion"]"#));
        assert!(is_read && waiting.waits_for_dependents() && !waiting.waits_for_orphans());
        let (is_read, orphaning) = read(&format!(r#"{at},"finalizers":["orphan"]"#));
        assert!(is_read && orphaning.waits_for_orphans());
    }
}
