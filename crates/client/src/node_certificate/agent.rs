//! Executes the steps of [`Manager`]: requests certificates, waits for them and installs them, once or continuously.
//!
//! After each step the state on disk is sufficient for a restart: first the key; then the request, whose name is
//! derived from the key; then the pair; then the link to it; then the kubeconfig; and only then the key is deleted.
//!
//! DIVERGES: every request has a key that is on disk and a name that is derived from it (CS-131, CS-132). A kubelet
//! that rotates has neither (CS-100), and creates a new request every 15 minutes, after each restart and after each
//! refusal. No key is used for a second certificate, while a kubelet without rotation does that (CS-131).

use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf, absolute};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use portcullis_pki::{KeyPair, Pair, Request};

use super::error::CredentialError;
use super::files::{failed, remove};
use super::kubeconfig::{self, Standing};
use super::manager::{Manager, Step, WAIT};
use super::metrics::CertificateMetrics;
use super::request::{self, Answer, IssuedError, Purpose, Stored};
use super::store::Store;
use crate::call::{CallError, REQUESTS};
use crate::clock::Clock;
use crate::connect::{Connection, Credential};
use crate::random::fraction;
use crate::watched::{Event, Watched};

/// The interval of messages about a pending request.
const REMIND: Duration = Duration::from_secs(30);
/// The maximum sleep, because the clock may be changed and machines may be suspended.
pub(super) const NAP: Duration = Duration::from_secs(60);
/// How long to wait for a renewal before the current certificate is used again.
const RENEWAL: Duration = Duration::from_secs(5);

/// The paths, and the node of the certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The kubeconfig with the bootstrap credentials.
    pub bootstrap_kubeconfig: Option<PathBuf>,
    /// The kubeconfig that is written.
    pub kubeconfig: Option<PathBuf>,
    /// The directory of keys and certificates.
    pub cert_dir: PathBuf,
    /// The name of the node.
    pub node_name: String,
    /// The requested lifetime of certificates. In seconds; none leaves it to the signer.
    pub expiration_seconds: Option<i32>,
    /// Whether the bootstrap kubeconfig is kept for when the certificate expires (NB-18).
    pub rebootstrap: bool,
    /// For a serving certificate alone; none if the agent also maintains the client certificate.
    pub serving: Option<ServingSettings>,
}

/// A serving certificate that is requested with a client certificate of other code (AT-172).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServingSettings {
    /// The kubeconfig with which the node is a client.
    pub client_kubeconfig: PathBuf,
    /// The signer.
    pub signer: String,
}

/// The progress towards a certificate, in this order.
#[derive(Debug)]
pub enum Progress<'a> {
    /// The key is on disk.
    KeyReady,
    /// The request exists: it was created now or earlier.
    Requested {
        /// Its name.
        name: &'a str,
        /// Whether it existed before.
        was_there: bool,
    },
    /// The request waits for approval or signing.
    Waiting {
        /// The name of the request.
        name: &'a str,
        /// The time waited so far.
        since: Duration,
        /// Whether only the signature is missing.
        is_approved: bool,
    },
    /// An error, which is retried.
    Trouble {
        /// What.
        why: &'a str,
        /// The time until the retry.
        retry_in: Duration,
    },
    /// The certificate was received.
    Received,
    /// The pair is on disk.
    Written,
    /// The pair is the current one.
    Switched,
    /// The kubeconfig refers to it.
    KubeconfigWritten {
        /// The file.
        path: &'a Path,
    },
    /// The pending key was deleted; it remains only in the pair.
    KeyForgotten,
    /// The certificate is valid, and nothing is due before a date.
    Resting {
        /// The expiry of the certificate.
        not_after: SystemTime,
        /// The date of the renewal.
        until: SystemTime,
    },
}

/// A callback for progress, which can stop the agent.
pub type Observer = Arc<dyn Fn(&Progress<'_>) -> ControlFlow<()> + Send + Sync>;

/// Obtains and renews a node's client certificate.
pub struct Agent {
    pub(super) settings: Settings,
    /// The required contents of the client certificate.
    pub(super) template: Request,
    pub(super) store: Store,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) observer: Observer,
    pub(super) metrics: CertificateMetrics,
}

/// A certificate to request.
pub(super) struct Wanted<'a> {
    pub(super) purpose: Purpose,
    pub(super) template: &'a Request,
    pub(super) store: &'a Store,
}

/// The source of the current pair.
struct Found {
    pair: Pair,
    /// Whether it may only be used to request another one (CS-137).
    is_bootstrap: bool,
}

impl Agent {
    /// Opens the directory, and creates it if it does not exist.
    ///
    /// # Errors
    /// The node name is invalid, or the directory cannot be used.
    pub fn new(
        settings: Settings,
        clock: Arc<dyn Clock>,
        observer: Observer,
    ) -> Result<Self, CredentialError> {
        let template = request::template(&settings.node_name)?;
        let store = Store::open(&settings.cert_dir, Purpose::Client.prefix())?;
        Ok(Self { settings, template, store, clock, observer, metrics: CertificateMetrics::default() })
    }

    /// Returns the metrics of the certificates that [`Self::run`] and [`Self::serve`] maintain (CS-141).
    pub fn metrics(&self) -> &CertificateMetrics {
        &self.metrics
    }

    /// Returns the current pair, if it is valid and for this node. Sends no request, and takes no lock.
    ///
    /// # Errors
    /// The files cannot be read.
    pub fn current(&self) -> Result<Option<Pair>, CredentialError> {
        Ok(self.found()?.map(|found| found.pair).filter(|pair| self.is_usable(pair)))
    }

    /// Ensures that there is a certificate (CS-131): uses the existing one, renews it if it is due, or waits for the
    /// first one up to a timeout. Then writes the kubeconfig.
    ///
    /// # Errors
    /// See [`CredentialError`]. Completed steps are kept for the next start.
    pub async fn once(&self, wait: Duration) -> Result<Pair, CredentialError> {
        if let Some(pair) = self.settled()? {
            return Ok(pair);
        }
        let _lock = match (self.store.lock(), self.current()?) {
            (Ok(lock), _) => lock,
            // Another process is renewing it.
            (Err(CredentialError::Held { .. }), Some(pair)) => return Ok(pair),
            (Err(error), _) => return Err(error),
        };
        // Another process may have finished before we took the lock.
        if let Some(pair) = self.settled()? {
            return Ok(pair);
        }
        let found = self.adopt()?;
        let must_replace = found.as_ref().is_some_and(|found| found.is_bootstrap);
        let usable = found.map(|found| found.pair);
        if let Some(pair) = &usable {
            self.keep_kubeconfig()?;
            self.store.forget_answered_key(pair)?;
        }
        // There may be nothing left to do.
        if let Some(pair) = self.settled()?.filter(|_| !must_replace) {
            return Ok(pair);
        }
        let began = self.clock.running();
        let wait = if usable.is_some() { wait.min(RENEWAL) } else { wait };
        let mut failures = Manager::begin(None, &self.template, self.clock.now(), fraction());
        loop {
            let left = wait.saturating_sub(self.clock.running().saturating_sub(began));
            let error = match self.attempt(left).await {
                Ok(pair) => return Ok(pair),
                Err(CredentialError::Stopped) => return Err(CredentialError::Stopped),
                // Asking took a part of the time.
                Err(CredentialError::Pending { name, is_approved, .. }) => {
                    CredentialError::Pending { name, is_approved, waited: wait }
                }
                Err(error) => error,
            };
            let retry_in = failures.failed(false, self.clock.now(), fraction());
            let left = wait.saturating_sub(self.clock.running().saturating_sub(began));
            if !error.may_pass() || retry_in >= left {
                return match usable {
                    Some(pair) => {
                        let why = format!("{error}; using the current certificate");
                        self.tell(&Progress::Trouble { why: &why, retry_in: Duration::ZERO })?;
                        Ok(pair)
                    }
                    None => Err(error),
                };
            }
            self.tell(&Progress::Trouble { why: &error.to_string(), retry_in })?;
            self.clock.sleep(retry_in).await;
        }
    }

    /// Keeps the certificate valid until `stop` completes (CS-135): writes the kubeconfig at once, gets a first
    /// certificate, and renews it when it is due.
    ///
    /// # Errors
    /// The files cannot be used at startup, or there is no reason to continue (CS-139).
    pub async fn run(&self, stop: impl Future<Output = ()>) -> Result<(), CredentialError> {
        let mut stop = std::pin::pin!(stop);
        let _lock = self.store.lock()?;
        self.store.check_links()?;
        let found = self.adopt()?;
        if let Some(found) = &found {
            self.store.forget_answered_key(&found.pair)?;
        }
        self.keep_kubeconfig()?;
        let pair = found.as_ref().map(|found| &found.pair);
        let mut manager = Manager::begin(pair, &self.template, self.clock.now(), fraction());
        if found.as_ref().is_some_and(|found| found.is_bootstrap) {
            manager.force();
        }
        let mut not_after = pair.map(Pair::not_after);
        if let Some(pair) = pair {
            self.metrics.client.is_now(pair);
        }
        loop {
            let now = self.clock.now();
            match manager.step(now) {
                Step::End(why) => return Err(CredentialError::Ended(why)),
                Step::Wait(until) => {
                    if let Some(not_after) = not_after.take() {
                        self.tell(&Progress::Resting { not_after, until })?;
                    }
                    let nap = until.duration_since(now).unwrap_or_default().min(NAP);
                    tokio::select! {
                        () = self.clock.sleep(nap) => {}
                        () = &mut stop => return Ok(()),
                    }
                }
                Step::Request => {
                    let attempt = tokio::select! {
                        attempt = self.attempt(WAIT) => attempt,
                        () = &mut stop => return Ok(()),
                    };
                    match &attempt {
                        Ok(pair) => drop(self.metrics.client.is_now(pair)),
                        Err(_) => self.metrics.client.failed(),
                    }
                    let noted =
                        self.note(attempt, &self.template, &mut manager, CredentialError::is_server_well)?;
                    not_after = noted.or(not_after);
                }
            }
        }
    }

    /// Records the outcome of an attempt, and reports an error. Returns the expiry of a new certificate.
    pub(super) fn note(
        &self,
        attempt: Result<Pair, CredentialError>,
        template: &Request,
        manager: &mut Manager,
        is_server_well: fn(&CredentialError) -> bool,
    ) -> Result<Option<SystemTime>, CredentialError> {
        let now = self.clock.now();
        match attempt {
            Ok(pair) => {
                manager.succeeded(&pair, template, now, fraction());
                Ok(Some(pair.not_after()))
            }
            Err(CredentialError::Stopped) => Err(CredentialError::Stopped),
            Err(error) => {
                let retry_in = manager.failed(is_server_well(&error), now, fraction());
                self.tell(&Progress::Trouble { why: &error.to_string(), retry_in })?;
                Ok(None)
            }
        }
    }

    pub(super) fn tell(&self, progress: &Progress<'_>) -> Result<(), CredentialError> {
        match (self.observer)(progress) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(CredentialError::Stopped),
        }
    }

    fn is_usable(&self, pair: &Pair) -> bool {
        pair.is_unexpired(self.clock.now()) && pair.satisfies(&self.template)
    }

    /// Returns the pair if nothing is left to do for it.
    fn settled(&self) -> Result<Option<Pair>, CredentialError> {
        let Some(found) = self.found()?.filter(|found| self.is_usable(&found.pair)) else { return Ok(None) };
        let manager = Manager::begin(Some(&found.pair), &self.template, self.clock.now(), fraction());
        let is_resting = matches!(manager.step(self.clock.now()), Step::Wait(_)) && !found.is_bootstrap;
        let has_kubeconfig = match &self.settings.kubeconfig {
            Some(path) => matches!(
                kubeconfig::standing(path, self.clock.now())?,
                Standing::Files(..) | Standing::Inline(_)
            ),
            None => true,
        };
        let has_key = self.store.pending_key_path().exists();
        Ok((is_resting && has_kubeconfig && !has_key).then_some(found.pair))
    }

    /// Returns the current pair (CS-101, CS-113, CS-137): from the store, else from the kubeconfig.
    fn found(&self) -> Result<Option<Found>, CredentialError> {
        let now = self.clock.now();
        if let Some(pair) = self.store.current()?.filter(|pair| pair.is_unexpired(now)) {
            return Ok(Some(Found { pair, is_bootstrap: false }));
        }
        let Some(path) = &self.settings.kubeconfig else { return Ok(None) };
        Ok(match kubeconfig::standing(path, now)? {
            Standing::Files(pair, _) => Some(Found { pair: *pair, is_bootstrap: false }),
            Standing::Inline(pair) => Some(Found { pair: *pair, is_bootstrap: true }),
            Standing::Absent | Standing::Invalid => None,
        })
    }

    /// Returns the current pair; one from a kubeconfig is copied to the store (CS-101).
    fn adopt(&self) -> Result<Option<Found>, CredentialError> {
        let found = self.found()?.filter(|found| self.is_usable(&found.pair));
        if let Some(found) = found.as_ref().filter(|found| found.is_bootstrap) {
            self.store.switch_to(&self.store.write(&found.pair, self.clock.now())?)?;
        }
        Ok(found)
    }

    /// Writes the kubeconfig, unless it already refers to the pair in the store (CS-130). It may do so before the pair
    /// exists (CS-135), unless the existing kubeconfig is still usable.
    fn keep_kubeconfig(&self) -> Result<(), CredentialError> {
        let Some(path) = &self.settings.kubeconfig else { return Ok(()) };
        let current = self.store.current_path();
        let from = match kubeconfig::standing(path, self.clock.now())? {
            Standing::Files(_, file) if absolute(&file).map_err(failed("find", &file))? == current => {
                return Ok(());
            }
            Standing::Files(..) | Standing::Inline(_) if !current.exists() => return Ok(()),
            Standing::Files(..) | Standing::Inline(_) => path,
            Standing::Absent | Standing::Invalid => {
                self.settings.bootstrap_kubeconfig.as_ref().ok_or_else(|| self.no_bootstrap())?
            }
        };
        kubeconfig::write(path, from, &current)?;
        self.tell(&Progress::KubeconfigWritten { path })
    }

    fn no_bootstrap(&self) -> CredentialError {
        CredentialError::NoBootstrap(self.store.dir().to_owned())
    }

    /// Requests a client certificate and installs it.
    async fn attempt(&self, wait: Duration) -> Result<Pair, CredentialError> {
        let wanted = Wanted { purpose: Purpose::Client, template: &self.template, store: &self.store };
        let pair = self.obtain(&wanted, wait).await?;
        self.keep_kubeconfig()?;
        self.forget_key(&wanted)?;
        if let Some(path) = self.settings.bootstrap_kubeconfig.as_ref().filter(|_| !self.settings.rebootstrap)
        {
            remove(path)?;
        }
        Ok(pair)
    }

    pub(super) fn forget_key(&self, wanted: &Wanted<'_>) -> Result<(), CredentialError> {
        wanted.store.forget_pending_key()?;
        self.tell(&Progress::KeyForgotten)
    }

    /// Requests one certificate and makes it the current one of its store (CS-104). Its key is still a pending one.
    pub(super) async fn obtain(&self, wanted: &Wanted<'_>, wait: Duration) -> Result<Pair, CredentialError> {
        let Wanted { purpose, template, store } = *wanted;
        // Anything that would prevent the installation is detected before a certificate is requested.
        store.check_links()?;
        let connection = self.connect().await?;
        let key = store.pending_key()?;
        self.tell(&Progress::KeyReady)?;
        let name = request::name(key.public_der(), template, purpose.usages(&key));
        let stored = self.request(&connection, &name, &key, wanted).await?;
        let certificates = self.wait_for(&connection, stored, wait).await?;
        let pair = match request::issued(&certificates, &key, template, self.clock.now()) {
            Ok(pair) => pair,
            Err(why) => {
                if why == IssuedError::Expired {
                    // No request with this key can succeed any more (CS-133).
                    store.forget_pending_key()?;
                }
                return Err(CredentialError::Useless { name, why });
            }
        };
        self.tell(&Progress::Received)?;
        let path = store.write(&pair, self.clock.now())?;
        self.tell(&Progress::Written)?;
        store.switch_to(&path)?;
        self.tell(&Progress::Switched)?;
        Ok(pair)
    }

    /// Connects with the current certificate (CS-136), else with the bootstrap credentials (NB-42).
    ///
    /// DIVERGES: a world-readable bootstrap kubeconfig is refused (NB-18).
    pub(super) async fn connect(&self) -> Result<Connection, CredentialError> {
        if let Some(serving) = &self.settings.serving {
            return Ok(Connection::from_kubeconfig(&serving.client_kubeconfig, None).await?);
        }
        if let Some(pair) = self.current()? {
            let credential = Credential::Certificate {
                certificate: pair.certificates_pem().into_bytes(),
                key: pair.key().to_pem().into_bytes(),
            };
            let written = self.settings.kubeconfig.as_ref().filter(|path| path.exists());
            let bootstrap = self.settings.bootstrap_kubeconfig.as_ref();
            let from = written.or(bootstrap).ok_or_else(|| self.no_bootstrap())?;
            return Ok(Connection::to_server_of(from, credential).await?);
        }
        let path = self.settings.bootstrap_kubeconfig.as_ref().ok_or_else(|| self.no_bootstrap())?;
        let mode = fs::metadata(path).map_err(failed("read", path))?.mode();
        if mode & 0o007 != 0 {
            return Err(CredentialError::Exposed(path.clone()));
        }
        Ok(Connection::from_kubeconfig(path, None).await?)
    }

    /// The signer of a certificate.
    fn signer(&self, purpose: Purpose) -> &str {
        match &self.settings.serving {
            Some(serving) if purpose == Purpose::Serving => &serving.signer,
            _ => purpose.signer(),
        }
    }

    /// Creates the request, or finds the one of an earlier start (CS-131 to CS-133).
    async fn request(
        &self,
        connection: &Connection,
        name: &str,
        key: &KeyPair,
        wanted: &Wanted<'_>,
    ) -> Result<Stored, CredentialError> {
        let Wanted { purpose, template, store } = *wanted;
        let unusable = |why: String| CredentialError::Key { path: store.pending_key_path(), why };
        let pem = template.to_pem(key).map_err(|e| unusable(e.to_string()))?;
        let seconds = self.settings.expiration_seconds;
        let signer = self.signer(purpose);
        let object = request::object(name, signer, &pem, purpose.usages(key), seconds);
        let (stored, was_there) = match connection.create::<Stored>(&REQUESTS, &object).await {
            Ok(created) => (created, false),
            Err(error) if error.is_already_exists() => {
                let found: Stored = connection.get(&REQUESTS, name).await?;
                let foreign = |why| CredentialError::Foreign { name: name.to_owned(), why };
                found.check(signer, template, key).map_err(foreign)?;
                (found, true)
            }
            Err(error) => return Err(error.into()),
        };
        self.tell(&Progress::Requested { name, was_there })?;
        Ok(stored)
    }

    /// Waits for the outcome of a request (CS-104).
    async fn wait_for(
        &self,
        connection: &Connection,
        stored: Stored,
        wait: Duration,
    ) -> Result<Vec<u8>, CredentialError> {
        let (name, uid) = (stored.metadata.name.clone(), stored.metadata.uid.clone());
        let gone = || CredentialError::Gone(name.clone());
        let only = Some(format!("metadata.name={name}"));
        let mut watched = Watched::<Stored>::new(connection, REQUESTS, only);
        let began = self.clock.running();
        let mut reminded = None;
        let mut latest = Some(stored);
        let mut is_listed = false;
        let mut is_approved = false;
        loop {
            if let Some(stored) = latest.take() {
                if stored.metadata.uid != uid {
                    return Err(gone());
                }
                match stored.answer() {
                    Answer::Issued(certificates) => return Ok(certificates),
                    Answer::Refused { how, why } => return Err(CredentialError::Refused { name, how, why }),
                    Answer::Pending { is_approved: now } => is_approved = now,
                }
            }
            let since = self.clock.running().saturating_sub(began);
            if since >= wait {
                return Err(CredentialError::Pending { name, is_approved, waited: since });
            }
            if reminded.is_none_or(|at| since >= at + REMIND) {
                reminded = Some(since);
                self.tell(&Progress::Waiting { name: &name, since, is_approved })?;
            }
            tokio::select! {
                event = watched.next() => match event {
                    Event::Restarted => is_listed = false,
                    Event::Listed(stored) | Event::Applied(stored) => {
                        is_listed = true;
                        latest = Some(stored);
                    }
                    Event::Synced if !is_listed => return Err(gone()),
                    Event::Synced | Event::Current | Event::Resumed => {}
                    Event::Deleted(_) => return Err(gone()),
                    Event::Unreadable { why, .. } => {
                        return Err(CallError::Answer { path: REQUESTS.object(&name), why }.into());
                    }
                    Event::Failed { why, retry_in, .. } => self.tell(&Progress::Trouble { why: &why, retry_in })?,
                },
                () = self.clock.sleep((wait - since).min(REMIND)) => {}
            }
        }
    }
}
