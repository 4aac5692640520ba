//! A cache with a bounded number of entries, each with its own deadline (KA-60, KA-61, WH-50).
//!
//! Its users decide what is cached and for how long. Lookup and insertion take constant time.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use portcullis_policy::review::AccessStatus;

use super::question::Key;

/// The link of an entry without a neighbour on this side.
const NONE: usize = usize::MAX;

/// A bounded cache whose entries expire. Time is a `T`: an instant, or the time of a monotonic clock.
pub struct ExpiringLru<K, V, T> {
    capacity: usize,
    entries: Mutex<Entries<K, V, T>>,
}

/// The entries, in a list from the most to the least recently used.
struct Entries<K, V, T> {
    places: HashMap<K, usize>,
    slots: Vec<Slot<K, V, T>>,
    /// The free slots.
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
    /// Never shows the contents.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExpiringLru").field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

impl<K: Copy + Eq + Hash, V: Clone, T: Copy + Ord> ExpiringLru<K, V, T> {
    /// Creates an empty cache with this capacity.
    pub fn new(capacity: usize) -> Self {
        let (places, slots, free) = (HashMap::new(), Vec::new(), Vec::new());
        let entries = Entries { places, slots, free, newest: NONE, oldest: NONE };
        Self { capacity, entries: Mutex::new(entries) }
    }

    /// Returns the value of a key. It has expired if `now` is strictly after its deadline (KA-61).
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

    /// Stores a value until its deadline, replacing any value of this key. If the cache is full, the least recently
    /// used entry is evicted (KA-60).
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

    fn lock(&self) -> MutexGuard<'_, Entries<K, V, T>> {
        // No code here panics in the middle of a change.
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

    /// Removes an entry from the list.
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

    /// Inserts an entry at the front of the list.
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

/// How many answers to SubjectAccessReviews are kept (KA-60, WH-50).
const ACCESS_ENTRIES: usize = 8192;

/// How long answers to SubjectAccessReviews count (KA-61, WH-55). Zero: not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ttl {
    /// For allowed requests.
    pub authorized: Duration,
    /// For all others.
    pub unauthorized: Duration,
}

impl Default for Ttl {
    fn default() -> Self {
        Self { authorized: Duration::from_secs(5 * 60), unauthorized: Duration::from_secs(30) }
    }
}

/// Answers to SubjectAccessReviews (KA-60 to KA-62, WH-50 to WH-56). Time is how long a clock has been running.
#[derive(Debug)]
pub struct AccessCache {
    ttl: Ttl,
    entries: ExpiringLru<Key, AccessStatus, Duration>,
}

impl AccessCache {
    /// An empty cache.
    pub fn new(ttl: Ttl) -> Self {
        Self { ttl, entries: ExpiringLru::new(ACCESS_ENTRIES) }
    }

    /// Returns the cached response unless it has expired.
    pub fn find(&self, key: &Key, now: Duration) -> Option<AccessStatus> {
        self.entries.find(key, now)
    }

    /// Keeps an answer for as long as it counts: by whether it allows, also where it denies as well (KA-61, WH-52).
    pub fn store(&self, key: Key, status: AccessStatus, now: Duration) {
        let ttl = if status.allowed { self.ttl.authorized } else { self.ttl.unauthorized };
        if let Some(deadline) = now.checked_add(ttl).filter(|_| !ttl.is_zero()) {
            self.entries.store(key, status, deadline);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_answer_is_remembered_for_as_long_as_its_kind_is_wh_52() {
        let (start, second, nano) = (Duration::from_secs(7), Duration::from_secs(1), Duration::from_nanos(1));
        let cache = AccessCache::new(Ttl { authorized: 10 * second, unauthorized: 2 * second });
        let yes = AccessStatus { allowed: true, ..AccessStatus::default() };
        let (allowed, refused) = ([1; 32], [2; 32]);
        cache.store(allowed, yes.clone(), start);
        cache.store(refused, AccessStatus { denied: true, ..AccessStatus::default() }, start);
        assert_eq!(cache.find(&allowed, start + 9 * second), Some(yes));
        assert!(cache.find(&refused, start + second).is_some());
        // An entry expires after its deadline, not at it.
        assert!(cache.find(&refused, start + 2 * second).is_some());
        assert_eq!(cache.find(&refused, start + 2 * second + nano), None);
        assert!(cache.find(&allowed, start + 10 * second).is_some());
        assert_eq!(cache.find(&allowed, start + 10 * second + nano), None);
    }

    #[test]
    fn nothing_is_remembered_for_no_time_wh_52() {
        let cache = AccessCache::new(Ttl { authorized: Duration::ZERO, unauthorized: Duration::ZERO });
        cache.store([1; 32], AccessStatus { allowed: true, ..AccessStatus::default() }, Duration::ZERO);
        assert_eq!(cache.find(&[1; 32], Duration::ZERO), None);
    }

    #[test]
    fn the_answer_not_needed_the_longest_makes_room_wh_50() {
        let cache = AccessCache::new(Ttl::default());
        let key = |number: usize| {
            let mut key = [0; 32];
            key[..8].copy_from_slice(&number.to_be_bytes());
            key
        };
        let store = |number| cache.store(key(number), AccessStatus::default(), Duration::ZERO);
        let is_there = |number| cache.find(&key(number), Duration::ZERO).is_some();
        (0..ACCESS_ENTRIES).for_each(store);
        assert!(is_there(0));
        store(ACCESS_ENTRIES);
        assert_eq!(cache.entries.lock().places.len(), ACCESS_ENTRIES);
        assert!(is_there(0) && !is_there(1) && is_there(ACCESS_ENTRIES));
    }

    #[test]
    fn an_entry_expires_strictly_after_its_deadline_ka_61() {
        let cache = ExpiringLru::new(2);
        cache.store('a', 1, 10);
        assert_eq!(cache.find(&'a', 10), Some(1));
        assert_eq!(cache.find(&'a', 11), None);
        assert!(cache.lock().places.is_empty());
        // A deadline of now has passed at once.
        cache.store('a', 1, 10);
        assert_eq!(cache.find(&'a', 11), None);
    }

    #[test]
    fn nothing_fits_into_a_cache_of_no_entries() {
        let cache = ExpiringLru::new(0);
        cache.store('a', 1, 10);
        assert_eq!((cache.find(&'a', 0), cache.lock().places.len()), (None, 0));
    }

    proptest! {
        /// Behaves like a list with linear search.
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
                prop_assert_eq!(cache.lock().places.len(), model.len());
                prop_assert!(cache.lock().slots.len() <= CAPACITY);
            }
        }
    }
}
