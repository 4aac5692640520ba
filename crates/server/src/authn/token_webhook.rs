//! Tokens that no other authenticator knows: a webhook is asked about them (AN-56).
//!
//! A webhook that cannot be reached, refuses, or answers with anything but a TokenReview authenticates nobody. Answers are kept
//! for a while: whoever the webhook no longer knows remains authenticated until then.
//!
//! Tokens are sent to the webhook as they are, also those of other authenticators that were not accepted. Nothing else ever
//! shows a token: caches hold a hash with a secret, and messages quote no part of one.
//!
//! DIVERGES: a token longer than 64 KiB or not in UTF-8 is not sent. At most 4096 accepted and 4096 rejected tokens are kept, and
//! only users of up to 16 KiB each. A caller whose user is not known yet can have eight calls at a time, and others wait, so that
//! made-up tokens delay nobody else; a request waits for at most a minute. Kubernetes has no such limits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pki::hmac_sha256;
use policy::User;
use policy::review::ReviewVersion;
use portcullis_client::kubeconfig::service::Connection;
use portcullis_client::review::answer::{TokenStatus, told};
use portcullis_client::review::cache::ExpiringLru;
use portcullis_client::review::flight::Flights;
use portcullis_client::review::question::user_bytes;
use portcullis_client::{Clock, SystemClock};
use serde::Serialize;
use tokio::time::timeout;

use super::caller::join_authenticated;
use super::token_error::TokenError;
use super::vouched::{Notes, Vouched, shared};
use crate::http::account::Account;
use crate::http::fair_queue::{FairQueue, Size};
use crate::remote::call::{CallError, Caller};

/// The time limit of one call.
const CALL: Duration = Duration::from_secs(30);
/// How long a request waits for an answer, with all repeated calls.
const WAIT: Duration = Duration::from_secs(60);
/// Accepted tokens are kept at least that long, as by kube-apiserver, which has a second cache for them.
const LEAST_TTL: Duration = Duration::from_secs(10);
/// The number of accepted and of rejected tokens that are kept.
const ENTRIES: usize = 4096;
/// The maximum length of a token that is sent.
const TOKEN_BYTES: usize = 64 << 10;
/// Larger users are not kept.
const USER_BYTES: usize = 16 << 10;
/// The number of calls at a time, and those of one account.
const TURNS: Size = Size { seats: 32, seats_of_account: 8, waiting_of_account: 256 };

/// How a webhook is asked. Names follow the flags of kube-apiserver.
#[derive(Clone, Copy, Debug)]
pub struct TokenWebhookConfig {
    /// The version of TokenReview that is sent and expected (AN-56).
    pub version: ReviewVersion,
    /// How long answers are kept: accepted tokens for at least ten seconds, rejected ones not at all if it is zero (AN-56).
    pub ttl: Duration,
}

/// A hash of a token and the audiences that are asked for.
type Key = [u8; 32];

/// A user, and the audiences of the token. Empty: those of this server.
type Accepted = Arc<(Arc<User>, Vec<String>)>;

/// The answer of the webhook: none if it does not know the token. The text of an error contains no part of the token.
type Answer = Result<Option<Accepted>, String>;

/// See the module.
#[derive(Clone)]
pub struct TokenWebhook {
    asked: Arc<Asked>,
    turns: Arc<FairQueue>,
}

struct Asked {
    config: TokenWebhookConfig,
    caller: Caller,
    clock: SystemClock,
    /// Makes the keys unpredictable.
    secret: [u8; 32],
    accepted: ExpiringLru<Key, Accepted, Duration>,
    rejected: ExpiringLru<Key, (), Duration>,
    calls: Arc<Flights<Key, Answer>>,
}

impl std::fmt::Debug for TokenWebhook {
    /// Never shows a token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenWebhook").field("config", &self.asked.config).finish_non_exhaustive()
    }
}

impl TokenWebhook {
    /// A webhook at the end of this connection.
    ///
    /// # Errors
    /// The connection can never work, or the system has no random numbers.
    pub fn new(config: TokenWebhookConfig, connection: Connection) -> Result<Self, String> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(|error| error.to_string())?;
        let asked = Asked {
            config,
            caller: Caller::new(connection, CALL)?,
            clock: SystemClock::new(),
            secret,
            accepted: ExpiringLru::new(ENTRIES),
            rejected: ExpiringLru::new(ENTRIES),
            calls: Flights::new(TURNS.seats),
        };
        Ok(Self { asked: Arc::new(asked), turns: FairQueue::new(TURNS) })
    }

    /// Returns the user of a token for one of these audiences; `own` are those of this server. None: nobody's. Calls are charged
    /// to the account.
    ///
    /// # Errors
    /// The webhook has decided nothing, or has a reason.
    pub(super) async fn vouch(
        &self,
        token: &[u8],
        (audiences, own): (&[String], &[String]),
        account: Account,
    ) -> Result<Option<Vouched>, TokenError> {
        let token = str::from_utf8(token).ok().filter(|token| (1..=TOKEN_BYTES).contains(&token.len()));
        let Some(token) = token else { return Ok(None) };
        let asked = &self.asked;
        let key = asked.key(token, audiences);
        let answer = match asked.known(&key) {
            Some(answer) => answer,
            None => match timeout(WAIT, self.ask(key, token, audiences, account)).await {
                Ok(answer) => answer?,
                Err(_) => return Err(TokenError::Webhook),
            },
        };
        let Some(accepted) = answer.map_err(TokenError::Refused)? else { return Ok(None) };
        let (user, of_token) = &*accepted;
        let of_token = if of_token.is_empty() { own } else { of_token };
        let shared = shared(of_token, audiences);
        Ok((!shared.is_empty()).then(|| Vouched::new(Arc::clone(user), shared, Notes::default())))
    }

    /// Asks the webhook, or joins a call that asks the same. A call keeps its seat until it ends: a caller that disconnects does not
    /// get another one before.
    async fn ask(
        &self,
        key: Key,
        token: &str,
        audiences: &[String],
        account: Account,
    ) -> Result<Answer, TokenError> {
        let seat = self.turns.enter(account).await.map_err(|_| TokenError::Waiting)?;
        let asked = &self.asked;
        let call = || {
            let (asked, token, audiences) = (Arc::clone(asked), token.to_owned(), audiences.to_vec());
            async move {
                let _seat = seat;
                asked.ask(key, &token, &audiences).await
            }
        };
        asked.calls.join(key, || asked.known(&key), call).await.ok_or(TokenError::Webhook)
    }
}

impl Asked {
    /// The length of every part keeps the parts apart.
    fn key(&self, token: &str, audiences: &[String]) -> Key {
        let length = |text: &str| (text.len() as u64).to_be_bytes();
        let mut said = Vec::with_capacity(token.len() + 64);
        for text in std::iter::once(token).chain(audiences.iter().map(String::as_str)) {
            said.extend(length(text));
            said.extend(text.as_bytes());
        }
        hmac_sha256(&self.secret, &[&said])
    }

    fn known(&self, key: &Key) -> Option<Answer> {
        let now = self.clock.running();
        match self.accepted.find(key, now) {
            Some(accepted) => Some(Ok(Some(accepted))),
            None => self.rejected.find(key, now).map(|()| Ok(None)),
        }
    }

    async fn ask(&self, key: Key, token: &str, audiences: &[String]) -> Answer {
        let version = self.config.version;
        let body = question(token, audiences, version).map_err(|error| error.to_string())?;
        let answered = self.caller.ask(body, |bytes| TokenStatus::read(bytes, version), |_, _| {}).await;
        let status = answered.map_err(|error| failed(&error))?;
        let now = self.clock.running();
        if !status.authenticated {
            if !status.error.is_empty() {
                return Err(told(&status.error, Some(token)));
            }
            if let Some(deadline) = now.checked_add(self.config.ttl).filter(|_| !self.config.ttl.is_zero()) {
                self.rejected.store(key, (), deadline);
            }
            return Ok(None);
        }
        let mut user = status.user;
        join_authenticated(&mut user);
        let audiences: usize = status.audiences.iter().map(String::len).sum();
        let is_small = user_bytes(&user) + audiences <= USER_BYTES;
        let accepted = Arc::new((Arc::new(user), status.audiences));
        if let Some(deadline) = now.checked_add(self.config.ttl.max(LEAST_TTL)).filter(|_| is_small) {
            self.accepted.store(key, Arc::clone(&accepted), deadline);
        }
        Ok(Some(accepted))
    }
}

/// Logs why a call failed, and returns the message for the client, which contains no address.
fn failed(error: &CallError) -> String {
    tracing::warn!(%error, "the token webhook failed");
    TokenError::Webhook.to_string()
}

/// A TokenReview as kube-apiserver sends it.
fn question(token: &str, audiences: &[String], version: ReviewVersion) -> Result<Vec<u8>, serde_json::Error> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Review<'a> {
        kind: &'a str,
        api_version: String,
        metadata: BTreeMap<&'a str, ()>,
        spec: Spec<'a>,
        status: Status,
    }
    #[derive(Serialize)]
    struct Spec<'a> {
        token: &'a str,
        #[serde(skip_serializing_if = "<[String]>::is_empty")]
        audiences: &'a [String],
    }
    #[derive(Default, Serialize)]
    struct Status {
        user: BTreeMap<&'static str, ()>,
    }
    serde_json::to_vec(&Review {
        kind: "TokenReview",
        api_version: format!("authentication.k8s.io/{}", version.as_str()),
        metadata: BTreeMap::new(),
        spec: Spec { token, audiences },
        status: Status::default(),
    })
}
