//! Removes events when their time is over (`--event-ttl`): so long after their last write.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use portcullis_apimachinery::time::Instant as Time;
use portcullis_store::{Entry, Event, Revision, Store as _};
use serde::Deserialize;
use tokio::time::Instant;

use super::runner::{Controller, Next};
use crate::http::status::Status;
use crate::registry::backend::Backend;
use crate::registry::meta::now;
use crate::registry::{storage, write};

/// The maximum number of events that are removed in one commit.
const TOGETHER: usize = 100;

/// See the module.
pub(super) struct EventTtl {
    backend: Arc<Backend>,
    ttl: Duration,
    /// The writes of events, by the time when they are over. One that is not the last of its event means nothing.
    writes: Mutex<BTreeSet<(Instant, Revision, Box<str>)>>,
}

impl EventTtl {
    pub(super) fn new(backend: Arc<Backend>, ttl: Duration) -> Self {
        Self { backend, ttl, writes: Mutex::default() }
    }

    fn writes(&self) -> MutexGuard<'_, BTreeSet<(Instant, Revision, Box<str>)>> {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the events whose last writes these are. One that was written meanwhile stays.
    async fn remove(&self, over: &[(Revision, Box<str>)]) -> Result<(), Status> {
        let mut removals = Vec::new();
        for (revision, key) in over {
            let entry = self.backend.get(key).await.map_err(|error| storage::failed(&error))?;
            let entry = entry.filter(|entry| entry.modified == *revision);
            removals.extend(entry.map(|entry| write::remove(&entry)));
        }
        write::commit_each(&self.backend, removals).await.map(drop)
    }

    /// The writes that are over, at most so many as are removed together.
    fn over(&self) -> Vec<(Revision, Box<str>)> {
        let now = Instant::now();
        let mut writes = self.writes();
        let mut over = Vec::new();
        while over.len() < TOGETHER && writes.first().is_some_and(|(due, ..)| *due <= now) {
            over.extend(writes.pop_first().map(|(_, revision, key)| (revision, key)));
        }
        over
    }
}

impl Controller for EventTtl {
    const NAME: &'static str = "event-ttl";
    const LISTED: &'static str = "/core/events/";
    const WATCHED: &'static str = "/core/events/";

    type Keys = Option<String>;

    /// All events are removed under one key, which is due with the first of them.
    fn concerns(&self, event: &Event) -> Option<String> {
        let entry = event.entry.as_ref()?;
        // An event that is there at the start was last written when it says so. Updates are seen when they are made.
        let age = if event.previous.is_some() { Duration::ZERO } else { age(entry, now()) };
        let due = Instant::now() + self.ttl.saturating_sub(age);
        let mut writes = self.writes();
        let is_first = writes.first().is_none_or(|(first, ..)| due < *first);
        writes.insert((due, entry.modified, entry.key.clone()));
        is_first.then(String::new)
    }

    fn forget(&self) {
        self.writes().clear();
    }

    async fn reconcile(&self, _all: &str) -> Result<Next, Status> {
        loop {
            let over = self.over();
            if over.is_empty() {
                break;
            }
            if let Err(status) = self.remove(&over).await {
                let due = Instant::now();
                self.writes().extend(over.into_iter().map(|(revision, key)| (due, revision, key)));
                return Err(status);
            }
        }
        let next = self.writes().first().map(|(due, ..)| due.saturating_duration_since(Instant::now()));
        Ok(next.map_or(Next::OnChange, Next::After))
    }
}

/// How long ago an event was last written, at most, by the latest time in it that is not in the future. `now` is in
/// seconds since 1970.
fn age(event: &Entry, now: i64) -> Duration {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Times {
        metadata: Metadata,
        last_timestamp: Option<String>,
        event_time: Option<String>,
        series: Option<Series>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        creation_timestamp: Option<String>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Series {
        last_observed_time: Option<String>,
    }
    let Ok(times) = serde_json::from_slice::<Times>(&event.value) else { return Duration::ZERO };
    let series = times.series.and_then(|series| series.last_observed_time);
    let times = [times.metadata.creation_timestamp, times.last_timestamp, times.event_time, series];
    let seconds = times.iter().flatten().filter_map(|text| Time::parse(text).ok()).map(|time| time.seconds);
    let last = seconds.max().unwrap_or(now);
    Duration::from_secs(u64::try_from(now.saturating_sub(last)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_age_of_an_event_is_that_of_its_latest_time() {
        let of = |fields: &str| {
            let value = format!(r#"{{"metadata":{{"creationTimestamp":"1970-01-01T01:00:00Z"}}{fields}}}"#);
            age(&Entry::new("/e", value.into(), Revision(1), Revision(1)), 10_000).as_secs()
        };
        assert_eq!(of(""), 6_400);
        assert_eq!(of(r#","lastTimestamp":"1970-01-01T02:00:00Z","eventTime":null"#), 2_800);
        assert_eq!(of(r#","series":{"lastObservedTime":"1970-01-01T02:46:39.000000Z"}"#), 1);
        assert_eq!(
            of(r#","lastTimestamp":"2999-01-01T00:00:00Z""#),
            0,
            "the future is no reason to stay longer"
        );
    }
}
