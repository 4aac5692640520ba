//! What readers see of a store: the state in memory, the feed of changes, and the observers. Every backend shows its durable
//! commits here, in order, and nothing else does.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use crate::history::History;
use crate::memory::Memory;
use crate::watch::{Commit, Feed, Topic};
use crate::{Observer, Revision, StoreError};

/// See the module documentation.
pub(crate) struct Readers {
    pub(crate) memory: Arc<Memory>,
    pub(crate) feed: Arc<Feed>,
    pub(crate) history: History,
    pub(crate) observers: Vec<Arc<dyn Observer>>,
    pub(crate) grown: Sender<Vec<Arc<Topic>>>,
}

impl Drop for Readers {
    /// Ends the watches, also when the thread that writes panics: otherwise they would wait forever.
    fn drop(&mut self) {
        self.feed.close();
    }
}

impl Readers {
    /// Shows durable commits: first to the observers, then to readers, then to the watches. Who reads an object finds that
    /// decisions know it (ET-30). After the commits all keys and values have this size, in bytes.
    pub(crate) fn publish(&self, commits: &[Arc<Commit>], size: u64) {
        for commit in commits {
            self.show(commit, size);
        }
        self.wake(self.feed.push(commits));
    }

    fn show(&self, commit: &Arc<Commit>, size: u64) {
        for observer in &self.observers {
            observer.committed(&commit.events);
        }
        self.memory.publish(std::slice::from_ref(commit), size);
        for observer in &self.observers {
            observer.readable(&commit.events);
        }
    }

    /// Moves on to a revision that changed none of the keys here.
    pub(crate) fn advance(&self, revision: Revision) {
        self.memory.advance(revision);
        self.feed.advance(revision);
    }

    /// Shows the difference to a state that was read anew, after changes were missed: all at once to observers and readers.
    /// Watches end with [`StoreError::Compacted`], because nobody knows the changes in between.
    pub(crate) fn publish_after_gap(&self, difference: &Arc<Commit>, size: u64) {
        let revision = difference.revision;
        self.show(difference, size);
        self.memory.raise_floor(revision);
        let (forgotten, topics) = self.feed.interrupt(revision);
        self.memory.prune(&forgotten);
        self.memory.prune(std::slice::from_ref(difference));
        self.wake(topics);
    }

    fn wake(&self, topics: Vec<Arc<Topic>>) {
        if !topics.is_empty() {
            // The receiver lives as long as the store.
            let _ = self.grown.send(topics);
        }
    }

    /// How often to call [`Self::forget_overdue`].
    pub(crate) fn pause(&self) -> Duration {
        (self.history.age / 4).clamp(Duration::from_millis(10), Duration::from_secs(10))
    }

    /// Forgets what exceeds the limits of the history.
    pub(crate) fn forget_overdue(&self) {
        if let Some(floor) = self.feed.overdue(&self.history, Instant::now()) {
            self.forget(floor);
        }
    }

    /// Forgets the history before a revision.
    ///
    /// # Errors
    /// [`StoreError::Future`] for a revision that does not exist yet.
    pub(crate) fn compact(&self, before: Revision) -> Result<(), StoreError> {
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

/// Starts the thread that wakes the watches: waking thousands would delay the writer. It ends when the sender is dropped.
pub(crate) fn waker() -> Result<Sender<Vec<Arc<Topic>>>, StoreError> {
    let (grown, topics) = channel();
    spawn("store-waker", move || wake(&topics))?;
    Ok(grown)
}

fn wake(grown: &Receiver<Vec<Arc<Topic>>>) {
    while let Ok(mut topics) = grown.recv() {
        topics.extend(grown.try_iter().flatten());
        topics.sort_unstable_by_key(Arc::as_ptr);
        topics.dedup_by_key(|topic| Arc::as_ptr(topic));
        topics.iter().for_each(|topic| topic.wake());
    }
}

/// Starts a thread.
pub(crate) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, StoreError> {
    let started = Builder::new().name(name.to_owned()).spawn(run);
    started.map_err(|error| StoreError::Broken(format!("cannot start the thread {name}: {error}")))
}
