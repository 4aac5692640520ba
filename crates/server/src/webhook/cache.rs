//! What a webhook answered lately (WH-50 to WH-56). Bounded: so many entries, each of bounded size.
//!
//! Questions are kept as hashes: what a caller sends takes up no memory here.

use std::time::{Duration, Instant};

use portcullis_client::review::cache::ExpiringLru;
use portcullis_pki as pki;

use super::answer::Status;
use super::review::Spec;

/// WH-50
const ENTRIES: usize = 8192;
/// WH-53: questions of so many bytes or more are not remembered.
const ATTRIBUTE_BYTES: usize = 10_000;
/// Nor are answers with longer reasons; 8192 of them take 32 MiB.
const REASON_BYTES: usize = 4096;

/// How long answers are remembered (WH-55). Zero: not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ttl {
    /// Those that allow.
    pub authorized: Duration,
    /// All others.
    pub unauthorized: Duration,
}

impl Default for Ttl {
    fn default() -> Self {
        Self { authorized: Duration::from_secs(5 * 60), unauthorized: Duration::from_secs(30) }
    }
}

/// A question, hashed (WH-51).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key([u8; 32]);

impl Key {
    /// Of all that is asked: two questions that differ in anything have different keys.
    pub(super) fn of(spec: &Spec) -> Result<Self, serde_json::Error> {
        Ok(Self(pki::sha256(&serde_json::to_vec(spec)?)))
    }
}

/// See the module.
pub(super) struct Cache {
    ttl: Ttl,
    entries: ExpiringLru<Key, Status, Instant>,
}

impl Cache {
    pub(super) fn new(ttl: Ttl) -> Self {
        Self { ttl, entries: ExpiringLru::new(ENTRIES) }
    }

    /// The answer to a question, unless it is too old.
    pub(super) fn find(&self, key: &Key, now: Instant) -> Option<Status> {
        self.entries.find(key, now)
    }

    /// Remembers an answer (WH-52, WH-53).
    pub(super) fn store(&self, key: Key, spec: &Spec, status: &Status, now: Instant) {
        let ttl = if status.allowed { self.ttl.authorized } else { self.ttl.unauthorized };
        let is_large = spec.attribute_bytes() >= ATTRIBUTE_BYTES || status.reason.len() > REASON_BYTES;
        let Some(deadline) = now.checked_add(ttl).filter(|deadline| *deadline > now) else { return };
        if !is_large {
            self.entries.store(key, status.clone(), deadline);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn question(user: &str) -> (Spec, Key) {
        let spec = Spec { user: user.to_owned(), ..Spec::default() };
        let key = Key::of(&spec).unwrap();
        (spec, key)
    }

    fn yes() -> Status {
        Status { allowed: true, ..Status::default() }
    }

    #[test]
    fn an_answer_is_remembered_for_as_long_as_its_kind_is_wh_52() {
        let (start, second, nano) = (Instant::now(), Duration::from_secs(1), Duration::from_nanos(1));
        let cache = Cache::new(Ttl { authorized: 10 * second, unauthorized: 2 * second });
        let (jane, allowed) = question("jane");
        let (joe, refused) = question("joe");
        cache.store(allowed, &jane, &yes(), start);
        // Row 1 of WH-42 counts as allowed.
        cache.store(refused, &joe, &Status { denied: true, ..Status::default() }, start);
        assert_eq!(cache.find(&allowed, start + 9 * second), Some(yes()));
        assert!(cache.find(&refused, start + second).is_some());
        // Too old is what is past its time, not what is at the end of it.
        assert!(cache.find(&refused, start + 2 * second).is_some());
        assert_eq!(cache.find(&refused, start + 2 * second + nano), None);
        assert!(cache.find(&allowed, start + 10 * second).is_some());
        assert_eq!(cache.find(&allowed, start + 10 * second + nano), None);
    }

    #[test]
    fn nothing_is_remembered_for_no_time_wh_52() {
        let cache = Cache::new(Ttl { authorized: Duration::ZERO, unauthorized: Duration::ZERO });
        let (spec, key) = question("jane");
        let now = Instant::now();
        cache.store(key, &spec, &yes(), now);
        assert_eq!(cache.find(&key, now), None);
    }

    #[test]
    fn large_questions_are_not_remembered_wh_53() {
        let cache = Cache::new(Ttl::default());
        let now = Instant::now();
        let path = |length| super::super::review::NonResourceAttributes {
            path: "p".repeat(length),
            verb: String::new(),
        };
        for (length, remembered) in [(9_999, true), (10_000, false)] {
            let spec = Spec { non_resource_attributes: Some(path(length)), ..Spec::default() };
            let key = Key::of(&spec).unwrap();
            cache.store(key, &spec, &yes(), now);
            assert_eq!(cache.find(&key, now).is_some(), remembered);
        }
        // What is known of the user does not count.
        let (spec, key) = question(&"u".repeat(20_000));
        cache.store(key, &spec, &yes(), now);
        assert!(cache.find(&key, now).is_some());
    }

    #[test]
    fn the_one_not_needed_the_longest_makes_room_wh_50() {
        let cache = Cache::new(Ttl::default());
        let now = Instant::now();
        for user in 0..ENTRIES {
            let (spec, key) = question(&user.to_string());
            cache.store(key, &spec, &yes(), now);
        }
        assert!(cache.find(&question("0").1, now).is_some());
        let (spec, key) = question("one more");
        cache.store(key, &spec, &yes(), now);
        assert_eq!(cache.entries.len(), ENTRIES);
        assert!(cache.find(&question("0").1, now).is_some());
        assert!(cache.find(&question("1").1, now).is_none());
        assert!(cache.find(&key, now).is_some());
    }

    proptest! {
        #[test]
        fn different_questions_have_different_keys_wh_51(
            a in prop::collection::vec("[ab]{0,2}", 0..3), b in prop::collection::vec("[ab]{0,2}", 0..3),
        ) {
            let of = |groups: &[String]| Key::of(&Spec { groups: groups.to_vec(), ..Spec::default() }).unwrap();
            prop_assert_eq!(a == b, of(&a) == of(&b));
        }
    }
}
