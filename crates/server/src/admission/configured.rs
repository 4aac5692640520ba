//! What the objects of one kind configure for admission: webhooks, policies and bindings, as they are stored now. A change takes
//! effect with the answer to the write that makes it.
//!
//! DIVERGES: a configuration that cannot be read refuses every write that it could be about. kube-apiserver leaves it out.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use kinds::Map;
use kinds::resource::Resource;
use portcullis_store::{Entry, List, Revision, Store as _};
use tokio::sync::Mutex;

use crate::http::status::Status;
use crate::registry::backend::Backend;
use crate::registry::storage;

/// Reads what an object configures. Takes time.
type Read<T> = fn(&Map) -> Result<Vec<T>, String>;

/// See the module.
pub(super) struct Configured<T> {
    resource: &'static Resource,
    /// All objects of the kind.
    list: List,
    read: Read<T>,
    known: ArcSwap<Vec<Known<T>>>,
    /// Held while configurations are read: once for all who wait.
    reading: Mutex<()>,
}

/// A configuration that was read.
struct Known<T> {
    key: Box<str>,
    modified: Revision,
    parts: Result<Vec<Arc<T>>, String>,
}

impl<T> Clone for Known<T> {
    fn clone(&self) -> Self {
        Self { key: self.key.clone(), modified: self.modified, parts: self.parts.clone() }
    }
}

impl<T> Known<T> {
    fn is(&self, entry: &Entry) -> bool {
        self.key == entry.key && self.modified == entry.modified
    }

    fn read(entry: &Entry, read: Read<T>) -> Self {
        let decoded = storage::decode(&entry.value).map_err(|status| status.message().to_owned());
        let parts = decoded.and_then(|configuration| read(&configuration));
        if let Err(error) = &parts {
            tracing::error!(key = &*entry.key, %error, "a configuration of admission cannot be read: writes are refused");
        }
        let parts = parts.map(|parts| parts.into_iter().map(Arc::new).collect());
        Self { key: entry.key.clone(), modified: entry.modified, parts }
    }
}

impl<T: Send + Sync + 'static> Configured<T> {
    pub(super) fn new(resource: &'static Resource, read: Read<T>) -> Self {
        let list = List { prefix: storage::prefix(resource, "").into(), ..List::default() };
        Self { resource, list, read, known: ArcSwap::default(), reading: Mutex::default() }
    }

    /// What is configured, by the names of the objects, and in the order in each of them.
    ///
    /// # Errors
    /// The store failed, or a configuration cannot be read.
    pub(super) async fn all(&self, backend: &Backend) -> Result<Vec<Arc<T>>, Status> {
        let known = self.current(backend).await?;
        let mut all = Vec::new();
        for Known { key, parts, .. } in known.iter() {
            let parts = parts.as_ref().map_err(|error| {
                let (_, name) = storage::place(self.resource, key);
                let kind = self.resource.kind;
                Status::internal(format_args!("{kind} {name:?} cannot be read: {error}"))
            })?;
            all.extend(parts.iter().map(Arc::clone));
        }
        Ok(all)
    }

    async fn current(&self, backend: &Backend) -> Result<Arc<Vec<Known<T>>>, Status> {
        let (known, entries) = self.found(backend).await?;
        match Self::is_current(&known, &entries) {
            true => Ok(known),
            // This is rare. Boxed, it needs no memory in other writes.
            false => Box::pin(self.read_anew(backend)).await,
        }
    }

    /// The configurations that were read last, and the entries that are stored now.
    async fn found(&self, backend: &Backend) -> Result<(Arc<Vec<Known<T>>>, Vec<Arc<Entry>>), Status> {
        let known = self.known.load_full();
        let listing = backend.list(&self.list).await.map_err(|error| storage::failed(&error))?;
        Ok((known, listing.entries))
    }

    fn is_current(known: &[Known<T>], entries: &[Arc<Entry>]) -> bool {
        known.len() == entries.len() && known.iter().zip(entries).all(|(known, entry)| known.is(entry))
    }

    async fn read_anew(&self, backend: &Backend) -> Result<Arc<Vec<Known<T>>>, Status> {
        let _reading = self.reading.lock().await;
        let (known, entries) = self.found(backend).await?;
        if Self::is_current(&known, &entries) {
            return Ok(known);
        }
        let read = self.read;
        let read = tokio::task::spawn_blocking(move || {
            let by_key: HashMap<&str, &Known<T>> = known.iter().map(|known| (&*known.key, known)).collect();
            let read = |entry: &Arc<Entry>| {
                let same = by_key.get(&*entry.key).copied().filter(|known| known.is(entry));
                same.cloned().unwrap_or_else(|| Known::read(entry, read))
            };
            entries.iter().map(read).collect::<Vec<_>>()
        });
        let read = read.await.map_err(|error| {
            Status::internal(format_args!("the configurations of admission cannot be read: {error}"))
        })?;
        let read = Arc::new(read);
        self.known.store(Arc::clone(&read));
        Ok(read)
    }
}
