//! Does what [`Manager`] says: asks for certificates, waits for them and puts them in their place, once or for as long as
//! the node lives.
//!
//! Each step leaves behind what the next start needs: first the key, on disk; then the request, whose name follows from
//! the key; then the pair; then the link to it; then the kubeconfig; and only then the key is forgotten.
//!
//! DIVERGES: every request has a key that is on disk and a name that follows from it (CS-131, CS-132), where a kubelet
//! that rotates has neither (CS-100) and asks anew every 15 minutes, after each restart and after each refusal; and no
//! key is used for a second certificate, where one that does not rotate does so (CS-131).

use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf, absolute};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use portcullis_pki::{KeyPair, Pair, Request};

use super::error::CredentialError;
use super::files::{LockError, failed, remove};
use super::kubeconfig::{self, Standing};
use super::manager::{Manager, Step, WAIT};
use super::request::{self, Answer, IssuedError, Purpose, REQUESTS, Stored};
use super::store::{Store, StoreError};
use crate::call::CallError;
use crate::clock::Clock;
use crate::connect::{Connection, Credential};
use crate::random::fraction;
use crate::watched::{Event, Selection, Watched};

/// How often people are told that they are waited for.
const REMIND: Duration = Duration::from_secs(30);
/// The longest sleep: dates jump when clocks are set, and machines sleep.
pub(super) const NAP: Duration = Duration::from_secs(60);
/// How long a renewal may take before the certificate that there is is used once more.
const RENEWAL: Duration = Duration::from_secs(5);

/// Where everything is, and whose certificate it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The kubeconfig of whoever asks for the first certificate.
    pub bootstrap_kubeconfig: Option<PathBuf>,
    /// The kubeconfig that is written.
    pub kubeconfig: Option<PathBuf>,
    /// The directory of keys and certificates.
    pub cert_dir: PathBuf,
    /// The name of the node.
    pub node_name: String,
    /// How long certificates are asked for. Seconds; nothing leaves it to the signer.
    pub expiration_seconds: Option<i32>,
    /// Whether the bootstrap kubeconfig stays when there is a certificate, for when that expires (NB-18).
    pub rebootstrap: bool,
}

/// What happens on the way to a certificate, in this order.
#[derive(Debug)]
pub enum Progress<'a> {
    /// The key is on disk.
    KeyReady,
    /// The server holds the request: a new one, or one that was there.
    Requested {
        /// Its name.
        name: &'a str,
        /// Whether it was there.
        was_there: bool,
    },
    /// Somebody has to approve or to sign.
    Waiting {
        /// The name of the request.
        name: &'a str,
        /// For how long.
        since: Duration,
        /// Whether only the signature is missing.
        is_approved: bool,
    },
    /// Something failed, and is tried again.
    Trouble {
        /// What.
        why: &'a str,
        /// When it is tried again.
        retry_in: Duration,
    },
    /// The certificate is here.
    Received,
    /// The pair is on disk.
    Written,
    /// The pair is the current one of its purpose.
    Switched,
    /// The kubeconfig leads to it.
    KubeconfigWritten {
        /// The file.
        path: &'a Path,
    },
    /// The key has no other place any more than beside its certificate.
    KeyForgotten,
    /// There is a certificate, and nothing to do before a date.
    Resting {
        /// Until when it is valid.
        not_after: SystemTime,
        /// When it is replaced.
        until: SystemTime,
    },
}

/// Who is told, and can say that it is enough.
pub type Observer = Arc<dyn Fn(&Progress<'_>) -> ControlFlow<()> + Send + Sync>;

/// Gets a node's client certificate, and keeps it fresh.
pub struct Agent {
    pub(super) settings: Settings,
    /// What the client certificate says.
    pub(super) template: Request,
    pub(super) store: Store,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) observer: Observer,
}

/// One certificate to ask for.
pub(super) struct Wanted<'a> {
    pub(super) purpose: Purpose,
    pub(super) template: &'a Request,
    pub(super) store: &'a Store,
}

/// Where the pair that is in use comes from.
struct Found {
    pair: Pair,
    /// Only good for asking for another one (CS-137).
    is_bootstrap: bool,
}

impl Agent {
    /// Looks at the directory, which is made if it is not there.
    ///
    /// # Errors
    /// A name that no node has, or a directory that cannot be used.
    pub fn new(
        settings: Settings,
        clock: Arc<dyn Clock>,
        observer: Observer,
    ) -> Result<Self, CredentialError> {
        let template = request::template(&settings.node_name)?;
        let store = Store::open(&settings.cert_dir, Purpose::Client.prefix())?;
        Ok(Self { settings, template, store, clock, observer })
    }

    /// The pair to use now, if there is one that is valid and for this node. Asks nobody, and takes no lock.
    ///
    /// # Errors
    /// Files that cannot be read.
    pub fn current(&self) -> Result<Option<Pair>, CredentialError> {
        Ok(self.found()?.map(|found| found.pair).filter(|pair| self.is_usable(pair)))
    }

    /// Sees to it that there is a certificate (CS-131): uses the one that there is, renews it if it is time to, or waits
    /// for a first one for at most so long. Then writes the kubeconfig.
    ///
    /// # Errors
    /// See [`CredentialError`]. What has been achieved stays for the next start.
    pub async fn once(&self, wait: Duration) -> Result<Pair, CredentialError> {
        if let Some(pair) = self.settled()? {
            return Ok(pair);
        }
        let _lock = match (self.store.lock(), self.current()?) {
            (Ok(lock), _) => lock,
            // Somebody else is renewing it.
            (Err(LockError::Held { .. }), Some(pair)) => return Ok(pair),
            (Err(error), _) => return Err(error.into()),
        };
        // While we had no lock, somebody else may have been here.
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
        // That may have been all.
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
                Err(error) => error,
            };
            let now = self.clock.now();
            failures.failed(false, now, fraction());
            let retry_in = match failures.step(now) {
                Step::Wait(until) => until.duration_since(now).unwrap_or_default(),
                Step::Request | Step::End(_) => Duration::ZERO,
            };
            let left = wait.saturating_sub(self.clock.running().saturating_sub(began));
            if !error.may_pass() || retry_in >= left {
                return match usable {
                    Some(pair) => {
                        let why = format!("{error}; the certificate that there is, is used once more");
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

    /// Keeps the certificate fresh until `stop` ends (CS-135): writes the kubeconfig at once, gets a first certificate,
    /// and replaces it when it is time to.
    ///
    /// # Errors
    /// Files that cannot be used at the start, or no reason to go on (CS-139).
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
                    let now = self.clock.now();
                    match attempt {
                        Ok(pair) => {
                            not_after = Some(pair.not_after());
                            manager.succeeded(&pair, &self.template, now, fraction());
                        }
                        Err(CredentialError::Stopped) => return Err(CredentialError::Stopped),
                        Err(error) => {
                            manager.failed(error.is_server_well(), now, fraction());
                            let retry_in = match manager.step(now) {
                                Step::Wait(until) => until.duration_since(now).unwrap_or_default(),
                                Step::Request | Step::End(_) => Duration::ZERO,
                            };
                            self.tell(&Progress::Trouble { why: &error.to_string(), retry_in })?;
                        }
                    }
                }
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

    /// The pair, when there is nothing left to do for it.
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

    /// The pair in use (CS-101, CS-113, CS-137): of the store, else of the kubeconfig.
    fn found(&self) -> Result<Option<Found>, CredentialError> {
        let now = self.clock.now();
        if let Some(pair) = self.store.current()?.filter(|pair| pair.is_unexpired(now)) {
            return Ok(Some(Found { pair, is_bootstrap: false }));
        }
        let Some(path) = &self.settings.kubeconfig else { return Ok(None) };
        Ok(match kubeconfig::standing(path, now)? {
            Standing::Files(pair, _) => Some(Found { pair: *pair, is_bootstrap: false }),
            Standing::Inline(pair) => Some(Found { pair: *pair, is_bootstrap: true }),
            Standing::Absent | Standing::Invalid(_) => None,
        })
    }

    /// The pair in use; one that a kubeconfig held is put into the store (CS-101).
    fn adopt(&self) -> Result<Option<Found>, CredentialError> {
        let found = self.found()?.filter(|found| self.is_usable(&found.pair));
        if let Some(found) = found.as_ref().filter(|found| found.is_bootstrap) {
            self.store.switch_to(&self.store.write(&found.pair, self.clock.now())?)?;
        }
        Ok(found)
    }

    /// Writes the kubeconfig, if the one that is there does not lead to the pair of the store (CS-130). It may lead there
    /// before there is a pair (CS-135), unless it is still good for something itself.
    fn keep_kubeconfig(&self) -> Result<(), CredentialError> {
        let Some(path) = &self.settings.kubeconfig else { return Ok(()) };
        let current = self.store.current_path();
        let from = match kubeconfig::standing(path, self.clock.now())? {
            Standing::Files(_, file) if absolute(&file).map_err(failed("find", &file))? == current => {
                return Ok(());
            }
            Standing::Files(..) | Standing::Inline(_) if !current.exists() => return Ok(()),
            Standing::Files(..) | Standing::Inline(_) => path,
            Standing::Absent | Standing::Invalid(_) => {
                self.settings.bootstrap_kubeconfig.as_ref().ok_or_else(|| self.no_bootstrap())?
            }
        };
        kubeconfig::write(path, from, &current)?;
        self.tell(&Progress::KubeconfigWritten { path })
    }

    fn no_bootstrap(&self) -> CredentialError {
        CredentialError::NoBootstrap(self.store.dir().to_owned())
    }

    /// Asks for a client certificate and puts it in its place.
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

    /// Asks for one certificate and makes it the current one of its store (CS-104). Its key is still a pending one.
    pub(super) async fn obtain(&self, wanted: &Wanted<'_>, wait: Duration) -> Result<Pair, CredentialError> {
        let Wanted { purpose, template, store } = *wanted;
        // Whatever would keep the certificate from its place is found before anybody is asked for it.
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
                    // No request for this key will ever bring another one (CS-133).
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

    /// Connects with the certificate that there is (CS-136), else with the bootstrap credential (NB-42).
    ///
    /// DIVERGES: a bootstrap kubeconfig that everybody can read is refused (NB-18).
    pub(super) async fn connect(&self) -> Result<Connection, CredentialError> {
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

    /// Creates the request, or finds the one that an earlier start created (CS-131 to CS-133).
    async fn request(
        &self,
        connection: &Connection,
        name: &str,
        key: &KeyPair,
        wanted: &Wanted<'_>,
    ) -> Result<Stored, CredentialError> {
        let Wanted { purpose, template, store } = *wanted;
        let unusable = |why: String| StoreError::Key { path: store.pending_key_path(), why };
        let pem = template.to_pem(key).map_err(|e| unusable(e.to_string()))?;
        let seconds = self.settings.expiration_seconds;
        let object = request::object(name, purpose.signer(), &pem, purpose.usages(key), seconds);
        let (stored, was_there) = match connection.create::<Stored>(&REQUESTS, &object).await {
            Ok(created) => (created, false),
            Err(error) if error.is_already_exists() => {
                let found: Stored = connection.get(&REQUESTS, name).await?;
                let foreign = |why| CredentialError::Foreign { name: name.to_owned(), why };
                found.check(purpose.signer(), template, key).map_err(foreign)?;
                (found, true)
            }
            Err(error) => return Err(error.into()),
        };
        self.tell(&Progress::Requested { name, was_there })?;
        Ok(stored)
    }

    /// Waits until something comes of a request (CS-104).
    async fn wait_for(
        &self,
        connection: &Connection,
        stored: Stored,
        wait: Duration,
    ) -> Result<Vec<u8>, CredentialError> {
        let (name, uid) = (stored.metadata.name.clone(), stored.metadata.uid.clone());
        let gone = || CredentialError::Gone(name.clone());
        let selection = Selection { fields: Some(format!("metadata.name={name}")), labels: None };
        let mut watched = Watched::<Stored>::new(connection, REQUESTS, selection);
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
                    Event::Synced => {}
                    Event::Deleted(_) => return Err(gone()),
                    Event::Unreadable { why, .. } => {
                        return Err(CallError::Answer { path: REQUESTS.object(&name), why }.into());
                    }
                    Event::Failed { why, retry_in } => self.tell(&Progress::Trouble { why: &why, retry_in })?,
                },
                () = self.clock.sleep((wait - since).min(REMIND)) => {}
            }
        }
    }
}
