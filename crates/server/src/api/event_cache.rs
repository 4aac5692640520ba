//! Events of watches that were encoded a short time ago, for all watches that send the same events in the same form.
//!
//! Bounded in bytes. It never decides who gets an event: a watch asks for an event that it is about to send.

use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use hashbrown::HashMap;
use portcullis_store::{Entry, Revision};

use super::form::Form;
use crate::http::status::Status;

/// Watches of different objects seldom wait for each other.
const SHARDS: usize = 8;
/// The limit of a generation of a shard, in bytes. Two generations of all shards are 16 MiB.
const GENERATION: usize = 1 << 20;
/// The estimated size of an event's key and place in the map, in bytes.
const OVERHEAD: usize = 256;

/// An event, and the form in which it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// The type of the event.
    pub(super) kind: &'static str,
    /// The revision at which the object was removed, if it was.
    pub(super) removed: Option<Revision>,
    /// The form of the object.
    pub(super) form: Form,
}

/// The address of an entry: no other entry has it as long as the entry is held.
type Address = usize;

/// An encoded event.
struct Encoded {
    /// Held, so that its address stays its own.
    entry: Arc<Entry>,
    event: Bytes,
}

impl Encoded {
    fn size(&self) -> usize {
        self.event.len().saturating_add(self.entry.value.len()).saturating_add(OVERHEAD)
    }
}

type Generation = HashMap<(Address, Key), Encoded>;

#[derive(Default)]
struct Shard {
    /// The events that were used since the last generation was full.
    young: Generation,
    /// Their size, in bytes.
    bytes: usize,
    /// Events that were not used since then.
    old: Generation,
}

impl Shard {
    /// Finds an event. Also returns the generation that is forgotten: the caller frees it after the lock is released.
    fn find(&mut self, key: &(Address, Key)) -> Option<(Bytes, Generation)> {
        if let Some(found) = self.young.get(key) {
            return Some((found.event.clone(), Generation::new()));
        }
        let found = self.old.remove(key)?;
        let event = found.event.clone();
        Some((event, self.add(*key, found)))
    }

    /// Adds an event, and returns the generation that is forgotten.
    fn add(&mut self, key: (Address, Key), encoded: Encoded) -> Generation {
        let size = encoded.size();
        if size > GENERATION || self.young.contains_key(&key) {
            return Generation::new();
        }
        let mut forgotten = Generation::new();
        if self.bytes.saturating_add(size) > GENERATION {
            forgotten = mem::replace(&mut self.old, mem::take(&mut self.young));
            self.bytes = 0;
        }
        self.bytes = self.bytes.saturating_add(size);
        self.young.insert(key, encoded);
        forgotten
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct EventCache {
    shards: [Mutex<Shard>; SHARDS],
}

impl EventCache {
    /// The event about an object in the state of an entry. It is encoded unless this was done for another watch.
    ///
    /// # Errors
    /// Those of encoding.
    pub(super) fn event(
        &self,
        entry: &Arc<Entry>,
        key: Key,
        encode: impl FnOnce() -> Result<Bytes, Status>,
    ) -> Result<Bytes, Status> {
        let address = Arc::as_ptr(entry).addr();
        // Entries are larger than a cache line.
        let Some(shard) = self.shards.get(address / 64 % SHARDS) else { return encode() };
        let key = (address, key);
        let found = shard.lock().unwrap_or_else(PoisonError::into_inner).find(&key);
        if let Some((event, _forgotten)) = found {
            return Ok(event);
        }
        // Without the lock: others that encode the same event meanwhile do so for nothing, but need not wait.
        let event = encode()?;
        let encoded = Encoded { entry: Arc::clone(entry), event: event.clone() };
        let _forgotten = shard.lock().unwrap_or_else(PoisonError::into_inner).add(key, encoded);
        Ok(event)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::super::form::Include;
    use super::*;
    use crate::http::negotiate::Accepted;

    fn entry(size: usize) -> Arc<Entry> {
        Arc::new(Entry {
            key: "/core/configmaps/default/a".into(),
            value: vec![b'x'; size].into(),
            created: Revision(1),
            modified: Revision(1),
            part: None,
        })
    }

    fn form(has_columns: bool) -> Form {
        Form { kinds: [1, 2], accepted: Accepted::default(), include: Include::None, has_columns, at: 0 }
    }

    fn key(kind: &'static str) -> Key {
        Key { kind, removed: None, form: form(false) }
    }

    #[test]
    fn an_event_is_encoded_once_for_all_who_send_it_in_one_form() {
        let (cache, entry, count) = (EventCache::default(), entry(10), Cell::new(0));
        let ask = |key| {
            let encode = || {
                count.set(count.get() + 1);
                Ok(Bytes::from(count.get().to_string()))
            };
            cache.event(&entry, key, encode).unwrap()
        };
        for _ in 0..100 {
            assert_eq!(ask(key("ADDED")), "1");
        }
        assert_eq!(ask(key("MODIFIED")), "2");
        assert_eq!(ask(Key { removed: Some(Revision(7)), ..key("DELETED") }), "3");
        assert_eq!(ask(Key { removed: Some(Revision(8)), ..key("DELETED") }), "4");
        assert_eq!(ask(Key { form: form(true), ..key("ADDED") }), "5");
        assert_eq!(ask(key("ADDED")), "1");
    }

    #[test]
    fn states_that_look_alike_are_different_events() {
        let cache = EventCache::default();
        for number in 0..1000 {
            // Freed at once, but for the cache.
            let event = cache.event(&entry(10), key("ADDED"), || Ok(Bytes::from(number.to_string())));
            assert_eq!(event.unwrap(), number.to_string());
        }
    }

    #[test]
    fn what_is_held_is_bounded_and_what_is_asked_for_stays() {
        let (cache, often) = (EventCache::default(), entry(1000));
        cache.event(&often, key("ADDED"), || Ok(Bytes::from_static(b"often"))).unwrap();
        let mut states = Vec::new();
        for _ in 0..50_000 {
            let state = entry(1000);
            states.push(Arc::downgrade(&state));
            cache.event(&state, key("ADDED"), || Ok(Bytes::from_static(b"once"))).unwrap();
            let found = cache.event(&often, key("ADDED"), || Err(Status::internal("it was forgotten")));
            assert_eq!(found.unwrap(), "often");
        }
        let held = states.iter().filter(|state| state.strong_count() > 0).count();
        assert!(held * 1000 <= 2 * SHARDS * GENERATION, "{held} states are held");
        let huge = entry(GENERATION);
        cache.event(&huge, key("ADDED"), || Ok(Bytes::new())).unwrap();
        assert_eq!(Arc::strong_count(&huge), 1);
    }

    #[test]
    fn an_error_is_not_held() {
        let (cache, entry) = (EventCache::default(), entry(10));
        assert!(cache.event(&entry, key("ADDED"), || Err(Status::internal("no"))).is_err());
        let event = cache.event(&entry, key("ADDED"), || Ok(Bytes::from_static(b"yes")));
        assert_eq!(event.unwrap(), "yes");
    }
}
