//! When tokens that are kept in secrets were last used (AN-78).

use std::sync::Arc;

use kinds::Map;
use kinds::resources::core::secrets::{ACCOUNT_TOKEN, SECRETS};
use portcullis_store::Entry;
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::http::status::Status;
use crate::registry::backend::Backend;
use crate::registry::{meta, storage, write};

/// The label of a secret that says so.
pub(super) const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";

/// Records in secrets when their tokens were last used, in the background.
pub(super) struct Tracker {
    backend: Arc<Backend>,
    /// One update at a time: a skipped one is made up for by the next use.
    slot: Arc<Semaphore>,
}

impl Tracker {
    pub(super) fn new(backend: Arc<Backend>) -> Self {
        Self { backend, slot: Arc::new(Semaphore::new(1)) }
    }

    pub(super) fn note(&self, entry: Arc<Entry>, day: String) {
        let Ok(slot) = Arc::clone(&self.slot).try_acquire_owned() else { return };
        let backend = Arc::clone(&self.backend);
        tokio::spawn(async move {
            if let Err(status) = write_down(&backend, &entry, &day).await {
                tracing::warn!(
                    key = &*entry.key,
                    error = status.message(),
                    "cannot record the use of a token"
                );
            }
            drop(slot);
        });
    }
}

async fn write_down(backend: &Backend, entry: &Entry, day: &str) -> Result<(), Status> {
    let mut secret = storage::decode(&entry.value)?;
    if secret.get("type").and_then(Value::as_str) != Some(ACCOUNT_TOKEN) {
        return Ok(());
    }
    meta::change(&mut secret, |metadata| {
        let labels = metadata.entry("labels").or_insert_with(|| Map::new().into());
        if let Some(labels) = labels.as_object_mut() {
            labels.insert(LAST_USED.to_owned(), day.into());
        }
    });
    // If the secret was changed meanwhile, the next use is recorded.
    write::commit(backend, vec![write::replace(&SECRETS, entry, secret, write::SERVER)?]).await.map(drop)
}
