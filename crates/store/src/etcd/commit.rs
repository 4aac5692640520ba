//! Commits: one transaction of etcd each, with the expectations as its conditions (ET-20, ET-25).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::client::{Client, Failure, NO_RESOURCE};
use super::leases::Leases;
use super::shared::{Held, Shared, number, revision};
use super::wire::{
    Compare, DeleteRangeRequest, Equals, KeyValue, PutRequest, RangeRequest, Request, RequestOp, Response,
    ResponseOp, Target, TxnRequest, TxnResponse,
};
use crate::write::{meets, relied_on, well_formed};
use crate::{Amender, Committed, Entry, Expect, Revision, StoreError, Write};

/// How long a transaction may take.
const WITHIN: Duration = Duration::from_secs(30);
/// The number of attempts when something changes that the amender has read.
const ATTEMPTS: usize = 100;
/// The most writes of a transaction, by etcd's default `--max-txn-ops`.
const MOST_OPERATIONS: usize = 128;
/// The most writes of a commit: the amender may add some.
pub(super) const MOST_WRITES: usize = 120;

/// What commits need.
pub(super) struct Committer {
    pub(super) shared: Arc<Shared>,
    pub(super) client: Arc<Client>,
    pub(super) leases: Leases,
    pub(super) amender: Option<Arc<dyn Amender>>,
}

/// The condition that a key was last written at a revision; at 0 for a missing one.
pub(super) fn condition(key: Bytes, modified: Revision) -> Compare {
    Compare { target: Target::Mod.into(), key, equals: Some(Equals::ModRevision(number(modified))) }
}

impl Committer {
    /// See [`crate::Store::commit`].
    pub(super) async fn commit(&self, writes: Vec<Write>) -> Result<Committed, StoreError> {
        well_formed(&writes)?;
        if writes.is_empty() {
            return Ok(Committed { revision: self.shared.readers.memory.revision(), entries: Vec::new() });
        }
        let resource =
            writes.first().map_or(NO_RESOURCE, |write| self.shared.keys.layout.resource(&write.key));
        for _ in 0..ATTEMPTS {
            let (further, read) = self.amended(&writes);
            let all: Vec<&Write> = writes.iter().chain(&further).collect();
            let relied_on = relied_on(&writes);
            let count = all.len().saturating_add(relied_on.len());
            if count > MOST_OPERATIONS {
                return Err(StoreError::Refused(format!(
                    "a commit of {count} writes, and of what they rely on: a transaction of etcd has at most \
                     {MOST_OPERATIONS}"
                )));
            }
            let (mut request, lease) = self.request(&all, &read).await?;
            for (key, revision) in &relied_on {
                let key = Bytes::from(self.shared.keys.of(key)?);
                // In etcd, 0 stands for a missing key, on which nobody can rely.
                let revision = if *revision == Revision(0) { Revision(u64::MAX) } else { *revision };
                request.compare.push(condition(key.clone(), revision));
                request.failure.push(RequestOp { request: Some(Request::Range(RangeRequest::of(key))) });
            }
            let answer = match self.client.transaction(request, resource, WITHIN).await {
                Ok(answer) => answer,
                Err(Failure::Refused(why)) if lease != 0 && why.contains("lease not found") => {
                    self.leases.forget(lease).await;
                    continue;
                }
                Err(failure) => return Err(failure.into()),
            };
            let at = revision(answer.header.as_ref().map_or(0, |header| header.revision));
            // What was decided on here is what readers see, before anybody learns of it.
            self.shared.reached(at).await?;
            if answer.succeeded {
                return self.committed(&writes, answer, at).await;
            }
            let others = answer.responses.iter().skip(all.len());
            let others = relied_on.iter().zip(others).map(|((key, revision), op)| (key, *revision, op));
            let conflict = self.conflict(&writes, &answer).or_else(|| self.is_changed(others));
            if let Some(conflict) = conflict {
                return Err(conflict);
            }
        }
        Err(StoreError::Broken("a commit found something new at every attempt".to_owned()))
    }

    /// See [`crate::Store::remove_unreadable`].
    pub(super) async fn remove_unreadable(&self, key: &str) -> Result<bool, StoreError> {
        let etcd_key = Bytes::from(self.shared.keys.of(key)?);
        let resource = self.shared.keys.layout.resource(key);
        for _ in 0..ATTEMPTS {
            let found = self.client.range(RangeRequest::of(etcd_key.clone()), resource, WITHIN).await?;
            let Some(kv) = found.kvs.first() else { return Ok(false) };
            let Held::Unreadable(..) = self.shared.keys.read(kv) else { return Ok(false) };
            let remove = DeleteRangeRequest { key: etcd_key.clone(), prev_kv: false };
            let request = TxnRequest {
                // What was written meanwhile can perhaps be read.
                compare: vec![condition(etcd_key.clone(), revision(kv.mod_revision))],
                success: vec![RequestOp { request: Some(Request::DeleteRange(remove)) }],
                ..TxnRequest::default()
            };
            let answer = self.client.transaction(request, resource, WITHIN).await?;
            self.shared.reached(revision(answer.header.as_ref().map_or(0, |header| header.revision))).await?;
            if answer.succeeded {
                return Ok(true);
            }
        }
        Err(StoreError::Broken("a value that cannot be read was written anew at every attempt".to_owned()))
    }

    /// The amender's writes, and the revision of each key that it has read; 0 for a missing one.
    fn amended(&self, writes: &[Write]) -> (Vec<Write>, BTreeMap<Box<str>, Revision>) {
        let Some(amender) = &self.amender else { return Default::default() };
        let read = RefCell::new(BTreeMap::new());
        let further = amender.amend(writes, &|key| {
            let entry = self.shared.readers.memory.entry(key);
            let modified = entry.as_ref().map_or(Revision(0), |entry| entry.modified);
            read.borrow_mut().insert(key.into(), modified);
            entry
        });
        // Also if it adds nothing: with what is there now it might.
        (further, read.into_inner())
    }

    /// The transaction, and the lease in it; 0 for none.
    async fn request(
        &self,
        writes: &[&Write],
        read: &BTreeMap<Box<str>, Revision>,
    ) -> Result<(TxnRequest, i64), StoreError> {
        let keys = &self.shared.keys;
        let mut request = TxnRequest::default();
        let mut lease = 0;
        for write in writes {
            let etcd_key = keys.of(&write.key)?;
            let key = Bytes::from(etcd_key.clone());
            match write.expect {
                Expect::Absent => request.compare.push(condition(key.clone(), Revision(0))),
                Expect::Modified(modified) => request.compare.push(condition(key.clone(), modified)),
                Expect::Anything => {}
            }
            let get = RangeRequest::of(key.clone());
            request.failure.push(RequestOp { request: Some(Request::Range(get)) });
            let request_op = match &write.value {
                Some(value) => {
                    let sealed = keys.layout.seal(&write.key, &etcd_key, value);
                    let value = sealed.map_err(|error| StoreError::Broken(error.to_string()))?.into();
                    let lease = match keys.layout.lifetime(&write.key) {
                        Some(lifetime) => {
                            lease = self.leases.of(&self.client, lifetime).await?;
                            lease
                        }
                        None => 0,
                    };
                    Request::Put(PutRequest { key, value, lease, ..PutRequest::default() })
                }
                None => Request::DeleteRange(DeleteRangeRequest { key, prev_kv: true }),
            };
            request.success.push(RequestOp { request: Some(request_op) });
        }
        for (key, modified) in read {
            if writes.iter().any(|write| write.key == *key && write.expect != Expect::Anything) {
                continue;
            }
            request.compare.push(condition(keys.of(key)?.into(), *modified));
        }
        Ok((request, lease))
    }

    /// The result of a transaction that was made at a revision.
    async fn committed(
        &self,
        writes: &[Write],
        answer: TxnResponse,
        at: Revision,
    ) -> Result<Committed, StoreError> {
        let mut entries = Vec::with_capacity(writes.len());
        for (write, op) in writes.iter().zip(answer.responses) {
            entries.push(match op.response {
                Some(Response::DeleteRange(removed)) => {
                    let kv = removed.prev_kvs.first();
                    kv.and_then(|kv| match self.shared.keys.read(kv) {
                        Held::Entry(entry) => Some(entry),
                        Held::Unreadable(..) | Held::Foreign => None,
                    })
                }
                _ => Some(self.written(&write.key, at).await?),
            });
        }
        Ok(Committed { revision: at, entries })
    }

    /// The entry of a key that was written at a revision.
    async fn written(&self, key: &str, at: Revision) -> Result<Arc<Entry>, StoreError> {
        if let Some(entry) = self.shared.readers.memory.entry_at(key, at) {
            return Ok(entry);
        }
        // It was replaced already, and the history here is short.
        let etcd_key = self.shared.keys.of(key)?;
        let request = RangeRequest { revision: number(at), ..RangeRequest::of(etcd_key) };
        let found = self.client.range(request, self.shared.keys.layout.resource(key), WITHIN).await;
        let kv = found.ok().and_then(|found| found.kvs.into_iter().next());
        match kv.as_ref().map(|kv| self.shared.keys.read(kv)) {
            Some(Held::Entry(entry)) => Ok(entry),
            // Any other error would say that nothing was written.
            _ => Err(StoreError::Unknown(format!(
                "the key {key:?} was written at revision {}, but cannot be read",
                at.0
            ))),
        }
    }

    /// The first key that a writer relied on and that has another value now.
    fn is_changed<'a>(
        &self,
        mut relied_on: impl Iterator<Item = (&'a Box<str>, Revision, &'a ResponseOp)>,
    ) -> Option<StoreError> {
        relied_on.find_map(|(key, modified, op)| {
            let kv = found(op);
            let holds = kv.is_some_and(|kv| revision(kv.mod_revision) == modified);
            (!holds).then(|| StoreError::Conflict { key: key.clone(), current: self.entry(kv) })
        })
    }

    /// The entry of what was found under a key, if it can be read.
    fn entry(&self, found: Option<&KeyValue>) -> Option<Arc<Entry>> {
        match self.shared.keys.read(found?) {
            Held::Entry(entry) => Some(entry),
            Held::Unreadable(..) | Held::Foreign => None,
        }
    }

    /// The first write whose expectation does not hold; none if only something that the amender has read has changed.
    fn conflict(&self, writes: &[Write], answer: &TxnResponse) -> Option<StoreError> {
        writes.iter().zip(&answer.responses).find_map(|(write, op)| {
            let kv = found(op);
            let current = self.entry(kv);
            let is_unreadable = kv.is_some() && current.is_none();
            let holds =
                meets(write.expect, current.as_deref()) && !(is_unreadable && write.expect == Expect::Absent);
            (!holds).then(|| StoreError::Conflict { key: write.key.clone(), current })
        })
    }
}

/// What a read of one key has found.
fn found(op: &ResponseOp) -> Option<&KeyValue> {
    match &op.response {
        Some(Response::Range(range)) => range.kvs.first(),
        _ => None,
    }
}
