//! The space in the queue of a log, and who may fill how much of it.
//!
//! The space is counted in slots. A request gets a [`Place`] before it is worked on. From then on its lines always fit:
//! a line that is longer than the place overdraws the space, and nobody else gets a place until that is made up for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;

/// The slots of a queue, which are the maximum number of its lines (`--audit-log-batch-buffer-size` of kube-apiserver).
const SLOTS: usize = 10_000;
/// The bytes of a line that one slot has space for. The whole queue has 64 MiB.
const SLOT_BYTES: usize = 64 * 1024 * 1024 / SLOTS;
/// The slots of a place: most requests have two events, each smaller than a slot.
const PLACE: usize = 2;

/// Who makes a request, and whether it can change something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// A read of somebody who is anonymous or failed to authenticate. Its lines are the only ones that may be lost.
    StrangersRead,
    /// Any other request of an anonymous caller.
    StrangersWrite,
    /// A read of an authenticated user.
    Read,
    /// Any other request of an authenticated user.
    Write,
}

impl Class {
    pub(crate) fn of(is_stranger: bool, is_read: bool) -> Self {
        match (is_stranger, is_read) {
            (true, true) => Self::StrangersRead,
            (true, false) => Self::StrangersWrite,
            (false, true) => Self::Read,
            (false, false) => Self::Write,
        }
    }

    fn is_stranger(self) -> bool {
        matches!(self, Self::StrangersRead | Self::StrangersWrite)
    }
}

/// Free slots. Whoever waits for slots gets them in turn.
struct Space {
    free: Semaphore,
    /// The slots that are used in addition to those that there are. While there are any, no slot is free.
    overdrawn: Mutex<usize>,
}

impl Space {
    fn new(slots: usize) -> Self {
        Self { free: Semaphore::new(slots), overdrawn: Mutex::new(0) }
    }

    fn overdrawn(&self) -> MutexGuard<'_, usize> {
        self.overdrawn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Uses slots, whether or not they are free.
    fn overdraw(&self, slots: usize) {
        let mut overdrawn = self.overdrawn();
        let found = self.free.forget_permits(slots);
        *overdrawn += slots.saturating_sub(found);
    }

    fn free(&self, slots: usize) {
        let mut overdrawn = self.overdrawn();
        let made_up = slots.min(*overdrawn);
        *overdrawn -= made_up;
        self.free.add_permits(slots - made_up);
    }
}

/// The slots of a place in one space, until it has those in all. Returned if it does not get there.
struct Taken<'a>(&'a Space);

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.0.free(PLACE);
    }
}

/// The space of a queue. Strangers can fill a quarter of it, reads and strangers three quarters.
pub(super) struct Queue {
    strangers: Space,
    reads: Space,
    all: Space,
}

impl Queue {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            strangers: Space::new(SLOTS / 4),
            reads: Space::new(SLOTS / 4 * 3),
            all: Space::new(SLOTS),
        })
    }

    /// The slots that a line uses.
    pub(super) fn slots(bytes: usize) -> usize {
        bytes.div_ceil(SLOT_BYTES).max(1)
    }

    /// The spaces that a class needs slots of, always from the smallest to the largest.
    fn spaces(&self, class: Class) -> impl Iterator<Item = &Space> {
        let strangers = class.is_stranger().then_some(&self.strangers);
        let reads = (class != Class::Write).then_some(&self.reads);
        [strangers, reads, Some(&self.all)].into_iter().flatten()
    }

    /// Waits for a place, in turn within the class.
    pub(super) async fn enter(self: &Arc<Self>, class: Class) -> Place {
        let mut taken = Vec::with_capacity(3);
        for space in self.spaces(class) {
            // The semaphore is never closed.
            if let Ok(permits) = space.free.acquire_many(PLACE as u32).await {
                permits.forget();
            }
            taken.push(Taken(space));
        }
        taken.into_iter().for_each(std::mem::forget);
        Place { queue: Arc::clone(self), class, left: PLACE }
    }

    /// Returns a place if there is one now.
    pub(super) fn try_enter(self: &Arc<Self>, class: Class) -> Option<Place> {
        let mut taken = Vec::with_capacity(3);
        for space in self.spaces(class) {
            space.free.try_acquire_many(PLACE as u32).ok()?.forget();
            taken.push(Taken(space));
        }
        taken.into_iter().for_each(std::mem::forget);
        Some(Place { queue: Arc::clone(self), class, left: PLACE })
    }

    /// Returns the slots of a line that has left the queue.
    pub(super) fn leave(&self, class: Class, slots: usize) {
        self.spaces(class).for_each(|space| space.free(slots));
    }
}

/// The space for the lines that a request has yet to write.
pub(crate) struct Place {
    queue: Arc<Queue>,
    class: Class,
    left: usize,
}

impl Place {
    /// Returns who makes the request.
    pub(super) fn class(&self) -> Class {
        self.class
    }

    /// Uses the slots of a line: those of the place, then free ones, then more than there are.
    pub(super) fn take(&mut self, slots: usize) {
        let own = slots.min(self.left);
        self.left -= own;
        if slots > own {
            self.queue.spaces(self.class).for_each(|space| space.overdraw(slots - own));
        }
    }

    /// Gives back what is left. A line that still follows overdraws the space.
    pub(super) fn give_back(&mut self) {
        let left = std::mem::take(&mut self.left);
        if left > 0 {
            self.queue.leave(self.class, left);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.give_back();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CLASSES: [Class; 4] = [Class::StrangersRead, Class::StrangersWrite, Class::Read, Class::Write];

    proptest! {
        /// Compares with sums of what is used.
        #[test]
        fn a_place_is_given_exactly_while_the_class_and_those_above_have_space(
            steps in prop::collection::vec((0_usize..4, 0_usize..4, 1_usize..3000), 1..200),
        ) {
            let queue = Queue::new();
            // Queued lines, and the used slots of strangers, reads and writes.
            let mut lines = Vec::new();
            let mut used = [0_usize; 3];
            for (what, class, slots) in steps {
                let class = CLASSES[class];
                let group = match class { Class::Write => 2, Class::Read => 1, _ => 0 };
                if what == 0 {
                    if !lines.is_empty() {
                        let (class, group, slots) = lines.swap_remove(slots % lines.len());
                        queue.leave(class, slots);
                        used[group] -= slots;
                    }
                    continue;
                }
                let limits = [2500, 7500, 10_000];
                let fits = (group..3).all(|at| used[..=at].iter().sum::<usize>() + 2 <= limits[at]);
                let place = queue.try_enter(class);
                prop_assert_eq!(place.is_some(), fits);
                if let Some(mut place) = place {
                    place.take(slots);
                    used[group] += slots;
                    lines.push((class, group, slots));
                }
            }
        }
    }
}
