//! What is to be looked at, and when. A thing is in here once, however often it changes.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

const SHORTEST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Queue {
    due: BTreeMap<String, Instant>,
    failures: BTreeMap<String, u32>,
}

impl Queue {
    /// A thing is to be looked at, at a time or earlier.
    pub(super) fn add(&mut self, item: String, at: Instant) {
        let due = self.due.entry(item).or_insert(at);
        *due = at.min(*due);
    }

    /// Takes out what is due.
    pub(super) fn take(&mut self, now: Instant) -> Option<String> {
        let item = self.due.iter().find(|(_, at)| **at <= now).map(|(item, _)| item.clone())?;
        self.due.remove(&item);
        Some(item)
    }

    /// A thing could not be dealt with: it is due again, later each time.
    pub(super) fn failed(&mut self, item: String, now: Instant) {
        let failures = self.failures.entry(item.clone()).or_default();
        let pause = SHORTEST.saturating_mul(2_u32.saturating_pow(*failures)).min(LONGEST);
        *failures = failures.saturating_add(1);
        self.add(item, now + pause);
    }

    /// A thing was dealt with.
    pub(super) fn succeeded(&mut self, item: &str) {
        self.failures.remove(item);
    }

    /// When the next thing is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.due.values().min().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thing_is_taken_once_and_not_before_it_is_due() {
        let now = Instant::now();
        let mut queue = Queue::default();
        queue.add("a".to_owned(), now + LONGEST);
        queue.add("b".to_owned(), now);
        queue.add("b".to_owned(), now + LONGEST);
        assert_eq!(queue.take(now).as_deref(), Some("b"));
        assert_eq!(queue.take(now), None);
        assert_eq!(queue.next(), Some(now + LONGEST));
        queue.add("a".to_owned(), now);
        assert_eq!(queue.take(now).as_deref(), Some("a"));
        assert_eq!(queue.next(), None);
    }

    #[test]
    fn what_fails_comes_again_later_each_time_up_to_a_limit() {
        let now = Instant::now();
        let mut queue = Queue::default();
        let mut last = Duration::ZERO;
        for _ in 0..100 {
            queue.failed("a".to_owned(), now);
            let pause = queue.next().unwrap() - now;
            assert!(pause > last || pause == LONGEST, "{pause:?}");
            assert!(queue.take(now + pause).is_some());
            last = pause;
        }
        assert_eq!(last, LONGEST);
        queue.succeeded("a");
        queue.failed("a".to_owned(), now);
        assert_eq!(queue.next(), Some(now + SHORTEST));
    }
}
