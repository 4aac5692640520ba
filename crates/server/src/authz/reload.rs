//! Reloads a changed `--authorization-config` while serving (AC-111 to AC-117).
//!
//! An invalid file changes nothing: the current configuration stays in force, and the log and a metric report the
//! failure.
//!
//! DIVERGES: the file is read every second instead of watching file system events (AC-111), which miss changes in
//! mounted volumes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use policy::chain::{Member, Mode};

use super::authorizers::{Authorizers, AuthorizersError, Remote};
use super::configuration::{Configuration, Document};
use super::metrics::webhook::WebhookMetrics;

/// The interval at which the file is read.
const EVERY: Duration = Duration::from_secs(1);

/// The configuration file in force, and what is needed to replace it.
pub struct Reloader {
    path: PathBuf,
    /// The members of the engine: local authorizers cannot be added later.
    members: Vec<Member>,
    /// The types that must remain (AC-113).
    required: Vec<Mode>,
    authorizers: Arc<ArcSwap<Authorizers>>,
    metrics: WebhookMetrics,
    last_bytes: Vec<u8>,
    last_document: Document,
}

/// The configuration file at startup.
pub struct Initial {
    path: PathBuf,
    bytes: Vec<u8>,
    document: Document,
    configuration: Configuration,
    webhooks: Vec<Arc<dyn Remote>>,
}

impl Initial {
    /// Reads and validates the file, and connects its webhooks.
    ///
    /// # Errors
    /// All errors, in one text that names the file.
    pub fn load(path: &Path, metrics: &WebhookMetrics) -> Result<Self, String> {
        let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let bytes = std::fs::read(path).map_err(|error| named(&error))?;
        let document = Document::read(&bytes).map_err(|error| named(&error))?;
        let configuration = document.validate().map_err(|error| named(&error))?;
        let webhooks = configuration.connect(metrics).map_err(|error| named(&error))?;
        Ok(Self { path: path.to_owned(), bytes, document, configuration, webhooks })
    }

    /// The types, in order.
    pub fn modes(&self) -> &[Mode] {
        &self.configuration.modes
    }

    /// Applies the configuration to the authorizers of the engine.
    ///
    /// # Errors
    /// The engine lacks one of the authorizers.
    pub fn begin(self, members: &[Member], metrics: &WebhookMetrics) -> Result<Reloader, AuthorizersError> {
        let modes = self.configuration.modes;
        let authorizers = Authorizers::new(&modes, members, self.webhooks, metrics)?;
        let reloader = Reloader {
            path: self.path,
            members: members.to_vec(),
            required: modes.into_iter().filter(|mode| *mode != Mode::Webhook).collect(),
            authorizers: authorizers.shared(),
            metrics: metrics.clone(),
            last_bytes: self.bytes,
            last_document: self.document,
        };
        reloader.metrics.reload.in_force(&pki::sha256(&reloader.last_bytes));
        Ok(reloader)
    }
}

impl Reloader {
    /// Returns the current sequence of authorizers, which is replaced when the file changes.
    pub fn authorizers(&self) -> Arc<ArcSwap<Authorizers>> {
        Arc::clone(&self.authorizers)
    }

    /// Checks the file periodically. Never returns.
    pub async fn run(mut self) {
        // An unreadable file is logged once, until it is readable again.
        let mut was_readable = true;
        loop {
            tokio::time::sleep(EVERY).await;
            match tokio::fs::read(&self.path).await {
                Ok(bytes) => {
                    was_readable = true;
                    self.check(bytes);
                }
                Err(error) => {
                    self.metrics.reload.reloaded(false, SystemTime::now());
                    if std::mem::take(&mut was_readable) {
                        self.complain(&error.to_string());
                    }
                }
            }
        }
    }

    fn complain(&self, error: &str) {
        let path = self.path.display();
        tracing::error!(
            %path,
            error,
            "the authorization configuration cannot be used; the one in force stays"
        );
    }

    /// AC-112
    fn check(&mut self, bytes: Vec<u8>) {
        if bytes == self.last_bytes {
            return;
        }
        self.last_bytes = bytes;
        match self.take() {
            Ok(false) => {}
            Ok(true) => {
                self.metrics.reload.reloaded(true, SystemTime::now());
                self.metrics.reload.in_force(&pki::sha256(&self.last_bytes));
                tracing::info!(path = %self.path.display(), "the authorization configuration was reloaded");
            }
            Err(error) => {
                self.metrics.reload.reloaded(false, SystemTime::now());
                self.complain(&error);
            }
        }
    }

    /// Loads the file; returns whether a different configuration is in force now.
    fn take(&mut self) -> Result<bool, String> {
        let document = Document::read(&self.last_bytes).map_err(|error| error.to_string())?;
        let configuration = document.validate().map_err(|error| error.to_string())?;
        let missing: Vec<&str> = self
            .required
            .iter()
            .filter(|mode| !configuration.modes.contains(mode))
            .map(|mode| mode.name())
            .collect();
        if !missing.is_empty() {
            return Err(format!("missing required types: [{}]", missing.join(" ")));
        }
        // AC-114
        if document == self.last_document {
            return Ok(false);
        }
        // AC-116
        self.last_document = document;
        let webhooks = configuration.connect(&self.metrics).map_err(|error| error.to_string())?;
        let authorizers = Authorizers::new(&configuration.modes, &self.members, webhooks, &self.metrics)
            .map_err(|error| error.to_string())?;
        // AC-117: requests in progress finish with the old one.
        self.authorizers.store(Arc::new(authorizers));
        Ok(true)
    }
}
