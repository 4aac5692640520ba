//! The encryption of a server, and the reload of a changed file while serving (ET-50).
//!
//! A file that cannot be used changes nothing: the rules in force stay, and the log and a metric report the failure.
//!
//! DIVERGES: the file is read every second instead of every minute. After a change the file of the store is written anew, so
//! that old keys can be removed in the same change: kube-apiserver leaves that to the administrator.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use portcullis_store::encryption::LiveEncryption;

use super::configuration::{EncryptionError, read};
use crate::metrics::ReloadMetrics;

/// The interval at which the file is read.
const EVERY: Duration = Duration::from_secs(1);

/// The encryption of a server. Without a file, nothing is encrypted.
#[derive(Debug, Default)]
pub struct EncryptionConfig {
    rules: Arc<LiveEncryption>,
    reloader: Option<Reloader>,
}

impl EncryptionConfig {
    /// Reads a file, and follows its changes if `is_reloaded` (`--encryption-provider-config-automatic-reload`).
    ///
    /// # Errors
    /// The file cannot be read, or see [`read`].
    pub fn load(path: &Path, is_reloaded: bool) -> Result<Self, EncryptionError> {
        let bytes = std::fs::read(path)
            .map_err(|error| EncryptionError::Unreadable(format!("cannot be read: {error}")))?;
        let rules = Arc::new(LiveEncryption::new(read(&bytes)?));
        let reloader = is_reloaded.then(|| Reloader {
            path: path.to_owned(),
            rules: Arc::clone(&rules),
            last: pki::sha256(&bytes),
        });
        Ok(Self { rules, reloader })
    }

    /// The rules in force.
    pub fn rules(&self) -> &Arc<LiveEncryption> {
        &self.rules
    }

    /// Whether `/healthz` has the check of KMS plug-ins: as in kube-apiserver, if there are plug-ins, or can be later.
    pub(crate) fn has_check(&self) -> bool {
        self.reloader.is_some() || self.rules.current().plugins().next().is_some()
    }

    /// Reloads the file when it changes, if that was asked for.
    pub(crate) fn reloader(self) -> Option<Reloader> {
        self.reloader
    }
}

/// Follows a file.
#[derive(Debug)]
pub struct Reloader {
    path: PathBuf,
    rules: Arc<LiveEncryption>,
    /// The hash of the contents that were used or refused last. The contents themselves are keys.
    last: [u8; 32],
}

impl Reloader {
    /// Checks the file periodically. Never returns. `rewrite` writes the file of the store anew.
    pub(crate) async fn run<F, R, E>(mut self, metrics: ReloadMetrics, rewrite: F)
    where
        F: Fn() -> R,
        R: Future<Output = Result<(), E>>,
        E: fmt::Display,
    {
        metrics.in_force(&self.last);
        // Each problem is logged once.
        let mut complaint = None;
        // Whether the file of the store must be written anew, and the last problem with that.
        let mut rewriting: Option<String> = None;
        loop {
            tokio::time::sleep(EVERY).await;
            match self.check().await {
                Ok(is_new) => {
                    complaint = None;
                    if is_new {
                        metrics.reloaded(true, SystemTime::now());
                        metrics.in_force(&self.last);
                        tracing::info!(path = %self.path.display(), "the encryption configuration was reloaded");
                        rewriting = Some(String::new());
                    }
                }
                Err(error) => {
                    metrics.reloaded(false, SystemTime::now());
                    if complaint.as_ref() != Some(&error) {
                        let path = self.path.display();
                        tracing::error!(%path, error, "the encryption configuration cannot be used; the one in force stays");
                    }
                    complaint = Some(error);
                }
            }
            if let Some(last) = &mut rewriting {
                match rewrite().await {
                    Ok(()) => {
                        rewriting = None;
                        tracing::info!("all values in the file of the store are encrypted as configured now");
                    }
                    Err(error) => {
                        let error = error.to_string();
                        if error != *last {
                            tracing::error!(
                                error,
                                "the file of the store still has values of the previous encryption configuration: do \
                                 not restart without its keys"
                            );
                        }
                        *last = error;
                    }
                }
            }
        }
    }

    /// Uses the contents of the file if they have changed, and returns whether they had.
    async fn check(&mut self) -> Result<bool, String> {
        let bytes = tokio::fs::read(&self.path).await.map_err(|error| format!("cannot be read: {error}"))?;
        let hash = pki::sha256(&bytes);
        if hash == self.last {
            return Ok(false);
        }
        let encryption = match read(&bytes) {
            Ok(encryption) => encryption,
            Err(error) => {
                self.last = hash;
                return Err(error.to_string());
            }
        };
        // A plug-in may be there later, so the same contents are tried again.
        encryption.start().await.map_err(|error| error.to_string())?;
        self.rules.replace(encryption);
        self.last = hash;
        Ok(true)
    }
}
