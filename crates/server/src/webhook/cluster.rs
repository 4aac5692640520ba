//! What a webhook decides from: objects that do not change, or a cluster that is followed.
//!
//! A followed cluster may be known too late, or not any more. Modes that need a kind that was not heard of have no opinion, mode
//! Deny denies what it may have to deny, and nodes are refused by admission (BC-22). A node that is about to be refused because of something that may not have arrived
//! yet is made to wait for it (BC-23).

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use policy::chain::{Chain, Mode, Outcome};
use policy::deny::DenyAuthorizer;
use policy::engine::{Engine, EngineConfig, LiveEngine, needs};
use policy::restriction::Rejection;
use policy::{AdmissionRequest, Attributes, FeatureGates, Kind, NodeIdentity, Reason};
use portcullis_client::feed::{Feed, Standing, Waited};

use super::metrics::Wait;
use crate::http::account::Account;
use crate::http::budget::Budget;

/// How many requests of one node wait at a time. Others are refused at once.
const WAITS_OF_NODE: usize = 64;
/// The code of the refusal of a write while its objects are not known.
const UNKNOWN_CODE: u16 = 503;

/// See the module.
pub enum Cluster {
    /// Objects that do not change, of files.
    Fixed(Box<Engine>),
    /// A cluster that is followed.
    Followed(Following),
}

/// A cluster that is followed.
pub struct Following {
    engine: Arc<LiveEngine>,
    feed: Feed,
    /// The modes of the engine, and the kinds that each needs.
    modes: Vec<(Mode, Vec<Kind>)>,
    /// The kinds that admission needs.
    admission: Vec<Kind>,
    /// The kinds that the escalation check over deny rules needs.
    escalation: Vec<Kind>,
    /// A kind of which nothing was heard for so long is not known any more.
    max_staleness: Duration,
    /// The longest wait for objects that may not have arrived yet; zero: none.
    patience: Duration,
    /// The requests of each node that wait.
    waits: Arc<Budget>,
    blind_modes: Outage,
    blind_admission: Outage,
}

impl Following {
    /// Decides by an engine of these modes that a feed keeps up to date.
    pub fn new(
        (engine, config): (Arc<LiveEngine>, &EngineConfig),
        feed: Feed,
        max_staleness: Duration,
        patience: Duration,
    ) -> Self {
        Self {
            engine,
            feed,
            modes: config.modes.iter().map(|mode| (*mode, needs::of_mode(*mode, config))).collect(),
            admission: needs::of_admission(config.gates),
            escalation: needs::of_escalation(config),
            max_staleness,
            patience,
            waits: Budget::new(WAITS_OF_NODE),
            blind_modes: Outage::default(),
            blind_admission: Outage::default(),
        }
    }

    /// The kinds that the modes and admission need, each once.
    pub fn kinds(config: &EngineConfig) -> Vec<Kind> {
        let mut kinds = needs::of_admission(config.gates);
        kinds.extend(needs::of_escalation(config));
        kinds.extend(config.modes.iter().flat_map(|mode| needs::of_mode(*mode, config)));
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }

    fn is_current(&self, kinds: &[Kind]) -> bool {
        self.feed.is_current(kinds, self.max_staleness)
    }

    /// The modes that may not decide now.
    fn blind(&self) -> Vec<Mode> {
        let blind = self.modes.iter().filter(|(_, kinds)| !self.is_current(kinds));
        blind.map(|(mode, _)| *mode).collect()
    }

    /// Decides again while changes arrive, for a request of a node.
    async fn wait<T>(&self, node: Account, decide: impl FnMut() -> Option<T>) -> (Option<T>, Wait) {
        if self.patience.is_zero() {
            return (None, Wait::Off);
        }
        let Some(_room) = self.waits.charge(node, 1) else { return (None, Wait::TooMany) };
        match self.feed.decide_again(self.patience, decide).await {
            Waited::Decided(found) => (Some(found), Wait::Changed),
            Waited::Current => (None, Wait::Confirmed),
            Waited::TimedOut => (None, Wait::TimedOut),
        }
    }
}

/// Whether something is missing now: so that the log says once that it began and that it ended.
#[derive(Default)]
struct Outage(AtomicBool);

impl Outage {
    /// Returns whether it begins now.
    fn began(&self) -> bool {
        !self.0.swap(true, Ordering::Relaxed)
    }

    fn ended(&self) {
        if self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Relaxed) {
            tracing::info!("the cluster is known again");
        }
    }
}

/// The result of comparing a write of a role or a binding with deny rules.
pub(super) enum Checked {
    /// It is no such write, or they are not compared.
    Passed,
    /// It grants nothing that the caller is denied.
    Granted,
    Refused(Rejection),
    /// Refused, because the role to be bound may not have arrived yet.
    Missing(Rejection),
    /// Refused, because roles are not known now.
    Unknown(Rejection),
}

/// A decision, and whether it was waited for.
pub(super) struct Decided {
    pub(super) outcome: Outcome,
    pub(super) wait: Option<Wait>,
    /// What is not known, so that the decision may be another one; empty if everything is.
    pub(super) unknown: String,
}

impl Decided {
    fn known(outcome: Outcome) -> Self {
        Self { outcome, wait: None, unknown: String::new() }
    }

    /// Whether an object that has not arrived yet could turn this into another decision: a node was not allowed what pods may
    /// allow it, or something is denied because a pod or a namespace is not known.
    fn may_change(&self) -> bool {
        !self.outcome.is_allow()
            && self.outcome.decision.reason().iter().any(|reason| {
                matches!(reason, Reason::NodeUnrelated | Reason::NotOfNode | Reason::NamespaceUnknown(_))
            })
    }
}

impl Cluster {
    /// Decides an access review at once, by the modes whose kinds are known.
    pub(super) fn decide(&self, attributes: &Attributes<'_>) -> Decided {
        let following = match self {
            Self::Fixed(engine) => return Decided::known(engine.authorize(attributes)),
            Self::Followed(following) => following,
        };
        let blind = following.blind();
        if blind.is_empty() {
            following.blind_modes.ended();
            return Decided::known(following.engine.authorize(attributes));
        }
        let unknown = following.unknown();
        if following.blind_modes.began() {
            tracing::warn!(why = unknown, "reviews are answered without the modes that need this");
        }
        let outcome = following.engine.chain().without(&blind).decide(attributes);
        Decided { outcome, wait: None, unknown }
    }

    /// As [`Cluster::decide`]; a request that is about to be refused waits for what may not have arrived yet (BC-23).
    pub(super) async fn authorize(&self, attributes: &Attributes<'_>) -> Decided {
        let mut decided = self.decide(attributes);
        let Self::Followed(following) = self else { return decided };
        if !decided.may_change() {
            return decided;
        }
        let again = || Some(self.decide(attributes)).filter(|decided| !decided.may_change());
        let (found, wait) = following.wait(Account::of_user(attributes.user), again).await;
        decided = found.unwrap_or(decided);
        Decided { wait: Some(wait), ..decided }
    }

    /// The modes in order, over the objects as they are whenever they decide.
    pub(super) fn chain(&self) -> &Chain {
        match self {
            Self::Fixed(engine) => engine.chain(),
            Self::Followed(following) => following.engine.chain(),
        }
    }

    /// The feature gates of the modes.
    pub(super) fn gates(&self) -> FeatureGates {
        match self {
            Self::Fixed(engine) => engine.gates(),
            Self::Followed(following) => following.engine.gates(),
        }
    }

    /// Whether all objects that the modes need are known now.
    pub(super) fn is_known(&self) -> bool {
        match self {
            Self::Fixed(_) => true,
            Self::Followed(following) => following.blind().is_empty(),
        }
    }

    /// Assesses a write by NodeRestriction. A question that it leaves open is decided by the modes whose kinds are known.
    pub(super) fn assess(&self, request: &AdmissionRequest<'_>) -> Result<(), Rejection> {
        let assessed = match self {
            Self::Fixed(engine) => engine.node_restriction().assess(request),
            Self::Followed(following) => following.engine.assess(request),
        };
        assessed?.decide(|question| self.decide(question).outcome.is_allow())
    }

    /// Checks a write of a role or a binding against deny rules, whoever makes it (BC-31).
    pub(super) fn check_grant(&self, request: &AdmissionRequest<'_>) -> Checked {
        if !self.checks_grants() {
            return Checked::Passed;
        }
        let write = match request.role_write() {
            Ok(Some(write)) => write,
            Ok(None) => return Checked::Passed,
            Err(rejection) => return Checked::Refused(rejection),
        };
        let checked = match self {
            Self::Fixed(engine) => engine.check_grant(&write.as_rbac()),
            Self::Followed(following) if following.is_current(&following.escalation) => {
                following.engine.check_grant(&write.as_rbac())
            }
            Self::Followed(following) => {
                let why = format!("the webhook cannot compare this with deny rules: {}", following.unknown());
                return Checked::Unknown(unavailable(why));
            }
        };
        match checked {
            Ok(()) => Checked::Granted,
            Err(refusal) if refusal.is_unknown => Checked::Missing(write.refused(&refusal.reason)),
            Err(refusal) => Checked::Refused(write.refused(&refusal.reason)),
        }
    }

    /// Whether writes of roles and bindings are compared with deny rules.
    fn checks_grants(&self) -> bool {
        let chain = match self {
            Self::Fixed(engine) => engine.chain(),
            Self::Followed(following) => following.engine.chain(),
        };
        chain.deny().is_some_and(DenyAuthorizer::checks_escalation)
    }

    /// What is not known of the objects that admission needs, if anything.
    pub(super) fn unknown_to_admission(&self) -> Option<Rejection> {
        let Self::Followed(following) = self else { return None };
        if following.is_current(&following.admission) {
            following.blind_admission.ended();
            return None;
        }
        let unknown = following.unknown();
        if following.blind_admission.began() {
            tracing::warn!(why = unknown, "writes of nodes are refused");
        }
        Some(unavailable(format!("the webhook cannot decide what this node may write: {unknown}")))
    }

    /// Assesses again while changes arrive, for a node that was refused (BC-23).
    pub(super) async fn assess_again<T>(
        &self,
        node: Account,
        assess: impl FnMut() -> Option<T>,
    ) -> (Option<T>, Wait) {
        match self {
            Self::Fixed(_) => (None, Wait::Off),
            Self::Followed(following) => following.wait(node, assess).await,
        }
    }

    /// Why nothing can be decided, if that is so.
    pub(super) fn unready(&self) -> Option<String> {
        let Self::Followed(following) = self else { return None };
        Some(following.unknown()).filter(|why| !why.is_empty())
    }

    /// Ends the watches.
    pub(super) fn stop_following(&self) {
        if let Self::Followed(following) = self {
            following.feed.stop();
        }
    }

    /// What is known of each kind.
    pub(super) fn standings(&self) -> Vec<Standing> {
        match self {
            Self::Fixed(_) => Vec::new(),
            Self::Followed(following) => following.feed.standings().collect(),
        }
    }
}

impl Following {
    /// Which kinds are not known, and since when; empty if all are.
    fn unknown(&self) -> String {
        let mut text = String::new();
        for standing in self.feed.standings().filter(|known| !known.is_current(self.max_staleness)) {
            if !text.is_empty() {
                text.push_str(", ");
            }
            let kind = standing.kind.as_str();
            let _ = match (standing.is_listed, standing.age) {
                (true, Some(age)) => write!(text, "nothing was heard of {kind} for {} s", age.as_secs()),
                _ => write!(text, "{kind} was not listed yet"),
            };
        }
        text
    }
}

/// The refusal of a write that may be tried again.
fn unavailable(message: String) -> Rejection {
    Rejection { code: UNKNOWN_CODE, reason: "ServiceUnavailable", message, details: None }
}

/// Whether an object that has not arrived yet could let a node write this: rules look at pods, nodes and service accounts.
pub(super) fn may_be_admitted_later(request: &AdmissionRequest<'_>) -> bool {
    let looked_up = ["pods", "serviceaccounts", "podcertificaterequests"];
    NodeIdentity::of(request.user).is_some() && looked_up.contains(&request.resource)
}
