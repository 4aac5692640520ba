//! The authorizer chain: the modes in order, and the first allow or deny wins (AC-50 to AC-63).
//!
//! Here are the modes that answer at once. The one that asks a remote service lives where waiting is allowed.

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;
use std::sync::{Arc, PoisonError, RwLock};

use smallvec::SmallVec;

use crate::abac::AbacPolicyFile;
use crate::decision::{Authorizer, Decision, Reason};
use crate::node::NodeAuthorizer;
use crate::rbac::RbacIndex;
use crate::request::{Attributes, User};
use crate::rules::{NonResourceRule, ResourceRule, RuleListing};

/// The group that is allowed everything before any mode is asked (AC-62, AC-63).
pub const MASTERS_GROUP: &str = "system:masters";

/// The authorization modes, by the names that kube-apiserver knows them by (case-sensitive, AC-71).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// `ABAC`
    Abac,
    /// `AlwaysAllow`
    AlwaysAllow,
    /// `AlwaysDeny`
    AlwaysDeny,
    /// `Node`
    Node,
    /// `RBAC`
    Rbac,
    /// `Webhook`
    Webhook,
}

impl Mode {
    /// The name, as in `--authorization-mode`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Abac => "ABAC",
            Self::AlwaysAllow => "AlwaysAllow",
            Self::AlwaysDeny => "AlwaysDeny",
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

/// A name that is no mode (AC-72).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("authorization-mode {0:?} is not a valid mode")]
pub struct UnknownMode(pub String);

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(name: &str) -> Result<Self, UnknownMode> {
        [Self::Abac, Self::AlwaysAllow, Self::AlwaysDeny, Self::Node, Self::Rbac, Self::Webhook]
            .into_iter()
            .find(|mode| mode.name() == name)
            .ok_or_else(|| UnknownMode(name.to_owned()))
    }
}

/// One member of the chain.
#[derive(Clone, Debug)]
pub enum Member {
    /// A policy file (AB-).
    Abac(Arc<AbacPolicyFile>),
    /// Allows everything (AC-60).
    AlwaysAllow,
    /// Has no opinion on anything, and says so (AC-61).
    AlwaysDeny,
    /// The Node authorizer (NA-).
    Node(Arc<NodeAuthorizer>),
    /// Roles and bindings (RB-).
    Rbac(Arc<RbacIndex>),
    /// Roles and bindings that change meanwhile.
    LiveRbac(Arc<RwLock<RbacIndex>>),
    /// The place of a remote service, which is asked where waiting is allowed. Asked here it refuses: who forgets the
    /// service must not allow what it would have denied.
    Webhook,
}

impl Member {
    /// The mode that this member is of.
    pub fn mode(&self) -> Mode {
        match self {
            Self::Abac(_) => Mode::Abac,
            Self::AlwaysAllow => Mode::AlwaysAllow,
            Self::AlwaysDeny => Mode::AlwaysDeny,
            Self::Node(_) => Mode::Node,
            Self::Rbac(_) | Self::LiveRbac(_) => Mode::Rbac,
            Self::Webhook => Mode::Webhook,
        }
    }

    /// The rules that this member lists for a user (RB-42).
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

impl Authorizer for Member {
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        match self {
            Self::Abac(file) => file.authorize(attributes),
            Self::AlwaysAllow => Decision::Allow(Reason::None),
            Self::AlwaysDeny => Decision::NoOpinion(Reason::Text("Everything is forbidden.")),
            Self::Node(node) => node.authorize(attributes),
            Self::Rbac(rbac) => rbac.authorize(attributes),
            Self::LiveRbac(rbac) => read(rbac).authorize(attributes),
            Self::Webhook => Decision::Deny(Reason::Text("the webhook cannot be asked here")),
        }
    }
}

/// The members in order.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    masters_first: bool,
    members: Vec<Member>,
}

/// What the chain answered.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Allowed, by which mode (none: by group `system:masters`) and why.
    Allow(Option<Mode>, Reason),
    /// Refused by a mode; later ones were not asked.
    Deny(Mode, Reason),
    /// Nobody allowed it. What each said that said anything, in order.
    NoOpinion(Reasons),
}

/// The reasons of several members. Six fit without allocating, and there are no more modes that answer at once.
pub type Reasons = SmallVec<[Reason; 6]>;

impl Outcome {
    /// Whether this is a yes.
    pub fn is_allow(&self) -> bool {
        matches!(self, Self::Allow(..))
    }

    /// Whether this is an explicit no; no opinion is none.
    pub fn is_deny(&self) -> bool {
        matches!(self, Self::Deny(..))
    }

    /// The reason, or the reasons one a line (AC-51). Empty when nobody said why.
    pub fn render(&self, attributes: &Attributes<'_>) -> String {
        match self {
            Self::Allow(_, reason) | Self::Deny(_, reason) => reason.render(attributes).to_string(),
            Self::NoOpinion(reasons) => {
                let lines: Vec<String> = reasons
                    .iter()
                    .map(|reason| reason.render(attributes).to_string())
                    .filter(|line| !line.is_empty())
                    .collect();
                lines.join("\n")
            }
        }
    }
}

impl Chain {
    /// A chain of just these members.
    pub fn new(members: Vec<Member>) -> Self {
        Self { masters_first: false, members }
    }

    /// The same chain with group `system:masters` allowed first, as a running server has it (AC-63).
    #[must_use]
    pub fn with_masters(mut self) -> Self {
        self.masters_first = true;
        self
    }

    /// The members, in order.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Asks the members in order until one allows or denies (AC-51). Allocates nothing.
    pub fn decide(&self, attributes: &Attributes<'_>) -> Outcome {
        self.decide_by(attributes, |member| member.authorize(attributes))
    }

    /// [`Chain::decide`] over a live index that the caller has locked for reading: who holds a lock must not wait for
    /// it again.
    pub(crate) fn decide_over(&self, locked: &RbacIndex, attributes: &Attributes<'_>) -> Outcome {
        self.decide_by(attributes, |member| match member {
            Member::LiveRbac(_) => locked.authorize(attributes),
            member => member.authorize(attributes),
        })
    }

    #[inline]
    fn decide_by(&self, attributes: &Attributes<'_>, ask: impl Fn(&Member) -> Decision) -> Outcome {
        if self.masters_first && attributes.user.in_group(MASTERS_GROUP) {
            return Outcome::Allow(None, Reason::None);
        }
        let mut reasons = Reasons::new();
        for member in &self.members {
            match ask(member) {
                Decision::Allow(reason) => return Outcome::Allow(Some(member.mode()), reason),
                Decision::Deny(reason) => return Outcome::Deny(member.mode(), reason),
                Decision::NoOpinion(reason) if reason.is_none() => {}
                Decision::NoOpinion(reason) => reasons.push(reason),
            }
        }
        Outcome::NoOpinion(reasons)
    }

    /// The rules of all members, one after the other (AC-59). Group `system:masters` plays no part.
    pub fn rules_for(&self, user: &User, namespace: &str) -> RuleListing {
        let mut listing = RuleListing::default();
        self.members.iter().for_each(|member| listing.append(member.rules_for(user, namespace)));
        listing
    }

    /// Explains a decision, one paragraph a member, for those who may see all of it.
    pub fn explain(&self, attributes: &Attributes<'_>) -> Explanation {
        let mut members = Vec::new();
        if self.masters_first && attributes.user.in_group(MASTERS_GROUP) {
            let text = format!("the user is in group {MASTERS_GROUP}, which is allowed everything");
            return Explanation { allowed: true, members: vec![("system:masters".to_owned(), text)] };
        }
        for member in &self.members {
            let decision = member.authorize(attributes);
            let text = match member {
                Member::Abac(file) => file.explain(attributes).to_string(),
                Member::AlwaysAllow => "allows everything".to_owned(),
                Member::AlwaysDeny => "never allows anything".to_owned(),
                Member::Node(node) => node.explain(attributes).to_string(),
                Member::Rbac(rbac) => rbac.explain(attributes).to_string(),
                Member::LiveRbac(rbac) => read(rbac).explain(attributes).to_string(),
                Member::Webhook => "a remote service, which cannot be asked here".to_owned(),
            };
            members.push((member.mode().name().to_owned(), text));
            if !matches!(decision, Decision::NoOpinion(_)) {
                return Explanation { allowed: decision.is_allow(), members };
            }
        }
        Explanation { allowed: false, members }
    }
}

impl Authorizer for Chain {
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        self.decide(attributes).into()
    }
}

impl From<Outcome> for Decision {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Allow(_, reason) => Self::Allow(reason),
            Outcome::Deny(_, reason) => Self::Deny(reason),
            // One reason is all that fits; who wants all of them asks `decide`.
            Outcome::NoOpinion(reasons) => Self::NoOpinion(reasons.into_iter().next().unwrap_or_default()),
        }
    }
}

fn read(index: &RwLock<RbacIndex>) -> impl Deref<Target = RbacIndex> {
    index.read().unwrap_or_else(PoisonError::into_inner)
}

/// Why the chain answered as it did: what each member that was asked has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Whether the request is allowed.
    pub allowed: bool,
    /// The members asked, in order: the mode, and its explanation as lines of text.
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
