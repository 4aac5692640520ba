//! The parts of a webhook.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use super::cluster::Cluster;
use super::metrics::WebhookMetrics;
use super::shadow::Shadow;
use crate::api::large_work::LargeWork;
use crate::authn::callers::Callers;
use crate::authz::secret_alarm::SecretAlarm;
use crate::http::limits::Limits;
use crate::http::listener::Clients;

/// The parts of a webhook.
pub struct Parts {
    /// Who may ask.
    pub callers: Arc<Callers>,
    /// What decisions are made from.
    pub cluster: Arc<Cluster>,
    /// The alarm on the secrets that nodes ask for.
    pub alarm: Option<SecretAlarm>,
    /// The resource limits.
    pub limits: Limits,
    /// The metrics.
    pub metrics: WebhookMetrics,
    /// The answer of `/configz`.
    pub configz: Value,
}

/// Answers the reviews of API servers. See the module.
pub struct Webhook {
    pub(super) parts: Parts,
    pub(super) clients: Clients,
    pub(super) large: LargeWork,
    pub(super) shadow: Shadow,
    is_draining: AtomicBool,
}

impl Webhook {
    /// Creates a webhook.
    ///
    /// # Errors
    /// The system has no threads left.
    pub fn new(parts: Parts) -> io::Result<Self> {
        let clients = Clients::new(parts.limits, &parts.metrics.connections);
        let shadow = Shadow::start(Arc::clone(&parts.cluster))?;
        Ok(Self { parts, clients, large: LargeWork::default(), shadow, is_draining: AtomicBool::new(false) })
    }

    /// Becomes unready, so that callers go elsewhere (BC-7, BC-24). Requests are answered as before.
    pub fn drain(&self) {
        self.is_draining.store(true, Ordering::Release);
    }

    /// Stops following the cluster. Called when no request is answered any more.
    pub fn stop_following(&self) {
        self.parts.cluster.stop_following();
    }

    /// Why it is not ready, if it is not.
    pub fn unready(&self) -> Option<String> {
        if self.is_draining.load(Ordering::Acquire) {
            return Some("the webhook is shutting down".to_owned());
        }
        self.parts.cluster.unready()
    }
}
