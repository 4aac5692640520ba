//! Storage of the writer: a slab with reused slots, and short lists of vertices.

use smallvec::SmallVec;

use super::vertex::{NO_LINKS, VertexId};

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
