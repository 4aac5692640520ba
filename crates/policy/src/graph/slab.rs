//! The writer's private state: free space, a slab with reused slots, and short lists of vertices. Readers never see it.

use std::cmp::Ordering;

use smallvec::SmallVec;

use super::table::Space;
use super::vertex::{NO_LINKS, SHARDS, VertexId};

/// A short list of vertices; up to four need no allocation.
pub(super) type Ids = SmallVec<[VertexId; 4]>;

/// A slab with reused slots.
#[derive(Debug)]
pub(super) struct Slab<T> {
    slots: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T: Default> Slab<T> {
    pub(super) fn keep(&mut self, item: T) -> u32 {
        if let Some(place) = self.free.pop()
            && let Some(slot) = self.slots.get_mut(place as usize)
        {
            *slot = item;
            return place;
        }
        if self.slots.len() == self.slots.capacity() {
            self.slots.reserve_exact((self.slots.len() / 8).max(64));
        }
        self.slots.push(item);
        // At most one slot a vertex, and those are fewer than 2^30.
        u32::try_from(self.slots.len() - 1).unwrap_or(NO_LINKS)
    }

    pub(super) fn peek(&self, place: u32) -> Option<&T> {
        self.slots.get(place as usize)
    }

    pub(super) fn peek_mut(&mut self, place: u32) -> Option<&mut T> {
        self.slots.get_mut(place as usize)
    }

    pub(super) fn release(&mut self, place: u32) -> T {
        match self.slots.get_mut(place as usize) {
            Some(slot) => {
                self.free.push(place);
                std::mem::take(slot)
            }
            None => T::default(),
        }
    }
}

/// The private state of the writer, behind its lock.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) shards: [Space; SHARDS],
    pub(super) namespaces: Space,
    pub(super) nodes: Space,
    /// The namespace that was held last, with its number: most vertices of an object are in one.
    pub(super) recent: (String, u32),
    /// The volumes of claims that have several.
    pub(super) claims: Slab<Ids>,
    /// A reused buffer for collecting references.
    pub(super) scratch: Vec<Target>,
}

impl Default for Writer {
    fn default() -> Self {
        Self {
            shards: std::array::from_fn(|_| Space::default()),
            namespaces: Space::default(),
            nodes: Space::default(),
            recent: (String::new(), 0),
            claims: Slab::default(),
            scratch: Vec::new(),
        }
    }
}

/// A vertex that a pod refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) id: VertexId,
    /// Whether it was made for the pod, and has the pod's reference already.
    pub(super) is_made: bool,
}

impl Ord for Target {
    /// Of two for the same vertex the one that was made comes first.
    fn cmp(&self, other: &Self) -> Ordering {
        (self.id, !self.is_made).cmp(&(other.id, !other.is_made))
    }
}

impl PartialOrd for Target {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
