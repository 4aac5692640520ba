//! Reads everything below the prefix, at one revision: at the start, and again after a gap (ET-31).
//!
//! Never shows anything: whoever asked for the contents does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesOrdered;
use tokio::task::spawn_blocking;

use super::client::{Client, Failure, NO_RESOURCE};
use super::shared::{Held, Keys, log_unreadable, number, revision};
use super::wire::{KeyValue, RangeRequest};
use crate::{Entry, Revision};

/// The number of keys that are read at once, at first and at least.
const FEWEST: i64 = 1_000;
/// The number of keys that are read at once, at most. For each page etcd visits all keys from there to the end of the prefix,
/// so that small pages of a large prefix cost more than the values.
const MOST: i64 = 10_000;
/// The size of a page that should not be exceeded. In bytes.
const LARGE: usize = 16 << 20;
/// How long a page may take.
const WITHIN: Duration = Duration::from_secs(30);
/// The pages whose values are read at the same time, while etcd is asked for the next one.
const AT_ONCE: usize = 4;

/// Everything below the prefix, at one revision.
#[derive(Default)]
pub(super) struct Contents {
    pub(super) revision: Revision,
    /// In the order of their keys in etcd.
    pub(super) entries: Vec<Arc<Entry>>,
    /// The keys whose values cannot be read, and why.
    pub(super) unreadable: BTreeMap<Box<str>, String>,
}

/// Reads everything below the prefix.
///
/// # Errors
/// See [`Failure`]; [`Failure::Compacted`] if reading took too long, and must begin again.
pub(super) async fn contents(client: &Client, keys: &Keys) -> Result<Contents, Failure> {
    let mut contents = Contents::default();
    let mut pages = FuturesOrdered::new();
    let (mut key, range_end) = keys.range();
    let mut limit = FEWEST;
    loop {
        let request = RangeRequest {
            key: key.clone(),
            range_end: range_end.clone(),
            limit,
            revision: number(contents.revision),
            count_only: false,
        };
        let page = match client.range(request, NO_RESOURCE, WITHIN).await {
            Ok(page) => page,
            // An answer may be too large to be taken.
            Err(Failure::Refused(_) | Failure::TooLarge(_)) if limit > FEWEST => {
                limit = FEWEST;
                continue;
            }
            Err(failure) => return Err(failure),
        };
        if contents.revision == Revision(0) {
            contents.revision = revision(page.header.map_or(0, |header| header.revision));
        }
        limit = next_limit(limit, page.kvs.iter().map(|kv| kv.value.len()).sum());
        // The next key after the last one.
        let next = page.kvs.last().filter(|_| page.more).map(|last| [&last.key[..], &[0]].concat());
        let keys = keys.clone();
        pages.push_back(spawn_blocking(move || read(&keys, &page.kvs)));
        while (next.is_none() || pages.len() >= AT_ONCE)
            && let Some(page) = pages.next().await
        {
            let page = page.map_err(|error| Failure::Unknown(format!("a page was not read: {error}")))?;
            contents.entries.extend(page.entries);
            contents.unreadable.extend(page.unreadable);
        }
        match next {
            Some(next) => key = Bytes::from(next),
            None => return Ok(contents),
        }
    }
}

/// Reads the values of a page.
fn read(keys: &Keys, page: &[KeyValue]) -> Contents {
    let mut contents = Contents::default();
    for kv in page {
        match keys.read(kv) {
            Held::Entry(entry) => contents.entries.push(entry),
            Held::Unreadable(key, error) => {
                log_unreadable(&*keys.layout, &key, &kv.key, &error.problem);
                contents.unreadable.insert(key, error.to_string());
            }
            Held::Foreign => {}
        }
    }
    contents
}

/// The number of keys to read after a page with this limit had this size, in bytes.
fn next_limit(limit: i64, size: usize) -> i64 {
    let next = match size {
        size if size > LARGE => limit / 2,
        size if size > LARGE / 2 => limit,
        _ => limit.saturating_mul(2),
    };
    next.clamp(FEWEST, MOST)
}
