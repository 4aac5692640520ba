//! Takes a changed `--authorization-config` into use while serving (AC-111 to AC-117).
//!
//! A file that cannot be used changes nothing: the configuration in force stays, and the log and a metric say so.
//!
//! DIVERGES: the file is read each second, and events of the file system are not waited for (AC-111): they miss what
//! happens in mounted volumes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use policy::chain::{Member, Mode};
use portcullis_pki as pki;
use portcullis_policy as policy;

use super::Sequence;
use super::configuration::{Configuration, Document};
use crate::webhook::{Webhook, WebhookMetrics};

/// How often the file is looked at.
const EVERY: Duration = Duration::from_secs(1);

/// A configuration file that is in force, and what is needed to put another in its place.
pub struct Reloader {
    path: PathBuf,
    /// What the engine was built with: local authorizers cannot be added later.
    members: Vec<Member>,
    /// The types that must stay (AC-113).
    required: Vec<Mode>,
    sequence: Arc<ArcSwap<Sequence>>,
    metrics: WebhookMetrics,
    /// Who tells, in metrics.
    server: String,
    last_bytes: Vec<u8>,
    last_document: Document,
}

/// A configuration file at start.
pub struct Initial {
    path: PathBuf,
    bytes: Vec<u8>,
    document: Document,
    configuration: Configuration,
    webhooks: Vec<Arc<Webhook>>,
}

impl Initial {
    /// Reads the file, checks it, and connects its webhooks.
    ///
    /// # Errors
    /// All that is wrong, in one text that names the file.
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

    /// Puts the configuration into force, over the authorizers that the engine was built with.
    ///
    /// # Errors
    /// The engine lacks one of them.
    pub fn begin(self, members: &[Member], metrics: &WebhookMetrics) -> Result<Reloader, String> {
        let modes = self.configuration.modes;
        let sequence = Sequence::new(&modes, members, self.webhooks, metrics.clone());
        let sequence = sequence.map_err(|error| error.to_string())?;
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let reloader = Reloader {
            path: self.path,
            members: members.to_vec(),
            required: modes.into_iter().filter(|mode| *mode != Mode::Webhook).collect(),
            sequence: Arc::new(ArcSwap::from_pointee(sequence)),
            metrics: metrics.clone(),
            server: hash(host.trim().as_bytes()),
            last_bytes: self.bytes,
            last_document: self.document,
        };
        reloader.metrics.in_force(&reloader.server, &hash(&reloader.last_bytes));
        Ok(reloader)
    }
}

impl Reloader {
    /// What is asked; changes with the file.
    pub fn sequence(&self) -> Arc<ArcSwap<Sequence>> {
        Arc::clone(&self.sequence)
    }

    /// Looks at the file again and again. Never ends.
    pub async fn run(mut self) {
        // When a file cannot be read this is said once, until it can be.
        let mut was_readable = true;
        loop {
            tokio::time::sleep(EVERY).await;
            match tokio::fs::read(&self.path).await {
                Ok(bytes) => {
                    was_readable = true;
                    self.check(bytes);
                }
                Err(error) => {
                    self.metrics.reloaded(&self.server, false, SystemTime::now());
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
                self.metrics.reloaded(&self.server, true, SystemTime::now());
                self.metrics.in_force(&self.server, &hash(&self.last_bytes));
                tracing::info!(path = %self.path.display(), "the authorization configuration is taken anew");
            }
            Err(error) => {
                self.metrics.reloaded(&self.server, false, SystemTime::now());
                self.complain(&error);
            }
        }
    }

    /// Whether there is another configuration now, which is in force.
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
        let sequence = Sequence::new(&configuration.modes, &self.members, webhooks, self.metrics.clone())
            .map_err(|error| error.to_string())?;
        // AC-117: those under way finish on the old one.
        self.sequence.store(Arc::new(sequence));
        Ok(true)
    }
}

/// AC-123
fn hash(bytes: &[u8]) -> String {
    let hex: String = pki::sha256(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}
