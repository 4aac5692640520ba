//! Runs work on one server at a time, when several share a store (ET-36): the controllers, and an approver.
//!
//! The servers contend for a Lease. It is read and written in the store, not over the network, and with the same rules as
//! that of every other leader election. Does nothing for the embedded store, which has one server.

use std::sync::Arc;
use std::time::Duration;

use kinds::Map;
use kinds::resources::leases::LEASES;
use portcullis_client::clock::{Clock, SystemClock};
use portcullis_client::lease::{LeaseConfig, LeaseError, Leases, lead_again};
use portcullis_store::Entry;
use serde_json::Value;

use crate::http::status::Status;
use crate::registry::backend::Backend;
use crate::registry::storage::{self, Stored};
use crate::registry::{freshness, meta, write};

/// The namespace of the lease.
const NAMESPACE: &str = "kube-system";

/// The leases in the store.
#[derive(Clone)]
struct StoredLeases(Arc<Backend>);

impl StoredLeases {
    async fn find(&self, namespace: &str, name: &str) -> Result<Option<Stored>, LeaseError> {
        // A lease that was renewed on another server must not look as if it had ended.
        freshness::fresh(&self.0).await.map_err(failed)?;
        write::find(&self.0, &LEASES, namespace, name).await.map_err(failed)
    }

    /// Makes a write, and returns the lease that it has written.
    async fn write(&self, write: portcullis_store::Write) -> Result<Value, LeaseError> {
        use portcullis_store::{Store as _, StoreError};
        match self.0.commit_beyond_quota(vec![write]).await {
            Ok(committed) => match committed.entries.into_iter().flatten().next() {
                Some(entry) => read(&entry),
                None => Err(LeaseError::Failed("the store returned no entry".to_owned())),
            },
            Err(StoreError::Conflict { .. }) => Err(LeaseError::Conflict),
            Err(error) => Err(LeaseError::Failed(error.to_string())),
        }
    }
}

fn failed(status: Status) -> LeaseError {
    LeaseError::Failed(status.message().to_owned())
}

fn read(entry: &Entry) -> Result<Value, LeaseError> {
    storage::decode(&entry.value).map(Value::Object).map_err(failed)
}

fn object(lease: &Value) -> Map {
    lease.as_object().cloned().unwrap_or_default()
}

impl Leases for StoredLeases {
    async fn get(&self, namespace: &str, name: &str) -> Result<Option<Value>, LeaseError> {
        Ok(self.find(namespace, name).await?.map(|stored| Value::Object(stored.object)))
    }

    async fn create(&self, lease: &Value) -> Result<Value, LeaseError> {
        let object = object(lease);
        let namespace = meta::text(&object, "namespace").to_owned();
        self.write(write::create(&LEASES, &namespace, object, write::CONTROLLERS).map_err(failed)?).await
    }

    async fn replace(&self, lease: &Value) -> Result<Value, LeaseError> {
        let object = object(lease);
        let (namespace, name) = (meta::text(&object, "namespace"), meta::text(&object, "name"));
        let Some(stored) = self.find(namespace, name).await? else { return Err(LeaseError::Conflict) };
        if meta::text(&object, "resourceVersion") != meta::text(&stored.object, "resourceVersion") {
            return Err(LeaseError::Conflict);
        }
        self.write(write::replace(&LEASES, &stored.entry, object, write::CONTROLLERS).map_err(failed)?).await
    }
}

/// Does the work whenever this server holds the lease of this name, until `stop` completes. The work is stopped by dropping it.
pub(crate) async fn lead<F>(
    backend: Arc<Backend>,
    name: &str,
    identity: String,
    stop: impl Future<Output = ()> + Send,
    work: impl Fn() -> F,
) where
    F: Future<Output = ()>,
{
    // Another server takes over within 15 s.
    let config = LeaseConfig {
        namespace: NAMESPACE.to_owned(),
        name: name.to_owned(),
        identity,
        lease_duration: Duration::from_secs(10),
        renew_deadline: Duration::from_secs(7),
        retry_period: Duration::from_secs(2),
        release_on_exit: true,
    };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let ended = || tracing::info!(lease = name, "this server no longer leads");
    let work = |_| {
        tracing::info!(lease = name, "this server leads");
        work()
    };
    if let Err(error) = lead_again(&StoredLeases(backend), &config, &clock, stop, work, ended).await {
        tracing::error!(%error, lease = name, "this server cannot lead");
    }
}
