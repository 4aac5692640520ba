//! A KMS plug-in as a provider: it encrypts and decrypts values.

use std::fmt;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use tokio::time::timeout;

use super::envelope::{Envelope, SeedSource};
use super::seeds::{Seeds, cipher};
use super::settings::{KmsError, Settings};
use super::worker::{Question, Worker, Writing};
use crate::encryption::cipher::Cipher;

/// A KMS plug-in. It is not called before [`Kms::start`]; dropping it ends its thread.
pub struct Kms {
    settings: Settings,
    seeds: Seeds,
    worker: OnceLock<Worker>,
}

impl fmt::Debug for Kms {
    /// Only the settings.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kms").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Kms {
    /// A plug-in that is not called yet.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { settings, seeds: Seeds::default(), worker: OnceLock::new() }
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Starts the thread that calls the plug-in, if it does not run yet. Does not wait for the plug-in.
    ///
    /// # Errors
    /// The system starts no thread.
    pub fn start(&self) -> Result<(), KmsError> {
        if self.worker.get().is_none() {
            // If two start it at once, one thread ends again.
            let _ = self.worker.set(Worker::start(&self.settings, &self.seeds)?);
        }
        Ok(())
    }

    /// Waits until the plug-in is healthy, at most for the time of [`Pace::start`](super::Pace::start).
    ///
    /// # Errors
    /// What is wrong with it, after that time.
    pub async fn ready(&self) -> Result<(), KmsError> {
        let mut state = self.worker()?.state.clone();
        let most = self.settings.pace.start.max(self.settings.timeout.saturating_mul(2));
        let is_healthy = timeout(most, state.wait_for(|state| state.health.is_ok())).await.is_ok();
        if is_healthy { Ok(()) } else { self.health() }
    }

    /// What the plug-in last said of itself. Does not wait.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn health(&self) -> Result<(), KmsError> {
        self.worker()?.state.borrow().health.clone()
    }

    fn worker(&self) -> Result<&Worker, KmsError> {
        self.worker.get().ok_or_else(|| self.settings.failed("is not used yet"))
    }

    /// The start of its values, after [`PREFIX`](crate::encryption::PREFIX).
    fn prefix(&self) -> String {
        format!("kms:v2:{}:", self.settings.name)
    }

    /// Whether values can be encrypted now.
    pub(in crate::encryption) fn check(&self) -> Result<(), KmsError> {
        self.writing().map(drop)
    }

    /// The seed for new values.
    fn writing(&self) -> Result<Writing, KmsError> {
        let state = self.worker()?.state.borrow();
        match &state.writing {
            Some(writing) if Instant::now() <= writing.until => Ok(writing.clone()),
            Some(_) => {
                let last = state.health.as_ref().err().map(|error| format!(": {error}")).unwrap_or_default();
                let most = self.settings.pace.writes;
                Err(self.settings.failed(format!("has not said for {most:?} which key it has{last}")))
            }
            None => Err(match &state.health {
                Err(error) => error.clone(),
                Ok(()) => self.settings.failed("has not said which key it has"),
            }),
        }
    }

    /// Encrypts a value; the result begins after [`PREFIX`](crate::encryption::PREFIX).
    pub(in crate::encryption) fn seal(&self, storage_key: &str, value: &[u8]) -> Result<Vec<u8>, KmsError> {
        let Writing { source, cipher, .. } = self.writing()?;
        let data = cipher.encrypt(storage_key.as_bytes(), value)?;
        Ok(Envelope { source: SeedSource::clone(&source), data }.write(self.prefix().as_bytes()))
    }

    /// Decrypts `body`, and returns whether it is encrypted as new values are. `None` if the value names another provider.
    pub(in crate::encryption) fn open(
        &self,
        storage_key: &str,
        body: &[u8],
    ) -> Option<Result<(Vec<u8>, bool), KmsError>> {
        let message = body.strip_prefix(self.prefix().as_bytes())?;
        Some(self.opened(storage_key, message))
    }

    fn opened(&self, storage_key: &str, message: &[u8]) -> Result<(Vec<u8>, bool), KmsError> {
        let Envelope { source, data } = Envelope::read(message)?;
        let is_current = match &self.worker()?.state.borrow().writing {
            Some(writing) => writing.source.key_id == source.key_id && writing.source.kind == source.kind,
            // What would be written is not known.
            None => true,
        };
        let value = self.cipher(source)?.decrypt(storage_key.as_bytes(), &data)?;
        Ok((value, is_current))
    }

    /// The cipher of a seed. Asks the plug-in for an unknown one, and waits for the answer.
    fn cipher(&self, source: SeedSource) -> Result<Arc<dyn Cipher>, KmsError> {
        let digest = source.digest();
        if let Some(known) = self.seeds.get(&digest) {
            return Ok(known);
        }
        let kind = source.kind;
        let (answer, answered) = sync_channel(1);
        let stopped = || self.settings.failed("cannot be called: its thread has ended");
        self.worker()?.questions.send(Question { source, answer }).map_err(|_| stopped())?;
        let limit = self.settings.timeout;
        let seed = answered.recv_timeout(limit).map_err(|error| match error {
            RecvTimeoutError::Timeout => {
                self.settings.failed(format!("has not answered Decrypt within {limit:?}"))
            }
            RecvTimeoutError::Disconnected => stopped(),
        })??;
        let cipher = cipher(kind, &seed).map_err(|error| {
            self.settings.failed(format!("has decrypted the DEK source to what is no key: {error}"))
        })?;
        self.seeds.add(digest, Arc::clone(&cipher));
        Ok(cipher)
    }
}
