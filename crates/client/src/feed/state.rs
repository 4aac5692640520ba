//! The state of each kind, shared by its watch and by the feed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use portcullis_policy::engine::LiveEngine;
use portcullis_policy::objects::Kind;
use tokio::sync::watch;

use super::newest::Newest;
use crate::clock::Clock;

/// Nothing was heard yet.
const NEVER: u64 = u64::MAX;

/// What is shared with the watches.
pub(super) struct Shared {
    pub(super) engine: Arc<LiveEngine>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) kinds: Box<[Followed]>,
    /// Told of every change of a kind or its revision.
    pub(super) changed: watch::Sender<()>,
    pub(super) newest: Newest,
}

/// The state of a kind.
pub(super) struct Followed {
    pub(super) kind: Kind,
    pub(super) is_listed: AtomicBool,
    /// When something was heard, by the monotonic clock, in milliseconds.
    pub(super) heard: AtomicU64,
    /// No change up to this revision is missing.
    pub(super) revision: AtomicU64,
    pub(super) objects: AtomicU64,
    /// Objects that exist and cannot be used.
    pub(super) unusable: AtomicU64,
    pub(super) failures: AtomicU64,
}

/// What is known of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The kind.
    pub kind: Kind,
    /// Whether all objects were listed once.
    pub is_listed: bool,
    /// The time since something was heard: a list, a change, or that there was none. None: nothing yet.
    pub age: Option<Duration>,
    /// The number of objects that are part of decisions.
    pub objects: u64,
    /// The number of objects that exist, cannot be decoded, and are not part of any decision.
    pub unusable: u64,
    /// The number of failed requests since the start.
    pub failures: u64,
}

impl Standing {
    /// Whether all objects were listed, and something was heard within this time.
    pub fn is_current(&self, limit: Duration) -> bool {
        self.is_listed && self.age.is_some_and(|age| age <= limit)
    }
}

impl Followed {
    pub(super) fn new(kind: Kind) -> Self {
        Self {
            kind,
            is_listed: AtomicBool::new(false),
            heard: AtomicU64::new(NEVER),
            revision: AtomicU64::new(0),
            objects: AtomicU64::new(0),
            unusable: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        }
    }

    pub(super) fn standing(&self, now: Duration) -> Standing {
        let heard = self.heard.load(Ordering::Acquire);
        Standing {
            kind: self.kind,
            is_listed: self.is_listed.load(Ordering::Acquire),
            age: (heard != NEVER).then(|| now.saturating_sub(Duration::from_millis(heard))),
            objects: self.objects.load(Ordering::Relaxed),
            unusable: self.unusable.load(Ordering::Acquire),
            failures: self.failures.load(Ordering::Relaxed),
        }
    }
}

impl Shared {
    /// Whether no change up to this revision is missing.
    pub(super) fn has_reached(&self, revision: u64) -> bool {
        self.kinds.iter().all(|followed| followed.revision.load(Ordering::Acquire) >= revision)
    }

    pub(super) fn is_listed(&self) -> bool {
        self.kinds.iter().all(|followed| followed.is_listed.load(Ordering::Acquire))
    }
}
