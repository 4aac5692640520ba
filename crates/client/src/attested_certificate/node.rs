//! The life cycle of a node's certificate (AT-29, AT-31).

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use portcullis_pki::{IssuedCertificate, Request};

use super::attestor::Attestor;
use super::cache::{Cache, Generation, State as Remembered, text};
use super::error::AttestedError;
use super::key::NodeKey;
use super::validity::{self, State};
use crate::clock::Clock;
use crate::connect::Parts;
use crate::node_certificate::request;

/// How far the clock may go back (AT-29).
const BACKWARDS: Duration = Duration::from_secs(5 * 60);
/// How long a renewal may delay the answer, while there is a usable certificate.
const RENEWAL: Duration = Duration::from_secs(30);
/// The waits after failed renewals: a minute, doubled up to half an hour (AT-29).
const FIRST_BACK_OFF: Duration = Duration::from_secs(60);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(30 * 60);
/// How long nothing is requested after a refusal (AT-35).
const REFUSED: Duration = Duration::from_secs(15 * 60);

/// What a node asks for, and where.
#[derive(Clone)]
pub struct Settings {
    /// The name of the node.
    pub node_name: String,
    /// The provider ID of the machine.
    pub provider_id: String,
    /// The signer.
    pub signer: String,
    /// The cache directory.
    pub cache_dir: PathBuf,
    /// The kubeconfig with the bootstrap credential.
    pub bootstrap_kubeconfig: Option<PathBuf>,
    /// The server that the client of the plugin uses; none for that of the bootstrap kubeconfig.
    pub server: Option<Parts>,
    /// The proxy through which a renewal is authenticated, for keys that never leave the TPM; none for the bootstrap
    /// credential.
    pub proxy: Option<Parts>,
    /// The requested lifetime. In seconds.
    pub expiration_seconds: Option<i32>,
    /// The age at which a certificate is renewed in any case.
    pub max_age: Option<Duration>,
    /// How long to wait for a certificate, and for another process.
    pub wait: Duration,
}

/// What happens, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeEvent {
    /// The cached certificate is not used, and why.
    Unusable(String),
    /// The cached certificate is due for renewal.
    Renewing,
    /// The key is on disk.
    KeyReady,
    /// The request exists.
    Requested {
        /// Its name.
        name: String,
        /// `single`, `enrol` or `prove`.
        phase: &'static str,
    },
    /// The controller issued a challenge.
    Challenged {
        /// The name of the request.
        name: String,
    },
    /// The request is answered by the controller: refused, with this reason, and may be repeated.
    Repeating {
        /// The reason code.
        reason: String,
    },
    /// The certificate was received.
    Received,
    /// The new generation is on disk.
    Written,
    /// The new generation is the current one.
    Switched {
        /// When the certificate expires.
        not_after: SystemTime,
    },
    /// An error that is no reason to fail: the old certificate is used, or the step is repeated.
    Trouble(String),
    /// The clock is earlier than before (AT-29).
    ClockWentBack,
}

/// A callback for events, which can stop the work.
pub type Observer = Arc<dyn Fn(&NodeEvent) -> ControlFlow<()> + Send + Sync>;

/// A certificate with its key.
#[derive(Debug)]
pub struct Credential {
    /// The certificate.
    pub certificate: IssuedCertificate,
    /// The key.
    pub key: NodeKey,
}

/// A node that proves its machine.
pub struct Node {
    pub(super) settings: Settings,
    pub(super) attestor: Arc<dyn Attestor>,
    pub(super) template: Request,
    pub(super) cache: Cache,
    pub(super) clock: Arc<dyn Clock>,
    observer: Observer,
}

impl Node {
    /// Opens the cache.
    ///
    /// # Errors
    /// The node name is invalid, or the cache directory is not private.
    pub fn new(
        settings: Settings,
        attestor: Arc<dyn Attestor>,
        clock: Arc<dyn Clock>,
        observer: Observer,
    ) -> Result<Self, AttestedError> {
        let template =
            Request { provider_id: settings.provider_id.clone(), ..request::template(&settings.node_name)? };
        let cache = Cache::open(&settings.cache_dir)?;
        Ok(Self { settings, attestor, template, cache, clock, observer })
    }

    /// The cache.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Returns the certificate of the cache if it is usable, also if it is due for renewal. Sends nothing.
    ///
    /// # Errors
    /// See [`AttestedError`].
    pub async fn cached(&self) -> Result<Option<Credential>, AttestedError> {
        let _lock = self.cache.lock(self.settings.wait, &*self.clock).await?;
        let (usable, _) = self.usable(self.clock.now())?;
        Ok(usable.map(|Generation { certificate, key, .. }| Credential { certificate, key }))
    }

    /// Returns the certificate of the cache, or obtains one (AT-29, AT-31).
    ///
    /// # Errors
    /// See [`AttestedError`].
    pub async fn credential(&self) -> Result<Credential, AttestedError> {
        let began = self.clock.running();
        let _lock = self.cache.lock(self.settings.wait, &*self.clock).await?;
        let now = self.clock.now();
        let mut state = self.cache.state();
        let went_back = Remembered::time(state.high_water.as_ref())
            .and_then(|high| high.duration_since(now).ok())
            .is_some_and(|behind| behind > BACKWARDS);
        let (usable, is_due) = self.usable(now)?;
        if let Some(generation) = usable {
            self.forget_issued(&generation)?;
            let is_held = Remembered::time(state.back_off_until.as_ref()).is_some_and(|until| now < until);
            if went_back && is_due {
                self.tell(NodeEvent::ClockWentBack)?;
            } else if is_due && !is_held {
                self.tell(NodeEvent::Renewing)?;
                let wait = self.settings.wait.min(RENEWAL);
                match self.obtain(Some(&generation), wait).await {
                    Ok(credential) => {
                        self.succeeded(&mut state, now)?;
                        return Ok(credential);
                    }
                    Err(AttestedError::Stopped) => return Err(AttestedError::Stopped),
                    Err(error) => {
                        let wait =
                            FIRST_BACK_OFF.saturating_mul(1 << state.failures.min(10)).min(LONGEST_BACK_OFF);
                        state.failures = state.failures.saturating_add(1);
                        state.back_off_until = now.checked_add(wait).map(text);
                        state.last_error = error.to_string();
                        self.cache.keep_state(&state)?;
                        self.tell(NodeEvent::Trouble(format!("{error}; using the current certificate")))?;
                    }
                }
            }
            let Generation { certificate, key, .. } = generation;
            return Ok(Credential { certificate, key });
        }
        if let Some(until) = Remembered::time(state.refused_until.as_ref()).filter(|until| now < *until) {
            return Err(AttestedError::Refused {
                reason: state.refused_reason,
                message: format!("{}; no new request before {}", state.last_error, text(until)),
            });
        }
        let left = self.settings.wait.saturating_sub(self.clock.running().saturating_sub(began));
        let expired = self.cache.current(self.attestor.tpm())?.ok().flatten();
        match self.obtain(expired.as_ref(), left).await {
            Ok(credential) => {
                self.succeeded(&mut state, now)?;
                Ok(credential)
            }
            Err(AttestedError::Stopped) => Err(AttestedError::Stopped),
            Err(error) => {
                state.last_error = error.to_string();
                if let AttestedError::Refused { reason, message } = &error {
                    state.refused_until = now.checked_add(REFUSED).map(text);
                    state.refused_reason.clone_from(reason);
                    // It is told again after the reason.
                    state.last_error.clone_from(message);
                }
                self.cache.keep_state(&state)?;
                Err(error)
            }
        }
    }

    /// The cached certificate if it can be used, and whether it should be renewed.
    fn usable(&self, now: SystemTime) -> Result<(Option<Generation>, bool), AttestedError> {
        let generation = match self.cache.current(self.attestor.tpm())? {
            Ok(Some(generation)) => generation,
            Ok(None) => return Ok((None, false)),
            Err(why) => {
                self.tell(NodeEvent::Unusable(why))?;
                return Ok((None, false));
            }
        };
        let meta = &generation.meta;
        if (meta.signer.as_str(), meta.provider.as_str()) != (&self.settings.signer, self.attestor.provider())
        {
            self.tell(NodeEvent::Unusable("it is of another signer or attestor".to_owned()))?;
            return Ok((None, false));
        }
        let max_age = self.settings.max_age;
        let public_key = generation.key.public_der();
        match validity::state(&generation.certificate, public_key, &self.template, max_age, now) {
            State::Usable => Ok((Some(generation), false)),
            State::Rotate => Ok((Some(generation), true)),
            State::Unusable(why) => {
                self.tell(NodeEvent::Unusable(why))?;
                Ok((None, false))
            }
        }
    }

    /// Forgets a pending key for which the certificate is there already: the last run was stopped before it did (AT-21).
    fn forget_issued(&self, generation: &Generation) -> Result<(), AttestedError> {
        if !self.cache.has_pending() {
            return Ok(());
        }
        let pending = self.cache.pending_key(self.attestor.tpm(), self.clock.now())?;
        match pending {
            Some(key) if key.public_der() == generation.key.public_der() => self.cache.forget_pending(),
            _ => Ok(()),
        }
    }

    fn succeeded(&self, state: &mut Remembered, now: SystemTime) -> Result<(), AttestedError> {
        let high = Remembered::time(state.high_water.as_ref()).map_or(now, |high| high.max(now));
        *state = Remembered { high_water: Some(text(high)), ..Remembered::default() };
        self.cache.keep_state(state)
    }

    pub(super) fn tell(&self, event: NodeEvent) -> Result<(), AttestedError> {
        match (self.observer)(&event) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(AttestedError::Stopped),
        }
    }
}
