//! Authorization of requests. This is the only module that can make a [`Permit`], and no handler can be called without
//! one.

mod authorizers;
mod config;
pub mod configuration;
pub mod deny_file;
mod impersonation;
pub mod metrics;
mod part;
pub mod reload;
pub mod secret_alarm;
pub mod webhook;

use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;
use policy::chain::{Chain, Member, Mode, Outcome};
use policy::engine::LiveEngine;
use policy::identity::NodeIdentity;
use policy::rbac::escalation::{RbacWrite, Refusal};
use policy::request_info::RequestInfo;
use policy::restriction::{AdmissionRequest, Assessment, Rejection};
use policy::rules::RuleListing;
use policy::{Attributes, Authorizer, Decision, FeatureGates, Reason, User};
use portcullis_apimachinery::quote::{quoted, sanitized};
use portcullis_store::Store as _;

use crate::audit::Trail;
use crate::authn::Caller;
use crate::http::status::{Answer, Details, Status, internal_error};
use crate::registry::backend::Backend;
use crate::registry::freshness;

use self::metrics::AuthorizationMetrics as Metrics;
use self::secret_alarm::SecretAlarm;

pub use self::metrics::AuthorizationMetrics;
pub use authorizers::{Authorizers, AuthorizersError, Remote};
pub use config::AuthorizationConfig;
pub(crate) use part::PartialPermit;

/// The audit annotation of a list or watch that shows a part of its collection (BC-40). The decision that is recorded beside it is
/// that about the whole collection.
const FILTERED: &str = "portcullis.dev/filtered";

/// Decides who may do what: the configured authorizers, and the engine whose objects admission looks up.
pub struct Authorization {
    /// For what other servers have changed.
    backend: Arc<Backend>,
    engine: Arc<LiveEngine>,
    /// The owner of the sequence can replace it; a request uses the sequence that it started with (AC-117).
    authorizers: Arc<ArcSwap<Authorizers>>,
    alarm: Option<SecretAlarm>,
    last_seen: part::LastSeen,
}

impl Authorization {
    /// The authorizers' answer to a question. Waits only for webhooks, and before a refusal until memory is current (ET-34).
    pub async fn ask(&self, attributes: &Attributes<'_>) -> Outcome {
        let known = self.backend.revision();
        let outcome = Authorizers::authorize(&self.authorizers, attributes).await;
        if outcome.is_allow() || !self.backend.is_shared() {
            return outcome;
        }
        match Box::pin(freshness::has_missed(&self.backend, known)).await {
            true => Authorizers::authorize(&self.authorizers, attributes).await,
            false => outcome,
        }
    }

    /// The same with an alarm on the secrets that nodes ask for.
    #[must_use]
    pub(crate) fn with_alarm(self, alarm: Option<SecretAlarm>) -> Self {
        Self { alarm, ..self }
    }

    /// The feature gates.
    pub(crate) fn gates(&self) -> FeatureGates {
        self.engine.gates()
    }

    /// The rules of a user in a namespace (AC-59). Webhooks list none.
    pub fn rules_for(&self, user: &User, namespace: &str) -> RuleListing {
        self.authorizers.load().chain().rules_for(user, namespace)
    }

    /// Checks a write by NodeRestriction.
    ///
    /// # Errors
    /// The node must not make this write (NR-6).
    pub(crate) async fn admit_write(&self, request: &AdmissionRequest<'_>) -> Result<(), Rejection> {
        match self.engine.assess(request)? {
            Assessment::IfAuthorized(question) if !self.ask(&question.attributes()).await.is_allow() => {
                Err(question.refusal())
            }
            Assessment::Admitted | Assessment::IfAuthorized(_) => Ok(()),
        }
    }

    /// Checks whether a role or a binding may be written (RB-50 to RB-64, BC-31).
    ///
    /// # Errors
    /// The refusal for the response.
    pub(crate) async fn check_write(&self, write: &RbacWrite<'_>) -> Result<(), Refusal> {
        let question = write.question(&self.engine.index())?;
        if let Some(question) = question
            && !self.ask(&question).await.is_allow()
        {
            write.check_held(&self.engine.index())?;
        }
        // Whoever may grant anything may not grant what they are denied.
        self.engine.check_grant(write).map_err(|refusal| write.forbidden(&refusal.reason))
    }

    /// Checks an additional permission that an authorized request turns out to need.
    ///
    /// # Errors
    /// The refusal.
    pub(crate) async fn allow_also(
        &self,
        permit: &Permit,
        info: &RequestInfo,
        verb: &str,
    ) -> Result<(), Status> {
        let attributes = Attributes { verb, ..info.attributes(permit.user()) };
        let outcome = self.ask(&attributes).await;
        if outcome.is_allow() {
            return Ok(());
        }
        Err(forbidden(&attributes, &outcome.reason(&attributes)))
    }

    /// Records a decision in the audit log and, if the Node authorizer refuses a node, in the log. It is logged even if
    /// another mode allowed the request, to show what would be refused without that mode.
    fn record(&self, attributes: &Attributes<'_>, outcome: &Outcome, metrics: &Metrics, trail: &Trail) {
        let is_by_node = outcome.is_allow() && outcome.by == Some(Mode::Node);
        let node = NodeIdentity::of(attributes.user).filter(|_| !is_by_node);
        let denial = node.and_then(|node| Some((node, node_denial(self.engine.chain(), attributes)?)));
        let Some((node, reason)) = denial else { return trail.decided(attributes, outcome, None) };
        let reason = reason.render(attributes).to_string();
        metrics.node_denials.inc();
        let what = attributes.resource.unwrap_or_default();
        tracing::info!(
            audit_id = trail.id_text(),
            verb = attributes.verb,
            group = what.group,
            resource = what.resource,
            subresource = what.subresource,
            namespace = what.namespace,
            name = what.name,
            path = attributes.path,
            reason,
            allowed = outcome.is_allow(),
            "NODE DENY: {}",
            quoted(node.name()),
        );
        trail.decided(attributes, outcome, Some(&reason));
    }

    /// Authorizes a request (AC-53). `is_filtered`: a caller who may not read a whole collection wants to read a part of it
    /// (BC-40).
    ///
    /// # Errors
    /// The response to a caller who is not allowed.
    pub(crate) async fn authorize(
        &self,
        caller: &Caller,
        (info, is_filtered): (&RequestInfo, bool),
        target: &str,
        metrics: &Metrics,
        trail: &Trail,
    ) -> Result<Access, Box<Answer>> {
        let started = Instant::now();
        let user = caller.user();
        let attributes = info.attributes(user);
        if let Some(alarm) = &self.alarm {
            alarm.note(&attributes);
        }
        let outcome = self.ask(&attributes).await;
        metrics.authorized(&outcome, started.elapsed());
        if is_filtered && let Some(permit) = self.part(user, info, &outcome) {
            trail.decided(&attributes, &outcome, None);
            trail.annotate(FILTERED, "true".to_owned());
            return Ok(Access::Part(permit));
        }
        self.record(&attributes, &outcome, metrics, trail);
        if outcome.is_allow() {
            return Ok(Access::Whole(Permit { user: Arc::clone(user) }));
        }
        if let Some(error) = &outcome.error {
            return Err(Box::new(internal_error(target, error)));
        }
        Err(Box::new(forbidden(&attributes, &outcome.reason(&attributes)).into_answer()))
    }

    /// The right of a caller to a part of the collection that it was not allowed to read as a whole; none if the part cannot be
    /// told, or must not be.
    ///
    /// DIVERGES: Kubernetes refuses. A list that somebody explicitly denies is refused here, too, and so is one of an anonymous
    /// caller or of a node-scoped account. Where a webhook is in the chain, it would have to be asked about each object.
    fn part(&self, user: &Arc<User>, info: &RequestInfo, outcome: &Outcome) -> Option<PartialPermit> {
        if !part::is_divisible(self.authorizers.load().chain(), user, info, outcome) {
            return None;
        }
        let last_seen = (&self.last_seen, &*self.backend);
        PartialPermit::new(user, info, &self.engine, &self.authorizers, last_seen)
    }

    /// Whether a caller may still be shown a part of a collection.
    pub(crate) async fn is_part_allowed(&self, user: &User, info: &RequestInfo) -> bool {
        let outcome = self.ask(&info.attributes(user)).await;
        outcome.is_allow() || part::is_divisible(self.authorizers.load().chain(), user, info, &outcome)
    }
}

/// Proof that a caller is authorized for a request: for all of it, or for a part.
pub(crate) enum Access {
    /// For all of it.
    Whole(Permit),
    /// For those objects of the collection that the caller may get.
    Part(PartialPermit),
}

impl Access {
    /// The user who makes the request.
    pub(crate) fn user(&self) -> &User {
        match self {
            Self::Whole(permit) => permit.user(),
            Self::Part(permit) => permit.user(),
        }
    }
}

/// Returns why the Node authorizer does not allow the request of a node, whatever other authorizers decide; none if it
/// is not in the chain, the user is not a node, or it allows the request.
fn node_denial(chain: &Chain, attributes: &Attributes<'_>) -> Option<Reason> {
    NodeIdentity::of(attributes.user)?;
    chain.members().iter().find_map(|member| match member {
        Member::Node(node) => match node.authorize(attributes) {
            Decision::Allow(_) => None,
            Decision::Deny(reason) | Decision::NoOpinion(reason) => Some(reason),
        },
        _ => None,
    })
}

/// Proof that this caller is authorized for this request. Handlers take it by value.
#[derive(Debug)]
pub struct Permit {
    user: Arc<User>,
}

impl Permit {
    /// The user who makes the request.
    pub fn user(&self) -> &User {
        &self.user
    }
}

/// Creates the 403 response (AC-56, AC-57). The part before the reason is sanitized, the reason is not.
pub(crate) fn forbidden(attributes: &Attributes<'_>, reason: &str) -> Status {
    let user = quoted(&attributes.user.name);
    let verb = attributes.verb;
    let mut details = Details::default();
    let (prefix, what) = match &attributes.resource {
        None => (String::new(), format!("User {user} cannot {verb} path {}", quoted(attributes.path))),
        Some(r) => {
            r.group.clone_into(&mut details.group);
            r.resource.clone_into(&mut details.kind);
            r.name.clone_into(&mut details.name);
            let qualified = match r.group {
                "" => r.resource.to_owned(),
                group => format!("{}.{group}", r.resource),
            };
            let prefix = match r.name {
                "" => format!("{qualified} is "),
                name => format!("{qualified} {} is ", quoted(name)),
            };
            let full = match r.subresource {
                "" => quoted(r.resource),
                sub => quoted(&format!("{}/{sub}", r.resource)),
            };
            let scope = match r.namespace {
                "" => "at the cluster scope".to_owned(),
                namespace => format!("in the namespace {}", quoted(namespace)),
            };
            let what =
                format!("User {user} cannot {verb} resource {full} in API group {} {scope}", quoted(r.group));
            (prefix, what)
        }
    };
    let mut message = format!("{prefix}forbidden: {}", sanitized(&what));
    if !reason.is_empty() {
        message.push_str(": ");
        message.push_str(reason);
    }
    Status::forbidden(message, details)
}
