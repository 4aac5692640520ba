//! The parts of a webhook.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use super::cluster::Cluster;
use super::metrics::WebhookMetrics;
use crate::api::large_work::LargeWork;
use crate::authn::callers::Callers;
use crate::http::limits::Limits;
use crate::http::listener::Clients;

/// The parts of a webhook.
pub struct Parts {
    /// Who may ask.
    pub callers: Arc<Callers>,
    /// What decisions are made from.
    pub cluster: Cluster,
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
    is_draining: AtomicBool,
}

impl Webhook {
    /// Creates a webhook.
    pub fn new(parts: Parts) -> Self {
        let clients = Clients::new(parts.limits, &parts.metrics.connections);
        Self { parts, clients, large: LargeWork::default(), is_draining: AtomicBool::new(false) }
    }

    /// Becomes unready, so that callers go elsewhere (BC-7, BC-24). Requests are answered as before.
    pub fn drain(&self) {
        self.is_draining.store(true, Ordering::Release);
    }

    /// Why it is not ready, if it is not.
    pub fn unready(&self) -> Option<String> {
        if self.is_draining.load(Ordering::Acquire) {
            return Some("the webhook is shutting down".to_owned());
        }
        self.parts.cluster.unready()
    }
}
