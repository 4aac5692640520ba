//! The quota of a store: how large all keys and their newest values together may be.
//!
//! A full store refuses what adds to it. Deletions go on, and so do writes that change much and add nothing: otherwise one
//! client could fill the store, and nodes that cannot renew their leases would look dead.

use crate::{Event, StoreError};

/// A commit that creates nothing and adds at most so much may use the reserve. In bytes.
const SMALL: u64 = 1024;
/// The reserve is this part of the quota.
const RESERVE: u64 = 16;

/// See the module documentation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Quota {
    /// None for no limit. In bytes.
    most: Option<u64>,
}

impl Quota {
    pub(super) fn new(bytes: u64) -> Self {
        Self { most: Some(bytes) }
    }

    /// Returns the size of a store of this size after a commit with these changes.
    ///
    /// # Errors
    /// [`StoreError::Full`], unless the commit may go beyond the quota.
    pub(super) fn after(self, size: u64, events: &[Event], beyond_quota: bool) -> Result<u64, StoreError> {
        let (mut added, mut removed, mut creates) = (0_u64, 0_u64, false);
        for Event { previous, entry, .. } in events {
            added = added.saturating_add(entry.as_ref().map_or(0, |entry| entry.size()));
            removed = removed.saturating_add(previous.as_ref().map_or(0, |entry| entry.size()));
            creates |= previous.is_none();
        }
        let after = size.saturating_add(added).saturating_sub(removed);
        let Some(quota) = self.most.filter(|_| !beyond_quota && added > removed) else { return Ok(after) };
        let is_small = !creates && added.saturating_sub(removed) <= SMALL;
        let most = if is_small { quota.saturating_add(quota / RESERVE) } else { quota };
        if after > most { Err(StoreError::Full { size, quota }) } else { Ok(after) }
    }
}
