//! How a store is opened.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::Embedded;
use crate::{Amender, Observer, PartOf, StoreError};

/// How much of the past is kept, in memory. What exceeds any of the limits is forgotten, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    /// The most commits.
    pub commits: usize,
    /// The most bytes of values that were replaced or removed.
    pub bytes: usize,
    /// How long. A commit may be kept a quarter longer, at most ten seconds.
    pub age: Duration,
}

impl Default for History {
    /// 100,000 commits, 256 MiB, and the five minutes that kube-apiserver leaves between compactions of etcd.
    fn default() -> Self {
        Self { commits: 100_000, bytes: 256 << 20, age: Duration::from_mins(5) }
    }
}

/// How to open an embedded store.
#[derive(Clone, Default)]
pub struct Options {
    pub(super) path: Option<PathBuf>,
    pub(super) history: History,
    pub(super) observers: Vec<Arc<dyn Observer>>,
    pub(super) amender: Option<Arc<dyn Amender>>,
    pub(super) part_of: Option<PartOf>,
    #[cfg(test)]
    pub(super) faults: super::disk::Faults,
}

impl Options {
    /// A store in a file. File and folder are made if they are not there.
    #[must_use]
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self { path: Some(path.into()), ..Self::default() }
    }

    /// A store that is gone when it is dropped. For tests.
    #[must_use]
    pub fn memory() -> Self {
        Self::default()
    }

    /// How much of the past is kept.
    #[must_use]
    pub fn history(mut self, history: History) -> Self {
        self.history = history;
        self
    }

    /// Who is told of every commit; may be called more than once, they are told in that order. What is already there
    /// is not told: list it once the store is open.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observers.push(observer);
        self
    }

    /// Who says what is to be written with a commit.
    #[must_use]
    pub fn amender(mut self, amender: Arc<dyn Amender>) -> Self {
        self.amender = Some(amender);
        self
    }

    /// How collections fall into parts that are watched by themselves.
    #[must_use]
    pub fn parts(mut self, part_of: PartOf) -> Self {
        self.part_of = Some(part_of);
        self
    }

    /// Opens the store. Blocks while the file is read and checked.
    ///
    /// # Errors
    /// [`StoreError::Broken`], saying what is wrong with the file and what to do: it is in use by another process,
    /// damaged, not a store, or cannot be read or made.
    pub fn open(self) -> Result<Embedded, StoreError> {
        Embedded::open(self)
    }
}
