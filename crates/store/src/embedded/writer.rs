//! The writer: takes the waiting commits, decides each against the result of those before it, writes all with one flush,
//! shows them to readers, and only then answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};

use tokio::sync::oneshot;

use super::disk::Disk;
use super::quota::Quota;
use crate::memory::Memory;
use crate::readers::Readers;
use crate::watch::Commit;
use crate::write::{meets, relied_on, well_formed, with_revision};
use crate::{Amender, Committed, Entry, Event, Expect, PartOf, Revision, StoreError, Write};

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
    pub(super) readers: Readers,
    pub(super) amender: Option<Arc<dyn Amender>>,
    pub(super) part_of: Option<PartOf>,
    pub(super) quota: Quota,
}

impl Writer {
    /// Runs until the queue is closed.
    pub(super) fn run(mut self) {
        let pause = self.readers.pause();
        loop {
            match self.jobs.recv_timeout(pause) {
                Ok(first) => self.round(first),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.keep_past(),
            }
            self.readers.forget_overdue();
        }
    }

    /// Writes the history to the file, for the watches that continue after a restart.
    fn keep_past(&self) {
        if let Some(disk) = &self.disk {
            let history = self.readers.feed.history();
            disk.keep_past(history.iter().map(|commit| (commit.revision, &*commit.events)));
        }
    }

    /// Does a job and all that wait behind it.
    fn round(&mut self, first: Job) {
        let mut batch = Batch::new(&self.readers.memory, self.quota, self.part_of.clone());
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
                    commits.push((
                        reply,
                        batch.admit(writes, beyond_quota, &self.readers.memory, amender, &check),
                    ))
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
            let _ = reply.send(self.readers.compact(before));
        }
        if !rewrites.is_empty() {
            let outcome = self.disk.as_mut().map_or(Ok(()), |disk| disk.rewrite(&self.readers.memory));
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
            disk.write(&batch.changes, batch.revision, &self.readers.memory)?;
        }
        self.readers.publish(&batch.commits, batch.size);
        Ok(())
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
                let entry = Entry::new(write.key.clone(), value, created, revision);
                Arc::new(entry.in_part(self.part_of.as_ref()))
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
        self.commits.push(Arc::new(Commit::new(revision, events)));
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
        for (key, revision) in relied_on(writes) {
            let current = self.current(key, memory);
            if !meets(Expect::Modified(*revision), current.as_deref()) {
                return Err(StoreError::Conflict { key: key.clone(), current });
            }
        }
        Ok(found)
    }
}
