//! Follows etcd: watches, and shows every change in order (ET-30, ET-31).
//!
//! One watch covers the whole prefix and the tick key. It is opened again after every failure, at the revision after the last
//! one that was shown, so nothing is missed or shown twice. If etcd has compacted that revision, everything is read again, and
//! the difference is shown at once: the state is never half empty, and the watches of clients end instead of having a gap.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::client::Client;
use super::contents::{Contents, contents};
use super::shared::{Held, Shared, log_unreadable, number, revision};
use super::wire::{REMOVAL, WatchAction, WatchCreateRequest, WatchEvent, WatchRequest, WatchResponse};
use crate::watch::Commit;
use crate::{Event, Revision};

/// The pause before a watch is opened again.
const PAUSE: Duration = Duration::from_millis(100);
/// How often a failure that goes on is logged.
const LOGGED: Duration = Duration::from_secs(10);

/// Why a watch ended.
enum Ended {
    /// It failed, and can go on at the same revision.
    Failed(String),
    /// Its revision is compacted.
    Compacted,
}

/// Logs a failure that goes on, but not each time.
#[derive(Default)]
pub(super) struct Trouble {
    logged: Option<Instant>,
}

impl Trouble {
    pub(super) fn is_due(&mut self) -> bool {
        let is_due = self.logged.is_none_or(|logged| logged.elapsed() >= LOGGED);
        if is_due {
            self.logged = Some(Instant::now());
        }
        is_due
    }

    pub(super) fn is_over(&mut self) -> bool {
        self.logged.take().is_some()
    }
}

/// Follows etcd until the future is dropped.
pub(super) async fn follow(shared: &Shared, client: &Client) {
    let mut trouble = Trouble::default();
    loop {
        match watch(shared, client, &mut trouble).await {
            Ended::Failed(why) => {
                if trouble.is_due() {
                    tracing::warn!(error = why, "the watch of etcd ended; opening it again");
                }
                sleep(PAUSE).await;
            }
            Ended::Compacted => {
                tracing::warn!(
                    revision = shared.readers.memory.revision().0,
                    "etcd has compacted changes that this server has not seen: reading everything again"
                );
                match contents(client, &shared.keys).await {
                    Ok(contents) => replace(shared, contents),
                    Err(failure) => {
                        tracing::warn!(?failure, "etcd cannot be read");
                        sleep(PAUSE).await;
                    }
                }
            }
        }
    }
}

/// Watches from the revision after the last one that was shown.
async fn watch(shared: &Shared, client: &Client, trouble: &mut Trouble) -> Ended {
    let next = Revision(shared.readers.memory.revision().0.saturating_add(1));
    let create = WatchCreateRequest {
        key: shared.keys.tick(),
        range_end: shared.keys.end(),
        start_revision: number(next),
    };
    let request = WatchRequest { request: Some(WatchAction::Create(create)) };
    let (member, mut answers) = match client.watch(request).await {
        Ok(opened) => opened,
        Err((member, failure)) => {
            client.leave(member);
            return Ended::Failed(format!("{failure:?}"));
        }
    };
    loop {
        let answer = match answers.message().await {
            Ok(Some(answer)) => answer,
            Ok(None) => {
                client.leave(member);
                return Ended::Failed("etcd closed it".to_owned());
            }
            Err(status) => {
                client.leave(member);
                return Ended::Failed(format!("{} ({:?})", status.message(), status.code()));
            }
        };
        // That a watch was opened does not mean that it works.
        if !answer.created && !answer.canceled && trouble.is_over() {
            tracing::info!("the watch of etcd goes on");
        }
        let WatchResponse { canceled, compact_revision, cancel_reason, events, .. } = answer;
        take(shared, &events);
        if canceled {
            if compact_revision > 0 {
                return Ended::Compacted;
            }
            client.leave(member);
            return Ended::Failed(format!("etcd ended it: {cancel_reason}"));
        }
    }
}

/// Shows changes. etcd sends the changes of one revision together.
fn take(shared: &Shared, events: &[WatchEvent]) {
    let _applying = shared.applying();
    let of = |event: &WatchEvent| event.kv.as_ref().map_or(Revision(0), |kv| revision(kv.mod_revision));
    for events in events.chunk_by(|one, other| of(one) == of(other)) {
        let at = events.first().map_or(Revision(0), of);
        // A watch that was opened again must not repeat anything.
        if at <= shared.readers.memory.revision() {
            continue;
        }
        let changes: Vec<Event> = events.iter().filter_map(|event| change(shared, event, at)).collect();
        if changes.is_empty() {
            shared.readers.advance(at);
        } else {
            let size = size_after(shared, &changes);
            shared.readers.publish(&[Arc::new(Commit::new(at, changes))], size);
        }
        shared.wake();
    }
}

/// The change of a key of this store, if there is any.
fn change(shared: &Shared, event: &WatchEvent, at: Revision) -> Option<Event> {
    let kv = event.kv.as_ref()?;
    let (key, entry) = if event.kind == REMOVAL {
        let key = shared.keys.key(&kv.key)?;
        shared.unreadable().remove(&key);
        (key, None)
    } else {
        match shared.keys.read(kv) {
            Held::Entry(entry) => {
                shared.unreadable().remove(&entry.key);
                (entry.key.clone(), Some(entry))
            }
            // What was there before is gone, and what is there now grants nothing.
            Held::Unreadable(key, error) => {
                log_unreadable(&*shared.keys.layout, &key, &kv.key, &error.problem);
                shared.unreadable().insert(key.clone(), error.to_string());
                (key, None)
            }
            Held::Foreign => return None,
        }
    };
    let previous = shared.readers.memory.entry(&key);
    (previous.is_some() || entry.is_some()).then_some(Event { revision: at, previous, entry })
}

/// The size of all keys and values after these changes. In bytes.
fn size_after(shared: &Shared, changes: &[Event]) -> u64 {
    changes.iter().fold(shared.readers.memory.size(), |size, event| {
        let [added, removed] =
            [&event.entry, &event.previous].map(|entry| entry.as_ref().map_or(0, |entry| entry.size()));
        size.saturating_add(added).saturating_sub(removed)
    })
}

/// Shows the difference to what was read anew: first what is there, then what is gone.
fn replace(shared: &Shared, contents: Contents) {
    let _applying = shared.applying();
    let memory = &shared.readers.memory;
    let at = contents.revision;
    if at <= memory.revision() {
        return;
    }
    let mut there: HashSet<Box<str>> = HashSet::with_capacity(contents.entries.len());
    let mut changes = Vec::new();
    for entry in contents.entries {
        there.insert(entry.key.clone());
        let previous = memory.entry(&entry.key);
        if previous.as_ref().is_none_or(|previous| previous.modified != entry.modified) {
            changes.push(Event { revision: at, previous, entry: Some(entry) });
        }
    }
    let before = match memory.all() {
        Ok(listing) => listing.entries,
        // Nothing is shown then: what is gone would go on granting. The watch fails again, and everything is read again.
        Err(error) => {
            tracing::error!(%error, "the state in memory cannot be compared with etcd; trying again");
            return;
        }
    };
    for entry in before {
        if !there.contains(&entry.key) {
            changes.push(Event { revision: at, previous: Some(entry), entry: None });
        }
    }
    *shared.unreadable() = contents.unreadable;
    let size = size_after(shared, &changes);
    shared.readers.publish_after_gap(&Arc::new(Commit::new(at, changes)), size);
    shared.wake();
}
