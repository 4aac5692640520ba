//! Lists of revisions that memory has forgotten, or never had, read from etcd (ET-21, ET-23).
//!
//! Such lists are rare: clients that page slowly, or that ask another server for the next page. They are read in small pages,
//! few at a time, so that they never hold much of etcd's answers. Entries that memory has are shared. A list that needs many
//! others is refused: its caller asks for smaller pages, or for the newest state.
//!
//! Never changes memory.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Semaphore;

use super::client::{Client, Failure};
use super::shared::{Held, Shared, number, revision};
use super::wire::{KeyValue, RangeRequest};
use crate::{Entry, List, Listing, Revision, StoreError};

/// The most keys that are read at once.
const PAGE: usize = 100;
/// How many pages are read at the same time.
const PAGES: usize = 4;
/// The most bytes of values that memory does not have, in one list: each caller has a copy of its own.
const MOST_BYTES: u64 = 8 << 20;
/// How long a page may take.
const WITHIN: Duration = Duration::from_secs(10);

/// See the module documentation.
pub(super) struct Past {
    turns: Semaphore,
}

impl Default for Past {
    fn default() -> Self {
        Self { turns: Semaphore::new(PAGES) }
    }
}

impl Past {
    /// Lists at a revision that etcd may still have. `remaining` also counts keys whose values cannot be read, and those of other
    /// parts.
    ///
    /// # Errors
    /// [`StoreError::Compacted`] if etcd does not have it either, or for more than 8 MiB that memory does not have; the oldest
    /// revision in it is that of memory. Also the errors of etcd.
    pub(super) async fn list(
        &self,
        (shared, client): (&Shared, &Client),
        list: &List,
        (at, oldest): (Revision, Revision),
    ) -> Result<Listing, StoreError> {
        let compacted = || StoreError::Compacted { asked: at, oldest };
        // A prefix that is not one range in etcd cannot be read at once.
        let range = shared.keys.range_of(&list.prefix).ok_or_else(compacted)?;
        let resource = shared.keys.layout.resource(&list.prefix);
        let mut listing = Listing { revision: at, entries: Vec::new(), remaining: 0 };
        let Some(mut key) = start(&range.0, list) else { return Ok(listing) };
        let mut copied = 0_u64;
        loop {
            let wanted = match list.limit {
                0 => PAGE,
                limit => limit.saturating_sub(listing.entries.len()).clamp(1, PAGE),
            };
            let request = RangeRequest {
                key,
                range_end: range.1.clone(),
                limit: i64::try_from(wanted).unwrap_or(i64::MAX),
                revision: number(at),
                count_only: false,
            };
            let _turn = self.turns.acquire().await;
            let page = client.range(request, resource, WITHIN).await.map_err(|failure| match failure {
                Failure::Compacted => compacted(),
                failure => failure.into(),
            })?;
            for kv in &page.kvs {
                let Some((entry, is_copy)) = read(shared, kv) else { continue };
                if list.part.is_some() && entry.part != list.part {
                    continue;
                }
                copied = copied.saturating_add(if is_copy { entry.size() } else { 0 });
                if copied > MOST_BYTES {
                    return Err(compacted());
                }
                listing.entries.push(entry);
            }
            let Some(last) = page.kvs.last().filter(|_| page.more) else { return Ok(listing) };
            if list.limit > 0 && listing.entries.len() >= list.limit {
                let count = usize::try_from(page.count).unwrap_or(0);
                listing.remaining = count.saturating_sub(page.kvs.len());
                return Ok(listing);
            }
            key = after(&last.key);
        }
    }
}

/// The first key in etcd of a list; none if no key is left.
fn start(first: &Bytes, list: &List) -> Option<Bytes> {
    let Some(last) = &list.after else { return Some(first.clone()) };
    match last.strip_prefix(&*list.prefix) {
        Some(rest) => Some(after(&[first, rest.as_bytes()].concat())),
        None if **last < *list.prefix => Some(first.clone()),
        None => None,
    }
}

/// The first key behind this one.
fn after(key: &[u8]) -> Bytes {
    [key, &[0]].concat().into()
}

/// The entry of a value of etcd, and whether it is a copy that only this list has; none if it cannot be read, or is not served
/// (ET-12).
fn read(shared: &Shared, kv: &KeyValue) -> Option<(Arc<Entry>, bool)> {
    let modified = revision(kv.mod_revision);
    let known = shared.keys.key(&kv.key).and_then(|key| shared.readers.memory.entry_at(&key, modified));
    if let Some(known) = known {
        return Some((known, false));
    }
    match shared.keys.read(kv) {
        Held::Entry(entry) => Some((entry, true)),
        Held::Unreadable(key, error) => {
            // Logged when it was written. A client that lists must not fill the log.
            tracing::debug!(key = &*key, error = error.problem, "an old value in etcd cannot be read");
            None
        }
        Held::Foreign => None,
    }
}
