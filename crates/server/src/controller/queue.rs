//! A work queue with delays. Each key is queued at most once, however often it changes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

const SHORTEST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Queue {
    due: BTreeMap<String, Instant>,
    /// The queued keys, ordered by due time.
    by_time: BTreeSet<(Instant, String)>,
    failures: BTreeMap<String, u32>,
    /// The keys that were taken and are not finished. A key that is added meanwhile waits until it is finished.
    taken: BTreeMap<String, Option<Instant>>,
}

impl Queue {
    /// Queues a key for a time, or moves it to an earlier time.
    pub(super) fn add(&mut self, item: String, at: Instant) {
        if let Some(again) = self.taken.get_mut(&item) {
            *again = Some(again.map_or(at, |before| before.min(at)));
            return;
        }
        match self.due.get(&item) {
            Some(due) if *due <= at => return,
            Some(due) => drop(self.by_time.remove(&(*due, item.clone()))),
            None => {}
        }
        self.by_time.insert((at, item.clone()));
        self.due.insert(item, at);
    }

    /// Takes a key that is due. It is not returned again before [`Self::succeeded`] or [`Self::failed`].
    pub(super) fn take(&mut self, now: Instant) -> Option<String> {
        if self.next()? > now {
            return None;
        }
        let (_, item) = self.by_time.pop_first()?;
        self.due.remove(&item);
        self.taken.insert(item.clone(), None);
        Some(item)
    }

    /// Queues a failed key again, with backoff.
    pub(super) fn failed(&mut self, item: String, now: Instant) {
        let failures = self.failures.entry(item.clone()).or_default();
        let pause = SHORTEST.saturating_mul(2_u32.saturating_pow(*failures)).min(LONGEST);
        *failures = failures.saturating_add(1);
        self.done(&item);
        self.add(item, now + pause);
    }

    /// Marks a key as finished.
    pub(super) fn succeeded(&mut self, item: &str) {
        self.failures.remove(item);
        self.done(item);
    }

    fn done(&mut self, item: &str) {
        if let Some(Some(again)) = self.taken.remove(item) {
            self.add(item.to_owned(), again);
        }
    }

    /// Returns when the next key is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.by_time.first().map(|(at, _)| *at)
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
    fn what_changes_while_it_is_looked_at_is_looked_at_once_more_after_that() {
        let now = Instant::now();
        let mut queue = Queue::default();
        queue.add("a".to_owned(), now);
        assert_eq!(queue.take(now).as_deref(), Some("a"));
        queue.add("a".to_owned(), now + LONGEST);
        queue.add("a".to_owned(), now);
        assert_eq!(queue.take(now), None, "nobody else looks at it meanwhile");
        queue.succeeded("a");
        assert_eq!(queue.take(now).as_deref(), Some("a"));
        queue.succeeded("a");
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
