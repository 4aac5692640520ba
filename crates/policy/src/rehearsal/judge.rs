//! Makes the decision of one event again, and compares.

use std::sync::Arc;

use super::event::{Asked, AuditEvent, Past};
use super::impersonation::{self, Check};
use super::unknown::Unknown;
use crate::chain::{Chain, Mode, Outcome};
use crate::decision::{Authorizer as _, Decision, Reason};
use crate::features::FeatureGates;
use crate::graph::Graph;
use crate::node::NodeAuthorizer;
use crate::request::Attributes;

/// What became of an event.
#[derive(Debug)]
pub(super) enum Verdict {
    /// Refused before anybody was authenticated.
    NotAuthenticated,
    /// The authorizers were not asked.
    NotAsked,
    /// The decision is the same.
    Unchanged,
    /// It was allowed, and this question is refused now.
    Refused(Question, Outcome),
    /// It was refused, and is allowed now.
    Allowed(Question, Outcome),
    /// Nobody knows, or what was asked is not known.
    Unknown(Unknown, Option<Question>),
}

/// What the authorizers are asked again.
#[derive(Debug)]
pub(super) enum Question {
    /// The request itself.
    Request(Box<Asked>),
    /// Whether its user may be impersonated.
    Impersonation(Box<Check>),
}

impl Question {
    fn of(asked: Asked) -> Self {
        Self::Request(Box::new(asked))
    }

    pub(super) fn attributes(&self) -> Attributes<'_> {
        match self {
            Self::Request(asked) => asked.attributes(),
            Self::Impersonation(check) => check.attributes(),
        }
    }
}

/// Makes decisions again.
#[derive(Debug)]
pub(super) struct Judge {
    /// The rules of mode Node without any object: what these leave open, the graph decides.
    without_objects: NodeAuthorizer,
}

impl Judge {
    pub(super) fn new(gates: FeatureGates) -> Self {
        let graph = Graph::new();
        graph.mark_complete();
        Self { without_objects: NodeAuthorizer::new(Arc::new(graph), gates) }
    }

    /// Makes the decision of an event again by a chain; without one the cluster is not known (AU-122).
    ///
    /// DIVERGES from AU-123, by which NodeRestriction judges too: an event has no old object.
    pub(super) fn judge(&self, event: &AuditEvent<'_>, chain: Option<&Chain>) -> Verdict {
        let was_allowed = match event.past() {
            Ok(Past::NotAuthenticated) => return Verdict::NotAuthenticated,
            Ok(Past::NotAsked) => return Verdict::NotAsked,
            Ok(past) => past == Past::Allowed,
            Err(why) => return Verdict::Unknown(why, event.asked().ok().map(Question::of)),
        };
        let (asked, impersonator) = match (event.asked(), event.impersonator()) {
            (Ok(asked), Ok(impersonator)) => (asked, impersonator),
            (Err(why), _) | (_, Err(why)) => return Verdict::Unknown(why, None),
        };
        let Some(chain) = chain else {
            return Verdict::Unknown(Unknown::ClusterNotKnown, Some(Question::of(asked)));
        };
        // Impersonation is asked first. Whoever may not is refused, whatever the request.
        if let Some((caller, constraint)) = &impersonator
            && let Some((check, outcome)) = impersonation::refused(chain, caller, constraint, &asked)
        {
            return match was_allowed {
                true => Verdict::Refused(Question::Impersonation(Box::new(check)), outcome),
                false => Verdict::Unchanged,
            };
        }
        let outcome = chain.decide(&asked.attributes());
        match (was_allowed, outcome.is_allow()) {
            (true, true) | (false, false) => Verdict::Unchanged,
            (true, false) if is_unrelated(&outcome) => {
                Verdict::Unknown(Unknown::ObjectGone, Some(Question::of(asked)))
            }
            (true, false) => Verdict::Refused(Question::of(asked), outcome),
            (false, true) if outcome.by == Some(Mode::Node) && self.is_by_graph(&asked.attributes()) => {
                Verdict::Unknown(Unknown::ObjectNew, Some(Question::of(asked)))
            }
            (false, true) => Verdict::Allowed(Question::of(asked), outcome),
        }
    }

    /// Whether mode Node decides by what lies on the node.
    fn is_by_graph(&self, attributes: &Attributes<'_>) -> bool {
        matches!(self.without_objects.authorize(attributes), Decision::NoOpinion(Reason::NodeUnrelated))
    }
}

/// Whether nobody had an opinion, mode Node because it knows no path to the object.
fn is_unrelated(outcome: &Outcome) -> bool {
    matches!(&outcome.decision, Decision::NoOpinion(reasons)
        if reasons.iter().any(|reason| matches!(reason, Reason::NodeUnrelated)))
}
