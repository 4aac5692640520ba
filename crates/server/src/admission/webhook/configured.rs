//! The webhooks of all configurations of one kind, as they are stored now. A change takes effect with the answer to the write
//! that makes it.
//!
//! DIVERGES: a configuration that cannot be read refuses every write that webhooks are asked about. kube-apiserver leaves it
//! out.

use std::sync::Arc;

use arc_swap::ArcSwap;
use kinds::resource::Resource;
use portcullis_store::{Entry, List, Revision, Store as _};
use tokio::sync::Mutex;

use super::hook::{self, Hook};
use crate::http::status::Status;
use crate::registry::backend::Backend;
use crate::registry::storage;

/// See the module.
pub(super) struct Configured {
    resource: &'static Resource,
    known: ArcSwap<Vec<Known>>,
    /// Held while configurations are read: once for all who wait.
    reading: Mutex<()>,
}

/// A configuration that was read.
#[derive(Clone)]
struct Known {
    key: Box<str>,
    modified: Revision,
    hooks: Result<Vec<Arc<Hook>>, String>,
}

impl Known {
    fn is(&self, entry: &Entry) -> bool {
        self.key == entry.key && self.modified == entry.modified
    }

    fn read(entry: &Entry) -> Self {
        let read = storage::decode(&entry.value).map_err(|status| status.message().to_owned());
        let hooks = read.and_then(|configuration| hook::read(&configuration));
        if let Err(error) = &hooks {
            tracing::error!(key = &*entry.key, %error, "a webhook configuration cannot be read: writes are refused");
        }
        let hooks = hooks.map(|hooks| hooks.into_iter().map(Arc::new).collect());
        Self { key: entry.key.clone(), modified: entry.modified, hooks }
    }
}

impl Configured {
    pub(super) fn new(resource: &'static Resource) -> Self {
        Self { resource, known: ArcSwap::default(), reading: Mutex::default() }
    }

    /// The webhooks in the order in which they are asked: by the names of their configurations, and in their order in them.
    ///
    /// # Errors
    /// The store failed, or a configuration cannot be read.
    pub(super) async fn hooks(&self, backend: &Backend) -> Result<Vec<Arc<Hook>>, Status> {
        let known = self.current(backend).await?;
        let mut all = Vec::new();
        for Known { key, hooks, .. } in known.iter() {
            let hooks = hooks.as_ref().map_err(|error| {
                let (_, name) = storage::place(self.resource, key);
                let kind = self.resource.kind;
                Status::internal(format_args!("{kind} {name:?} cannot be read: {error}"))
            })?;
            all.extend(hooks.iter().map(Arc::clone));
        }
        Ok(all)
    }

    async fn current(&self, backend: &Backend) -> Result<Arc<Vec<Known>>, Status> {
        let list = List { prefix: storage::prefix(self.resource, "").into(), ..List::default() };
        let is_current = |known: &[Known], entries: &[Arc<Entry>]| {
            known.len() == entries.len() && known.iter().zip(entries).all(|(known, entry)| known.is(entry))
        };
        let listed = async || backend.list(&list).await.map_err(|error| storage::failed(&error));
        let (known, entries) = (self.known.load_full(), listed().await?.entries);
        if is_current(&known, &entries) {
            return Ok(known);
        }
        let _reading = self.reading.lock().await;
        let (known, entries) = (self.known.load_full(), listed().await?.entries);
        if is_current(&known, &entries) {
            return Ok(known);
        }
        let read = tokio::task::spawn_blocking(move || {
            let read = |entry: &Arc<Entry>| {
                let same = known.iter().find(|known| known.is(entry));
                same.cloned().unwrap_or_else(|| Known::read(entry))
            };
            entries.iter().map(read).collect::<Vec<_>>()
        });
        let read = read.await.map_err(|error| {
            Status::internal(format_args!("the webhook configurations cannot be read: {error}"))
        })?;
        let read = Arc::new(read);
        self.known.store(Arc::clone(&read));
        Ok(read)
    }
}
