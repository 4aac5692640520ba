//! The configured authorizers in order, webhooks among them.
//!
//! The order and all authorizers that answer at once are a [`Chain`]; here the webhooks in it are asked, and waited for.

use portcullis_client::metrics::Counter;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwap, Guard};
use policy::chain::{Answer, Chain, Member, Mode, Outcome, Step};
use policy::{Attributes, Decision, Reason};

use super::metrics::webhook::WebhookMetrics;

/// An authorizer that must be waited for.
pub trait Remote: Send + Sync {
    /// The name in metrics and logs.
    fn name(&self) -> &str;

    /// Decides one request. An error never allows anything by itself.
    fn authorize<'a>(
        &'a self,
        attributes: &'a Attributes<'_>,
    ) -> Pin<Box<dyn Future<Output = Answer> + Send + 'a>>;
}

/// See the module.
pub struct Authorizers {
    chain: Chain,
    /// One for each place of mode Webhook in the chain, in order.
    webhooks: Vec<Arc<dyn Remote>>,
    metrics: WebhookMetrics,
    /// The counters of decisions by mode, looked up once: nothing is locked or copied for the next decision.
    allowed: [OnceLock<Counter>; Mode::ALL.len()],
    denied: [OnceLock<Counter>; Mode::ALL.len()],
}

/// An invalid sequence of authorizers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthorizersError {
    /// AC-115
    #[error("authorizer type {0} is not allowed if it was not enabled at initial server startup")]
    NotAtStart(Mode),
    /// The number of webhooks differs from the number of Webhook modes.
    #[error("{0} webhooks for {1} authorizers of type Webhook")]
    Webhooks(usize, usize),
}

impl Authorizers {
    /// These modes in order after group `system:masters` (AC-63), over the members that the engine was built with, and
    /// the webhooks in the places of mode Webhook. AlwaysAllow and AlwaysDeny need no engine.
    ///
    /// # Errors
    /// See [`AuthorizersError`].
    pub fn new(
        modes: &[Mode],
        members: &[Member],
        webhooks: Vec<Arc<dyn Remote>>,
        metrics: &WebhookMetrics,
    ) -> Result<Self, AuthorizersError> {
        let places = modes.iter().filter(|mode| **mode == Mode::Webhook).count();
        if places != webhooks.len() {
            return Err(AuthorizersError::Webhooks(webhooks.len(), places));
        }
        let member = |mode: &Mode| match mode {
            Mode::AlwaysAllow => Ok(Member::AlwaysAllow),
            Mode::AlwaysDeny => Ok(Member::AlwaysDeny),
            Mode::Webhook => Ok(Member::Webhook),
            mode => {
                let member = members.iter().find(|member| member.mode() == *mode);
                member.cloned().ok_or(AuthorizersError::NotAtStart(*mode))
            }
        };
        let members = modes.iter().map(member).collect::<Result<_, _>>()?;
        Ok(Self { webhooks, ..Self::local(Chain::new(members).with_masters(), metrics) })
    }

    /// A chain as it is. The places of webhooks in it deny.
    pub fn local(chain: Chain, metrics: &WebhookMetrics) -> Self {
        Self {
            chain,
            webhooks: Vec::new(),
            metrics: metrics.clone(),
            allowed: Default::default(),
            denied: Default::default(),
        }
    }

    /// For an [`Authorization`](super::Authorization) that may be given others later.
    pub fn shared(self) -> Arc<ArcSwap<Self>> {
        Arc::new(ArcSwap::from_pointee(self))
    }

    /// The authorizers in order.
    pub(super) fn chain(&self) -> &Chain {
        &self.chain
    }

    /// Decides one request by the authorizers in force now, and by these to the end (AC-117). Waits only for webhooks.
    pub(super) async fn authorize(in_force: &ArcSwap<Self>, attributes: &Attributes<'_>) -> Outcome {
        let authorizers = in_force.load();
        let mut pending = match authorizers.chain.start(attributes) {
            Step::Decided(outcome) => {
                authorizers.count(&outcome, None);
                return outcome;
            }
            Step::Webhook(pending) => pending,
        };
        let authorizers = Guard::into_inner(authorizers);
        loop {
            let webhook = authorizers.webhooks.get(pending.webhook());
            let answer = match webhook {
                Some(webhook) => webhook.authorize(attributes).await,
                // Only in a chain of [`Authorizers::local`].
                None => Answer {
                    decision: Decision::Deny(Reason::Text("the webhook cannot be asked here")),
                    error: None,
                },
            };
            match authorizers.chain.resume(pending, answer, attributes) {
                Step::Decided(outcome) => {
                    authorizers.count(&outcome, webhook.map(|webhook| webhook.name()));
                    return outcome;
                }
                Step::Webhook(next) => pending = next,
            }
        }
    }

    /// Counts a decision by its authorizer (AC-120): no opinion decides nothing. `webhook` is the one asked last.
    fn count(&self, outcome: &Outcome, webhook: Option<&str>) {
        let (counters, decision) = match outcome.decision {
            Decision::Allow(_) => (&self.allowed, "allowed"),
            Decision::Deny(_) => (&self.denied, "denied"),
            Decision::NoOpinion(_) => return,
        };
        // Group `system:masters` is not counted (AC-63).
        let Some(mode) = outcome.by else { return };
        match (mode, counters.get(mode as usize)) {
            (Mode::Webhook, _) | (_, None) => {
                self.metrics.decisions(mode.name(), webhook.unwrap_or_default(), decision).inc()
            }
            (mode, Some(counter)) => {
                let name = || mode.name().to_lowercase();
                counter.get_or_init(|| self.metrics.decisions(mode.name(), &name(), decision)).inc()
            }
        };
    }
}
