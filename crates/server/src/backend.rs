//! Where objects are kept: one of the stores there are. Nothing else in the server names them.

use std::sync::Arc;

use portcullis_store::{Committed, Entry, Event, List, Listing, Revision, Store, StoreError, Watch, Write};

use crate::memory::{Memory, MemoryWatch};

/// A store.
pub enum Backend {
    /// In memory only: for tests, and gone with the process.
    Memory(Memory),
}

/// A watch of a store.
pub enum BackendWatch {
    /// See [`Backend::Memory`].
    Memory(MemoryWatch),
}

impl Store for Backend {
    type Watch = BackendWatch;

    fn revision(&self) -> Revision {
        match self {
            Self::Memory(store) => store.revision(),
        }
    }

    async fn get(&self, key: &str) -> Result<Option<Arc<Entry>>, StoreError> {
        match self {
            Self::Memory(store) => store.get(key).await,
        }
    }

    async fn list(&self, list: &List) -> Result<Listing, StoreError> {
        match self {
            Self::Memory(store) => store.list(list).await,
        }
    }

    async fn commit(&self, writes: Vec<Write>) -> Result<Committed, StoreError> {
        match self {
            Self::Memory(store) => store.commit(writes).await,
        }
    }

    async fn watch(&self, prefix: &str, after: Revision) -> Result<BackendWatch, StoreError> {
        match self {
            Self::Memory(store) => store.watch(prefix, after).await.map(BackendWatch::Memory),
        }
    }

    async fn compact(&self, before: Revision) -> Result<(), StoreError> {
        match self {
            Self::Memory(store) => store.compact(before).await,
        }
    }
}

impl Watch for BackendWatch {
    async fn next(&mut self) -> Result<Vec<Event>, StoreError> {
        match self {
            Self::Memory(watch) => watch.next().await,
        }
    }

    fn revision(&self) -> Revision {
        match self {
            Self::Memory(watch) => watch.revision(),
        }
    }
}
