//! Applies committed changes to the engine.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use kinds::Kinds;
use kinds::resource::Resource;
use policy::engine::LiveEngine;
use policy::objects::{Kind, Object};
use portcullis_client::metrics::Counter;
use portcullis_store::{Entry, Event, List, Observer, Revision, Store as _, StoreError};
use prometheus_client::metrics::gauge::Gauge;

use crate::metrics::Timing;
use crate::registry::backend::Backend;
use crate::registry::issued_metrics::IssuedMetrics;
use crate::registry::metrics::StoreMetrics;
use crate::registry::storage;

/// The minimum number of objects that justifies a thread.
const WORTH_A_THREAD: usize = 512;
/// How many objects a thread takes at a time.
const SHARE: usize = 256;

/// The graph operations for objects of a kind: for an existing and for a deleted object.
const OPERATIONS: [(Kind, [&str; 2]); 5] = [
    (Kind::Pod, ["AddPod", "DeletePod"]),
    (Kind::PersistentVolume, ["AddPV", "DeletePV"]),
    (Kind::VolumeAttachment, ["AddVolumeAttachment", "DeleteVolumeAttachment"]),
    (Kind::ResourceSlice, ["AddResourceSlice", "DeleteResourceSlice"]),
    (Kind::PodCertificateRequest, ["AddPodCertificateRequest", "DeletePodCertificateRequest"]),
];

/// A kind that decisions depend on, and the key prefix of its objects.
struct Followed {
    prefix: String,
    kind: Kind,
    resource: &'static Resource,
}

/// Applies every change to the engine.
pub(super) struct Follower {
    engine: Arc<LiveEngine>,
    followed: Vec<Followed>,
    refused: Counter,
    /// The number of objects under each prefix.
    stored: Vec<(String, Gauge)>,
    /// The durations of changes of a kind: applied and deleted.
    times: Vec<(Kind, [Timing; 2])>,
    revision: Gauge,
    issued: IssuedMetrics,
}

impl Follower {
    pub(super) fn new(engine: Arc<LiveEngine>, kinds: &Kinds, metrics: &StoreMetrics) -> Self {
        let followed = |resource: &'static Resource| {
            let kind = Kind::of(&resource.api_version(), resource.kind)?;
            Some(Followed { prefix: storage::prefix(resource, ""), kind, resource })
        };
        let stored = kinds.built_in_stored().map(|resource| {
            let name = match resource.group {
                "" => resource.plural.to_owned(),
                group => format!("{}.{group}", resource.plural),
            };
            (storage::prefix(resource, ""), metrics.stored(name))
        });
        let times =
            OPERATIONS.iter().map(|(kind, operations)| (*kind, operations.map(|name| metrics.graph(name))));
        Self {
            engine,
            followed: kinds.built_in_stored().filter_map(followed).collect(),
            refused: metrics.refused_objects.clone(),
            stored: stored.collect(),
            times: times.collect(),
            revision: metrics.graph_revision.clone(),
            issued: metrics.issued.clone(),
        }
    }

    /// Returns the key prefixes of the objects that decisions depend on.
    pub(super) fn prefixes(&self) -> impl Iterator<Item = &str> {
        self.followed.iter().map(|followed| followed.prefix.as_str())
    }

    /// Counts the stored objects. Later changes are counted as they arrive.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(super) async fn count(&self, backend: &Backend) -> Result<(), StoreError> {
        for (prefix, stored) in &self.stored {
            let list = List { prefix: prefix.as_str().into(), limit: 1, ..List::default() };
            let found = backend.list(&list).await?;
            let count = found.entries.len().saturating_add(found.remaining);
            stored.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        self.follow(backend.revision());
        Ok(())
    }

    fn follow(&self, revision: Revision) {
        self.revision.set(i64::try_from(revision.0).unwrap_or(i64::MAX));
    }

    /// Returns the histogram for changes of this kind, if the graph uses the kind.
    fn time(&self, kind: Kind) -> Option<&[Timing; 2]> {
        self.times.iter().find(|(of, _)| *of == kind).map(|(_, times)| times)
    }

    /// Applies the existing objects, on all CPUs.
    pub(super) fn load(&self, entries: &[Arc<Entry>]) {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = processors.min(entries.len().div_ceil(WORTH_A_THREAD));
        let next = AtomicUsize::new(0);
        // Objects are read side by side, and applied in turn: for each object alone, threads would wait for each other.
        let turn = Mutex::new(());
        let work = || {
            while let Some(share) = entries.chunks(SHARE).nth(next.fetch_add(1, Ordering::Relaxed)) {
                let read: Vec<_> = share.iter().map(|entry| self.read(entry)).collect();
                let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
                for (entry, object) in share.iter().zip(read) {
                    self.load_one(entry, object);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads {
                // If a thread cannot be started, the others do its work.
                let _started_or_not = std::thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
    }

    /// The object of an entry, if decisions depend on its kind and it can be read.
    fn read<'e>(&self, entry: &'e Entry) -> Option<Object<'e>> {
        let followed = self.followed(&entry.key)?;
        let (namespace, name) = storage::place(followed.resource, &entry.key);
        let json = std::str::from_utf8(&entry.value).ok()?;
        Object::parse_at(followed.kind, namespace, name, json).ok()
    }

    /// Applies an existing object. What could not be read is read again, for the error.
    fn load_one(&self, entry: &Entry, object: Option<Object<'_>>) {
        let began = Instant::now();
        let Some((kind, Ok(_))) = object.map(|object| (object.kind(), self.engine.apply(object))) else {
            return self.take(&entry.key, Some(entry));
        };
        if let Some([taken_in, _]) = self.time(kind) {
            taken_in.observe(began.elapsed());
        }
    }

    /// The kind of a key, if decisions depend on it.
    fn followed(&self, key: &str) -> Option<&Followed> {
        self.followed.iter().find(|followed| key.starts_with(&followed.prefix))
    }

    /// Applies the current state of a key.
    fn take(&self, key: &str, entry: Option<&Entry>) {
        let Some(followed) = self.followed(key) else { return };
        let began = Instant::now();
        let is_applied = self.put(followed, key, entry);
        if let Some([taken_in, forgotten]) = self.time(followed.kind) {
            (if is_applied { taken_in } else { forgotten }).observe(began.elapsed());
        }
    }

    /// Applies an object, or deletes one that is gone or cannot be applied. Returns whether it was applied.
    fn put(&self, followed: &Followed, key: &str, entry: Option<&Entry>) -> bool {
        let (namespace, name) = storage::place(followed.resource, key);
        let Some(entry) = entry else {
            self.engine.delete(followed.kind, namespace, name);
            return false;
        };
        // What is not UTF-8 is no JSON either.
        let json = std::str::from_utf8(&entry.value).unwrap_or_default();
        // The aggregation controller determines by itself what to write.
        let applied = self.engine.apply_json(followed.kind, namespace, name, json);
        if let Err(error) = &applied {
            self.refused.inc();
            tracing::error!(key, %error, "an object cannot be applied and is ignored in all decisions");
        }
        applied.is_ok()
    }
}

impl Observer for Follower {
    fn committed(&self, events: &[Event]) {
        for event in events {
            self.take(event.key(), event.entry.as_deref());
            self.issued.note(event);
            let change = i64::from(event.entry.is_some()) - i64::from(event.previous.is_some());
            let stored = self.stored.iter().find(|(prefix, _)| event.key().starts_with(prefix));
            if let Some((_, stored)) = stored.filter(|_| change != 0) {
                stored.inc_by(change);
            }
            self.follow(event.revision);
        }
    }
}

#[cfg(test)]
mod tests {
    use policy::chain::Mode;
    use policy::engine::EngineConfig;
    use prometheus_client::registry::Registry;

    use super::*;

    /// More objects than a thread takes at a time, one of which cannot be read and one of which is not followed.
    #[test]
    fn all_existing_objects_are_applied_by_several_threads() {
        let config = EngineConfig { modes: vec![Mode::Node], ..EngineConfig::default() };
        let engine = Arc::new(LiveEngine::new(&config).unwrap());
        let metrics = StoreMetrics::registered(&mut Registry::default());
        let follower = Follower::new(Arc::clone(&engine), &Kinds::default(), &metrics);
        let entry = |key: String, json: String| {
            Arc::new(Entry::new(key, json.into_bytes().into(), Revision(1), Revision(1)))
        };
        let pod = |number: usize| {
            let json = format!(
                r#"{{"metadata":{{"namespace":"a","name":"p-{number}"}},"spec":{{"nodeName":"n-{}","volumes":[{{"name":"v","secret":{{"secretName":"s-{number}"}}}}]}}}}"#,
                number % 10
            );
            entry(format!("/core/pods/a/p-{number}"), json)
        };
        let mut entries: Vec<_> = (0..3 * SHARE).map(pod).collect();
        entries.insert(SHARE, entry("/core/pods/a/broken".to_owned(), "{".to_owned()));
        entries.push(entry("/core/configmaps/a/c".to_owned(), "{".to_owned()));
        follower.load(&entries);
        assert_eq!(metrics.refused_objects.get(), 1);
        let size = engine.graph().size();
        // Each pod, and its secret.
        assert_eq!((size.nodes, size.vertices), (10, 2 * 3 * SHARE));
    }
}
