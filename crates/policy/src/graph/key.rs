//! What identifies a vertex, and the form in which it lies in memory.

use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU32, Ordering};

use hashbrown::DefaultHashBuilder;

use super::{VertexError, VertexKind};

/// What identifies a vertex (section 4 of the Node authorizer's rules). Cluster-scoped kinds have no namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key<'a> {
    pub(super) kind: VertexKind,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
}

/// The bytes of a word.
const WORD: usize = size_of::<u32>();

/// The most bytes of a namespace and a name together. A namespace has at most 63, any other name at most 253; the rest
/// fills the last word and leaves the name of a node some room.
const MAX_NAMES: usize = 320;

/// Length of namespace and name together, length of the namespace, kind.
const HEADER: usize = WORD;

/// A key as it lies in memory: a header, the namespace and the name one after the other, zeros up to a whole word.
#[derive(Clone, Debug)]
pub(super) struct PackedKey {
    bytes: [u8; HEADER + MAX_NAMES],
    /// Header and names, without what fills the last word.
    length: usize,
}

impl Key<'_> {
    /// The key as it lies in memory.
    ///
    /// # Errors
    /// No object can have such a name.
    pub(super) fn pack(&self) -> Result<PackedKey, VertexError> {
        let mut bytes = [0; HEADER + MAX_NAMES];
        let (header, names) = bytes.split_at_mut(HEADER);
        let names_length = self.namespace.len() + self.name.len();
        let [low, high] = u16::try_from(names_length).map_err(|_| VertexError::NameTooLong)?.to_le_bytes();
        let namespace_length = u8::try_from(self.namespace.len()).map_err(|_| VertexError::NameTooLong)?;
        header.copy_from_slice(&[low, high, namespace_length, self.kind as u8]);
        let (namespace, rest) =
            names.split_at_mut_checked(self.namespace.len()).ok_or(VertexError::NameTooLong)?;
        let name = rest.get_mut(..self.name.len()).ok_or(VertexError::NameTooLong)?;
        namespace.copy_from_slice(self.namespace.as_bytes());
        name.copy_from_slice(self.name.as_bytes());
        Ok(PackedKey { bytes, length: HEADER + names_length })
    }
}

impl PackedKey {
    /// The key that was stored here. What is no key, as a reader may find while a writer is at work, gives some key.
    pub(super) fn load(stored: &[AtomicU32]) -> Self {
        let mut bytes = [0; HEADER + MAX_NAMES];
        let (words, _) = bytes.as_chunks_mut::<WORD>();
        let mut stored = stored.iter().map(|word| word.load(Ordering::Relaxed));
        let header = stored.next().unwrap_or(0);
        let [low, high, ..] = header.to_le_bytes();
        let names_length = usize::from(u16::from_le_bytes([low, high])).min(MAX_NAMES);
        let stored = std::iter::once(header).chain(stored).take(1 + names_length.div_ceil(WORD));
        for (word, stored) in words.iter_mut().zip(stored) {
            *word = stored.to_le_bytes();
        }
        Self { bytes, length: HEADER + names_length }
    }

    pub(super) fn hash(&self, hasher: &DefaultHashBuilder) -> u64 {
        let mut state = hasher.build_hasher();
        state.write(self.bytes.get(..self.length).unwrap_or_default());
        state.finish()
    }

    /// The words that are stored.
    pub(super) fn words(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        let (words, _) = self.bytes.as_chunks::<WORD>();
        words.iter().take(self.length.div_ceil(WORD)).map(|word| u32::from_le_bytes(*word))
    }

    /// Whether this is the key that is stored here.
    pub(super) fn is(&self, stored: &[AtomicU32]) -> bool {
        // The header holds the lengths, so no key is the beginning of another.
        let words = self.words();
        words.len() <= stored.len()
            && words.zip(stored).all(|(word, stored)| word == stored.load(Ordering::Relaxed))
    }

    /// Kind, namespace and name.
    pub(super) fn parts(&self) -> Option<(VertexKind, String, String)> {
        let [_, _, namespace_length, kind] = *self.bytes.first_chunk()?;
        let kind = VertexKind::ALL.into_iter().find(|known| *known as u8 == kind)?;
        let names = str::from_utf8(self.bytes.get(HEADER..self.length)?).ok()?;
        let (namespace, name) = names.split_at_checked(namespace_length.into())?;
        Some((kind, namespace.to_owned(), name.to_owned()))
    }
}

/// How many words a stored key has that begins with this word.
pub(super) fn stored_length(header: u32) -> usize {
    let [low, high, ..] = header.to_le_bytes();
    1 + usize::from(u16::from_le_bytes([low, high])).div_ceil(WORD)
}

/// The kind of a stored key that begins with this word.
pub(super) fn stored_kind(header: u32) -> u8 {
    let [.., kind] = header.to_le_bytes();
    kind
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stored(key: &PackedKey) -> Vec<AtomicU32> {
        key.words().map(AtomicU32::new).collect()
    }

    proptest! {
        #[test]
        fn a_key_is_what_was_packed_and_no_other(
            (namespace, name) in ("[a-c]{0,9}", "[a-c.é]{0,9}"),
            (other_namespace, other_name) in ("[a-c]{0,9}", "[a-c.é]{0,9}"),
        ) {
            let hasher = DefaultHashBuilder::default();
            let key = Key { kind: VertexKind::Secret, namespace: &namespace, name: &name };
            let packed = key.pack().unwrap();
            let there = stored(&packed);
            prop_assert_eq!(there.len(), stored_length(there[0].load(Ordering::Relaxed)));
            prop_assert!(packed.is(&there));
            let loaded = PackedKey::load(&there);
            prop_assert_eq!(loaded.parts(), Some((VertexKind::Secret, namespace.clone(), name.clone())));
            prop_assert_eq!(loaded.hash(&hasher), packed.hash(&hasher));
            for kind in [VertexKind::Secret, VertexKind::ConfigMap] {
                let other = Key { kind, namespace: &other_namespace, name: &other_name };
                prop_assert_eq!(other.pack().unwrap().is(&there), other == key);
            }
        }
    }

    #[test]
    fn the_longest_names_of_kubernetes_fit_and_longer_ones_are_refused() {
        let (namespace, name) = ("n".repeat(63), "x".repeat(253));
        let key = Key { kind: VertexKind::Pod, namespace: &namespace, name: &name };
        let packed = key.pack().unwrap();
        assert!(packed.is(&stored(&packed)));
        assert_eq!(packed.parts(), Some((VertexKind::Pod, namespace.clone(), name)));
        for length in [MAX_NAMES - 63 + 1, 70_000] {
            let name = "x".repeat(length);
            let key = Key { kind: VertexKind::Pod, namespace: &namespace, name: &name };
            assert_eq!(key.pack().unwrap_err(), VertexError::NameTooLong);
        }
    }
}
