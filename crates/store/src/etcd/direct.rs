//! etcd without a copy in memory: pages of keys at one revision, and writes on the condition of what was read (ET-60, ET-61).
//!
//! Reading never writes anything: no tick, no lease, no compaction. Never decides what a value means: it is handed out as it
//! lies in etcd.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::client::{Client, Failure, NO_RESOURCE};
use super::commit::{MOST_WRITES, condition};
use super::leases::Leases;
use super::options::Options;
use super::shared::{Keys, number, revision};
use super::wire::{KeyValue, PutRequest, RangeRequest, Request, RequestOp, TxnRequest};
use crate::{Revision, StoreError, Value};

/// The number of keys that are read at once.
const PAGE: i64 = 500;
/// How long a call may take with all its attempts.
const WITHIN: Duration = Duration::from_secs(30);
/// How long etcd has to answer the first question.
const FIRST: Duration = Duration::from_secs(10);

/// Access to the keys below the prefix. See the module.
pub struct Direct {
    pub(super) client: Arc<Client>,
    pub(super) keys: Keys,
    leases: Leases,
}

impl std::fmt::Debug for Direct {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Direct").field("prefix", &self.keys.prefix).finish_non_exhaustive()
    }
}

/// A range of keys in etcd, or what is left of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    pub(super) first: Bytes,
    /// The first key behind it.
    pub(super) end: Bytes,
}

/// A key with its value, as they lie in etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    pub(super) etcd_key: Bytes,
    /// The key of the store; none for what the layout has no place for.
    pub key: Option<Box<str>>,
    /// The value in the form that [`super::Layout::open`] reads.
    pub value: Bytes,
    /// The revision that wrote the value.
    pub modified: Revision,
}

impl Sealed {
    pub(super) fn of(keys: &Keys, kv: KeyValue) -> Self {
        let key = keys.key(&kv.key);
        Self { key, etcd_key: kv.key, value: kv.value, modified: revision(kv.mod_revision) }
    }

    /// The whole key in etcd. Keys of other programs need not be text.
    #[must_use]
    pub fn etcd_key(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.etcd_key)
    }
}

/// A part of a range.
#[derive(Clone, Debug)]
pub struct Page {
    /// In the order of their keys in etcd.
    pub found: Vec<Sealed>,
    /// What is left of the range.
    pub rest: Option<Range>,
}

/// A value to write.
#[derive(Clone, Debug)]
pub struct Change {
    /// The key of the store.
    pub key: Box<str>,
    /// The new value.
    pub value: Value,
    /// The revision of the value that is replaced, whose lease is kept; none for a key that must not exist.
    pub replaces: Option<Revision>,
}

impl Options {
    /// Prepares direct access in the place of a store. Connections are made by the first call. Must be called in a runtime of
    /// tokio.
    ///
    /// # Errors
    /// [`StoreError::Refused`] for addresses and certificates that cannot be used.
    pub fn direct(self) -> Result<Direct, StoreError> {
        let client = Arc::new(Client::new(&self.servers, self.tls, self.requests)?);
        let keys = Keys { prefix: self.prefix, layout: self.layout, part_of: self.part_of };
        Ok(Direct { client, keys, leases: Leases::default() })
    }
}

impl Direct {
    /// The most changes of one [`Direct::write`].
    pub const MOST_CHANGES: usize = MOST_WRITES;

    /// All keys below the prefix.
    #[must_use]
    pub fn everything(&self) -> Range {
        let (first, end) = self.keys.range();
        Range { first, end }
    }

    /// The keys below a path, such as `pods` or `services/specs`.
    #[must_use]
    pub fn below(&self, path: &str) -> Range {
        let prefix = &self.keys.prefix;
        // `0` comes after `/`.
        Range { first: format!("{prefix}/{path}/").into(), end: format!("{prefix}/{path}0").into() }
    }

    /// The key in etcd of a key of the store.
    ///
    /// # Errors
    /// [`StoreError::Refused`] if there is none.
    pub fn etcd_key(&self, key: &str) -> Result<String, StoreError> {
        self.keys.of(key)
    }

    /// The newest revision of etcd, and how many keys the range has there.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if etcd does not answer; [`StoreError::Broken`] if it refuses.
    pub async fn newest(&self, range: &Range) -> Result<(Revision, u64), StoreError> {
        let request = RangeRequest { count_only: true, ..asked(range) };
        let answer = self.client.range(request, NO_RESOURCE, FIRST).await?;
        let at = revision(answer.header.map_or(0, |header| header.revision));
        Ok((at, u64::try_from(answer.count).unwrap_or(0)))
    }

    /// The next keys of a range, at a revision.
    ///
    /// # Errors
    /// As [`Direct::newest`]; also [`StoreError::Unavailable`] if etcd has compacted the revision.
    pub async fn page(&self, range: &Range, at: Revision) -> Result<Page, StoreError> {
        let request = RangeRequest { limit: PAGE, revision: number(at), ..asked(range) };
        let answer =
            self.client.range(request, NO_RESOURCE, WITHIN).await.map_err(|failure| match failure {
                Failure::Compacted => StoreError::Unavailable(format!(
                    "etcd has compacted revision {} while it was being read: run the command again",
                    at.0
                )),
                failure => failure.into(),
            })?;
        let last = answer.kvs.last().filter(|_| answer.more);
        let rest = last.map(|last| Range {
            // The next key after it.
            first: Bytes::from([&last.key[..], &[0]].concat()),
            end: range.end.clone(),
        });
        Ok(Page { found: answer.kvs.into_iter().map(|kv| Sealed::of(&self.keys, kv)).collect(), rest })
    }

    /// The newest value of a key of the store.
    ///
    /// # Errors
    /// As [`Direct::newest`].
    pub async fn get(&self, key: &str) -> Result<Option<Sealed>, StoreError> {
        let request = RangeRequest::of(self.keys.of(key)?);
        let answer = self.client.range(request, NO_RESOURCE, WITHIN).await?;
        Ok(answer.kvs.into_iter().next().map(|kv| Sealed::of(&self.keys, kv)))
    }

    /// Writes all or nothing, at most [`Direct::MOST_CHANGES`]. Returns false if a condition did not hold. This can also mean
    /// that the changes have been made, and the answer to that was lost: read the keys again.
    ///
    /// # Errors
    /// [`StoreError::Refused`] for a key that has no place; [`StoreError::Broken`] for a value that cannot be converted;
    /// otherwise as [`Direct::newest`], and [`StoreError::NoSpace`]. The changes may then have been made or not.
    pub async fn write(&self, changes: &[Change]) -> Result<bool, StoreError> {
        let mut request = TxnRequest::default();
        for change in changes {
            let etcd_key = self.keys.of(&change.key)?;
            let layout = &self.keys.layout;
            let sealed = layout.seal(&change.key, &etcd_key, &change.value);
            let value = sealed.map_err(|error| StoreError::Broken(error.to_string()))?.into();
            let key = Bytes::from(etcd_key);
            request.compare.push(condition(key.clone(), change.replaces.unwrap_or_default()));
            let lease = match layout.lifetime(&change.key) {
                Some(lifetime) if change.replaces.is_none() => self.leases.of(&self.client, lifetime).await?,
                _ => 0,
            };
            let ignore_lease = change.replaces.is_some();
            let put = PutRequest { key, value, lease, ignore_lease, ..PutRequest::default() };
            request.success.push(RequestOp { request: Some(Request::Put(put)) });
        }
        Ok(self.client.repeatable(request, WITHIN).await?.succeeded)
    }
}

fn asked(range: &Range) -> RangeRequest {
    RangeRequest { key: range.first.clone(), range_end: range.end.clone(), ..RangeRequest::default() }
}
