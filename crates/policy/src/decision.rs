//! Authorization decisions: allow, deny or no opinion, each with a reason.
//!
//! A reason is structured and cheap to pass around. It is rendered as text only when printed.

use std::fmt;
use std::sync::Arc;

use crate::identity::{NodeIdentity, bound_node};
use crate::rbac::RbacReason;
use crate::request::Attributes;

/// The answer of one authorizer (AC-50), with a reason; of a whole chain, with its reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision<R = Reason> {
    /// The request is allowed.
    Allow(R),
    /// The request is denied, and no further authorizer is called.
    Deny(R),
    /// This authorizer has no opinion; the next one is called. After the last one the request is refused.
    NoOpinion(R),
}

impl Decision {
    /// No opinion, without a reason.
    pub const NO_OPINION: Self = Self::NoOpinion(Reason::None);
}

impl<R> Decision<R> {
    /// Returns whether the request is allowed.
    pub fn is_allow(&self) -> bool {
        matches!(self, Self::Allow(_))
    }

    /// The same decision with a reason made of this one.
    pub fn map<S>(self, reason: impl FnOnce(R) -> S) -> Decision<S> {
        match self {
            Self::Allow(own) => Decision::Allow(reason(own)),
            Self::Deny(own) => Decision::Deny(reason(own)),
            Self::NoOpinion(own) => Decision::NoOpinion(reason(own)),
        }
    }

    /// Why.
    pub fn reason(&self) -> &R {
        match self {
            Self::Allow(reason) | Self::Deny(reason) | Self::NoOpinion(reason) => reason,
        }
    }
}

/// The reason for a decision. Once rendered it is free text: programs must not depend on its wording.
#[derive(Clone, Debug, Default)]
pub enum Reason {
    /// No reason.
    #[default]
    None,
    /// The node has no path to the object (NA-66).
    NodeUnrelated,
    /// The binding by which RBAC allowed, or the roles that it did not find (RB-36, RB-37).
    Rbac(RbacReason),
    /// The object does not belong to the node of a node-scoped service account (BC-32).
    NotOfNode,
    /// The text of a deny rule that applies because the labels of the namespace are not known (BC-30).
    NamespaceUnknown(Arc<str>),
    /// A fixed sentence.
    Text(&'static str),
    /// The reason that a webhook returned (WH-22).
    Told(Arc<str>),
}

impl Reason {
    /// Renders the reason for one request. Empty if there is none.
    pub fn render<'a>(&'a self, attributes: &'a Attributes<'a>) -> RenderedReason<'a> {
        RenderedReason { reason: self, attributes }
    }

    /// Returns whether there is no reason.
    pub fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }
}

/// A reason together with its request. Displays as text.
#[derive(Clone, Copy, Debug)]
pub struct RenderedReason<'a> {
    reason: &'a Reason,
    attributes: &'a Attributes<'a>,
}

impl fmt::Display for RenderedReason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason {
            Reason::None => Ok(()),
            Reason::NodeUnrelated => {
                let node = NodeIdentity::of(self.attributes.user).map_or("", NodeIdentity::name);
                write!(f, "no relationship found between node '{node}' and this object")
            }
            Reason::NotOfNode => {
                let node = bound_node(self.attributes.user).unwrap_or_default();
                write!(f, "node-scoped: no relationship found between node '{node}' and this object")
            }
            Reason::NamespaceUnknown(text) => {
                write!(f, "{text} (the labels of the namespace are not known, so the rule applies)")
            }
            Reason::Rbac(reason) => reason.write(f, self.attributes),
            Reason::Text(text) => f.write_str(text),
            Reason::Told(text) => f.write_str(text),
        }
    }
}

/// A synchronous authorizer: Node, RBAC or ABAC.
pub trait Authorizer {
    /// Decides one request. Allocates nothing and never fails: a failed lookup results in no opinion.
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision;
}
