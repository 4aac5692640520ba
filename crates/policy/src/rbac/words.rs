//! The compact encoding of rules and bindings as numbers and words.
//!
//! A number has seven bits per byte, lowest first; the high bit means that more bytes follow. A word is a number,
//! possibly followed by bytes: an even number is twice the length of the bytes, an odd one is twice the index in
//! [`WELL_KNOWN`] plus one, without bytes. A block is its length and its bytes, so that it can be skipped; a list is a
//! block of words.

/// Words that occur in nearly all roles and bindings. Each takes one byte.
const WELL_KNOWN: [&str; 40] = [
    "",
    "*",
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "apps",
    "autoscaling",
    "batch",
    "coordination.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "configmaps",
    "cronjobs",
    "daemonsets",
    "deployments",
    "endpoints",
    "events",
    "ingresses",
    "jobs",
    "leases",
    "namespaces",
    "nodes",
    "persistentvolumeclaims",
    "pods",
    "pods/log",
    "replicasets",
    "secrets",
    "services",
    "ClusterRole",
    "Group",
    "Role",
    "ServiceAccount",
    "User",
];

/// Writes numbers and words.
#[derive(Debug, Default)]
pub(super) struct Writer(Vec<u8>);

/// Reads numbers and words. Invalid bytes end the input early and never panic.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a>(&'a [u8]);

/// The words of a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words<'a>(Reader<'a>);

impl Writer {
    pub(super) fn number(&mut self, mut number: usize) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    pub(super) fn word(&mut self, word: &str) {
        if let Some(place) = WELL_KNOWN.iter().position(|known| *known == word) {
            return self.number(place << 1 | 1);
        }
        self.number(word.len() << 1);
        self.0.extend_from_slice(word.as_bytes());
    }

    pub(super) fn list(&mut self, words: &[String]) {
        let mut block = Self::default();
        words.iter().for_each(|word| block.word(word));
        self.block(&block);
    }

    /// Appends the content of another writer, preceded by its length.
    pub(super) fn block(&mut self, block: &Self) {
        self.number(block.0.len());
        self.0.extend_from_slice(&block.0);
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    #[inline]
    pub(super) fn number(&mut self) -> Option<usize> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        if first < 0x80 {
            return Some(usize::from(first));
        }
        self.long_number(first)
    }

    #[cold]
    fn long_number(&mut self, first: u8) -> Option<usize> {
        let (mut number, mut shift) = (usize::from(first & 0x7f), 0_u32);
        loop {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            shift += 7;
            if shift >= usize::BITS {
                return None;
            }
            number |= usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
    }

    #[inline]
    pub(super) fn word(&mut self) -> Option<&'a [u8]> {
        let head = self.number()?;
        if head & 1 == 1 {
            return WELL_KNOWN.get(head >> 1).map(|word| word.as_bytes());
        }
        self.take(head >> 1)
    }

    /// Reads a list that [`Writer::list`] wrote.
    #[inline]
    pub(super) fn list(&mut self) -> Option<Words<'a>> {
        self.block().map(Words)
    }

    /// Reads a block that [`Writer::block`] wrote.
    #[inline]
    pub(super) fn block(&mut self) -> Option<Self> {
        let length = self.number()?;
        self.take(length).map(Self)
    }

    #[inline]
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }
}

impl Words<'_> {
    /// The words, owned.
    pub(super) fn texts(self) -> Vec<String> {
        self.map(text).collect()
    }
}

impl Default for Words<'_> {
    fn default() -> Self {
        Self(Reader(&[]))
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        self.0.word()
    }
}

/// Words were text when they were written.
fn text(word: &[u8]) -> String {
    String::from_utf8_lossy(word).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_written_is_read_and_nothing_more(
            lists in prop::collection::vec(prop::collection::vec("|get|User|[a-z]{0,3}|.{60,70}|x{8190,8200}", 0..200), 0..4),
            number in any::<usize>(),
        ) {
            let mut writer = Writer::default();
            lists.iter().for_each(|list| writer.list(list));
            writer.number(number);
            let mut outer = Writer::default();
            outer.block(&writer);
            let mut blocks = Reader::new(outer.bytes());
            let mut reader = blocks.block().unwrap();
            prop_assert!(blocks.block().is_none());
            for list in &lists {
                prop_assert_eq!(&reader.list().unwrap().texts(), list);
            }
            prop_assert_eq!(reader.number(), Some(number));
            prop_assert_eq!(reader.number(), None);
        }

        #[test]
        fn any_bytes_can_be_read_and_end(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut reader = Reader::new(&bytes);
            while let Some(words) = reader.list() {
                prop_assert!(words.count() <= bytes.len());
            }
        }
    }
}
