//! Hashes of vertices.

use std::hash::{BuildHasher, Hasher};

use hashbrown::DefaultHashBuilder;

use super::names::Names;
use super::vertex::Key;

/// Hashes keys, and vertices by the number of their namespace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hashes<'g> {
    pub(super) hasher: &'g DefaultHashBuilder,
    pub(super) namespaces: &'g Names,
}

impl Hashes<'_> {
    /// The hash of a key.
    #[inline]
    pub(super) fn of(self, key: &Key<'_>) -> u64 {
        self.of_parts(key.kind as u8, key.namespace.as_bytes(), key.name.as_bytes())
    }

    /// The hash of a vertex, given the number of its namespace plus one, or zero. The writer must be locked.
    pub(super) fn of_vertex(self, kind: u8, namespace: u32, name: &[u8]) -> u64 {
        match namespace.checked_sub(1) {
            Some(number) => self.of_parts(kind, &self.namespaces.text(number), name),
            None => self.of_parts(kind, b"", name),
        }
    }

    /// The hash of a vertex in a namespace.
    #[inline]
    pub(super) fn of_parts(self, kind: u8, namespace: &[u8], name: &[u8]) -> u64 {
        let mut state = self.hasher.build_hasher();
        // The length of the namespace distinguishes "a" + "bc" from "ab" + "c".
        state.write_u64((namespace.len() as u64) << 8 | u64::from(kind));
        state.write(namespace);
        state.write(name);
        state.finish()
    }
}
