//! Which pods are bound to which node. One list for all controllers that look for the pods of a node, so that none
//! searches all pods for them.
//!
//! It may name a pod that is gone, and it may be late. Who acts on a pod reads it first, and who is told of a pod by an
//! event notes it here before looking for the pods of its node.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kinds::resources::pods::PODS;
use portcullis_store::{Entry, Event, Store as _};
use tokio::sync::watch;

use super::runner::{Controller, Next};
use crate::http::status::Status;
use crate::registry::backend::Backend;
use crate::registry::storage::{self, Stored};

/// See the module.
pub(super) struct PodsByNode {
    backend: Arc<Backend>,
    /// The keys of the pods, by the name of the node.
    keys: Mutex<HashMap<Box<str>, HashSet<Box<str>>>>,
    /// Whether all pods that were there at the start are listed.
    is_complete: watch::Sender<bool>,
}

impl PodsByNode {
    pub(super) fn new(backend: Arc<Backend>) -> Arc<Self> {
        Arc::new(Self { backend, keys: Mutex::default(), is_complete: watch::Sender::new(false) })
    }

    /// Is called when all pods that were there at the start are listed.
    pub(super) fn complete(&self) {
        self.is_complete.send_replace(true);
    }

    /// Reads the pods of a node. Waits until all pods are known.
    ///
    /// # Errors
    /// The store failed.
    pub(super) async fn of(&self, node: &str) -> Result<Vec<Stored>, Status> {
        // The sender lives as long as this.
        let _ = self.is_complete.subscribe().wait_for(|is_complete| *is_complete).await;
        let keys: Vec<Box<str>> = self.keys().get(node).into_iter().flatten().cloned().collect();
        let mut pods = Vec::with_capacity(keys.len());
        for key in keys {
            let entry = self.backend.get(&key).await.map_err(|error| storage::failed(&error))?;
            match entry.filter(|entry| node_of(entry) == Some(node)) {
                Some(entry) => pods.push(Stored::read(&PODS, entry)?),
                None => self.unlink(node, &key),
            }
        }
        Ok(pods)
    }

    /// Notes that a pod is bound to a node.
    pub(super) fn note(&self, node: &str, key: &str) {
        let mut all = self.keys();
        match all.get_mut(node) {
            Some(keys) => drop(keys.insert(key.into())),
            None => drop(all.insert(node.into(), HashSet::from([key.into()]))),
        }
    }

    fn keys(&self) -> MutexGuard<'_, HashMap<Box<str>, HashSet<Box<str>>>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unlink(&self, node: &str, key: &str) {
        let mut all = self.keys();
        let Some(keys) = all.get_mut(node) else { return };
        keys.remove(key);
        if keys.is_empty() {
            all.remove(node);
        }
    }
}

/// Returns the node that a pod is bound to, if it is: its part of all pods (see [`storage::parts`]).
pub(super) fn node_of(pod: &Entry) -> Option<&str> {
    pod.part.as_deref()
}

/// Keeps the list.
pub(super) struct Follower(pub(super) Arc<PodsByNode>);

impl Controller for Follower {
    const NAME: &'static str = "pods-by-node";
    const LISTED: &'static str = "/core/pods/";
    const WATCHED: &'static str = "/core/pods/";

    type Keys = Option<String>;

    fn concerns(&self, event: &Event) -> Option<String> {
        let [old, new] = [&event.previous, &event.entry].map(|entry| entry.as_deref().and_then(node_of));
        if let Some(old) = old.filter(|old| new != Some(old)) {
            self.0.unlink(old, event.key());
        }
        if let Some(new) = new {
            self.0.note(new, event.key());
        }
        None
    }

    async fn reconcile(&self, _item: &str) -> Result<Next, Status> {
        Ok(Next::OnChange)
    }
}
