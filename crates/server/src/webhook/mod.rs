//! Mode Webhook: a remote service is asked who may do what (WH-).
//!
//! A service that cannot be asked, does not answer, or answers what cannot be read never allows: it is no opinion or a
//! denial, as configured, and an error (WH-41).

pub mod answer;
mod cache;
pub(crate) mod call;
pub mod kubeconfig;
pub(crate) mod metrics;
pub mod review;

use std::sync::Arc;
use std::time::{Duration, Instant};

use policy::Attributes;
use portcullis_policy as policy;

use crate::match_conditions::{Conditions, Matched};
use answer::Status;
use cache::{Cache, Key};
use call::{CallError, Caller};
use kubeconfig::Connection;
use review::{ReviewVersion, Spec};

pub use cache::Ttl;
pub use metrics::WebhookMetrics;

/// What counts where the service gives no answer (WH-41).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailurePolicy {
    /// The next authorizer is asked.
    #[default]
    NoOpinion,
    /// The request is refused.
    Deny,
}

/// How to ask one service.
#[derive(Clone, Debug)]
pub struct WebhookConfig {
    /// The name in metrics and logs.
    pub name: String,
    /// The version of SubjectAccessReview that is spoken.
    pub version: ReviewVersion,
    /// How long one call may take (WH-33).
    pub timeout: Duration,
    /// How long answers are remembered.
    pub ttl: Ttl,
    /// What counts without an answer.
    pub failure_policy: FailurePolicy,
    /// Which requests it is asked about.
    pub conditions: Arc<Conditions>,
}

impl WebhookConfig {
    /// As the flags of kube-apiserver have it (AC-74, WH-33, WH-41).
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

/// One service, with what it answered lately.
pub struct Webhook {
    config: WebhookConfig,
    caller: Caller,
    cache: Cache,
    metrics: WebhookMetrics,
}

/// What a service says to one request (WH-42).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opinion {
    /// Allow (`Some(true)`), deny (`Some(false)`), or no opinion.
    pub allows: Option<bool>,
    /// Why; may be empty.
    pub reason: String,
    /// What went wrong.
    pub error: Option<String>,
}

impl Webhook {
    /// A service that is asked like this.
    ///
    /// # Errors
    /// A connection that can never be made.
    pub fn new(
        config: WebhookConfig,
        connection: Connection,
        metrics: WebhookMetrics,
    ) -> Result<Self, String> {
        let caller = Caller::new(connection, config.timeout)?;
        let cache = Cache::new(config.ttl);
        Ok(Self { config, caller, cache, metrics })
    }

    /// The name in metrics and logs.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// Asks (WH-40): the conditions, what is remembered, the service.
    pub async fn decide(&self, attributes: &Attributes<'_>) -> Opinion {
        let spec = Spec::of(attributes);
        if !self.config.conditions.is_empty() {
            let started = Instant::now();
            let matched = self.config.conditions.evaluate(&spec);
            let excluded = matches!(matched, Matched::No { .. });
            let failed = matches!(matched, Matched::No { failed: true } | Matched::Failed(_));
            self.metrics.conditions(self.name(), failed, excluded, started.elapsed());
            match matched {
                Matched::Yes => {}
                // AC-108
                Matched::No { .. } => return Opinion { allows: None, reason: String::new(), error: None },
                Matched::Failed(error) => return self.failure(error),
            }
        }
        let Ok(key) = Key::of(&spec) else { return self.failure("the request cannot be written".to_owned()) };
        // WH-54
        if let Some(status) = self.cache.find(&key, Instant::now()) {
            return opinion(&status);
        }
        let version = self.config.version;
        let Ok(body) = spec.body(version) else {
            return self.failure("the request cannot be written".to_owned());
        };
        let name = self.name();
        let observe = |outcome: Result<(), &CallError>, elapsed| {
            self.metrics.called(name, outcome.map_or_else(result_of, |()| "success"), elapsed);
        };
        match self.caller.ask(body, |bytes| answer::read(bytes, version), observe).await {
            Ok(status) => {
                self.cache.store(key, &spec, &status, Instant::now());
                opinion(&status)
            }
            Err(error) => {
                tracing::warn!(webhook = name, %error, "the authorization webhook gave no answer");
                if self.config.failure_policy == FailurePolicy::NoOpinion {
                    self.metrics.failed_open(name, result_of(&error));
                }
                self.failure(error.to_string())
            }
        }
    }

    /// WH-41: failures are not remembered, and never allow.
    fn failure(&self, error: String) -> Opinion {
        let allows = match self.config.failure_policy {
            FailurePolicy::NoOpinion => None,
            FailurePolicy::Deny => Some(false),
        };
        Opinion { allows, reason: String::new(), error: Some(error) }
    }
}

fn result_of(error: &CallError) -> &'static str {
    if error.is_timeout() { "timeout" } else { "error" }
}

/// WH-42, WH-43
fn opinion(status: &Status) -> Opinion {
    let reason = status.reason.clone();
    let both = "webhook subject access review returned both allow and deny response";
    match (status.denied, status.allowed) {
        (true, true) => Opinion { allows: Some(false), reason, error: Some(both.to_owned()) },
        (true, false) => Opinion { allows: Some(false), reason, error: None },
        (false, true) => Opinion { allows: Some(true), reason, error: None },
        (false, false) => Opinion { allows: None, reason, error: None },
    }
}
