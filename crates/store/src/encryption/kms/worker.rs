//! The thread of a plug-in: it makes all calls, and follows the plug-in's key.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::thread::Builder;
use std::time::Instant;

use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use super::envelope::{SeedKind, SeedSource, check_key_id};
use super::seeds::{Seeds, cipher};
use super::service::Service;
use super::settings::{KmsError, Settings, quoted};
use crate::encryption::cipher::{Cipher, SEED, random};

/// The versions of the plug-in's API that kube-apiserver accepts.
const VERSIONS: [&str; 2] = ["v2", "v2beta1"];

/// What is known of the plug-in.
#[derive(Clone)]
pub(super) struct State {
    /// The result of the last question.
    pub(super) health: Result<(), KmsError>,
    /// What encrypts new values; `None` before the plug-in has answered.
    pub(super) writing: Option<Writing>,
}

/// The seed that encrypts new values.
#[derive(Clone)]
pub(super) struct Writing {
    pub(super) source: Arc<SeedSource>,
    pub(super) cipher: Arc<dyn Cipher>,
    /// Until when it may encrypt.
    pub(super) until: Instant,
}

/// A seed to decrypt, and where to send it.
pub(super) struct Question {
    pub(super) source: SeedSource,
    pub(super) answer: SyncSender<Result<Vec<u8>, KmsError>>,
}

/// The ends of the thread that others hold. The thread ends when they are dropped.
pub(super) struct Worker {
    pub(super) state: watch::Receiver<State>,
    pub(super) questions: mpsc::UnboundedSender<Question>,
}

impl Worker {
    /// Starts the thread.
    pub(super) fn start(settings: &Settings, seeds: &Seeds) -> Result<Self, KmsError> {
        let failed = |error| settings.failed(format!("cannot be called: no thread can be started: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let health = Err(settings.failed("has not been asked for its status yet"));
        let (publish, state) = watch::channel(State { health, writing: None });
        let (questions, asked) = mpsc::unbounded_channel();
        let (settings, seeds) = (settings.clone(), seeds.clone());
        let thread = Builder::new().name("kms-plugin".to_owned());
        let spawned = thread.spawn({
            let settings = settings.clone();
            move || runtime.block_on(run(settings, seeds, publish, asked))
        });
        spawned.map_err(|error| {
            settings.failed(format!("cannot be called: no thread can be started: {error}"))
        })?;
        Ok(Self { state, questions })
    }
}

/// Works until nobody can ask any more.
async fn run(
    settings: Settings,
    seeds: Seeds,
    publish: watch::Sender<State>,
    mut asked: mpsc::UnboundedReceiver<Question>,
) {
    let service = match Service::new(&settings) {
        Ok(service) => service,
        Err(error) => {
            publish.send_modify(|state| state.health = Err(error));
            // Nobody is answered until the plug-in is dropped.
            while asked.recv().await.is_some() {}
            return;
        }
    };
    let answering = async {
        while let Some(Question { source, answer }) = asked.recv().await {
            let service = service.clone();
            tokio::spawn(async move {
                // Whoever has waited too long does not need the answer.
                let _ = answer.send(service.decrypt(source).await);
            });
        }
    };
    let following =
        follow(Follower { settings: &settings, service: &service, seeds: &seeds, publish: &publish });
    tokio::select! {
        () = answering => {}
        () = following => {}
    }
}

/// Asks the plug-in for its status from time to time. Never returns.
async fn follow(follower: Follower<'_>) {
    let Settings { name, socket, pace, .. } = follower.settings;
    let mut last = None;
    loop {
        let health = follower.ask().await;
        match &health {
            Ok(()) if last != Some(Ok(())) => tracing::info!(name, socket, "the KMS plug-in is healthy"),
            Err(error) if last.as_ref() != Some(&health) => tracing::error!(%error, "the KMS plug-in fails"),
            _ => {}
        }
        let pause = if health.is_ok() { pace.healthy } else { pace.failing };
        last = Some(health.clone());
        follower.publish.send_modify(|state| state.health = health);
        sleep(pause).await;
    }
}

struct Follower<'w> {
    settings: &'w Settings,
    service: &'w Service,
    seeds: &'w Seeds,
    publish: &'w watch::Sender<State>,
}

impl Follower<'_> {
    /// Asks for the status, and makes a seed if the plug-in has a new key. As in kube-apiserver, an unhealthy plug-in that
    /// names its key does not stop writes.
    async fn ask(&self) -> Result<(), KmsError> {
        // What is asked now is known until then, however long the answer takes.
        let until = Instant::now().checked_add(self.settings.pace.writes);
        let until = until.ok_or_else(|| self.settings.failed("may write for too long"))?;
        let status = self.service.status().await?;
        let mut problems = Vec::new();
        if status.healthz != "ok" {
            problems.push(format!("says that it is not healthy: {}", quoted(&status.healthz)));
        }
        if !VERSIONS.contains(&status.version.as_str()) {
            problems.push(format!("has version {} of the API; expected v2", quoted(&status.version)));
        }
        let writing = match check_key_id(&status.key_id) {
            Ok(()) => self.writing(status.key_id, until).await.map(Some),
            Err(error) => {
                problems.push(format!("does not say which key it has: {error}"));
                Ok(None)
            }
        };
        match writing {
            Ok(Some(writing)) => self.publish.send_modify(|state| state.writing = Some(writing)),
            Ok(None) => {}
            Err(error) if problems.is_empty() => return Err(error),
            Err(_) => {}
        }
        if problems.is_empty() { Ok(()) } else { Err(self.settings.failed(problems.join(", and "))) }
    }

    /// The seed for a key of the plug-in: the current one, or a new one.
    async fn writing(&self, key_id: String, until: Instant) -> Result<Writing, KmsError> {
        let current = self.publish.borrow().writing.clone();
        if let Some(current) = current.filter(|current| current.source.key_id == key_id) {
            return Ok(Writing { until, ..current });
        }
        let seed: [u8; SEED] = random()?;
        let encrypted = self.service.encrypt(&seed).await?;
        let source = SeedSource {
            kind: SeedKind::Seed,
            encrypted: encrypted.ciphertext,
            key_id: encrypted.key_id,
            annotations: encrypted.annotations,
        };
        source
            .check()
            .map_err(|error| self.settings.failed(format!("has returned what cannot be stored: {error}")))?;
        if source.key_id != key_id {
            let problem = "has two keys at once: Status and Encrypt name different ones";
            return Err(self.settings.failed(problem));
        }
        let cipher = cipher(source.kind, &seed)?;
        self.seeds.add(source.digest(), Arc::clone(&cipher));
        tracing::info!(
            name = self.settings.name,
            "new values are encrypted with a new seed of the KMS plug-in"
        );
        Ok(Writing { source: Arc::new(source), cipher, until })
    }
}
