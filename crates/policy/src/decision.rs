//! What is answered: allow, deny or no opinion, and why.
//!
//! A reason is structured and costs nothing to carry; it becomes text only when somebody prints it.

use std::fmt;
use std::sync::Arc;

use crate::identity::NodeIdentity;
use crate::rbac::RbacReason;
use crate::request::Attributes;

/// The answer of one authorizer (AC-50).
#[derive(Clone, Debug)]
pub enum Decision {
    /// The request may go on.
    Allow(Reason),
    /// The request is refused, and nobody further is asked.
    Deny(Reason),
    /// This authorizer does not know; the next one is asked. Without a next one the request is refused.
    NoOpinion(Reason),
}

impl Decision {
    /// No opinion, and nothing to say about it.
    pub const NO_OPINION: Self = Self::NoOpinion(Reason::None);

    /// Whether this is a yes.
    pub fn is_allow(&self) -> bool {
        matches!(self, Self::Allow(_))
    }

    /// Why.
    pub fn reason(&self) -> &Reason {
        match self {
            Self::Allow(reason) | Self::Deny(reason) | Self::NoOpinion(reason) => reason,
        }
    }
}

/// Why an authorizer answered as it did. Free text once rendered: no program may depend on its words.
#[derive(Clone, Debug, Default)]
pub enum Reason {
    /// Nothing to say.
    #[default]
    None,
    /// The node has no path to the object (NA-66).
    NodeUnrelated,
    /// What RBAC granted, or could not look up (RB-36, RB-37).
    Rbac(RbacReason),
    /// A fixed sentence.
    Text(&'static str),
    /// What a remote service said (WH-22).
    Told(Arc<str>),
}

impl Reason {
    /// The reason as text for one request, ready to print. Empty when there is nothing to say.
    pub fn render<'a>(&'a self, attributes: &'a Attributes<'a>) -> RenderedReason<'a> {
        RenderedReason { reason: self, attributes }
    }

    /// Whether there is nothing to say.
    pub fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }
}

/// A reason beside the request that it speaks of; prints the text.
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
            Reason::Rbac(reason) => reason.write(f, self.attributes),
            Reason::Text(text) => f.write_str(text),
            Reason::Told(text) => f.write_str(text),
        }
    }
}

/// Something that decides requests without waiting for anything: the Node, RBAC and ABAC authorizers.
pub trait Authorizer {
    /// Decides one request. Allocates nothing and never fails: what cannot be looked up is no opinion.
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision;
}
