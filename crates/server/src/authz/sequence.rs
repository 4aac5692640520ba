//! The configured authorizers where webhooks are among them, or where they can change while serving.
//!
//! Authorizers that answer at once are asked as one chain; only a webhook is waited for. The first allow or deny wins
//! (AC-51).

use std::sync::Arc;

use arc_swap::ArcSwap;
use policy::chain::{self, Chain, MASTERS_GROUP, Member, Mode, Reasons};
use policy::decision::Reason;
use policy::rules::{RuleListing, aggregate};
use policy::{Attributes, User};
use portcullis_policy as policy;

use super::{Outcome, Verdict};
use crate::webhook::{Opinion, Webhook, WebhookMetrics};

/// See the module.
#[derive(Default)]
pub struct Sequence {
    steps: Vec<Step>,
    metrics: WebhookMetrics,
}

enum Step {
    /// Authorizers that answer at once.
    Local(Chain),
    Webhook(Arc<Webhook>),
}

/// An authorizer that cannot be put in its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SequenceError {
    /// AC-115
    #[error("authorizer type {0} is not allowed if it was not enabled at initial server startup")]
    NotAtStart(Mode),
    /// As many webhooks as places for them are needed.
    #[error("{0} webhooks for {1} authorizers of type Webhook")]
    Webhooks(usize, usize),
}

impl Sequence {
    /// These modes in order, over the members that the engine was built with, and the webhooks in the places of mode
    /// Webhook. AlwaysAllow and AlwaysDeny need no engine.
    ///
    /// # Errors
    /// See [`SequenceError`].
    pub fn new(
        modes: &[Mode],
        members: &[Member],
        webhooks: Vec<Arc<Webhook>>,
        metrics: WebhookMetrics,
    ) -> Result<Self, SequenceError> {
        let places = modes.iter().filter(|mode| **mode == Mode::Webhook).count();
        if places != webhooks.len() {
            return Err(SequenceError::Webhooks(webhooks.len(), places));
        }
        let mut webhooks = webhooks.into_iter();
        let mut steps = Vec::new();
        let mut local = Vec::new();
        for mode in modes {
            let member = match mode {
                Mode::AlwaysAllow => Member::AlwaysAllow,
                Mode::AlwaysDeny => Member::AlwaysDeny,
                Mode::Webhook => {
                    if !local.is_empty() {
                        steps.push(Step::Local(Chain::new(std::mem::take(&mut local))));
                    }
                    steps.extend(webhooks.next().map(Step::Webhook));
                    continue;
                }
                mode => {
                    let member = members.iter().find(|member| member.mode() == *mode);
                    member.ok_or(SequenceError::NotAtStart(*mode))?.clone()
                }
            };
            local.push(member);
        }
        if !local.is_empty() {
            steps.push(Step::Local(Chain::new(local)));
        }
        Ok(Self { steps, metrics })
    }

    /// For an authorization that may be given another later.
    pub fn shared(self) -> Arc<ArcSwap<Self>> {
        Arc::new(ArcSwap::from_pointee(self))
    }

    /// Decides one request, `system:masters` first (AC-63).
    pub async fn decide(&self, attributes: &Attributes<'_>) -> Outcome {
        if attributes.user.in_group(MASTERS_GROUP) {
            let reasons = Reasons::from_iter([Reason::None]);
            return Outcome { verdict: Verdict::Allow, reasons, error: None };
        }
        let mut reasons = Reasons::new();
        let mut errors = Vec::new();
        for step in &self.steps {
            match step {
                Step::Local(chain) => match chain.decide(attributes) {
                    chain::Outcome::NoOpinion(said) => reasons.extend(said),
                    decided => {
                        self.count(&decided);
                        return decided.into();
                    }
                },
                Step::Webhook(webhook) => {
                    let Opinion { allows, reason, error } = webhook.decide(attributes).await;
                    let reason = if reason.is_empty() { Reason::None } else { Reason::Told(reason.into()) };
                    let Some(allows) = allows else {
                        reasons.extend(Some(reason).filter(|reason| !reason.is_none()));
                        errors.extend(error);
                        continue;
                    };
                    let (verdict, decision) =
                        if allows { (Verdict::Allow, "allowed") } else { (Verdict::Deny, "denied") };
                    self.metrics.decided(Mode::Webhook.name(), webhook.name(), decision);
                    return Outcome { verdict, reasons: Reasons::from_iter([reason]), error };
                }
            }
        }
        Outcome { verdict: Verdict::NoOpinion, reasons, error: aggregate(&errors) }
    }

    /// AC-120
    fn count(&self, outcome: &chain::Outcome) {
        let (mode, decision) = match outcome {
            chain::Outcome::Allow(Some(mode), _) => (mode, "allowed"),
            chain::Outcome::Deny(mode, _) => (mode, "denied"),
            _ => return,
        };
        self.metrics.decided(mode.name(), &mode.name().to_lowercase(), decision);
    }

    /// The rules of all authorizers, one after the other (AC-59). Webhooks list none.
    pub fn rules_for(&self, user: &User, namespace: &str) -> RuleListing {
        let mut listing = RuleListing::default();
        for step in &self.steps {
            listing.append(match step {
                Step::Local(chain) => chain.rules_for(user, namespace),
                Step::Webhook(_) => Member::Webhook.rules_for(user, namespace),
            });
        }
        listing
    }
}
