//! Delegated authentication and authorization: the API server is asked whose a token is, and who may do what (KA-44,
//! KA-45, KA-50 to KA-53, KA-60 to KA-62, KA-76).
//!
//! No error is a yes: a server that cannot be asked, refuses, or answers what cannot be read gives no user and no
//! opinion. Answers are kept for a while, errors never; who asks the same at the same time waits for the same call.
//!
//! What callers send is bounded before it is sent, and what is kept of it is a hash. At most 32 reviews of each kind
//! are under way at once; others wait for their turn, for as long as a review may take.
//!
//! DIVERGES: a token longer than 64 KiB is rejected unasked, and so is one that is not UTF-8; a question longer than a
//! quarter of a MiB is an error. At most 4096 accepted and 4096 rejected tokens are remembered, and users of up to
//! 16 KiB each. Kubernetes knows no such limits.

pub mod answer;
pub mod cache;
mod call;
mod flight;
mod metrics;
mod question;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use portcullis_policy::{Attributes, User};

use crate::clock::{Clock, SystemClock};
use crate::connect::Connection;
use answer::Access;
use cache::ExpiringLru;
use call::{Caller, LIMIT, within};
use flight::Flights;
use question::Key;

pub use metrics::ReviewMetrics;

const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// KA-60
const ACCESS_ENTRIES: usize = 8192;
/// So many accepted tokens are remembered, and so many rejected ones: those that are made up push out no others.
const TOKEN_ENTRIES: usize = 4096;
/// The longest token that is asked about.
const TOKEN_BYTES: usize = 64 << 10;
/// The longest question about access, most of which is the user.
const QUESTION_BYTES: usize = 256 << 10;
/// Users with more to them are asked for each time.
const USER_BYTES: usize = 16 << 10;
/// So many reviews of each kind are under way at once.
const CALLS: usize = 32;

/// How long answers count.
#[derive(Clone)]
pub struct Settings {
    /// Those about tokens, accepted and rejected ones (KA-65). Zero: not at all.
    pub token_ttl: Duration,
    /// Those that allow (KA-68). Zero: not at all.
    pub authorized_ttl: Duration,
    /// Those that do not (KA-68). Zero: not at all.
    pub unauthorized_ttl: Duration,
    /// What is counted.
    pub metrics: ReviewMetrics,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

impl Default for Settings {
    /// As a kubelet has it (KA-65, KA-68).
    fn default() -> Self {
        Self {
            token_ttl: Duration::from_secs(2 * 60),
            authorized_ttl: Duration::from_secs(5 * 60),
            unauthorized_ttl: Duration::from_secs(30),
            metrics: ReviewMetrics::default(),
            clock: Arc::new(SystemClock::new()),
        }
    }
}

/// What the API server thinks of a request. Only [`Opinion::Allow`] is a yes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opinion {
    /// It may be.
    Allow,
    /// It may not be, whoever else allows it.
    Deny,
    /// Nobody allows it.
    NoOpinion,
}

/// There is no answer. The request that it was needed for must be refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReviewError {
    /// Nobody answers.
    #[error("cannot reach the API server {server}: {why}")]
    Unreachable {
        /// The server's URL.
        server: String,
        /// Why.
        why: String,
    },
    /// The API server does not take the review: we may not ask, or it cannot answer.
    #[error("the API server refuses the review: {message} ({code})")]
    Refused {
        /// The status code.
        code: u16,
        /// The reason for people.
        message: String,
    },
    /// What came is no answer.
    #[error("the API server's {kind} cannot be read: {why}")]
    Answer {
        /// What was asked for.
        kind: String,
        /// What is wrong with the answer. Never the answer itself.
        why: String,
    },
    /// The token is not accepted, for a reason (KA-44). No part of the token is in it.
    #[error("{0}")]
    Token(String),
    /// The API server says yes and no at once. That is a no (KA-53).
    #[error("the API server both allows and denies the request")]
    Contradiction,
    /// The question is too long to be asked.
    #[error("the question is larger than {QUESTION_BYTES} bytes")]
    TooLarge,
    /// Too many other reviews wait for the API server.
    #[error("too many reviews are waiting for the API server {server}")]
    Busy {
        /// The server's URL.
        server: String,
    },
}

/// Whose a token is; nobody's if it was rejected.
pub type TokenAnswer = Result<Option<Arc<User>>, ReviewError>;
/// What the API server thinks.
pub type AccessAnswer = Result<Opinion, ReviewError>;

/// Asks an API server. Clones are the same one, with the same memory.
#[derive(Clone)]
pub struct Reviews {
    shared: Arc<Shared>,
}

struct Shared {
    caller: Caller,
    settings: Settings,
    /// Makes the keys of tokens nobody else's (KA-45).
    secret: [u8; 32],
    accepted: ExpiringLru<Key, Arc<User>, Duration>,
    rejected: ExpiringLru<Key, (), Duration>,
    access: ExpiringLru<Key, Access, Duration>,
    token_calls: Arc<Flights<Key, TokenAnswer>>,
    access_calls: Arc<Flights<Key, Result<Access, ReviewError>>>,
}

impl std::fmt::Debug for Reviews {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reviews")
            .field("server", &self.shared.caller.connection.server())
            .finish_non_exhaustive()
    }
}

impl Reviews {
    /// Asks over this connection. Nothing is sent yet. The connection's [`Connection::refresh`] counts from the next
    /// review on.
    ///
    /// # Errors
    /// The system has no randomness for the keys of tokens.
    pub fn new(connection: Connection, settings: Settings) -> Result<Self, getrandom::Error> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret)?;
        let clock = Arc::clone(&settings.clock);
        let caller = Caller { connection, clock, silence: Mutex::default() };
        let shared = Shared {
            caller,
            settings,
            secret,
            accepted: ExpiringLru::new(TOKEN_ENTRIES),
            rejected: ExpiringLru::new(TOKEN_ENTRIES),
            access: ExpiringLru::new(ACCESS_ENTRIES),
            token_calls: Flights::new(CALLS),
            access_calls: Flights::new(CALLS),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Why the API server did not answer, if it did not when it was last asked. What is remembered does not count.
    pub fn unreachable(&self) -> Option<String> {
        self.shared.caller.silence.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What is counted.
    pub fn metrics(&self) -> &ReviewMetrics {
        &self.shared.settings.metrics
    }

    /// Whose a token is, if that is known without asking: it never waits.
    pub fn cached_token(&self, token: &[u8]) -> Option<TokenAnswer> {
        match self.token_key(token) {
            Some((key, _)) => self.shared.known_token(&key),
            None => Some(Ok(None)),
        }
    }

    /// Whose a token is (KA-44). Nobody's if it is empty, too long or not UTF-8.
    ///
    /// # Errors
    /// The token is rejected for a reason, or there is no answer.
    pub async fn token(&self, token: &[u8]) -> TokenAnswer {
        let Some((key, token)) = self.token_key(token) else { return Ok(None) };
        if let Some(known) = self.shared.known_token(&key) {
            return known;
        }
        let call = || {
            let (shared, token) = (Arc::clone(&self.shared), token.to_owned());
            async move { shared.ask_token(key, &token).await }
        };
        let joined = self.shared.token_calls.join(key, || self.shared.known_token(&key), call);
        self.shared.ended(joined).await?
    }

    /// What the API server thinks of a request, if that is known without asking: it never waits.
    pub fn cached_access(&self, attributes: &Attributes<'_>) -> Option<AccessAnswer> {
        self.shared.known_access(&question::access_key(attributes)).map(opinion)
    }

    /// What the API server thinks of a request (KA-51 to KA-53). Selectors are not sent: what is allowed without is
    /// allowed with them.
    ///
    /// # Errors
    /// There is no answer, or one that says yes and no.
    pub async fn access(&self, attributes: &Attributes<'_>) -> AccessAnswer {
        let key = question::access_key(attributes);
        if let Some(known) = self.shared.known_access(&key) {
            return opinion(known);
        }
        let body = question::access_review(attributes).map_err(|_| ReviewError::TooLarge)?;
        if body.len() > QUESTION_BYTES {
            return Err(ReviewError::TooLarge);
        }
        let may_keep = question::may_keep(attributes);
        let call = || {
            let shared = Arc::clone(&self.shared);
            async move { shared.ask_access(key, body, may_keep).await }
        };
        let joined = self.shared.access_calls.join(key, || self.shared.known_access(&key).map(Ok), call);
        opinion(self.shared.ended(joined).await??)
    }

    /// What a token's answer is kept under; nothing for what is no token.
    fn token_key<'t>(&self, token: &'t [u8]) -> Option<(Key, &'t str)> {
        let token = str::from_utf8(token).ok().filter(|token| (1..=TOKEN_BYTES).contains(&token.len()))?;
        Some((question::token_key(&self.shared.secret, token), token))
    }
}

impl Shared {
    fn known_token(&self, key: &Key) -> Option<TokenAnswer> {
        let now = self.settings.clock.running();
        match self.accepted.find(key, now) {
            Some(user) => Some(Ok(Some(user))),
            None => self.rejected.find(key, now).map(|()| Ok(None)),
        }
    }

    fn known_access(&self, key: &Key) -> Option<Access> {
        self.access.find(key, self.settings.clock.running())
    }

    async fn ask_token(&self, key: Key, token: &str) -> TokenAnswer {
        let body = question::token_review(token).map_err(|_| ReviewError::TooLarge)?;
        let metrics = &self.settings.metrics.token;
        let answer = self.caller.ask(TOKEN_REVIEWS, &body, Some(token), metrics).await?;
        let user = answer::token(&answer, token)?.map(Arc::new);
        if let Some(deadline) = self.deadline(self.settings.token_ttl) {
            match &user {
                Some(user) if question::user_bytes(user) > USER_BYTES => {}
                Some(user) => self.accepted.store(key, Arc::clone(user), deadline),
                None => self.rejected.store(key, (), deadline),
            }
        }
        Ok(user)
    }

    async fn ask_access(&self, key: Key, body: Vec<u8>, may_keep: bool) -> Result<Access, ReviewError> {
        let metrics = &self.settings.metrics.access;
        let answer = self.caller.ask(ACCESS_REVIEWS, &body, None, metrics).await?;
        let access = answer::access(&answer)?;
        // KA-61: by what is allowed, also where it is denied as well.
        let ttl = if access.allowed { self.settings.authorized_ttl } else { self.settings.unauthorized_ttl };
        if let Some(deadline) = self.deadline(ttl).filter(|_| may_keep) {
            self.access.store(key, access, deadline);
        }
        Ok(access)
    }

    /// Until when an answer of now counts; nothing if it does not outlast the moment.
    fn deadline(&self, ttl: Duration) -> Option<Duration> {
        self.settings.clock.running().checked_add(ttl).filter(|_| !ttl.is_zero())
    }

    /// Waits for a call that may have to wait for others.
    async fn ended<V>(&self, joined: impl Future<Output = Option<V>>) -> Result<V, ReviewError> {
        let server = || self.caller.connection.server();
        // Twice: for others to make room, and for the call, which ends by itself.
        match within(&*self.settings.clock, 2 * LIMIT, joined).await {
            Some(Some(value)) => Ok(value),
            Some(None) => {
                Err(ReviewError::Unreachable { server: server(), why: "the call broke off".to_owned() })
            }
            None => Err(ReviewError::Busy { server: server() }),
        }
    }
}

/// KA-53
fn opinion(access: Access) -> AccessAnswer {
    match (access.denied, access.allowed) {
        (true, true) => Err(ReviewError::Contradiction),
        (true, false) => Ok(Opinion::Deny),
        (false, true) => Ok(Opinion::Allow),
        (false, false) => Ok(Opinion::NoOpinion),
    }
}
