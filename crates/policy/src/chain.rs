//! The authorizer chain: the modes in order, and the first allow or deny wins (AC-50 to AC-63, NA-9).
//!
//! The chain itself never waits. Where a webhook comes next it stops and says so ([`Step::Webhook`]); the caller asks
//! the webhook and has the chain go on with the answer ([`Chain::resume`]). A caller that cannot wait uses
//! [`Chain::decide`], which denies at the place of a webhook.

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;
use std::sync::{Arc, PoisonError, RwLock};

use smallvec::SmallVec;

use crate::abac::AbacPolicyFile;
use crate::decision::{Authorizer, Decision, Reason};
use crate::deny::DenyAuthorizer;
use crate::extent::Extent;
use crate::node::NodeAuthorizer;
use crate::rbac::RbacIndex;
use crate::request::{Attributes, User};
use crate::rules::{NonResourceRule, ResourceRule, RuleListing, aggregate};

/// The group whose requests are allowed before any authorizer is called (AC-62, AC-63).
pub const MASTERS_GROUP: &str = "system:masters";

/// The authorization modes, with the names that kube-apiserver gives them (case-sensitive, AC-71).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// `ABAC`
    Abac,
    /// `AlwaysAllow`
    AlwaysAllow,
    /// `AlwaysDeny`
    AlwaysDeny,
    /// `Deny`. DIVERGES: Kubernetes has no such mode (BC-30).
    Deny,
    /// `Node`
    Node,
    /// `RBAC`
    Rbac,
    /// `Webhook`
    Webhook,
}

impl Mode {
    /// All modes, in the order of their names.
    pub const ALL: [Self; 7] =
        [Self::Abac, Self::AlwaysAllow, Self::AlwaysDeny, Self::Deny, Self::Node, Self::Rbac, Self::Webhook];

    /// The name, as in `--authorization-mode`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Abac => "ABAC",
            Self::AlwaysAllow => "AlwaysAllow",
            Self::AlwaysDeny => "AlwaysDeny",
            Self::Deny => "Deny",
            Self::Node => "Node",
            Self::Rbac => "RBAC",
            Self::Webhook => "Webhook",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The name of an unknown mode (AC-72).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("authorization-mode {0:?} is not a valid mode")]
pub struct UnknownMode(pub String);

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(name: &str) -> Result<Self, UnknownMode> {
        Self::ALL.into_iter().find(|mode| mode.name() == name).ok_or_else(|| UnknownMode(name.to_owned()))
    }
}

/// One member of the chain.
#[derive(Clone, Debug)]
pub enum Member {
    /// A policy file (AB-).
    Abac(Arc<AbacPolicyFile>),
    /// Allows everything (AC-60).
    AlwaysAllow,
    /// Has no opinion on any request, and gives a reason (AC-61).
    AlwaysDeny,
    /// Deny rules and node-scoped accounts (BC-30, BC-32).
    Deny(Arc<DenyAuthorizer>),
    /// The Node authorizer (NA-).
    Node(Arc<NodeAuthorizer>),
    /// Roles and bindings (RB-).
    Rbac(Arc<RbacIndex>),
    /// Roles and bindings that can change at runtime.
    LiveRbac(Arc<RwLock<RbacIndex>>),
    /// The place of a remote service: the chain stops here, see [`Step::Webhook`].
    Webhook,
}

impl Member {
    /// The mode of this member.
    pub fn mode(&self) -> Mode {
        match self {
            Self::Abac(_) => Mode::Abac,
            Self::AlwaysAllow => Mode::AlwaysAllow,
            Self::AlwaysDeny => Mode::AlwaysDeny,
            Self::Deny(_) => Mode::Deny,
            Self::Node(_) => Mode::Node,
            Self::Rbac(_) | Self::LiveRbac(_) => Mode::Rbac,
            Self::Webhook => Mode::Webhook,
        }
    }

    /// Passes the roles and bindings of mode RBAC to `look`; none of another mode.
    pub fn with_rbac<T>(&self, look: impl FnOnce(&RbacIndex) -> T) -> Option<T> {
        match self {
            Self::Rbac(rbac) => Some(look(rbac)),
            Self::LiveRbac(rbac) => Some(look(&read(rbac))),
            _ => None,
        }
    }

    /// The decision of this member. None: it is a webhook, which must be waited for.
    #[inline]
    fn decide(&self, attributes: &Attributes<'_>) -> Option<Decision> {
        Some(match self {
            Self::Abac(file) => file.authorize(attributes),
            Self::AlwaysAllow => Decision::Allow(Reason::None),
            Self::AlwaysDeny => Decision::NoOpinion(Reason::Text("Everything is forbidden.")),
            Self::Deny(deny) => deny.authorize(attributes),
            Self::Node(node) => node.authorize(attributes),
            Self::Rbac(rbac) => rbac.authorize(attributes),
            Self::LiveRbac(rbac) => read(rbac).authorize(attributes),
            Self::Webhook => return None,
        })
    }

    /// Where the objects are that this member may allow a user to get. A webhook says nothing here.
    pub(crate) fn extent(&self, attributes: &Attributes<'_>) -> Extent {
        match self {
            // The lines of a policy file are not looked through: it may allow any object.
            Self::Abac(_) | Self::AlwaysAllow => Extent::everywhere(),
            Self::AlwaysDeny | Self::Deny(_) | Self::Webhook => Extent::default(),
            Self::Node(node) => node.extent(attributes),
            Self::Rbac(rbac) => rbac.extent(attributes),
            Self::LiveRbac(rbac) => read(rbac).extent(attributes),
        }
    }

    /// Lists the rules of a user, as far as this member knows them (RB-42).
    pub fn rules_for(&self, user: &User, namespace: &str) -> RuleListing {
        let all = || vec!["*".to_owned()];
        match self {
            Self::Abac(file) => file.rules_for(user, namespace),
            Self::AlwaysAllow => RuleListing {
                resource_rules: vec![ResourceRule {
                    verbs: all(),
                    api_groups: all(),
                    resources: all(),
                    resource_names: Vec::new(),
                }],
                non_resource_rules: vec![NonResourceRule { verbs: all(), non_resource_urls: all() }],
                ..RuleListing::default()
            },
            Self::AlwaysDeny => RuleListing::default(),
            Self::Deny(_) => RuleListing {
                incomplete: true,
                errors: vec!["what mode Deny denies is not taken away from the rules".to_owned()],
                ..RuleListing::default()
            },
            Self::Node(node) => node.rules_for(user),
            Self::Rbac(rbac) => rbac.rules_for(user, namespace),
            Self::LiveRbac(rbac) => read(rbac).rules_for(user, namespace),
            Self::Webhook => RuleListing {
                incomplete: true,
                errors: vec!["webhook authorizer does not support user rule resolution".to_owned()],
                ..RuleListing::default()
            },
        }
    }
}

/// The members in order.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    masters_first: bool,
    members: Vec<Member>,
}

/// The decision of a chain.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The decision. With no opinion, the reasons of all members that gave one, in order.
    pub decision: Decision<Reasons>,
    /// The mode that allowed or denied. None: nobody did, or the user is in group `system:masters`.
    pub by: Option<Mode>,
    /// An error during evaluation. It changes no decision.
    pub error: Option<String>,
}

/// The reasons of several members. Six fit without an allocation; no more synchronous modes have no opinion with a reason.
pub type Reasons = SmallVec<[Reason; 6]>;

impl Outcome {
    /// Allowed because the user is in group `system:masters`.
    const BY_MASTERS: Self = Self { decision: Decision::Allow(Reasons::new_const()), by: None, error: None };

    /// The decision of one member.
    #[inline]
    fn of(decision: Decision, mode: Mode) -> Self {
        let decision = decision.map(|reason| {
            let mut reasons = Reasons::new();
            reasons.push(reason);
            reasons
        });
        Self { decision, by: Some(mode), error: None }
    }

    /// Whether the request is allowed.
    pub fn is_allow(&self) -> bool {
        self.decision.is_allow()
    }

    /// Whether the request is refused whatever others would say; no opinion is not.
    pub fn is_deny(&self) -> bool {
        matches!(self.decision, Decision::Deny(_))
    }

    /// The reasons as text, one a line (AC-51). Empty when there are none.
    pub fn reason(&self, attributes: &Attributes<'_>) -> String {
        let lines: Vec<String> = self
            .decision
            .reason()
            .iter()
            .map(|reason| reason.render(attributes).to_string())
            .filter(|line| !line.is_empty())
            .collect();
        lines.join("\n")
    }
}

/// The answer of a webhook, for [`Chain::resume`].
#[derive(Clone, Debug)]
pub struct Answer {
    /// The decision.
    pub decision: Decision,
    /// The error.
    pub error: Option<String>,
}

/// The progress of a chain with a request.
#[derive(Debug)]
pub enum Step {
    /// To the end.
    Decided(Outcome),
    /// To a webhook, which must be asked before the chain can go on.
    Webhook(Pending),
}

/// The reason why asking the members of a chain ended.
enum Stop {
    /// A member allowed or denied.
    Decided(Decision, Mode),
    /// The next member is a webhook: its place among the members.
    Webhook(usize),
    /// All members were asked, and none decided.
    End,
}

/// A decision that waits for the answer of a webhook.
#[derive(Debug, Default)]
pub struct Pending {
    /// How many members have answered.
    answered: usize,
    webhook: usize,
    reasons: Reasons,
    errors: Vec<String>,
}

impl Pending {
    /// Which of the chain's webhooks must be asked, from 0.
    pub fn webhook(&self) -> usize {
        self.webhook
    }
}

impl Chain {
    /// Creates a chain of these members.
    pub fn new(members: Vec<Member>) -> Self {
        Self { masters_first: false, members }
    }

    /// Adds group `system:masters`, which is allowed before any member is called, as in a running server (AC-63).
    #[must_use]
    pub fn with_masters(mut self) -> Self {
        self.masters_first = true;
        self
    }

    /// The same chain for a time when the objects that some modes depend on are not known. Their members have no opinion then;
    /// mode Deny denies what it may have to deny.
    #[must_use]
    pub fn without(&self, modes: &[Mode]) -> Self {
        let kept = self.members.iter().filter_map(|member| match member {
            Member::Deny(deny) if modes.contains(&Mode::Deny) => Some(Member::Deny(Arc::new(deny.blind()))),
            member => (!modes.contains(&member.mode())).then(|| member.clone()),
        });
        Self { masters_first: self.masters_first, members: kept.collect() }
    }

    /// The member of mode Deny.
    pub fn deny(&self) -> Option<&DenyAuthorizer> {
        self.members.iter().find_map(|member| match member {
            Member::Deny(deny) => Some(&**deny),
            _ => None,
        })
    }

    /// The members, in order.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Asks the members in order until one allows or denies (AC-51), or a webhook must be asked. Allocates nothing.
    pub fn start(&self, attributes: &Attributes<'_>) -> Step {
        if self.is_first(attributes) {
            return Step::Decided(Outcome::BY_MASTERS);
        }
        self.proceed(Pending::default(), attributes)
    }

    /// Goes on with the answer of the webhook that a decision waits for. The attributes must be those of
    /// [`Chain::start`].
    pub fn resume(&self, mut pending: Pending, answer: Answer, attributes: &Attributes<'_>) -> Step {
        pending.answered += 1;
        pending.webhook += 1;
        match answer.decision {
            Decision::NoOpinion(reason) => {
                note(&mut pending.reasons, reason);
                pending.errors.extend(answer.error);
                self.proceed(pending, attributes)
            }
            decided => Step::Decided(Outcome { error: answer.error, ..Outcome::of(decided, Mode::Webhook) }),
        }
    }

    /// Decides without waiting: the place of a webhook denies, because it might. Allocates nothing.
    #[inline]
    pub fn decide(&self, attributes: &Attributes<'_>) -> Outcome {
        if self.is_first(attributes) {
            return Outcome::BY_MASTERS;
        }
        // Not by way of a [`Step`]: it would be copied, which takes as long as a small decision.
        let mut reasons = Reasons::new();
        match self.walk(0, &mut reasons, attributes) {
            Stop::Decided(decision, mode) => Outcome::of(decision, mode),
            Stop::Webhook(_) => {
                Outcome::of(Decision::Deny(Reason::Text("the webhook cannot be asked here")), Mode::Webhook)
            }
            Stop::End => Outcome { decision: Decision::NoOpinion(reasons), by: None, error: None },
        }
    }

    fn proceed(&self, mut pending: Pending, attributes: &Attributes<'_>) -> Step {
        match self.walk(pending.answered, &mut pending.reasons, attributes) {
            Stop::Decided(decision, mode) => Step::Decided(Outcome::of(decision, mode)),
            Stop::Webhook(answered) => Step::Webhook(Pending { answered, ..pending }),
            Stop::End => {
                let Pending { reasons, errors, .. } = pending;
                let decision = Decision::NoOpinion(reasons);
                Step::Decided(Outcome { decision, by: None, error: aggregate(&errors) })
            }
        }
    }

    /// Asks the members from this place on, and notes the reasons of those without an opinion.
    #[inline]
    fn walk(&self, from: usize, reasons: &mut Reasons, attributes: &Attributes<'_>) -> Stop {
        for (place, member) in self.members.iter().enumerate().skip(from) {
            match member.decide(attributes) {
                Some(Decision::NoOpinion(reason)) => note(reasons, reason),
                Some(decided) => return Stop::Decided(decided, member.mode()),
                None => return Stop::Webhook(place),
            }
        }
        Stop::End
    }

    /// Returns whether the user is allowed before any member is called (AC-63).
    #[inline]
    pub(crate) fn is_first(&self, attributes: &Attributes<'_>) -> bool {
        self.masters_first && attributes.user.in_group(MASTERS_GROUP)
    }

    /// Where the objects are that a user may get (BC-40). The request has verb `get`, no name, and the namespace in which to
    /// look, or none. None if a webhook decides: it cannot be asked about every object.
    ///
    /// Looks at the bindings of all namespaces if the request has none, so decisions must not use it.
    pub fn extent(&self, attributes: &Attributes<'_>) -> Option<Extent> {
        if self.members().iter().any(|member| matches!(member, Member::Webhook)) {
            return None;
        }
        if self.is_first(attributes) {
            return Some(Extent::everywhere());
        }
        let mut extent = Extent::default();
        for member in self.members() {
            extent.add(member.extent(attributes));
        }
        Some(extent)
    }

    /// Lists the rules of all members in order (AC-59). Group `system:masters` is ignored.
    pub fn rules_for(&self, user: &User, namespace: &str) -> RuleListing {
        let mut listing = RuleListing::default();
        self.members.iter().for_each(|member| listing.append(member.rules_for(user, namespace)));
        listing
    }

    /// Explains a decision, one paragraph per member. Show it only to users who may see everything that it names.
    pub fn explain(&self, attributes: &Attributes<'_>) -> Explanation {
        let mut members = Vec::new();
        if self.is_first(attributes) {
            let text = format!("the user is in group {MASTERS_GROUP}, which is allowed everything");
            return Explanation { allowed: true, members: vec![("system:masters".to_owned(), text)] };
        }
        for member in &self.members {
            let decision = member.decide(attributes);
            let text = match member {
                Member::Abac(file) => file.explain(attributes),
                Member::AlwaysAllow => "allows everything".to_owned(),
                Member::AlwaysDeny => "never allows anything".to_owned(),
                Member::Deny(deny) => deny.explain(attributes),
                Member::Node(node) => node.explain(attributes),
                Member::Rbac(rbac) => rbac.explain(attributes),
                Member::LiveRbac(rbac) => read(rbac).explain(attributes),
                Member::Webhook => "a remote service, which cannot be asked here".to_owned(),
            };
            members.push((member.mode().name().to_owned(), text));
            if !matches!(decision, Some(Decision::NoOpinion(_))) {
                return Explanation {
                    allowed: decision.is_some_and(|decision| decision.is_allow()),
                    members,
                };
            }
        }
        Explanation { allowed: false, members }
    }
}

impl Authorizer for Chain {
    /// [`Chain::decide`] with a single reason. Where nobody has an opinion, it is the first that a member gave.
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        self.decide(attributes).decision.map(|reasons| reasons.into_iter().next().unwrap_or_default())
    }
}

/// Notes the reason of a member without an opinion, if it gave one.
#[inline]
fn note(reasons: &mut Reasons, reason: Reason) {
    if !reason.is_none() {
        reasons.push(reason);
    }
}

fn read(index: &RwLock<RbacIndex>) -> impl Deref<Target = RbacIndex> {
    index.read().unwrap_or_else(PoisonError::into_inner)
}

/// The explanation of a decision: what each member that was called says about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Whether the request is allowed.
    pub allowed: bool,
    /// The members that were called, in order: the mode, and its explanation as lines of text.
    pub members: Vec<(String, String)>,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (mode, text)) in self.members.iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{mode}:")?;
            let mut lines = text.lines();
            match (lines.next(), lines.next()) {
                (Some(only), None) => write!(f, " {only}")?,
                _ => text.lines().try_for_each(|line| write!(f, "\n  {line}"))?,
            }
        }
        Ok(())
    }
}
