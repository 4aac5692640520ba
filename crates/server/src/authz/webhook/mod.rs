//! Mode Webhook: authorization by a remote service (WH-).
//!
//! A webhook that cannot be reached, does not respond, or responds with something invalid never allows. The result is
//! no opinion or a denial, as configured, and an error (WH-41).

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use policy::chain::Answer;
use policy::review::{AccessReview, AccessStatus, ReviewVersion};
use policy::{Attributes, Decision, Reason};
use portcullis_client::kubeconfig::service::Connection;
use portcullis_client::review::cache::AccessCache;
use portcullis_client::review::question;
use portcullis_client::{Clock, SystemClock};

use crate::authz::authorizers::Remote;
use crate::authz::metrics::webhook::WebhookMetrics;
use crate::match_conditions::{Conditions, Matched};
use crate::remote::call::{CallError, Caller};

pub use portcullis_client::review::cache::Ttl;

/// Answers with longer reasons are not remembered; 8192 of them take 32 MiB.
const REASON_BYTES: usize = 4096;

/// The decision if the webhook fails (WH-41).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailurePolicy {
    /// The next authorizer is called.
    #[default]
    NoOpinion,
    /// The request is denied.
    Deny,
}

/// The configuration of one webhook.
#[derive(Clone, Debug)]
pub struct WebhookConfig {
    /// The name in metrics and logs.
    pub name: String,
    /// The version of SubjectAccessReview.
    pub version: ReviewVersion,
    /// The timeout of one call (WH-33).
    pub timeout: Duration,
    /// How long responses are cached.
    pub ttl: Ttl,
    /// The decision if the webhook fails.
    pub failure_policy: FailurePolicy,
    /// The conditions for calling the webhook.
    pub conditions: Arc<Conditions>,
}

impl WebhookConfig {
    /// Creates the configuration that the flags of kube-apiserver correspond to (AC-74, WH-33, WH-41).
    pub fn of_flags(version: ReviewVersion, ttl: Ttl) -> Self {
        Self {
            name: "default".to_owned(),
            version,
            timeout: Duration::from_secs(30),
            ttl,
            failure_policy: FailurePolicy::NoOpinion,
            conditions: Arc::default(),
        }
    }
}

/// One webhook, with its cache.
pub struct Webhook {
    config: WebhookConfig,
    caller: Caller,
    cache: AccessCache,
    clock: SystemClock,
    metrics: WebhookMetrics,
}

impl Remote for Webhook {
    fn name(&self) -> &str {
        &self.config.name
    }

    fn authorize<'a>(
        &'a self,
        attributes: &'a Attributes<'_>,
    ) -> Pin<Box<dyn Future<Output = Answer> + Send + 'a>> {
        Box::pin(self.decide(attributes))
    }
}

impl Webhook {
    /// Creates a webhook with this configuration.
    ///
    /// # Errors
    /// The connection can never work.
    pub fn new(
        config: WebhookConfig,
        connection: Connection,
        metrics: WebhookMetrics,
    ) -> Result<Self, String> {
        let caller = Caller::new(connection, config.timeout)?;
        let cache = AccessCache::new(config.ttl);
        Ok(Self { config, caller, cache, clock: SystemClock::new(), metrics })
    }

    /// Decides a request (WH-40): match conditions, then the cache, then the webhook.
    async fn decide(&self, attributes: &Attributes<'_>) -> Answer {
        let version = self.config.version;
        if !self.config.conditions.is_empty() {
            let started = Instant::now();
            let matched = self.config.conditions.evaluate(&AccessReview::asking(attributes, version));
            let excluded = matches!(matched, Matched::No { .. });
            let failed = matches!(matched, Matched::No { failed: true } | Matched::Failed(_));
            self.metrics.conditions(self.name(), failed, excluded, started.elapsed());
            match matched {
                Matched::Yes => {}
                // AC-108
                Matched::No { .. } => return Answer { decision: Decision::NO_OPINION, error: None },
                Matched::Failed(error) => return self.failure(error),
            }
        }
        let key = question::access_key(attributes);
        // WH-54
        if let Some(status) = self.cache.find(&key, self.clock.running()) {
            return status.answer();
        }
        let Ok(body) = question::access_review(attributes, version) else {
            return self.failure("the request cannot be written".to_owned());
        };
        let name = self.name();
        let observe = |outcome: Result<(), &CallError>, elapsed| {
            self.metrics.called(name, outcome.map_or_else(result_of, |()| "success"), elapsed);
        };
        match self.caller.ask(body, |bytes| AccessStatus::read(bytes, version), observe).await {
            Ok(status) => {
                let error = status.evaluation_error;
                if !error.is_empty() {
                    tracing::debug!(%error, "the webhook could not evaluate everything");
                }
                let status = AccessStatus { evaluation_error: String::new(), ..status };
                let answer = status.answer();
                if question::may_keep(attributes) && status.reason.len() <= REASON_BYTES {
                    self.cache.store(key, status, self.clock.running());
                }
                answer
            }
            Err(error) => {
                tracing::warn!(webhook = name, %error, "the authorization webhook failed");
                if self.config.failure_policy == FailurePolicy::NoOpinion {
                    self.metrics.failed_open(name, result_of(&error));
                }
                self.failure(error.to_string())
            }
        }
    }

    /// WH-41: failures are not cached, and never allow.
    fn failure(&self, error: String) -> Answer {
        let decision = match self.config.failure_policy {
            FailurePolicy::NoOpinion => Decision::NO_OPINION,
            FailurePolicy::Deny => Decision::Deny(Reason::None),
        };
        Answer { decision, error: Some(error) }
    }
}

fn result_of(error: &CallError) -> &'static str {
    if error.is_timeout() { "timeout" } else { "error" }
}
