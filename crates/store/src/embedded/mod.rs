//! Keeps everything in this process and one file: the newest state and a window of the past in memory, the newest
//! state in a file of the `redb` format.
//!
//! One thread writes. It takes all commits that wait, decides them in order, writes what they leave behind in one disk
//! transaction with one flush, and only then shows the commits to readers, tells the observers, hands them to those
//! who watch, and answers. Readers never wait for the disk. The past is not in the file: after a restart all revisions
//! before the newest are compacted.
//!
//! Beside the file `NAME` lies `NAME.lock`, which is locked while the store is open, so that no two processes write.
//! Both can be read by their owner alone.
//!
//! # When the disk fails
//! The commits of that round are answered with [`StoreError::Broken`] and are not there. The next commit opens the
//! file again and, if it shows what memory holds, goes on. Where a flush has failed nobody can know what the disk
//! holds, so there the file is written anew from memory, beside the old one, and takes its place.
//!
//! # Backup and restore
//! [`Embedded::backup`] writes a copy as of one revision while the store is in use. The copy is a store: to restore it,
//! stop the process that has the store open, put the copy in the place of the file, and start again. Revisions then go
//! on from where the copy was made, so clients that saw later ones must be started again as well.

mod disk;
mod memory;
mod options;
#[cfg(test)]
mod tests;
mod writer;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

use tokio::sync::oneshot;

pub use self::options::{History, Options};

use self::disk::Disk;
use self::memory::Memory;
use self::writer::{Job, Reply, Writer};
use crate::watch::{Feed, Subscription, Topic};
use crate::{Committed, Entry, List, Listing, Revision, Store, StoreError, Write};

/// Where a new store begins.
const FIRST: Revision = Revision(1);

/// A store in this process.
pub struct Embedded {
    memory: Arc<Memory>,
    feed: Arc<Feed>,
    /// Where commits queue up. Nothing once the store is being closed.
    jobs: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embedded").field("revision", &self.memory.revision()).finish_non_exhaustive()
    }
}

impl Embedded {
    /// See [`Options::open`].
    fn open(options: Options) -> Result<Self, StoreError> {
        let (disk, entries, revision) = match &options.path {
            None => (None, Vec::new(), FIRST),
            Some(path) => {
                let (disk, entries, revision) = Disk::open(
                    path,
                    #[cfg(test)]
                    options.faults.clone(),
                )?;
                (Some(disk), entries, revision)
            }
        };
        // A store without a past: from its beginning on everything is known.
        let floor = if revision == FIRST { Revision(0) } else { revision };
        let memory = Arc::new(Memory::new(entries, revision, floor));
        let feed = Arc::new(Feed::new(revision, floor));
        let (jobs, waiting) = channel();
        let (grown, topics) = channel();
        let writer = Writer {
            jobs: waiting,
            disk,
            memory: Arc::clone(&memory),
            feed: Arc::clone(&feed),
            history: options.history,
            observers: options.observers,
            amender: options.amender,
            part_of: options.part_of,
            grown,
        };
        let writer = spawn("store-writer", move || writer.run())?;
        let waker = spawn("store-waker", move || wake(&topics))?;
        Ok(Self { memory, feed, jobs: Some(jobs), threads: vec![writer, waker] })
    }

    /// Asks the writer, and waits for its answer.
    async fn ask<T>(&self, job: impl FnOnce(Reply<T>) -> Job) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let stopped = || StoreError::Broken("the store has stopped writing: restart the process".to_owned());
        self.jobs.as_ref().ok_or_else(stopped)?.send(job(reply)).map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }

    /// Refuses a revision that is still to come.
    fn held(&self, asked: Revision) -> Result<(), StoreError> {
        let newest = self.memory.revision();
        if asked > newest { Err(StoreError::Future { asked, newest }) } else { Ok(()) }
    }

    /// Writes a copy of the store, as of the revision that is returned, to a file that must not be there yet. Blocks
    /// while it writes; commits go on meanwhile.
    ///
    /// # Errors
    /// [`StoreError::Broken`] if the file is there or cannot be written; nothing is left of it then.
    pub fn backup(&self, path: &Path) -> Result<Revision, StoreError> {
        let listing = self.memory.all()?;
        disk::write_copy(path, &listing)?;
        Ok(listing.revision)
    }
}

/// Starts a thread.
fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, StoreError> {
    let started = Builder::new().name(name.to_owned()).spawn(run);
    started.map_err(|error| StoreError::Broken(format!("cannot start the thread {name}: {error}")))
}

/// Wakes those who watch, so that the writer need not: a thousand watches take a while.
fn wake(grown: &Receiver<Vec<Arc<Topic>>>) {
    while let Ok(mut topics) = grown.recv() {
        topics.extend(grown.try_iter().flatten());
        topics.sort_unstable_by_key(Arc::as_ptr);
        topics.dedup_by_key(|topic| Arc::as_ptr(topic));
        topics.iter().for_each(|topic| topic.wake());
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

    async fn list(&self, list: &List) -> Result<Listing, StoreError> {
        self.memory.list(list).await
    }

    async fn commit(&self, writes: Vec<Write>) -> Result<Committed, StoreError> {
        self.ask(|reply| Job::Commit { writes, reply }).await
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
    /// Waits until what was asked for is carried out and the file is closed.
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // A thread that came to grief has nothing to say any more.
            let _ = thread.join();
        }
    }
}
