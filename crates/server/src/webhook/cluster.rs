//! What a webhook decides from: objects that do not change, or a cluster that is followed.
//!
//! A followed cluster may be known too late, or not any more. Modes that need a kind that was not heard of have no opinion, and
//! nodes are refused by admission (BC-22). A node that is about to be refused because of something that may not have arrived
//! yet is made to wait for it (BC-23).

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use policy::chain::{Chain, Mode, Outcome};
use policy::engine::{Engine, LiveEngine, needs};
use policy::restriction::{Assessment, Rejection};
use policy::{AdmissionRequest, Attributes, Decision, FeatureGates, Kind, NodeIdentity, Reason};
use portcullis_client::feed::{Feed, Standing, Waited};

use super::metrics::Wait;
use crate::http::account::Account;
use crate::http::budget::{Budget, Charge};

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
    /// A kind of which nothing was heard for so long is not known any more.
    max_staleness: Duration,
    /// The longest wait for objects that may not have arrived yet; zero: none.
    patience: Duration,
    /// The requests of each node that wait.
    waits: Arc<Budget>,
}

impl Following {
    /// Decides by an engine of these modes that a feed keeps up to date.
    pub fn new(
        (engine, modes, gates): (Arc<LiveEngine>, &[Mode], FeatureGates),
        feed: Feed,
        max_staleness: Duration,
        patience: Duration,
    ) -> Self {
        Self {
            engine,
            feed,
            modes: modes.iter().map(|mode| (*mode, needs::of_mode(*mode, gates))).collect(),
            admission: needs::of_admission(gates),
            max_staleness,
            patience,
            waits: Budget::new(WAITS_OF_NODE),
        }
    }

    /// The kinds that the modes and admission need, each once.
    pub fn kinds(modes: &[Mode], gates: FeatureGates) -> Vec<Kind> {
        let mut kinds = needs::of_admission(gates);
        kinds.extend(modes.iter().flat_map(|mode| needs::of_mode(*mode, gates)));
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

    /// Room to wait for a request of this account.
    fn wait(&self, account: Account) -> Result<Charge, Wait> {
        if self.patience.is_zero() {
            return Err(Wait::Off);
        }
        self.waits.charge(account, 1).ok_or(Wait::TooMany)
    }
}

/// A decision, and whether it was waited for.
pub(super) struct Decided<T> {
    pub(super) outcome: T,
    pub(super) wait: Option<Wait>,
    /// What is not known, so that the decision may be another one; empty if everything is.
    pub(super) unknown: String,
}

impl<T> Decided<T> {
    fn at_once(outcome: T) -> Self {
        Self { outcome, wait: None, unknown: String::new() }
    }
}

impl Cluster {
    /// Decides an access review.
    pub(super) async fn authorize(&self, attributes: &Attributes<'_>) -> Decided<Outcome> {
        let following = match self {
            Self::Fixed(engine) => return Decided::at_once(engine.authorize(attributes)),
            Self::Followed(following) => following,
        };
        let blind = following.blind();
        if !blind.is_empty() {
            let outcome = following.engine.chain().without(&blind).decide(attributes);
            return Decided { outcome, wait: None, unknown: following.unknown() };
        }
        let engine = &following.engine;
        let outcome = engine.authorize(attributes);
        if !may_change(&outcome) {
            return Decided::at_once(outcome);
        }
        let room = match following.wait(Account::of_user(attributes.user)) {
            Ok(room) => room,
            Err(wait) => return Decided { outcome, wait: Some(wait), unknown: String::new() },
        };
        let again = || Some(engine.authorize(attributes)).filter(|outcome| !may_change(outcome));
        let waited = following.feed.decide_again(following.patience, again).await;
        drop(room);
        let (outcome, wait) = match waited {
            Waited::Decided(outcome) => (outcome, Wait::Changed),
            Waited::Current => (outcome, Wait::Confirmed),
            Waited::TimedOut => (outcome, Wait::TimedOut),
        };
        Decided { outcome, wait: Some(wait), unknown: String::new() }
    }

    /// Assesses a write by NodeRestriction. The request is made anew for each attempt: it borrows from text that may be read
    /// again, but not be kept while waiting.
    pub(super) fn assess(&self, request: &AdmissionRequest<'_>) -> Result<(), Rejection> {
        let chain = self.chain();
        let decided = |assessed: Assessment<'_>| match assessed {
            Assessment::IfAuthorized(question) if !chain.decide(&question.attributes()).is_allow() => {
                Err(question.refusal())
            }
            Assessment::Admitted | Assessment::IfAuthorized(_) => Ok(()),
        };
        match self {
            Self::Fixed(engine) => engine.node_restriction().assess(request).and_then(decided),
            Self::Followed(following) => following.engine.assess(request).and_then(decided),
        }
    }

    /// What is not known of the objects that admission needs, if anything.
    pub(super) fn unknown_to_admission(&self) -> Option<Rejection> {
        let Self::Followed(following) = self else { return None };
        if following.is_current(&following.admission) {
            return None;
        }
        Some(Rejection {
            code: UNKNOWN_CODE,
            reason: "ServiceUnavailable",
            message: format!("the webhook cannot decide what this node may write: {}", following.unknown()),
            details: None,
        })
    }

    /// Assesses again while changes arrive, for a node that was refused (BC-23).
    pub(super) async fn assess_again<T>(
        &self,
        node: Account,
        assess: impl FnMut() -> Option<T>,
    ) -> (Option<T>, Wait) {
        let Self::Followed(following) = self else { return (None, Wait::Off) };
        let room = match following.wait(node) {
            Ok(room) => room,
            Err(wait) => return (None, wait),
        };
        let waited = following.feed.decide_again(following.patience, assess).await;
        drop(room);
        match waited {
            Waited::Decided(found) => (Some(found), Wait::Changed),
            Waited::Current => (None, Wait::Confirmed),
            Waited::TimedOut => (None, Wait::TimedOut),
        }
    }

    fn chain(&self) -> &Chain {
        match self {
            Self::Fixed(engine) => engine.chain(),
            Self::Followed(following) => following.engine.chain(),
        }
    }

    /// Why nothing can be decided, if that is so.
    pub(super) fn unready(&self) -> Option<String> {
        let Self::Followed(following) = self else { return None };
        Some(following.unknown()).filter(|why| !why.is_empty())
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

/// Whether an object that was not heard of could turn this decision into another one: a node was not allowed what pods may
/// allow it. What other users may do is not bound to time.
fn may_change(outcome: &Outcome) -> bool {
    let Decision::NoOpinion(reasons) = &outcome.decision else { return false };
    reasons.iter().any(|reason| matches!(reason, Reason::NodeUnrelated))
}

/// Whether an object that was not heard of could let a node write this: rules look at pods, nodes and service accounts.
pub(super) fn may_be_admitted_later(request: &AdmissionRequest<'_>) -> bool {
    let looked_up = ["pods", "serviceaccounts", "podcertificaterequests"];
    NodeIdentity::of(request.user).is_some() && looked_up.contains(&request.resource)
}
