//! The changes of a range of keys in etcd, without a copy in memory: for programs that keep their own (BC-1).
//!
//! Only reads: no tick, so nobody can tell a range without changes from a watch that hangs. The caller reads the range again when
//! it has heard nothing for too long.

use std::sync::Arc;

use tonic::Streaming;

use super::client::Client;
use super::direct::{Direct, Range, Sealed};
use super::shared::{Keys, number};
use super::wire::{REMOVAL, WatchAction, WatchCreateRequest, WatchRequest, WatchResponse};
use crate::Revision;

/// The changes of a range, in order. See the module.
pub struct Changes {
    client: Arc<Client>,
    keys: Keys,
    /// The member that sends them.
    member: usize,
    answers: Streaming<WatchResponse>,
}

impl std::fmt::Debug for Changes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Changes").field("prefix", &self.keys.prefix).finish_non_exhaustive()
    }
}

/// A change of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// It has this value.
    Written(Sealed),
    /// It has no value any more. The value here is empty.
    Removed(Sealed),
}

/// Why changes ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangesEnded {
    /// etcd has compacted changes that were not sent: the range must be read again.
    #[error("etcd has compacted changes that were not read yet")]
    Compacted,
    /// The watch broke, or was refused.
    #[error("{0}")]
    Failed(String),
}

impl Direct {
    /// Watches a range for changes after a revision.
    ///
    /// # Errors
    /// [`ChangesEnded::Failed`] if etcd cannot be reached. A compacted revision is told by the first [`Changes::next`].
    pub async fn changes(&self, range: &Range, after: Revision) -> Result<Changes, ChangesEnded> {
        let create = WatchCreateRequest {
            key: range.first.clone(),
            range_end: range.end.clone(),
            start_revision: number(Revision(after.0.saturating_add(1))),
        };
        let (client, keys) = (Arc::clone(&self.client), self.keys.clone());
        match client.watch(WatchRequest { request: Some(WatchAction::Create(create)) }).await {
            Ok((member, answers)) => Ok(Changes { client, keys, member, answers }),
            Err((member, failure)) => {
                client.leave(member);
                Err(ChangesEnded::Failed(format!("{failure:?}")))
            }
        }
    }
}

impl Changes {
    /// Waits for the next changes, which are all of one revision or of several. It is cancel safe.
    ///
    /// # Errors
    /// Why there are no more. Those before were complete.
    pub async fn next(&mut self) -> Result<Vec<Changed>, ChangesEnded> {
        loop {
            let answer = match self.answers.message().await {
                Ok(Some(answer)) => answer,
                Ok(None) => return Err(self.failed("etcd closed the watch".to_owned())),
                Err(status) => {
                    return Err(self.failed(format!("{} ({:?})", status.message(), status.code())));
                }
            };
            if answer.canceled {
                return Err(match answer.compact_revision {
                    0 => self.failed(format!("etcd ended the watch: {}", answer.cancel_reason)),
                    _ => ChangesEnded::Compacted,
                });
            }
            if !answer.events.is_empty() {
                let changed = answer.events.into_iter().filter_map(|event| {
                    let sealed = Sealed::of(&self.keys, event.kv?);
                    Some(if event.kind == REMOVAL {
                        Changed::Removed(sealed)
                    } else {
                        Changed::Written(sealed)
                    })
                });
                return Ok(changed.collect());
            }
        }
    }

    /// The next watch is opened at another member.
    fn failed(&self, why: String) -> ChangesEnded {
        self.client.leave(self.member);
        ChangesEnded::Failed(why)
    }
}
