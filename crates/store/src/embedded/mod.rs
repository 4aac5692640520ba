//! A store in this process and one file: the newest state and a window of history in memory, and the newest state in a file
//! of the `redb` format.
//!
//! One thread writes. It takes all waiting commits, decides them in order, writes their result in one disk transaction with
//! one flush, and only then shows the commits to readers, calls the observers, passes them to the watches, and answers.
//! Readers never wait for the disk. The history is added to the file when the store is closed, so that watches continue after
//! a restart; after a crash all revisions before the newest are compacted.
//!
//! The file `NAME` has a lock file `NAME.lock`, which is locked while the store is open, so that two processes never write.
//! Only their owner can read them.
//!
//! # When the disk fails
//! The commits of that batch fail with [`StoreError::Broken`] and are not stored. The next commit opens the file again and
//! continues if it equals the state in memory. After a failed flush the contents of the disk are unknown, so a new file is
//! written from memory and replaces the old one.
//!
//! # Encryption
//! A [`Transformer`] can encrypt the values in the file and in its copies. Values in memory are never encrypted. If a value in
//! the file was written with another configuration, opening the store rewrites the file, because unused pages would keep the
//! old values; [`Embedded::rewrite`] does the same in an open store.
//!
//! # Backup and restore
//! [`Embedded::backup`] writes a copy at one revision while the store is in use. The copy is a store: to restore it, stop the
//! process that has the store open, replace the file with the copy, and start the process again. Revisions continue from
//! that of the copy, so clients that saw later ones must be restarted as well.
//!
//! # Without a store over it
//! [`Reader`] reads a file in pages, [`NewFile`] writes one; both need the lock, so no other process uses the file meanwhile.

mod backend;
mod disk;
mod files;
mod lock;
mod new_file;
mod options;
mod past;
mod problem;
mod quota;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use tokio::sync::oneshot;

pub use self::new_file::NewFile;
pub use self::options::Options;
pub use self::reader::{Reader, Record};
pub use crate::history::History;

use self::disk::{Contents, Disk};
use self::writer::{Job, Reply, Writer};
use crate::memory::{FIRST, Memory};
use crate::readers::{Readers, spawn, waker};
use crate::transform::Plain;
use crate::watch::{Commit, Feed, Subscription};
use crate::{Committed, Entry, List, Listing, Revision, Store, StoreError, Transformer, Write};

/// A store in this process.
pub struct Embedded {
    memory: Arc<Memory>,
    feed: Arc<Feed>,
    /// For backups.
    transformer: Arc<dyn Transformer>,
    /// The queue of commits. `None` once the store is being closed.
    jobs: Option<Sender<Job>>,
    writer: Option<JoinHandle<()>>,
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embedded").field("revision", &self.memory.revision()).finish_non_exhaustive()
    }
}

impl Options {
    /// Opens the store. Blocks while the file is read and checked.
    ///
    /// # Errors
    /// [`StoreError::Broken`], with what is wrong with the file and what to do: another process uses it, it is damaged, it is
    /// not a store, or it cannot be read or created.
    pub fn open(self) -> Result<Embedded, StoreError> {
        let transformer = self.transformer.unwrap_or_else(|| Arc::new(Plain));
        let (disk, contents) = match &self.path {
            None => (None, Contents { entries: Vec::new(), revision: FIRST, past: Vec::new() }),
            Some(path) => {
                let (disk, contents) = Disk::open(
                    path,
                    Arc::clone(&transformer),
                    self.part_of.as_ref(),
                    #[cfg(test)]
                    self.faults.clone(),
                )?;
                (Some(disk), contents)
            }
        };
        let Contents { entries, revision, past } = contents;
        let commit = |(revision, events)| Arc::new(Commit::new(revision, events));
        let past: Vec<Arc<Commit>> = past.into_iter().map(commit).collect();
        let floor = match past.first() {
            Some(oldest) => Revision(oldest.revision.0.saturating_sub(1)),
            // A new store has its whole history.
            None if revision == FIRST => Revision(0),
            None => revision,
        };
        let mut memory = Memory::new(entries, revision, floor);
        memory.remember(&past);
        let memory = Arc::new(memory);
        let feed = Arc::new(Feed::new(revision, floor, past));
        let (jobs, waiting) = channel();
        let readers = Readers {
            memory: Arc::clone(&memory),
            feed: Arc::clone(&feed),
            history: self.history,
            observers: self.observers,
            grown: waker()?,
        };
        let Options { amender, part_of, quota, .. } = self;
        let writer = Writer { jobs: waiting, disk, readers, amender, part_of, quota };
        let writer = spawn("store-writer", move || writer.run())?;
        Ok(Embedded { memory, feed, transformer, jobs: Some(jobs), writer: Some(writer) })
    }
}

impl Embedded {
    /// Sends a job to the writer, and waits for its answer.
    async fn ask<T>(&self, job: impl FnOnce(Reply<T>) -> Job) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let stopped = || StoreError::Broken("the store has stopped writing: restart the process".to_owned());
        self.jobs.as_ref().ok_or_else(stopped)?.send(job(reply)).map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }

    /// The size of all keys and their newest values. In bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.memory.size()
    }

    /// The number of commits that were refused because the store was full, since it was opened.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.memory.refused()
    }

    /// Writes the file anew, so that all values in it have the form that the [`Transformer`] gives them now, and no unused page
    /// keeps an old one (ET-51). Commits wait meanwhile.
    ///
    /// # Errors
    /// [`StoreError::Broken`] if the file cannot be written; the old one stays in use.
    pub async fn rewrite(&self) -> Result<(), StoreError> {
        self.ask(|reply| Job::Rewrite { reply }).await
    }

    /// Refuses a revision in the future.
    fn held(&self, asked: Revision) -> Result<(), StoreError> {
        let newest = self.memory.revision();
        if asked > newest { Err(StoreError::Future { asked, newest }) } else { Ok(()) }
    }

    /// Writes a copy of the store at the returned revision to a new file. Blocks while it writes; commits continue
    /// meanwhile.
    ///
    /// # Errors
    /// [`StoreError::Broken`] if the file exists or cannot be written; a failure leaves no file behind.
    pub fn backup(&self, path: &Path) -> Result<Revision, StoreError> {
        let listing = self.memory.all()?;
        disk::write_copy(path, &listing, &*self.transformer)?;
        Ok(listing.revision)
    }
}

impl Store for Embedded {
    type Watch = Subscription;

    fn revision(&self) -> Revision {
        self.memory.revision()
    }

    async fn get(&self, key: &str) -> Result<Option<Arc<Entry>>, StoreError> {
        Ok(self.memory.entry(key))
    }

    async fn get_at(&self, key: &str, at: Revision) -> Result<Option<Arc<Entry>>, StoreError> {
        self.memory.entry_as_of(key, at)
    }

    async fn list(&self, list: &List) -> Result<Listing, StoreError> {
        self.memory.list(list).await
    }

    async fn commit(&self, writes: Vec<Write>) -> Result<Committed, StoreError> {
        self.ask(|reply| Job::Commit { writes, beyond_quota: false, reply }).await
    }

    async fn commit_beyond_quota(&self, writes: Vec<Write>) -> Result<Committed, StoreError> {
        self.ask(|reply| Job::Commit { writes, beyond_quota: true, reply }).await
    }

    async fn watch(&self, prefix: &str, after: Revision) -> Result<Subscription, StoreError> {
        self.held(after)?;
        self.feed.subscribe(prefix, None, after)
    }

    async fn watch_part(
        &self,
        prefix: &str,
        part: &str,
        after: Revision,
    ) -> Result<Subscription, StoreError> {
        self.held(after)?;
        self.feed.subscribe(prefix, Some(part), after)
    }

    async fn compact(&self, before: Revision) -> Result<(), StoreError> {
        self.ask(|reply| Job::Compact { before, reply }).await
    }
}

impl Drop for Embedded {
    /// Waits until all jobs are done and the file is closed.
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(writer) = self.writer.take() {
            // A thread that panicked has already reported it.
            let _ = writer.join();
        }
    }
}
