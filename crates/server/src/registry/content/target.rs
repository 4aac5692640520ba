//! Writes content into a store that does not have it yet.
//!
//! A file is written beside its place and appears when it is complete. In etcd objects appear one after the other; an object
//! that is there already and equal is passed over, so that an interrupted writer can begin again. Nothing is ever overwritten.

use std::sync::Arc;

use bytes::Bytes;
use portcullis_store::Transformer;
use portcullis_store::embedded::NewFile;
use portcullis_store::etcd::{Change, Direct};

use super::{Content, ContentError, Item, Location};

/// The most bytes of a transaction, unless one value is larger. etcd takes requests of 1.5 MiB by default.
const MOST_BYTES: usize = 1 << 20;
/// How often a key that changes meanwhile is looked at.
const ATTEMPTS: usize = 5;

/// A store that is being filled. See the module.
#[derive(Debug)]
pub struct Target<'c> {
    content: &'c Content,
    writing: Writing,
}

#[derive(Debug)]
enum Writing {
    File(Box<NewFile>),
    Etcd {
        direct: Box<Direct>,
        /// What is written next.
        waiting: Vec<Change>,
        bytes: usize,
    },
}

/// Whether two JSON documents say the same.
#[must_use]
pub fn are_equal(one: &[u8], other: &[u8]) -> bool {
    let parsed = |bytes| serde_json::from_slice::<serde_json::Value>(bytes);
    one == other || matches!((parsed(one), parsed(other)), (Ok(one), Ok(other)) if one == other)
}

impl Content {
    /// Begins to fill the store.
    ///
    /// # Errors
    /// The file has entries, or is in use or cannot be written.
    pub fn target(&self) -> Result<Target<'_>, ContentError> {
        let writing = match &self.location {
            Location::File(path) => {
                let transformer = Arc::clone(&self.encryption) as Arc<dyn Transformer>;
                Writing::File(Box::new(NewFile::begin(path, transformer)?))
            }
            Location::Etcd(etcd) => Writing::Etcd {
                direct: Box::new(etcd.options(self.own_layout()?).direct()?),
                waiting: Vec::new(),
                bytes: 0,
            },
        };
        Ok(Target { content: self, writing })
    }
}

impl Target<'_> {
    /// Writes a document in the form of [`Item::Object`]. Each key is written once.
    ///
    /// # Errors
    /// The store cannot be written, or has another document under the key.
    pub async fn put(&mut self, key: &str, json: Bytes) -> Result<(), ContentError> {
        match &mut self.writing {
            Writing::File(file) => {
                let value = self.content.layout.read(key, &json, file.revision());
                let value = value.map_err(|why| ContentError::Invalid(format!("{key} {why}")))?;
                Ok(file.add(key, value)?)
            }
            Writing::Etcd { waiting, bytes, .. } => {
                let value = self.content.layout.value(key, &json);
                let size = value.bytes.len().saturating_add(key.len());
                let is_full =
                    waiting.len() >= Direct::MOST_CHANGES || bytes.saturating_add(size) > MOST_BYTES;
                if is_full && !waiting.is_empty() {
                    self.flush().await?;
                }
                if let Writing::Etcd { waiting, bytes, .. } = &mut self.writing {
                    waiting.push(Change { key: key.into(), value, replaces: None });
                    *bytes = bytes.saturating_add(size);
                }
                Ok(())
            }
        }
    }

    /// Completes the content. Returns when it is durable.
    ///
    /// # Errors
    /// As [`Target::put`].
    pub async fn finish(mut self) -> Result<(), ContentError> {
        self.flush().await?;
        match self.writing {
            Writing::File(file) => Ok(file.finish().map(drop)?),
            Writing::Etcd { .. } => Ok(()),
        }
    }

    async fn flush(&mut self) -> Result<(), ContentError> {
        let Writing::Etcd { direct, waiting, bytes } = &mut self.writing else { return Ok(()) };
        let changes = std::mem::take(waiting);
        *bytes = 0;
        if changes.is_empty() {
            return Ok(());
        }
        let written = direct.write(&changes).await.map_err(|error| match &*changes {
            // What is too large for others is alone, and etcd's error does not name it.
            [one] => ContentError::Unavailable(format!("{} cannot be written: {error}", one.key)),
            _ => error.into(),
        })?;
        if written {
            return Ok(());
        }
        for change in &changes {
            put_alone(self.content, direct, change).await?;
        }
        Ok(())
    }
}

/// Writes a value, unless an equal one is there.
async fn put_alone(content: &Content, direct: &Direct, change: &Change) -> Result<(), ContentError> {
    for _ in 0..ATTEMPTS {
        let Some(there) = direct.get(&change.key).await? else {
            if direct.write(std::slice::from_ref(change)).await? {
                return Ok(());
            }
            continue;
        };
        return match content.item(content.location.prefix(), &there) {
            Item::Object { json, .. } if are_equal(&json, &change.value.bytes) => Ok(()),
            _ => Err(ContentError::Invalid(format!(
                "{} has appeared meanwhile with another value: stop all servers that use this etcd, and run the command again",
                there.etcd_key()
            ))),
        };
    }
    Err(ContentError::Unavailable(format!(
        "{} changes all the time: stop all servers that use this etcd",
        change.key
    )))
}
