//! Delegated authentication and authorization by TokenReviews and SubjectAccessReviews (KA-44, KA-45, KA-50 to KA-53,
//! KA-60 to KA-62, KA-76).
//!
//! An error never allows anything: a server that cannot be reached, refuses, or sends an invalid response results in no
//! user and no opinion. Responses are cached for a while, errors never; identical concurrent requests share one call.
//!
//! Requests are bounded before they are sent, and cached only as a hash. At most 32 reviews of each kind run
//! concurrently; others wait for at most the timeout of a review.
//!
//! DIVERGES: a token longer than 64 KiB or not in UTF-8 is rejected without a review; an access review larger than a
//! quarter of a MiB is an error. At most 4096 accepted and 4096 rejected tokens are cached, and only users of up to 16
//! KiB each. Kubernetes has no such limits.

pub mod answer;
mod backoff;
pub mod cache;
mod call;
mod error;
pub mod flight;
mod metrics;
pub mod question;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use portcullis_policy::review::{AccessStatus, ReviewVersion};
use portcullis_policy::{Attributes, Decision, ResourceRequest, User};

use crate::clock::{Clock, SystemClock};
use crate::connect::Connection;
use cache::{AccessCache, ExpiringLru, Ttl};
use call::{Caller, LIMIT, within};
use error::QUESTION_BYTES;
use flight::Flights;
use question::Key;

pub use backoff::Backoff;
pub use error::ReviewError;
pub use metrics::ReviewMetrics;

const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// The number of accepted and of rejected tokens that are cached separately, so that invented tokens cannot evict valid
/// ones.
const TOKEN_ENTRIES: usize = 4096;
/// The maximum length of a token for a review.
const TOKEN_BYTES: usize = 64 << 10;
/// Larger users are not cached.
const USER_BYTES: usize = 16 << 10;
/// The maximum number of concurrent reviews of each kind.
const CALLS: usize = 32;

/// How long responses are cached.
#[derive(Clone)]
pub struct Settings {
    /// For TokenReviews, accepted and rejected (KA-65). Zero: not cached.
    pub token_ttl: Duration,
    /// For SubjectAccessReviews (KA-68).
    pub access_ttl: Ttl,
    /// The metrics.
    pub metrics: ReviewMetrics,
    /// The clock.
    pub clock: Arc<dyn Clock>,
}

impl Default for Settings {
    /// The defaults of a kubelet (KA-65, KA-68).
    fn default() -> Self {
        Self {
            token_ttl: Duration::from_secs(2 * 60),
            access_ttl: Ttl::default(),
            metrics: ReviewMetrics::default(),
            clock: Arc::new(SystemClock::new()),
        }
    }
}

/// The user of a token; none if it was rejected.
pub type TokenAnswer = Result<Option<Arc<User>>, ReviewError>;
/// The decision of the API server. Only [`Decision::Allow`] is a yes.
pub type AccessAnswer = Result<Decision<()>, ReviewError>;

/// Sends reviews to an API server. Clones share the cache.
#[derive(Clone)]
pub struct Reviews {
    shared: Arc<Shared>,
}

struct Shared {
    caller: Caller,
    settings: Settings,
    /// Makes the cache keys of tokens unpredictable (KA-45).
    secret: [u8; 32],
    accepted: ExpiringLru<Key, Arc<User>, Duration>,
    rejected: ExpiringLru<Key, (), Duration>,
    access: AccessCache,
    token_calls: Arc<Flights<Key, TokenAnswer>>,
    access_calls: Arc<Flights<Key, Result<AccessStatus, ReviewError>>>,
}

impl std::fmt::Debug for Reviews {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reviews")
            .field("server", &self.shared.caller.connection.server())
            .finish_non_exhaustive()
    }
}

impl Reviews {
    /// Creates a client over this connection. Nothing is sent yet. After [`Connection::refresh`] the next review uses
    /// the new credentials.
    ///
    /// # Errors
    /// The system has no random numbers for the cache keys of tokens.
    pub fn new(connection: Connection, settings: Settings) -> Result<Self, getrandom::Error> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret)?;
        let clock = Arc::clone(&settings.clock);
        let caller = Caller { connection, clock, silence: Mutex::default() };
        let shared = Shared {
            access: AccessCache::new(settings.access_ttl),
            caller,
            settings,
            secret,
            accepted: ExpiringLru::new(TOKEN_ENTRIES),
            rejected: ExpiringLru::new(TOKEN_ENTRIES),
            token_calls: Flights::new(CALLS),
            access_calls: Flights::new(CALLS),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Returns why the API server did not respond to the last review, if it did not. Cached responses do not count.
    pub fn unreachable(&self) -> Option<String> {
        self.shared.caller.silence.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the cached user of a token, without waiting.
    pub fn cached_token(&self, token: &[u8]) -> Option<TokenAnswer> {
        match self.token_key(token) {
            Some((key, _)) => self.shared.known_token(&key),
            None => Some(Ok(None)),
        }
    }

    /// Authenticates a token (KA-44). Returns none if it is empty, too long or not UTF-8.
    ///
    /// # Errors
    /// The token is rejected with a reason, or there is no valid response.
    pub async fn token(&self, token: &[u8]) -> TokenAnswer {
        self.token_with(token, ()).await
    }

    /// Like [`Reviews::token`]. A call that is started for it keeps `seat` until it ends, also if this future is dropped before: whoever
    /// waits can go away, and the call goes on.
    ///
    /// # Errors
    /// See [`Reviews::token`].
    pub async fn token_with(&self, token: &[u8], seat: impl Send + 'static) -> TokenAnswer {
        let Some((key, token)) = self.token_key(token) else { return Ok(None) };
        if let Some(known) = self.shared.known_token(&key) {
            return known;
        }
        let call = || {
            let (shared, token) = (Arc::clone(&self.shared), token.to_owned());
            async move {
                let _seat = seat;
                shared.ask_token(key, &token).await
            }
        };
        let joined = self.shared.token_calls.join(key, || self.shared.known_token(&key), call);
        // On the heap: most answers are known, and futures are moved whole.
        Box::pin(self.shared.ended(joined)).await?
    }

    /// Returns the cached decision on a request, without waiting.
    pub fn cached_access(&self, attributes: &Attributes<'_>) -> Option<AccessAnswer> {
        self.shared.known_access(&question::access_key(&without_selectors(attributes))).as_ref().map(decision)
    }

    /// Authorizes a request by the API server (KA-51 to KA-53). Selectors are not sent: what is allowed without them is
    /// allowed with them.
    ///
    /// # Errors
    /// There is no valid response, or one that both allows and denies.
    pub async fn access(&self, attributes: &Attributes<'_>) -> AccessAnswer {
        let attributes = &without_selectors(attributes);
        let key = question::access_key(attributes);
        if let Some(known) = self.shared.known_access(&key) {
            return decision(&known);
        }
        let body =
            question::access_review(attributes, ReviewVersion::V1).map_err(|_| ReviewError::TooLarge)?;
        if body.len() > QUESTION_BYTES {
            return Err(ReviewError::TooLarge);
        }
        let may_keep = question::may_keep(attributes);
        let call = || {
            let shared = Arc::clone(&self.shared);
            async move { shared.ask_access(key, body, may_keep).await }
        };
        let joined = self.shared.access_calls.join(key, || self.shared.known_access(&key).map(Ok), call);
        decision(&Box::pin(self.shared.ended(joined)).await??)
    }

    /// Returns the cache key of a token; none for an invalid token.
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

    fn known_access(&self, key: &Key) -> Option<AccessStatus> {
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

    async fn ask_access(&self, key: Key, body: Vec<u8>, may_keep: bool) -> Result<AccessStatus, ReviewError> {
        let metrics = &self.settings.metrics.access;
        let answer = self.caller.ask(ACCESS_REVIEWS, &body, None, metrics).await?;
        let access = answer::access(&answer)?;
        if may_keep {
            self.access.store(key, access.clone(), self.settings.clock.running());
        }
        Ok(access)
    }

    /// Returns until when a response is cached; none if not at all.
    fn deadline(&self, ttl: Duration) -> Option<Duration> {
        self.settings.clock.running().checked_add(ttl).filter(|_| !ttl.is_zero())
    }

    /// Waits for a call, which may have to wait for others.
    async fn ended<V>(&self, joined: impl Future<Output = Option<V>>) -> Result<V, ReviewError> {
        let server = || self.caller.connection.server();
        // Twice the limit: once for other calls to finish, and once for the call, which has its own timeout.
        match within(&*self.settings.clock, 2 * LIMIT, joined).await {
            Some(Some(value)) => Ok(value),
            Some(None) => {
                Err(ReviewError::Unreachable { server: server(), why: "the call broke off".to_owned() })
            }
            None => Err(ReviewError::Busy { server: server() }),
        }
    }
}

/// The same request without selectors.
fn without_selectors<'a>(attributes: &Attributes<'a>) -> Attributes<'a> {
    let resource = attributes.resource;
    let resource = resource.map(|it| ResourceRequest { field_selector: &[], label_selector: &[], ..it });
    Attributes { resource, ..*attributes }
}

/// KA-53
fn decision(status: &AccessStatus) -> AccessAnswer {
    if status.denied && status.allowed {
        return Err(ReviewError::Contradiction);
    }
    Ok(status.decision())
}
