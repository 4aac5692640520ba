//! The rights of one identity: on which resources, with which verbs, for which names and where.

use hashbrown::HashMap;

use std::sync::Arc;

use super::asks::{Ask, Verbs};
use super::grant::GrantId;

/// To which names a right is limited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Names {
    /// To none: it holds for every name, and for requests without one.
    Free,
    /// To these; sorted.
    Only(Arc<[String]>),
}

impl Names {
    /// Whether the right holds for a name.
    pub fn hold_for(&self, name: &str) -> bool {
        match self {
            Self::Free => true,
            Self::Only(names) => names.binary_search_by(|listed| listed.as_str().cmp(name)).is_ok(),
        }
    }

    /// Whether every name of the others is one of these.
    pub fn include(&self, others: &Self) -> bool {
        match (self, others) {
            (Self::Free, _) => true,
            (Self::Only(_), Self::Free) => false,
            (Self::Only(_), Self::Only(names)) => names.iter().all(|name| self.hold_for(name)),
        }
    }

    /// Whether two rights have a name in common.
    pub fn meet(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Free, _) | (_, Self::Free) => true,
            (Self::Only(names), other) => names.iter().any(|name| other.hold_for(name)),
        }
    }
}

/// One right of an identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The resource.
    pub ask: Ask,
    /// The verbs.
    pub verbs: Verbs,
    /// The names.
    pub names: Names,
    /// The namespace; none for the whole cluster.
    pub namespace: Option<Arc<str>>,
    /// Where it comes from.
    pub grant: GrantId,
    /// Whether the default policy of Kubernetes grants it to this subject (AU-33).
    pub is_built_in: bool,
}

impl Held {
    /// Whether it holds for every name, and for requests without one.
    pub fn is_free(&self) -> bool {
        self.names == Names::Free
    }

    /// Whether it is one to create something, or to change something that is there. Rules with names never allow to create
    /// (RB-15).
    pub fn writes(&self) -> bool {
        self.verbs.meets(Verbs::CHANGE) || (self.verbs.meets(Verbs::CREATE) && self.is_free())
    }
}

/// All rights of one identity that lead further.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    pub(super) held: Vec<Held>,
    /// A grant of everything (AU-36).
    pub full: Option<GrantId>,
    /// A ClusterRoleBinding to an aggregated role.
    pub aggregated: Option<GrantId>,
}

impl Rights {
    /// The rights on a resource with one of these verbs.
    pub fn of(&self, ask: Ask, verbs: Verbs) -> impl Iterator<Item = &Held> {
        self.held.iter().filter(move |held| held.ask == ask && held.verbs.meets(verbs))
    }

    /// The same, for the whole cluster. Only these count for cluster-scoped resources (RB-35).
    pub fn everywhere(&self, ask: Ask, verbs: Verbs) -> impl Iterator<Item = &Held> {
        self.of(ask, verbs).filter(|held| held.namespace.is_none())
    }

    /// The first grant of a right for the whole cluster, whatever the names.
    pub fn some(&self, ask: Ask, verbs: Verbs) -> Option<GrantId> {
        self.everywhere(ask, verbs).map(|held| held.grant).min()
    }

    /// The first grant of a right for the whole cluster and every name.
    pub fn free(&self, ask: Ask, verbs: Verbs) -> Option<GrantId> {
        self.everywhere(ask, verbs).filter(|held| held.is_free()).map(|held| held.grant).min()
    }

    /// The same rights without those that the default policy grants (AU-33).
    #[must_use]
    pub fn without_built_in(mut self) -> Self {
        self.held.retain(|held| !held.is_built_in);
        self
    }

    /// The first grant to create something for the whole cluster, or to change it under some name. Rules with names never allow to
    /// create (RB-15).
    pub fn writes(&self, ask: Ask) -> Option<GrantId> {
        self.free(ask, Verbs::CREATE).into_iter().chain(self.some(ask, Verbs::CHANGE)).min()
    }

    /// Whether each of these rights is covered by one of the others: then they lead no further.
    pub fn are_within(&self, others: &Self) -> bool {
        if (self.full.is_some() && others.full.is_none())
            || (self.aggregated.is_some() && others.aggregated.is_none())
        {
            return false;
        }
        let mut by_ask = HashMap::<(Ask, Option<&str>), Vec<&Held>>::new();
        for held in &others.held {
            by_ask.entry((held.ask, held.namespace.as_deref())).or_default().push(held);
        }
        let is_covered = |held: &Held| {
            let scopes = [None, held.namespace.as_deref()];
            let mut candidates = scopes.iter().filter_map(|scope| by_ask.get(&(held.ask, *scope))).flatten();
            candidates.any(|other| other.verbs.has_all(held.verbs) && other.names.include(&held.names))
        };
        self.held.iter().all(is_covered)
    }
}
