//! Counts each request once, in bounded memory, whatever its events and however often they are delivered (AU-120).
//!
//! DIVERGES from the rule, which counts by the last event of an `auditID`: a client chooses that, and could hide requests behind
//! one; and to wait for the last event takes memory.

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, RandomState};

use hashbrown::HashSet;

use super::event::{AuditEvent, Stage};

/// The maximum number of requests that were counted when their answer began, and have not ended.
const OPEN: usize = 1 << 16;
/// The number of ended requests that are remembered: their events may be delivered again.
const ENDED: usize = 1 << 17;

/// Whether an event is the one by which its request counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It is.
    Counts,
    /// A later event of the request counts.
    Early,
    /// An earlier event of the request counted.
    Repeated,
}

/// The requests that were counted, each by a hash with a random key.
///
/// A request counts when its answer begins, if there is an event of that, else when it ends. If too many are open, those that
/// begin count when they end.
#[derive(Debug)]
pub(super) struct Requests {
    hasher: RandomState,
    open: HashSet<u64>,
    ended: HashSet<u64>,
    /// The ended requests, the oldest first.
    order: VecDeque<u64>,
}

impl Requests {
    pub(super) fn new(hasher: RandomState) -> Self {
        Self { hasher, open: HashSet::new(), ended: HashSet::new(), order: VecDeque::new() }
    }

    pub(super) fn turn(&mut self, event: &AuditEvent<'_>, stage: Stage) -> Turn {
        if stage == Stage::Received {
            return Turn::Early;
        }
        let request = self.hasher.hash_one(event.identity());
        if self.ended.contains(&request) {
            return Turn::Repeated;
        }
        if stage == Stage::Started {
            if self.open.contains(&request) {
                return Turn::Repeated;
            }
            if self.open.len() >= OPEN {
                return Turn::Early;
            }
            self.open.insert(request);
            return Turn::Counts;
        }
        self.end(request);
        if self.open.remove(&request) { Turn::Repeated } else { Turn::Counts }
    }

    fn end(&mut self, request: u64) {
        if self.order.len() >= ENDED
            && let Some(oldest) = self.order.pop_front()
        {
            self.ended.remove(&oldest);
        }
        self.order.push_back(request);
        self.ended.insert(request);
    }
}
