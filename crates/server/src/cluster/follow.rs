//! From what is written to what decides.

use std::sync::{Arc, LazyLock};
use std::time::Instant;

use kinds::resource::Resource;
use policy::engine::LiveEngine;
use policy::objects::{Kind, Object};
use portcullis_kinds as kinds;
use portcullis_policy as policy;
use portcullis_store::{Entry, Event, List, Observer, Revision, Store as _, StoreError};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

use crate::api::rest::storage;
use crate::backend::Backend;
use crate::metrics::{Metrics, Timing};

/// Fewer objects than this are not worth a thread.
const WORTH_A_THREAD: usize = 512;

/// What the graph does with objects of a kind: with one that is there, and with one that is gone.
const OPERATIONS: [(Kind, [&str; 2]); 5] = [
    (Kind::Pod, ["AddPod", "DeletePod"]),
    (Kind::PersistentVolume, ["AddPV", "DeletePV"]),
    (Kind::VolumeAttachment, ["AddVolumeAttachment", "DeleteVolumeAttachment"]),
    (Kind::ResourceSlice, ["AddResourceSlice", "DeleteResourceSlice"]),
    (Kind::PodCertificateRequest, ["AddPodCertificateRequest", "DeletePodCertificateRequest"]),
];

/// A kind that decisions go by, and where its objects are stored.
struct Followed {
    prefix: String,
    kind: Kind,
    resource: &'static Resource,
}

static FOLLOWED: LazyLock<Vec<Followed>> = LazyLock::new(|| {
    let followed = |resource: &&'static Resource| {
        let kind = Kind::of(&resource.api_version(), resource.kind)?;
        Some(Followed { prefix: storage::prefix(resource, ""), kind, resource })
    };
    kinds::resources::ALL.iter().filter_map(followed).collect()
});

/// Under which prefixes the objects are stored that decisions go by.
pub(super) fn prefixes() -> impl Iterator<Item = &'static str> {
    FOLLOWED.iter().map(|followed| followed.prefix.as_str())
}

/// Hands every change to the engine.
pub(super) struct Follower {
    engine: Arc<LiveEngine>,
    refused: Counter,
    /// How many objects there are under each prefix.
    stored: Vec<(String, Gauge)>,
    /// How long changes of a kind took: taken in, and forgotten.
    times: Vec<(Kind, [Timing; 2])>,
    revision: Gauge,
}

impl Follower {
    pub(super) fn new(engine: Arc<LiveEngine>, metrics: &Metrics) -> Self {
        let stored = kinds::resources::ALL.iter().map(|resource| {
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
            refused: metrics.refused_objects.clone(),
            stored: stored.collect(),
            times: times.collect(),
            revision: metrics.graph_revision.clone(),
        }
    }

    /// Counts what is stored. Later changes are counted as they come.
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

    /// Where the time of a change of this kind is counted, if the graph has a part in it.
    fn time(&self, kind: Kind) -> Option<&[Timing; 2]> {
        self.times.iter().find(|(of, _)| *of == kind).map(|(_, times)| times)
    }

    /// Takes in what is there, on all processors.
    pub(super) fn load(&self, entries: &[Arc<Entry>]) {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let share = entries.len().div_ceil(threads).max(WORTH_A_THREAD);
        let take = |entries: &[Arc<Entry>]| {
            entries.iter().for_each(|entry| self.take(&entry.key, Some(entry)));
        };
        std::thread::scope(|scope| {
            let mut shares = entries.chunks(share);
            let own = shares.next().unwrap_or_default();
            for other in shares {
                let started = std::thread::Builder::new().spawn_scoped(scope, move || take(other));
                if started.is_err() {
                    take(other);
                }
            }
            take(own);
        });
    }

    /// Takes in what is under a key now.
    fn take(&self, key: &str, entry: Option<&Entry>) {
        let Some(followed) = FOLLOWED.iter().find(|followed| key.starts_with(&followed.prefix)) else {
            return;
        };
        let began = Instant::now();
        let times = self.time(followed.kind);
        if let Some(entry) = entry {
            match self.apply(followed.kind, entry) {
                Ok(()) => {
                    if let Some([taken_in, _]) = times {
                        taken_in.observe(began.elapsed());
                    }
                    return;
                }
                Err(error) => {
                    self.refused.inc();
                    tracing::error!(key, error, "an object is left out of all decisions");
                }
            }
        }
        // What went before an object that cannot be taken in must not go on counting.
        let (namespace, name) = storage::place(followed.resource, key);
        self.engine.delete(followed.kind, namespace, name);
        if let Some([_, forgotten]) = times {
            forgotten.observe(began.elapsed());
        }
    }

    fn apply(&self, kind: Kind, entry: &Entry) -> Result<(), String> {
        let text = std::str::from_utf8(&entry.value).map_err(|error| error.to_string())?;
        let object = Object::parse(kind, text).map_err(|error| error.to_string())?;
        // The controller of aggregated roles finds out by itself what it has to write.
        self.engine.apply(object).map(drop).map_err(|error| error.to_string())
    }
}

impl Observer for Follower {
    fn committed(&self, events: &[Event]) {
        for event in events {
            self.take(event.key(), event.entry.as_deref());
            let change = i64::from(event.entry.is_some()) - i64::from(event.previous.is_some());
            let stored = self.stored.iter().find(|(prefix, _)| event.key().starts_with(prefix));
            if let Some((_, stored)) = stored.filter(|_| change != 0) {
                stored.inc_by(change);
            }
            self.follow(event.revision);
        }
    }
}
