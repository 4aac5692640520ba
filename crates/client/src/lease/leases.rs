//! Where leases are kept: an API server that is asked over a connection, or the objects of this process.

use std::future::Future;

use serde_json::Value;

use crate::call::{CallError, Resource};
use crate::connect::Connection;

/// Reads and writes `coordination.k8s.io/v1` Leases.
pub trait Leases: Clone + Send + Sync + 'static {
    /// Reads a lease; none if it does not exist. Must not be older than the last write of anybody.
    ///
    /// # Errors
    /// [`LeaseError::Failed`].
    fn get(
        &self,
        namespace: &str,
        name: &str,
    ) -> impl Future<Output = Result<Option<Value>, LeaseError>> + Send;

    /// Creates a lease. Returns it as it was stored.
    ///
    /// # Errors
    /// See [`LeaseError`].
    fn create(&self, lease: &Value) -> impl Future<Output = Result<Value, LeaseError>> + Send;

    /// Replaces a lease, if it still has the resourceVersion that it was read with. Returns it as it was stored.
    ///
    /// # Errors
    /// See [`LeaseError`].
    fn replace(&self, lease: &Value) -> impl Future<Output = Result<Value, LeaseError>> + Send;
}

/// Why a lease was not read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaseError {
    /// Another write was first.
    #[error("another candidate has written it")]
    Conflict,
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}

impl From<CallError> for LeaseError {
    fn from(error: CallError) -> Self {
        if error.code() == Some(409) { Self::Conflict } else { Self::Failed(error.to_string()) }
    }
}

/// The namespace and the name of a lease.
fn place(lease: &Value) -> (&str, &str) {
    let text = |field: &str| lease.pointer(field).and_then(Value::as_str).unwrap_or_default();
    (text("/metadata/namespace"), text("/metadata/name"))
}

fn resource(namespace: &str) -> Resource {
    Resource::new("coordination.k8s.io", "v1", "leases").within(namespace.to_owned())
}

impl Leases for Connection {
    async fn get(&self, namespace: &str, name: &str) -> Result<Option<Value>, LeaseError> {
        match Connection::get::<Value>(self, &resource(namespace), name).await {
            Ok(lease) => Ok(Some(lease)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn create(&self, lease: &Value) -> Result<Value, LeaseError> {
        let (namespace, _) = place(lease);
        Ok(Connection::create(self, &resource(namespace), lease).await?)
    }

    async fn replace(&self, lease: &Value) -> Result<Value, LeaseError> {
        let (namespace, name) = place(lease);
        Ok(Connection::replace(self, &resource(namespace).object(name), lease).await?)
    }
}
