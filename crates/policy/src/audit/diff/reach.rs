//! What nodes reach on one side and not on the other (AU-112).

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::audit::reach::{Closure, Counts, NodeReach, Report};

/// The nodes whose reach differs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReachChanges {
    /// Sorted by name.
    pub nodes: Vec<NodeChange>,
}

/// How the reach of a node differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeChange {
    /// The node.
    pub node: String,
    /// What it reaches by itself in the new state alone, by list; sorted.
    pub gained: Lists,
    /// What it reaches by itself in the old state alone.
    pub lost: Lists,
    /// What it reaches in the end.
    pub closure: ClosureChange,
}

/// Names by list; no list is empty.
pub type Lists = BTreeMap<&'static str, Vec<String>>;

/// How the closure of a node differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClosureChange {
    /// In the old state; none if it has no such node.
    pub was: Option<Totals>,
    /// In the new state; none if it has no such node.
    pub now: Option<Totals>,
    /// The nodes and the service accounts that are reached in the new state alone.
    pub gained: Lists,
    /// Those that are reached in the old state alone.
    pub lost: Lists,
}

/// How much a closure is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// Whether it is everything: `yes`, `no`, or `conditional`.
    pub cluster_admin: &'static str,
    /// The counts.
    #[serde(flatten)]
    pub counts: Counts,
}

impl ReachChanges {
    /// Compares two reports with closures.
    pub(super) fn between(old: &Report, new: &Report) -> Self {
        let by_name = |report: &'_ Report| -> BTreeMap<String, NodeReach> {
            report.nodes.iter().map(|node| (node.node.clone(), node.clone())).collect()
        };
        let (old, new) = (by_name(old), by_name(new));
        let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        let changes = names.into_iter().filter_map(|name| NodeChange::of(name, old.get(name), new.get(name)));
        Self { nodes: changes.collect() }
    }
}

impl NodeChange {
    fn of(name: &str, old: Option<&NodeReach>, new: Option<&NodeReach>) -> Option<Self> {
        if old == new {
            return None;
        }
        let (was, now) = (direct(old), direct(new));
        let closure = |node: Option<&NodeReach>| node.and_then(|node| node.closure.clone());
        Some(Self {
            node: name.to_owned(),
            gained: without(&now, &was),
            lost: without(&was, &now),
            closure: ClosureChange::of(closure(old).as_ref(), closure(new).as_ref()),
        })
    }

    /// Whether the node reaches something more.
    pub fn is_gain(&self) -> bool {
        let ClosureChange { was, now, gained, .. } = &self.closure;
        !self.gained.is_empty() || !gained.is_empty() || more(now.as_ref(), was.as_ref())
    }

    /// Whether the node reaches something less.
    pub fn is_loss(&self) -> bool {
        let ClosureChange { was, now, lost, .. } = &self.closure;
        !self.lost.is_empty() || !lost.is_empty() || more(was.as_ref(), now.as_ref())
    }
}

impl ClosureChange {
    fn of(old: Option<&Closure>, new: Option<&Closure>) -> Self {
        let (was, now) = (names(old), names(new));
        Self {
            was: old.map(Totals::of),
            now: new.map(Totals::of),
            gained: without(&now, &was),
            lost: without(&was, &now),
        }
    }
}

impl Totals {
    fn of(closure: &Closure) -> Self {
        Self { cluster_admin: closure.cluster_admin.as_str(), counts: closure.counts.clone() }
    }

    /// How far it leads to everything, and the counts, the first three of which may be all that will ever be there.
    fn figures(&self) -> [usize; 9] {
        let Counts { secrets, configmaps, pods, nodes, serviceaccounts } = &self.counts;
        let admin = match self.cluster_admin {
            "yes" => 2,
            "conditional" => 1,
            _ => 0,
        };
        let wholes = |names: &crate::audit::reach::Names| match names.all {
            true => usize::MAX,
            false => names.namespaces.len(),
        };
        [
            admin,
            secrets.count,
            wholes(secrets),
            configmaps.count,
            wholes(configmaps),
            pods.count,
            pods.of_others,
            *nodes,
            *serviceaccounts,
        ]
    }
}

/// Whether one closure is larger than the other in some respect.
fn more(one: Option<&Totals>, other: Option<&Totals>) -> bool {
    let Some(one) = one else { return false };
    let others = other.map_or([0; 9], Totals::figures);
    other.is_none() || one.figures().iter().zip(others).any(|(one, other)| *one > other)
}

fn direct(node: Option<&NodeReach>) -> Lists {
    let lists = node.into_iter().flat_map(|node| node.direct.each());
    lists.map(|(name, list)| (name, list.to_vec())).collect()
}

fn names(closure: Option<&Closure>) -> Lists {
    let lists = closure.into_iter().flat_map(|closure| {
        [("nodes", closure.nodes.clone()), ("serviceaccounts", closure.serviceaccounts.clone())]
    });
    lists.collect()
}

/// What the one has and the other has not.
fn without(one: &Lists, other: &Lists) -> Lists {
    let lists = one.iter().map(|(name, list)| {
        let others: BTreeSet<&String> = other.get(name).into_iter().flatten().collect();
        (*name, list.iter().filter(|item| !others.contains(item)).cloned().collect::<Vec<String>>())
    });
    lists.filter(|(_, list)| !list.is_empty()).collect()
}
