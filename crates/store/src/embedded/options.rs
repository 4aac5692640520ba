//! The options of an embedded store.

use std::path::PathBuf;
use std::sync::Arc;

use super::quota::Quota;
use crate::history::History;
use crate::{Amender, Entry, Observer, PartOf, Transformer};

/// How to open an embedded store.
#[derive(Clone, Default)]
pub struct Options {
    pub(super) path: Option<PathBuf>,
    pub(super) history: History,
    pub(super) observers: Vec<Arc<dyn Observer>>,
    pub(super) amender: Option<Arc<dyn Amender>>,
    pub(super) part_of: Option<PartOf>,
    pub(super) quota: Quota,
    pub(super) transformer: Option<Arc<dyn Transformer>>,
    #[cfg(test)]
    pub(super) faults: super::backend::Faults,
}

impl Options {
    /// A store in a file. File and folder are created if they do not exist.
    #[must_use]
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self { path: Some(path.into()), ..Self::default() }
    }

    /// A store in memory alone, which is lost when it is dropped.
    #[must_use]
    pub fn memory() -> Self {
        Self::default()
    }

    /// Sets how much history is kept.
    #[must_use]
    pub fn history(mut self, history: History) -> Self {
        self.history = history;
        self
    }

    /// Sets how large all keys and values together may be, in bytes; without it there is no limit. A store that is larger when
    /// it is opened is full: see [`StoreError::Full`](crate::StoreError::Full).
    #[must_use]
    pub fn quota(mut self, bytes: u64) -> Self {
        self.quota = Quota::new(bytes);
        self
    }

    /// Adds an observer of every commit; observers are called in the order in which they are added. They do not see existing
    /// entries: list those once the store is open.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observers.push(observer);
        self
    }

    /// Sets the amender of commits.
    #[must_use]
    pub fn amender(mut self, amender: Arc<dyn Amender>) -> Self {
        self.amender = Some(amender);
        self
    }

    /// Sets how collections are divided into parts that can be watched separately.
    #[must_use]
    pub fn parts(mut self, part_of: impl Fn(&Entry) -> Option<Box<str>> + Send + Sync + 'static) -> Self {
        self.part_of = Some(Arc::new(part_of));
        self
    }

    /// Sets how values are converted for the file, such as encrypted. If a value in the file would now be written differently,
    /// opening the store rewrites the whole file, so that no old value stays in it.
    #[must_use]
    pub fn transformer(mut self, transformer: Arc<dyn Transformer>) -> Self {
        self.transformer = Some(transformer);
        self
    }
}
