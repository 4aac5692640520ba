//! The writer: takes the waiting commits, decides each against the result of those before it, writes all with one flush,
//! shows them to readers, and only then answers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::oneshot;

use super::disk::Disk;
use super::memory::Memory;
use super::quota::Quota;
use crate::history::History;
use crate::watch::{Commit, Feed, Topic};
use crate::{Amender, Committed, Entry, Event, Expect, Observer, PartOf, Revision, StoreError, Value, Write};

/// The most commits that share a flush. All of them wait for the last.
const MOST_COMMITS: usize = 1_024;

/// A batch is complete when the values of its commits have this many bytes.
const MOST_BYTES: usize = 16 << 20;

/// Where to send an answer.
pub(super) type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

/// A job for the writer.
#[derive(Debug)]
pub(super) enum Job {
    Commit { writes: Vec<Write>, beyond_quota: bool, reply: Reply<Committed> },
    Compact { before: Revision, reply: Reply<()> },
    Rewrite { reply: Reply<()> },
}

impl Job {
    fn bytes(&self) -> usize {
        let Self::Commit { writes, .. } = self else { return 0 };
        writes.iter().filter_map(|write| write.value.as_ref()).map(|value| value.bytes.len()).sum()
    }
}

/// The state of the writer's thread.
pub(super) struct Writer {
    pub(super) jobs: Receiver<Job>,
    /// `None` for a store in memory alone.
    pub(super) disk: Option<Disk>,
    pub(super) memory: Arc<Memory>,
    pub(super) feed: Arc<Feed>,
    pub(super) history: History,
    pub(super) observers: Vec<Arc<dyn Observer>>,
    pub(super) amender: Option<Arc<dyn Amender>>,
    pub(super) part_of: Option<PartOf>,
    pub(super) quota: Quota,
    pub(super) grown: Sender<Vec<Arc<Topic>>>,
}

impl Drop for Writer {
    /// Ends the watches, also when the thread panics: otherwise they would wait forever.
    fn drop(&mut self) {
        self.feed.close();
    }
}

impl Writer {
    /// Runs until the queue is closed.
    pub(super) fn run(mut self) {
        let pause = (self.history.age / 4).clamp(Duration::from_millis(10), Duration::from_secs(10));
        loop {
            match self.jobs.recv_timeout(pause) {
                Ok(first) => self.round(first),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.keep_past(),
            }
            if let Some(floor) = self.feed.overdue(&self.history, Instant::now()) {
                self.forget(floor);
            }
        }
    }

    /// Writes the history to the file, for the watches that continue after a restart.
    fn keep_past(&self) {
        if let Some(disk) = &self.disk {
            let history = self.feed.history();
            disk.keep_past(history.iter().map(|commit| (commit.revision, &*commit.events)));
        }
    }

    /// Does a job and all that wait behind it.
    fn round(&mut self, first: Job) {
        let mut batch = Batch::new(&self.memory, self.quota, self.part_of.clone());
        let mut commits = Vec::new();
        let mut compactions = Vec::new();
        let mut rewrites = Vec::new();
        let mut bytes = 0;
        let mut next = Some(first);
        while let Some(job) = next {
            bytes += job.bytes();
            match job {
                Job::Commit { writes, beyond_quota, reply } => {
                    let amender = self.amender.as_deref();
                    let check = |key: &str| self.disk.as_ref().map_or(Ok(()), |disk| disk.check(key));
                    commits.push((reply, batch.admit(writes, beyond_quota, &self.memory, amender, &check)))
                }
                Job::Compact { before, reply } => compactions.push((before, reply)),
                Job::Rewrite { reply } => rewrites.push(reply),
            }
            let full = commits.len() >= MOST_COMMITS || bytes >= MOST_BYTES;
            next = if full { None } else { self.jobs.try_recv().ok() };
        }
        let failure = self.carry_out(&batch).err();
        for (reply, outcome) in commits {
            // A conflict may also have been with a commit that has just failed.
            let refused = matches!(outcome, Err(StoreError::Refused(_) | StoreError::Full { .. }));
            let answer = match &failure {
                Some(failure) if !refused => Err(failure.clone()),
                _ => outcome,
            };
            // A caller that no longer waits does not need the answer.
            let _ = reply.send(answer);
        }
        for (before, reply) in compactions {
            let _ = reply.send(self.compact(before));
        }
        if !rewrites.is_empty() {
            let outcome = self.disk.as_mut().map_or(Ok(()), |disk| disk.rewrite(&self.memory));
            for reply in rewrites {
                let _ = reply.send(outcome.clone());
            }
        }
    }

    /// Writes a batch, shows it to readers, and calls the observers.
    fn carry_out(&mut self, batch: &Batch) -> Result<(), StoreError> {
        if batch.commits.is_empty() {
            return Ok(());
        }
        if let Some(disk) = &mut self.disk {
            disk.write(&batch.changes, batch.revision, &self.memory)?;
        }
        self.memory.publish(&batch.commits, batch.size);
        for commit in &batch.commits {
            for observer in &self.observers {
                observer.committed(&commit.events);
            }
        }
        let grown = self.feed.push(&batch.commits);
        if !grown.is_empty() {
            // The receiver lives as long as the store.
            let _ = self.grown.send(grown);
        }
        Ok(())
    }

    fn compact(&self, before: Revision) -> Result<(), StoreError> {
        let newest = self.memory.revision();
        if before > newest {
            return Err(StoreError::Future { asked: before, newest });
        }
        self.forget(before);
        Ok(())
    }

    fn forget(&self, floor: Revision) {
        self.memory.raise_floor(floor);
        let forgotten = self.feed.forget(floor);
        self.memory.prune(&forgotten);
    }
}

/// The commits that share a flush, and their result.
struct Batch {
    /// The last revision used.
    revision: Revision,
    /// The final value of each changed key.
    changes: BTreeMap<Box<str>, Option<Arc<Entry>>>,
    commits: Vec<Arc<Commit>>,
    part_of: Option<PartOf>,
    quota: Quota,
    /// The size of all keys and values after the last commit. In bytes.
    size: u64,
}

impl Batch {
    fn new(memory: &Memory, quota: Quota, part_of: Option<PartOf>) -> Self {
        let (revision, size) = (memory.revision(), memory.size());
        Self { revision, changes: BTreeMap::new(), commits: Vec::new(), part_of, quota, size }
    }

    fn current(&self, key: &str, memory: &Memory) -> Option<Arc<Entry>> {
        self.changes.get(key).map_or_else(|| memory.entry(key), Clone::clone)
    }

    /// Adds a commit, if its expectations hold and its keys can be written.
    fn admit(
        &mut self,
        mut writes: Vec<Write>,
        beyond_quota: bool,
        memory: &Memory,
        amender: Option<&dyn Amender>,
        check: &dyn Fn(&str) -> Result<(), StoreError>,
    ) -> Result<Committed, StoreError> {
        well_formed(&writes)?;
        let mut found = self.found(&writes, memory)?;
        let asked = writes.len();
        let further = amender.map(|amender| amender.amend(&writes, &|key| self.current(key, memory)));
        if let Some(further) = further.filter(|further| !further.is_empty()) {
            writes.extend(further);
            well_formed(&writes)?;
            found = self.found(&writes, memory)?;
        }
        let changed = |(write, found): (&Write, &Option<_>)| write.value.is_some() || found.is_some();
        if !writes.iter().zip(&found).any(changed) {
            let entries = writes.iter().take(asked).map(|_| None).collect();
            return Ok(Committed { revision: self.revision, entries });
        }
        writes.iter().filter(|write| write.value.is_some()).try_for_each(|write| check(&write.key))?;
        let revision = Revision(self.revision.0 + 1);
        let mut events = Vec::with_capacity(writes.len());
        let mut entries = Vec::with_capacity(writes.len());
        let digits = revision.0.to_string();
        for (write, previous) in writes.into_iter().zip(found) {
            let entry = write.value.map(|value| {
                let created = previous.as_ref().map_or(revision, |previous| previous.created);
                let value = with_revision(&value, &digits);
                Arc::new(Entry { key: write.key.clone(), value, created, modified: revision })
            });
            entries.push(entry.clone().or_else(|| previous.clone()));
            if entry.is_some() || previous.is_some() {
                events.push(Event { revision, previous, entry });
            }
        }
        self.size = self.quota.after(self.size, &events, beyond_quota).inspect_err(|_| memory.refuse())?;
        self.revision = revision;
        for event in &events {
            self.changes.insert(event.key().into(), event.entry.clone());
        }
        self.commits.push(Arc::new(Commit::new(revision, events, self.part_of.as_ref())));
        // The answer does not include the amender's writes.
        entries.truncate(asked);
        Ok(Committed { revision, entries })
    }

    /// The current entry of each write's key.
    fn found(&self, writes: &[Write], memory: &Memory) -> Result<Vec<Option<Arc<Entry>>>, StoreError> {
        let mut found = Vec::with_capacity(writes.len());
        for write in writes {
            let current = self.current(&write.key, memory);
            if !meets(write.expect, current.as_deref()) {
                return Err(StoreError::Conflict { key: write.key.clone(), current });
            }
            found.push(current);
        }
        Ok(found)
    }
}

/// Refuses an invalid commit.
fn well_formed(writes: &[Write]) -> Result<(), StoreError> {
    let mut keys = BTreeSet::new();
    for write in writes {
        if writes.len() > 1 && !keys.insert(&*write.key) {
            return Err(StoreError::Refused(format!(
                "the key {:?} is written twice in one commit",
                write.key
            )));
        }
        let Some(Value { bytes, revision_at: Some(at) }) = &write.value else { continue };
        if *at > bytes.len() {
            return Err(StoreError::Refused(format!(
                "the revision of the key {:?} cannot be written in at byte {at} of {}",
                write.key,
                bytes.len()
            )));
        }
    }
    Ok(())
}

/// Whether the expectation of a write holds.
fn meets(expect: Expect, current: Option<&Entry>) -> bool {
    match expect {
        Expect::Absent => current.is_none(),
        Expect::Anything => true,
        Expect::Modified(revision) => current.is_some_and(|current| current.modified == revision),
    }
}

/// A value with the digits of its revision, copied: the writer's bytes may be part of a larger buffer.
fn with_revision(value: &Value, digits: &str) -> Bytes {
    let (before, after) = value.revision_at.and_then(|at| value.bytes.split_at_checked(at)).unzip();
    let (Some(before), Some(after)) = (before, after) else { return Bytes::copy_from_slice(&value.bytes) };
    Bytes::from([before, digits.as_bytes(), after].concat())
}
