//! The leases of entries that end by themselves (ET-14). Entries that are written within a minute share one.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use super::client::Client;
use crate::StoreError;

/// The most entries of a lease, as in Kubernetes.
const MOST: usize = 1_000;
/// For how long a lease is shared at most.
const SHARED: Duration = Duration::from_mins(1);
/// How long granting may take.
const WITHIN: Duration = Duration::from_secs(10);

struct Lease {
    id: i64,
    until: Instant,
    entries: usize,
}

/// The leases that are shared now, by lifetime.
#[derive(Default)]
pub(super) struct Leases(Mutex<HashMap<Duration, Lease>>);

impl Leases {
    /// A lease under which an entry lives at least this long.
    ///
    /// # Errors
    /// etcd cannot grant one.
    pub(super) async fn of(&self, client: &Client, lifetime: Duration) -> Result<i64, StoreError> {
        let mut leases = self.0.lock().await;
        if let Some(lease) = leases.get_mut(&lifetime)
            && lease.entries < MOST
            && Instant::now() < lease.until
        {
            lease.entries = lease.entries.saturating_add(1);
            return Ok(lease.id);
        }
        // A twentieth of the lifetime, but not more than a minute.
        let shared = (lifetime / 20).clamp(Duration::from_secs(1), SHARED);
        let granted = lifetime.saturating_add(shared);
        let began = Instant::now();
        let id = client.grant(i64::try_from(granted.as_secs()).unwrap_or(i64::MAX), WITHIN).await?;
        leases.insert(lifetime, Lease { id, until: began + shared, entries: 1 });
        Ok(id)
    }

    /// Forgets a lease that etcd does not know.
    pub(super) async fn forget(&self, id: i64) {
        self.0.lock().await.retain(|_, lease| lease.id != id);
    }
}
