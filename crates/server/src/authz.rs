//! May they? The only module that makes a [`Permit`], without which no handler can be called.

pub mod configuration;
pub mod reload;
mod rounds;
mod sequence;

use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;
use policy::chain::{self, Reasons};
use policy::decision::Authorizer;
use policy::engine::RbacWrite;
use policy::rbac::escalation::Refusal;
use policy::request_info::RequestInfo;
use policy::restriction::{AdmissionRequest, Rejection};
use policy::rules::RuleListing;
use policy::{Attributes, User};
use portcullis_pki as pki;
use portcullis_policy as policy;

use crate::authn::Caller;
use crate::go::{quoted, sanitized};
use crate::metrics::Metrics;
use crate::status::{Answer, Details, Status, internal_error};

pub use sequence::{Sequence, SequenceError};

/// What decides: a chain of authorizers over indexes, with `system:masters` first (AC-63).
pub trait Engine: Send + Sync + 'static {
    /// Decides one request.
    fn authorize(&self, attributes: &Attributes<'_>) -> Outcome;

    /// Lists what a user may do in a namespace (AC-59).
    fn rules_for(&self, user: &User, namespace: &str) -> RuleListing;

    /// Decides a write by NodeRestriction, over the objects that this engine knows.
    ///
    /// # Errors
    /// The node may not write this (NR-6).
    fn admit_write(&self, request: &AdmissionRequest<'_>) -> Result<(), Rejection>;

    /// [`Engine::admit_write`], where this authorizer is asked instead of the engine's own chain.
    ///
    /// # Errors
    /// The node may not write this (NR-6).
    fn admit_write_by(
        &self,
        request: &AdmissionRequest<'_>,
        _authorizer: &dyn Authorizer,
    ) -> Result<(), Rejection> {
        // The engine's own chain has no place for what it does not know: it allows no more than that.
        self.admit_write(request)
    }

    /// [`Engine::check_write`], where this authorizer is asked instead of the engine's own chain.
    ///
    /// # Errors
    /// The refusal to answer with.
    fn check_write_by(&self, write: &RbacWrite<'_>, _authorizer: &dyn Authorizer) -> Result<(), Refusal> {
        self.check_write(write)
    }

    /// Decides whether a role or a binding may be written (RB-50 to RB-64), over those that this engine knows. An
    /// engine that does not follow what is written lets nothing be written.
    ///
    /// # Errors
    /// The refusal to answer with.
    fn check_write(&self, _write: &RbacWrite<'_>) -> Result<(), Refusal> {
        Err(Refusal::Forbidden("roles and bindings cannot be written here".to_owned()))
    }
}

impl Engine for policy::engine::Engine {
    fn authorize(&self, attributes: &Attributes<'_>) -> Outcome {
        self.chain().decide(attributes).into()
    }

    fn rules_for(&self, user: &User, namespace: &str) -> RuleListing {
        self.chain().rules_for(user, namespace)
    }

    fn admit_write(&self, request: &AdmissionRequest<'_>) -> Result<(), Rejection> {
        self.admit(request, |pem| pki::csr::common_name(pem).map_err(|error| error.to_string()))
    }
}

/// Shared with whoever feeds it.
impl Engine for Arc<policy::engine::LiveEngine> {
    fn authorize(&self, attributes: &Attributes<'_>) -> Outcome {
        self.chain().decide(attributes).into()
    }

    fn rules_for(&self, user: &User, namespace: &str) -> RuleListing {
        self.chain().rules_for(user, namespace)
    }

    fn admit_write(&self, request: &AdmissionRequest<'_>) -> Result<(), Rejection> {
        self.admit(request, |pem| pki::csr::common_name(pem).map_err(|error| error.to_string()))
    }

    fn check_write(&self, write: &RbacWrite<'_>) -> Result<(), Refusal> {
        policy::engine::LiveEngine::check_write(self, write)
    }

    fn admit_write_by(
        &self,
        request: &AdmissionRequest<'_>,
        authorizer: &dyn Authorizer,
    ) -> Result<(), Rejection> {
        let read = |pem: &[u8]| pki::csr::common_name(pem).map_err(|error| error.to_string());
        self.admit_by(request, read, authorizer)
    }

    fn check_write_by(&self, write: &RbacWrite<'_>, authorizer: &dyn Authorizer) -> Result<(), Refusal> {
        policy::engine::LiveEngine::check_write_by(self, write, authorizer)
    }
}

impl From<chain::Outcome> for Outcome {
    fn from(outcome: chain::Outcome) -> Self {
        let (verdict, reasons) = match outcome {
            chain::Outcome::Allow(_, reason) => (Verdict::Allow, Reasons::from_iter([reason])),
            chain::Outcome::Deny(_, reason) => (Verdict::Deny, Reasons::from_iter([reason])),
            chain::Outcome::NoOpinion(reasons) => (Verdict::NoOpinion, reasons),
        };
        // Local authorizers never fail (NA-11, RB-38, AB-45).
        Self { verdict, reasons, error: None }
    }
}

/// The answer of the whole chain (AC-51).
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The answer.
    pub verdict: Verdict,
    /// Why. Of several authorizers without an opinion each that has something to say, in order.
    pub reasons: Reasons,
    /// What went wrong on the way. Independent of the verdict.
    pub error: Option<String>,
}

/// Yes, no, or nobody knew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Yes.
    Allow,
    /// No.
    Deny,
    /// Nobody knew; which is no.
    NoOpinion,
}

impl Outcome {
    /// The reasons as one text, a line for each.
    pub fn reason(&self, attributes: &Attributes<'_>) -> String {
        let lines: Vec<String> =
            self.reasons.iter().filter(|r| !r.is_none()).map(|r| r.render(attributes).to_string()).collect();
        lines.join("\n")
    }
}

/// The engine in use. It can be replaced at any time; a request goes by the one that it met.
pub struct Authorization {
    engine: ArcSwap<Box<dyn Engine>>,
    /// Asked instead of the engine's own chain, where somebody must be waited for or the order can change.
    sequence: Option<Arc<ArcSwap<Sequence>>>,
}

impl Authorization {
    /// Authorization by this engine.
    pub fn new(engine: impl Engine) -> Self {
        Self { engine: ArcSwap::from_pointee(Box::new(engine) as Box<dyn Engine>), sequence: None }
    }

    /// The same authorization, where these are asked in their order instead of the engine's own chain. Whoever holds
    /// the other end can change them; a request goes by those that it met (AC-117).
    #[must_use]
    pub fn with_sequence(mut self, sequence: Arc<ArcSwap<Sequence>>) -> Self {
        self.sequence = Some(sequence);
        self
    }

    /// Uses another engine from now on.
    pub fn replace(&self, engine: impl Engine) {
        self.engine.store(Arc::new(Box::new(engine)));
    }

    /// What the chain says to a question that is not the request itself. Waits only where a webhook is asked.
    pub async fn ask(&self, attributes: &Attributes<'_>) -> Outcome {
        match &self.sequence {
            None => self.engine.load().authorize(attributes),
            Some(sequence) => sequence.load_full().decide(attributes).await,
        }
    }

    /// The rules of a user in a namespace.
    pub fn rules_for(&self, user: &User, namespace: &str) -> RuleListing {
        match &self.sequence {
            None => self.engine.load().rules_for(user, namespace),
            Some(sequence) => sequence.load().rules_for(user, namespace),
        }
    }

    /// What NodeRestriction says to a write.
    ///
    /// # Errors
    /// The node may not write this (NR-6).
    pub(crate) async fn admit_write(&self, request: &AdmissionRequest<'_>) -> Result<(), Rejection> {
        let Some(sequence) = &self.sequence else { return self.engine.load().admit_write(request) };
        let engine = self.engine.load_full();
        rounds::settle(&sequence.load_full(), |asked| engine.admit_write_by(request, asked)).await
    }

    /// Whether a role or a binding may be written (RB-50 to RB-64).
    ///
    /// # Errors
    /// The refusal to answer with.
    pub(crate) async fn check_write(&self, write: &RbacWrite<'_>) -> Result<(), Refusal> {
        let Some(sequence) = &self.sequence else { return self.engine.load().check_write(write) };
        let engine = self.engine.load_full();
        rounds::settle(&sequence.load_full(), |asked| engine.check_write_by(write, asked)).await
    }

    /// Whether somebody who may make a request may do this as well, which it turns out to need.
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
        match outcome.verdict {
            Verdict::Allow => Ok(()),
            _ => Err(forbidden(&attributes, &outcome.reason(&attributes))),
        }
    }

    /// Decides whether a request may go on (AC-53).
    ///
    /// # Errors
    /// The answer for a caller who may not.
    pub(crate) async fn admit(
        &self,
        caller: &Caller,
        info: &RequestInfo,
        target: &str,
        metrics: &Metrics,
    ) -> Result<Permit, Box<Answer>> {
        let started = Instant::now();
        let user = caller.user();
        let attributes = info.attributes(user);
        let outcome = self.ask(&attributes).await;
        metrics.authorized(&outcome, started.elapsed());
        if outcome.verdict == Verdict::Allow {
            return Ok(Permit { user: Arc::clone(user) });
        }
        if let Some(error) = &outcome.error {
            return Err(Box::new(internal_error(target, error)));
        }
        Err(Box::new(forbidden(&attributes, &outcome.reason(&attributes)).into_answer()))
    }
}

/// Proof that this caller may make this request. A handler takes it by value.
#[derive(Debug)]
pub struct Permit {
    user: Arc<User>,
}

impl Permit {
    /// Who asks.
    pub fn user(&self) -> &User {
        &self.user
    }
}

/// The refusal (AC-56, AC-57). The part before the reason is sanitized, the reason is not.
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
