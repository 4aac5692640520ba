//! The workload clusters of one process. A device belongs to one machine of one of them (AT-152).

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use crate::call::CallError;

type Answer = Pin<Box<dyn Future<Output = Result<bool, CallError>> + Send>>;
/// Tells whether a machine with this UID exists.
type Has = Arc<dyn Fn(String) -> Answer + Send + Sync>;

/// The clusters whose records are on one management server, as far as this process has them.
#[derive(Default)]
pub struct Fleet {
    clusters: Mutex<BTreeMap<String, Has>>,
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
    /// Adds a cluster, with a function that tells whether it has a machine.
    pub(super) fn join(&self, name: String, has: impl Fn(String) -> Answer + Send + Sync + 'static) {
        self.clusters.lock().unwrap_or_else(PoisonError::into_inner).insert(name, Arc::new(has));
    }

    /// Whether a machine of a cluster exists. One of a cluster that this process does not know may.
    pub(super) async fn has(&self, cluster: Option<&str>, machine_uid: &str) -> Result<bool, CallError> {
        let has = {
            let clusters = self.clusters.lock().unwrap_or_else(PoisonError::into_inner);
            cluster.and_then(|name| clusters.get(name).cloned())
        };
        match has {
            Some(has) => has(machine_uid.to_owned()).await,
            None => Ok(true),
        }
    }
}
