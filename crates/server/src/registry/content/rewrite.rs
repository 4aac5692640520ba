//! Rewrites the values of a store in the form in which they would be written today (ET-51, ET-60).
//!
//! In etcd each value is replaced on the condition that nobody has changed it, so servers may go on. It can be interrupted at
//! any time, and begins again with what is left. Never changes what an object says.

use std::sync::Arc;

use portcullis_store::embedded;
use portcullis_store::etcd::{Change, Direct};
use portcullis_store::{Revision, Transformer};

use super::{Content, ContentError, Item, Location, Unreadable};

/// The most bytes of a transaction, unless one value is larger.
const MOST_BYTES: usize = 1 << 20;
/// How often a key that changes meanwhile is looked at.
const ATTEMPTS: usize = 20;

/// What was rewritten.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rewritten {
    /// The number of values that were read.
    pub read: u64,
    /// The number of values that were written.
    pub written: u64,
    /// The values that cannot be read, which are left as they are.
    pub unreadable: Vec<Unreadable>,
}

impl Content {
    /// Rewrites the stale values, or all of them. `progress` is told of the values done and of all there are.
    ///
    /// # Errors
    /// The store is in use, or cannot be reached, read or written. A file in which a value cannot be read is not rewritten.
    pub async fn rewrite(
        &self,
        all: bool,
        progress: &mut (dyn FnMut(u64, u64) + Send),
    ) -> Result<Rewritten, ContentError> {
        match &self.location {
            Location::File(path) => {
                let mut rewritten = self.stale(all, progress).await?;
                if !rewritten.unreadable.is_empty() {
                    rewritten.written = 0;
                    return Ok(rewritten);
                }
                let transformer = Arc::clone(&self.encryption) as Arc<dyn Transformer>;
                // Opening it rewrites a file with a stale value, also one in the history.
                let store = embedded::Options::file(path).transformer(transformer).open()?;
                if all {
                    store.rewrite().await?;
                }
                Ok(rewritten)
            }
            Location::Etcd(etcd) => {
                let direct = etcd.options(self.own_layout()?).direct()?;
                self.rewrite_etcd(&direct, all, progress).await
            }
        }
    }

    /// What would be rewritten.
    async fn stale(
        &self,
        all: bool,
        progress: &mut (dyn FnMut(u64, u64) + Send),
    ) -> Result<Rewritten, ContentError> {
        let mut found = Rewritten::default();
        let mut source = self.source().await?;
        loop {
            let page = source.next().await?;
            if page.is_empty() {
                return Ok(found);
            }
            for item in page {
                match item {
                    Item::Object { is_stale, .. } => {
                        found.read = found.read.saturating_add(1);
                        found.written = found.written.saturating_add(u64::from(is_stale || all));
                    }
                    Item::Unreadable(_, unreadable) => found.unreadable.push(unreadable),
                    Item::Foreign(_) => {}
                }
            }
            progress(found.read, source.total());
        }
    }

    async fn rewrite_etcd(
        &self,
        direct: &Direct,
        all: bool,
        progress: &mut (dyn FnMut(u64, u64) + Send),
    ) -> Result<Rewritten, ContentError> {
        let mut done = Rewritten::default();
        let everything = direct.everything();
        let (at, total) = direct.newest(&everything).await?;
        self.learn_from_etcd(direct, at).await?;
        let (mut left, mut seen) = (Some(everything), 0_u64);
        while let Some(range) = left {
            let page = direct.page(&range, at).await?;
            let (mut batch, mut bytes) = (Vec::new(), 0_usize);
            for sealed in &page.found {
                let item = self.item(self.location.prefix(), sealed);
                if matches!(item, Item::Object { .. }) {
                    done.read = done.read.saturating_add(1);
                }
                if let Item::Unreadable(_, unreadable) = item {
                    done.unreadable.push(unreadable);
                    continue;
                }
                let Some(change) = self.due(item, sealed.modified, all, at) else { continue };
                let size = change.value.bytes.len().saturating_add(change.key.len());
                if batch.len() >= Direct::MOST_CHANGES || bytes.saturating_add(size) > MOST_BYTES {
                    done.add(self.replace(direct, std::mem::take(&mut batch), all, at).await?);
                    bytes = 0;
                }
                bytes = bytes.saturating_add(size);
                batch.push(change);
            }
            done.add(self.replace(direct, batch, all, at).await?);
            seen = seen.saturating_add(page.found.len() as u64);
            progress(seen, total);
            left = page.rest;
        }
        Ok(done)
    }

    /// The change that rewrites an object that was last written at `modified`; none if it has today's form and not `all` are
    /// rewritten, or was written after the start.
    fn due(&self, item: Item, modified: Revision, all: bool, start: Revision) -> Option<Change> {
        let Item::Object { key, json, is_stale } = item else { return None };
        let is_due = is_stale || (all && modified <= start);
        is_due.then(|| Change { value: self.layout.value(&key, &json), key, replaces: Some(modified) })
    }

    /// Makes changes, and makes those again that others came before. Returns how many values were written.
    async fn replace(
        &self,
        direct: &Direct,
        batch: Vec<Change>,
        all: bool,
        start: Revision,
    ) -> Result<u64, ContentError> {
        if batch.is_empty() {
            return Ok(0);
        }
        if direct.write(&batch).await? {
            return Ok(batch.len() as u64);
        }
        let mut written = 0_u64;
        for change in batch {
            written =
                written.saturating_add(u64::from(self.replace_alone(direct, change, all, start).await?));
        }
        Ok(written)
    }

    async fn replace_alone(
        &self,
        direct: &Direct,
        first: Change,
        all: bool,
        start: Revision,
    ) -> Result<bool, ContentError> {
        let mut change = first;
        for _ in 0..ATTEMPTS {
            if direct.write(std::slice::from_ref(&change)).await? {
                return Ok(true);
            }
            let due = direct.get(&change.key).await?.and_then(|there| {
                self.due(self.item(self.location.prefix(), &there), there.modified, all, start)
            });
            match due {
                Some(due) => change = due,
                // It was removed, or is in the right form now.
                None => return Ok(false),
            }
        }
        Err(ContentError::Unavailable(format!("{} changes all the time: run the command again", change.key)))
    }
}

impl Rewritten {
    fn add(&mut self, written: u64) {
        self.written = self.written.saturating_add(written);
    }
}
