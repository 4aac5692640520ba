//! From what is written to what decides.

use std::sync::{Arc, LazyLock};

use kinds::resource::Resource;
use policy::engine::LiveEngine;
use policy::objects::{Kind, Object};
use portcullis_kinds as kinds;
use portcullis_policy as policy;
use portcullis_store::{Entry, Event, Observer};
use prometheus_client::metrics::counter::Counter;

use crate::api::rest::storage;

/// Fewer objects than this are not worth a thread.
const WORTH_A_THREAD: usize = 512;

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
}

impl Follower {
    pub(super) fn new(engine: Arc<LiveEngine>, refused: Counter) -> Self {
        Self { engine, refused }
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
        if let Some(entry) = entry {
            match self.apply(followed.kind, entry) {
                Ok(()) => return,
                Err(error) => {
                    self.refused.inc();
                    tracing::error!(key, error, "an object is left out of all decisions");
                }
            }
        }
        // What went before an object that cannot be taken in must not go on counting.
        let (namespace, name) = storage::place(followed.resource, key);
        self.engine.delete(followed.kind, namespace, name);
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
        }
    }
}
