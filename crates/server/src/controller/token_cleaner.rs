//! Deletes expired bootstrap tokens (AN-105), which authenticate nobody any more.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use kinds::resources::core::secrets::SECRETS;
use portcullis_store::Event;
use serde_json::Value;

use super::runner::{Controller, Next};
use crate::authn::bootstrap_token::{NAME_PREFIX, NAMESPACE, SECRET_TYPE, expires, now_instant};
use crate::http::status::Status;
use crate::registry::backend::Backend;
use crate::registry::write;

/// See the module.
pub(super) struct TokenCleaner {
    backend: Arc<Backend>,
}

impl TokenCleaner {
    pub(super) fn new(backend: Arc<Backend>) -> Self {
        Self { backend }
    }
}

impl Controller for TokenCleaner {
    const NAME: &'static str = "token-cleaner-controller";
    const LISTED: &'static str = "/core/secrets/kube-system/bootstrap-token-";
    const WATCHED: &'static str = Self::LISTED;

    type Keys = Option<String>;

    fn concerns(&self, event: &Event) -> Option<String> {
        let id = event.entry.as_ref()?.key.strip_prefix(Self::LISTED)?;
        Some(format!("{NAME_PREFIX}{id}"))
    }

    async fn reconcile(&self, name: &str) -> Result<Next, Status> {
        let Some(stored) = write::find(&self.backend, &SECRETS, NAMESPACE, name).await? else {
            return Ok(Next::OnChange);
        };
        let is_token = stored.object.get("type").and_then(Value::as_str) == Some(SECRET_TYPE);
        let Some(end) = expires(&stored.object).filter(|_| is_token) else { return Ok(Next::OnChange) };
        let now = now_instant(SystemTime::now());
        if end > now {
            // Slightly late, so that the request need not be checked twice.
            let left = u64::try_from(end.seconds.saturating_sub(now.seconds)).unwrap_or_default();
            return Ok(Next::After(Duration::from_secs(left.saturating_add(1))));
        }
        // Deletes only the object that was checked, and no other of its name.
        if write::delete(&self.backend, &SECRETS, &stored).await? {
            tracing::info!(secret = name, "deleted an expired bootstrap token");
        }
        Ok(Next::OnChange)
    }
}
