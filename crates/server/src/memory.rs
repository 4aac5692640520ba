//! A store in memory, gone with the process. It keeps every change that it ever saw.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use portcullis_store::{
    Committed, Entry, Event, Expect, List, Listing, Revision, Store, StoreError, Value, Watch, Write,
};
use tokio::sync::watch;

/// See the module.
pub struct Memory {
    state: Arc<Mutex<State>>,
    newest: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    revision: u64,
    entries: BTreeMap<Box<str>, Arc<Entry>>,
    events: Vec<Event>,
}

impl Default for Memory {
    fn default() -> Self {
        Self { state: Arc::default(), newest: watch::Sender::new(0) }
    }
}

fn written(value: &Value, revision: u64) -> Bytes {
    let Some((before, after)) = value.revision_at.and_then(|at| value.bytes.split_at_checked(at)) else {
        return value.bytes.clone();
    };
    let mut bytes = BytesMut::from(before);
    bytes.extend_from_slice(revision.to_string().as_bytes());
    bytes.extend_from_slice(after);
    bytes.freeze()
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store for Memory {
    type Watch = MemoryWatch;

    fn revision(&self) -> Revision {
        Revision(lock(&self.state).revision)
    }

    async fn get(&self, key: &str) -> Result<Option<Arc<Entry>>, StoreError> {
        Ok(lock(&self.state).entries.get(key).cloned())
    }

    async fn list(&self, list: &List) -> Result<Listing, StoreError> {
        let state = lock(&self.state);
        let newest = Revision(state.revision);
        let at = list.at.unwrap_or(newest);
        if at > newest {
            return Err(StoreError::Future { asked: at, newest });
        }
        let mut past = state.entries.clone();
        for event in state.events.iter().rev().take_while(|event| event.revision > at) {
            let Some(key) = event.entry.as_ref().or(event.previous.as_ref()).map(|e| e.key.clone()) else {
                continue;
            };
            match &event.previous {
                Some(previous) => past.insert(key, Arc::clone(previous)),
                None => past.remove(&key),
            };
        }
        let mut found = past
            .into_values()
            .filter(|entry| entry.key.starts_with(&*list.prefix))
            .filter(|entry| list.after.as_ref().is_none_or(|after| entry.key > *after));
        let limit = if list.limit == 0 { usize::MAX } else { list.limit };
        let entries: Vec<_> = found.by_ref().take(limit).collect();
        Ok(Listing { revision: at, entries, remaining: found.count() })
    }

    async fn commit(&self, writes: Vec<Write>) -> Result<Committed, StoreError> {
        let mut state = lock(&self.state);
        for write in &writes {
            let current = state.entries.get(&write.key);
            let holds = match write.expect {
                Expect::Absent => current.is_none(),
                Expect::Anything => true,
                Expect::Modified(revision) => current.is_some_and(|entry| entry.modified == revision),
            };
            if !holds {
                return Err(StoreError::Conflict { key: write.key.clone(), current: current.cloned() });
            }
        }
        state.revision += 1;
        let revision = Revision(state.revision);
        let mut entries = Vec::new();
        for write in writes {
            let previous = state.entries.remove(&write.key);
            let entry = write.value.map(|value| {
                Arc::new(Entry {
                    key: write.key.clone(),
                    value: written(&value, revision.0),
                    created: previous.as_ref().map_or(revision, |entry| entry.created),
                    modified: revision,
                })
            });
            if let Some(entry) = &entry {
                state.entries.insert(write.key, Arc::clone(entry));
            }
            entries.push(entry.clone().or_else(|| previous.clone()));
            state.events.push(Event { revision, previous, entry });
        }
        self.newest.send_replace(revision.0);
        Ok(Committed { revision, entries })
    }

    async fn watch(&self, prefix: &str, after: Revision) -> Result<MemoryWatch, StoreError> {
        let newest = self.revision();
        if after > newest {
            return Err(StoreError::Future { asked: after, newest });
        }
        let newest = self.newest.subscribe();
        Ok(MemoryWatch { state: Arc::clone(&self.state), newest, prefix: prefix.into(), after })
    }

    async fn compact(&self, _before: Revision) -> Result<(), StoreError> {
        Ok(())
    }
}

/// A watch of [`Memory`].
pub struct MemoryWatch {
    state: Arc<Mutex<State>>,
    newest: watch::Receiver<u64>,
    prefix: Box<str>,
    after: Revision,
}

impl Watch for MemoryWatch {
    async fn next(&mut self) -> Result<Vec<Event>, StoreError> {
        loop {
            self.newest.borrow_and_update();
            {
                let state = lock(&self.state);
                let start = state.events.partition_point(|event| event.revision <= self.after);
                let news = state.events.iter().skip(start);
                let found: Vec<Event> = news
                    .filter(|event| {
                        let entry = event.entry.as_ref().or(event.previous.as_ref());
                        entry.is_some_and(|entry| entry.key.starts_with(&*self.prefix))
                    })
                    .cloned()
                    .collect();
                self.after = Revision(state.revision);
                if !found.is_empty() {
                    return Ok(found);
                }
            }
            if self.newest.changed().await.is_err() {
                return Err(StoreError::Broken("the store has ended".to_owned()));
            }
        }
    }

    fn revision(&self) -> Revision {
        self.after
    }
}
