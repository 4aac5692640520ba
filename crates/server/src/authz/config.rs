//! The configuration of authorization, and the authorization that it makes over an engine.

use std::sync::Arc;

use policy::chain::Mode;
use policy::engine::LiveEngine;

use super::Authorization;
use super::authorizers::{Authorizers, AuthorizersError, Remote};
use super::metrics::webhook::WebhookMetrics;
use super::part::LastSeen;
use super::reload::{Initial, Reloader};
use crate::registry::backend::Backend;

/// The configured authorizers, before the engine exists.
#[derive(Default)]
pub enum AuthorizationConfig {
    /// The engine's own chain.
    #[default]
    Engine,
    /// These modes in order, with one webhook for each mode Webhook.
    Webhooks(Vec<Mode>, Vec<Arc<dyn Remote>>),
    /// The authorizers in a file (`--authorization-config`).
    File(Box<Initial>),
}

impl AuthorizationConfig {
    /// Returns whether the authorizers are in a file.
    pub fn is_file(&self) -> bool {
        matches!(self, Self::File(_))
    }

    /// Creates the authorization over an engine. If there is a file, the caller must run the reloader.
    ///
    /// # Errors
    /// The engine lacks one of the authorizers.
    pub fn open(
        self,
        engine: Arc<LiveEngine>,
        backend: Arc<Backend>,
        metrics: &WebhookMetrics,
    ) -> Result<(Authorization, Option<Reloader>), AuthorizersError> {
        let members = engine.chain().members();
        let (authorizers, reloader) = match self {
            Self::Engine => (Authorizers::local(engine.chain().clone(), metrics).shared(), None),
            Self::Webhooks(modes, webhooks) => {
                (Authorizers::new(&modes, members, webhooks, metrics)?.shared(), None)
            }
            Self::File(initial) => {
                let reloader = initial.begin(members, metrics)?;
                (reloader.authorizers(), Some(reloader))
            }
        };
        let last_seen = LastSeen::default();
        Ok((Authorization { backend, engine, authorizers, alarm: None, last_seen }, reloader))
    }
}
