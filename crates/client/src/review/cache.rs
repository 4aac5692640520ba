//! What was answered lately: a bounded number of entries, each with a deadline of its own (KA-60, KA-61, WH-50).
//!
//! It holds what it is given and knows nothing of it: which answers are worth keeping, and for how long, its users say.
//! Looking up and storing take the same short time however many entries there are.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Beside an entry that has no neighbour on this side.
const NONE: usize = usize::MAX;

/// A bounded cache whose entries expire. Time is a `T`: an instant, or how long a clock has been running.
pub struct ExpiringLru<K, V, T> {
    capacity: usize,
    entries: Mutex<Entries<K, V, T>>,
}

/// The entries, in a list from the one that was needed last to the one not needed for the longest time.
struct Entries<K, V, T> {
    places: HashMap<K, usize>,
    slots: Vec<Slot<K, V, T>>,
    /// Slots that hold nothing.
    free: Vec<usize>,
    newest: usize,
    oldest: usize,
}

struct Slot<K, V, T> {
    key: K,
    value: Option<V>,
    deadline: T,
    newer: usize,
    older: usize,
}

impl<K, V, T> std::fmt::Debug for ExpiringLru<K, V, T> {
    /// Never what is in it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExpiringLru").field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

impl<K: Copy + Eq + Hash, V: Clone, T: Copy + Ord> ExpiringLru<K, V, T> {
    /// An empty cache of at most so many entries.
    pub fn new(capacity: usize) -> Self {
        let (places, slots, free) = (HashMap::new(), Vec::new(), Vec::new());
        let entries = Entries { places, slots, free, newest: NONE, oldest: NONE };
        Self { capacity, entries: Mutex::new(entries) }
    }

    /// What is kept under a key. It has expired when now is strictly after its deadline (KA-61).
    pub fn find(&self, key: &K, now: T) -> Option<V> {
        let mut entries = self.lock();
        let place = *entries.places.get(key)?;
        if entries.slots.get(place)?.deadline < now {
            entries.remove(place);
            return None;
        }
        entries.unlink(place);
        entries.link_newest(place);
        entries.slots.get(place)?.value.clone()
    }

    /// Keeps a value until its deadline, in place of what was there under this key. The entry that was not needed for
    /// the longest time makes room where there is none (KA-60).
    pub fn store(&self, key: K, value: V, deadline: T) {
        if self.capacity == 0 {
            return;
        }
        let mut entries = self.lock();
        if let Some(place) = entries.places.get(&key).copied() {
            entries.remove(place);
        } else if entries.places.len() >= self.capacity {
            let oldest = entries.oldest;
            entries.remove(oldest);
        }
        entries.add(key, value, deadline);
    }

    /// How many entries there are, expired ones that nobody asked for included.
    pub fn len(&self) -> usize {
        self.lock().places.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, Entries<K, V, T>> {
        // Nothing in here panics between two halves of a change.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Copy + Eq + Hash, V, T: Copy> Entries<K, V, T> {
    fn add(&mut self, key: K, value: V, deadline: T) {
        let slot = Slot { key, value: Some(value), deadline, newer: NONE, older: NONE };
        let place = match self.free.pop() {
            Some(place) => {
                if let Some(old) = self.slots.get_mut(place) {
                    *old = slot;
                }
                place
            }
            None => {
                self.slots.push(slot);
                self.slots.len() - 1
            }
        };
        self.places.insert(key, place);
        self.link_newest(place);
    }

    fn remove(&mut self, place: usize) {
        self.unlink(place);
        let Some(slot) = self.slots.get_mut(place) else { return };
        slot.value = None;
        let key = slot.key;
        self.places.remove(&key);
        self.free.push(place);
    }

    /// Takes an entry out of the order.
    fn unlink(&mut self, place: usize) {
        let Some(slot) = self.slots.get(place) else { return };
        let (newer, older) = (slot.newer, slot.older);
        match self.slots.get_mut(newer) {
            Some(slot) => slot.older = older,
            None => self.newest = older,
        }
        match self.slots.get_mut(older) {
            Some(slot) => slot.newer = newer,
            None => self.oldest = newer,
        }
    }

    /// Puts an entry that is not in the order at the front of it.
    fn link_newest(&mut self, place: usize) {
        let older = self.newest;
        if let Some(slot) = self.slots.get_mut(place) {
            (slot.newer, slot.older) = (NONE, older);
        }
        match self.slots.get_mut(older) {
            Some(slot) => slot.newer = place,
            None => self.oldest = place,
        }
        self.newest = place;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_entry_expires_strictly_after_its_deadline_ka_61() {
        let cache = ExpiringLru::new(2);
        cache.store('a', 1, 10);
        assert_eq!(cache.find(&'a', 10), Some(1));
        assert_eq!(cache.find(&'a', 11), None);
        assert!(cache.is_empty());
        // A deadline that is now is past at once.
        cache.store('a', 1, 10);
        assert_eq!(cache.find(&'a', 11), None);
    }

    #[test]
    fn nothing_fits_into_a_cache_of_no_entries() {
        let cache = ExpiringLru::new(0);
        cache.store('a', 1, 10);
        assert_eq!((cache.find(&'a', 0), cache.len()), (None, 0));
    }

    proptest! {
        /// The same as a list that is searched from end to end.
        #[test]
        fn the_one_not_needed_the_longest_makes_room_ka_60(
            steps in prop::collection::vec((any::<bool>(), 0_u8..6, 0_u32..8), 0..200),
        ) {
            const CAPACITY: usize = 3;
            let cache = ExpiringLru::new(CAPACITY);
            let mut model: Vec<(u8, usize, u32)> = Vec::new();
            for (now, (is_store, key, ttl)) in steps.into_iter().enumerate() {
                let at = u32::try_from(now).unwrap();
                if is_store {
                    let known = model.iter().position(|(k, ..)| *k == key);
                    if let Some(known) = known {
                        model.remove(known);
                    } else if model.len() == CAPACITY {
                        model.remove(0);
                    }
                    model.push((key, now, at + ttl));
                    cache.store(key, now, at + ttl);
                } else {
                    let known = model.iter().position(|(k, ..)| *k == key).map(|known| model.remove(known));
                    let alive = known.filter(|(.., deadline)| *deadline >= at);
                    model.extend(alive);
                    prop_assert_eq!(cache.find(&key, at), alive.map(|(_, value, _)| value));
                }
                prop_assert_eq!(cache.len(), model.len());
                prop_assert!(cache.lock().slots.len() <= CAPACITY);
            }
        }
    }
}
