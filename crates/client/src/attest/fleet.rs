//! The workload clusters of one process. A device belongs to one machine of one of them (AT-152).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::machines;
use super::shared::Shared;
use crate::call::CallError;

/// The clusters whose records are on one management server, as far as this process has them.
#[derive(Default)]
pub struct Fleet {
    clusters: Mutex<BTreeMap<String, Weak<Shared>>>,
}

/// A cluster among others.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its name, a DNS label.
    pub name: String,
    /// The others.
    pub fleet: Arc<Fleet>,
}

impl std::fmt::Debug for Fleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fleet").finish_non_exhaustive()
    }
}

impl Fleet {
    pub(super) fn join(&self, name: String, shared: &Arc<Shared>) {
        let mut clusters = self.clusters.lock().unwrap_or_else(PoisonError::into_inner);
        clusters.insert(name, Arc::downgrade(shared));
    }

    /// Whether a machine of a cluster exists. One of a cluster that this process does not know may.
    pub(super) async fn has(&self, cluster: Option<&str>, machine_uid: &str) -> Result<bool, CallError> {
        let found = {
            let clusters = self.clusters.lock().unwrap_or_else(PoisonError::into_inner);
            cluster.and_then(|name| clusters.get(name)?.upgrade())
        };
        let Some(shared) = found else { return Ok(true) };
        let settings = shared.settings.load_full();
        machines::exists(&shared, &settings, machine_uid).await
    }
}
