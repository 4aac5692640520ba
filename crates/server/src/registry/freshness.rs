//! Keeps answers correct when other servers write to the same store.
//!
//! Two rules keep the answers of a server right although it decides on its own memory. **No false no** (ET-34): before a refusal is
//! answered, memory is brought up to date, and if it has moved on, the decision is made again. **No stale yes** (ET-35): if
//! etcd has not confirmed memory for some seconds, nothing is answered on it. Neither costs anything with the embedded store.

use std::time::Duration;

use portcullis_store::{Revision, Store as _};
use tokio::time::timeout;

use super::backend::Backend;
use super::storage;
use crate::http::status::Status;

/// How long a request waits for etcd.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whether a refusal that was decided at this revision must be decided again, because other servers have changed something
/// that this one had not seen. If etcd does not say it in time, the refusal stands, and the log says that it may be wrong.
pub(crate) async fn has_missed(backend: &Backend, known: Revision) -> bool {
    missed(backend, known).await.unwrap_or_else(|status| {
        tracing::warn!(error = status.message(), "a refusal is possibly stale");
        false
    })
}

/// As [`has_missed`], for what a client takes for the state of an object, such as that there is none (ET-21).
///
/// # Errors
/// 503 if etcd does not say it in time.
pub(crate) async fn missed(backend: &Backend, known: Revision) -> Result<bool, Status> {
    if !backend.is_shared() {
        return Ok(false);
    }
    confirmed(backend).await.map(|reached| reached > known)
}

/// The revision that memory has reached at least, once etcd has confirmed that nothing newer is there.
async fn confirmed(backend: &Backend) -> Result<Revision, Status> {
    match timeout(PATIENCE, backend.fresh()).await {
        Ok(outcome) => outcome.map_err(|error| storage::failed(&error)),
        Err(_) => Err(Status::try_again("etcd does not answer in time")),
    }
}

/// Waits until memory is as new as the call (ET-21).
///
/// # Errors
/// 503 if etcd does not answer in time.
pub(crate) async fn fresh(backend: &Backend) -> Result<(), Status> {
    if !backend.is_shared() {
        return Ok(());
    }
    backend.fresh().await.map(drop).map_err(|error| storage::failed(&error))
}

/// Makes sure that memory may be used: at once if etcd has confirmed it a short time ago (ET-35).
///
/// # Errors
/// 503 if etcd does not confirm it in time.
pub(crate) async fn usable(backend: &Backend) -> Result<(), Status> {
    if backend.is_current() {
        return Ok(());
    }
    confirmed(backend).await.map(drop)
}
