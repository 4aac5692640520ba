//! Where objects are kept: one of the stores there are. Nothing else in the server names them.

use std::path::Path;
use std::sync::Arc;

use portcullis_store::embedded::{Embedded, Options};
use portcullis_store::watch::Subscription;
use portcullis_store::{Committed, Entry, Event, List, Listing, Revision, Store, StoreError, Watch, Write};

/// A store.
pub enum Backend {
    /// In this process.
    Embedded(Embedded),
}

impl Backend {
    /// A store in a file, which is made if it is not there.
    ///
    /// # Errors
    /// The file cannot be had, or holds no store.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Options::file(path).open().map(Self::Embedded)
    }

    /// A store that is gone with the process.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn in_memory() -> Result<Self, StoreError> {
        Options::memory().open().map(Self::Embedded)
    }

    /// Writes a copy, as of the revision that is returned, to a file that must not be there yet. Blocks while it
    /// writes; commits go on meanwhile.
    ///
    /// # Errors
    /// The file is there or cannot be written; nothing is left of it then.
    pub fn backup(&self, path: &Path) -> Result<Revision, StoreError> {
        match self {
            Self::Embedded(store) => store.backup(path),
        }
    }
}

/// A watch of a store.
pub enum BackendWatch {
    /// See [`Backend::Embedded`].
    Embedded(Subscription),
}

impl Store for Backend {
    type Watch = BackendWatch;

    fn revision(&self) -> Revision {
        match self {
            Self::Embedded(store) => store.revision(),
        }
    }

    async fn get(&self, key: &str) -> Result<Option<Arc<Entry>>, StoreError> {
        match self {
            Self::Embedded(store) => store.get(key).await,
        }
    }

    async fn list(&self, list: &List) -> Result<Listing, StoreError> {
        match self {
            Self::Embedded(store) => store.list(list).await,
        }
    }

    async fn commit(&self, writes: Vec<Write>) -> Result<Committed, StoreError> {
        match self {
            Self::Embedded(store) => store.commit(writes).await,
        }
    }

    async fn watch(&self, prefix: &str, after: Revision) -> Result<BackendWatch, StoreError> {
        match self {
            Self::Embedded(store) => store.watch(prefix, after).await.map(BackendWatch::Embedded),
        }
    }

    async fn watch_part(
        &self,
        prefix: &str,
        part: &str,
        after: Revision,
    ) -> Result<BackendWatch, StoreError> {
        match self {
            Self::Embedded(store) => store.watch_part(prefix, part, after).await.map(BackendWatch::Embedded),
        }
    }

    async fn compact(&self, before: Revision) -> Result<(), StoreError> {
        match self {
            Self::Embedded(store) => store.compact(before).await,
        }
    }
}

impl Watch for BackendWatch {
    async fn next(&mut self) -> Result<Vec<Event>, StoreError> {
        match self {
            Self::Embedded(watch) => watch.next().await,
        }
    }

    fn revision(&self) -> Revision {
        match self {
            Self::Embedded(watch) => watch.revision(),
        }
    }
}
