//! Why a decision cannot be made again (AU-123).

use serde::Serialize;

/// See the module. What is unknown is never taken for unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unknown {
    /// The objects that the modes need are not known at the moment.
    ClusterNotKnown,
    /// The parts of the event contradict each other.
    Contradictory,
    /// A field is missing that a decision depends on.
    Incomplete,
    /// The event tells of no decision, and its answer does not say that there was none.
    NoDecision,
    /// The user of the event has no groups.
    NoGroups,
    /// It was allowed, and the objects that are known now do not let the node do it: the object or its pod may be gone.
    ObjectGone,
    /// It was refused, and the objects that are known now let the node do it: they may have come later.
    ObjectNew,
    /// The event was cut.
    Truncated,
    /// The event cannot be read.
    Undecodable,
}

impl Unknown {
    /// All reasons, in the order of their names.
    pub const ALL: [Self; 9] = [
        Self::ClusterNotKnown,
        Self::Contradictory,
        Self::Incomplete,
        Self::NoDecision,
        Self::NoGroups,
        Self::ObjectGone,
        Self::ObjectNew,
        Self::Truncated,
        Self::Undecodable,
    ];

    /// The name, for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClusterNotKnown => "cluster-not-known",
            Self::Contradictory => "contradictory",
            Self::Incomplete => "incomplete",
            Self::NoDecision => "no-decision",
            Self::NoGroups => "no-groups",
            Self::ObjectGone => "object-gone",
            Self::ObjectNew => "object-new",
            Self::Truncated => "truncated",
            Self::Undecodable => "undecodable",
        }
    }

    /// The meaning, for people.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::ClusterNotKnown => "the cluster's objects are not known",
            Self::Contradictory => "verb, target and objectRef disagree",
            Self::Incomplete => "user or target is missing",
            Self::NoDecision => "it tells of no decision",
            Self::NoGroups => "the user has no groups",
            Self::ObjectGone => "was allowed to a node; object or pod gone",
            Self::ObjectNew => "was refused to a node; object or pod new",
            Self::Truncated => "the event was cut",
            Self::Undecodable => "the event cannot be read",
        }
    }
}
