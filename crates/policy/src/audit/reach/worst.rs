//! Of the nodes that reach something, the one that reaches most: whoever steals that one gains most from it (AU-71). And what is left
//! of that when permissions change.

use std::collections::BTreeMap;

use hashbrown::HashSet;

use super::closure::{Known, Search};
use super::direct::DirectReach;
use super::edges::{Asked, Edges};
use super::report::{Describe, PathEdge, ReachSize};
use super::universe::{Id, Universe, Vertex, VertexType};
use crate::audit::Subject;
use crate::audit::rights::Grants;
use crate::audit::state::State;

/// How nodes reach what was asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::audit) struct Way {
    /// The node that reaches most of those that reach it, and how much.
    pub(in crate::audit) node: String,
    pub(in crate::audit) size: ReachSize,
    /// The nearest node, and the shortest way from there (AU-65).
    pub(in crate::audit) from: String,
    pub(in crate::audit) edges: Vec<PathEdge>,
}

/// The worst and the nearest node of those that reach something. Of several the first by name counts.
#[derive(Clone, Debug)]
struct Reached {
    worst: (Id, ReachSize),
    nearest: (Id, usize),
}

/// The closures of a state, for questions about some vertices.
pub(in crate::audit) struct Closures<'a> {
    universe: &'a Universe,
    grants: &'a Grants,
    edges: Edges<'a>,
    known: Known,
}

impl<'a> Closures<'a> {
    pub(in crate::audit) fn new(
        state: &'a State,
        direct: &'a DirectReach,
        grants: &'a Grants,
        universe: &'a Universe,
        asked: &Asked<'_>,
    ) -> Self {
        let edges = Edges::new(state, direct, grants, universe, asked);
        Self { universe, grants, edges, known: Known::default() }
    }

    /// How nodes reach each of these, in the end; none for what no node reaches (AU-67).
    pub(in crate::audit) fn worst(&mut self, targets: &[Vertex]) -> Vec<Option<Way>> {
        let find = |vertex: &Vertex| self.universe.find(vertex.kind, &vertex.namespace, &vertex.name);
        let ids: Vec<Option<Id>> = targets.iter().map(find).collect();
        let mut reached: Vec<Option<Reached>> = vec![None; ids.len()];
        let mut search = Search::new(&self.edges, self.universe);
        for node in self.universe.range(VertexType::Node, None) {
            search.search(node);
            let size = describe(self.universe, self.grants, &self.edges, node).size(&search);
            for (id, reached) in ids.iter().zip(&mut reached) {
                let Some(id) = id.filter(|id| search.has_found(*id)) else { continue };
                let length = search.way(id).len();
                let reached = reached
                    .get_or_insert_with(|| Reached { worst: (node, size.clone()), nearest: (node, length) });
                if size.order() > reached.worst.1.order() {
                    reached.worst = (node, size.clone());
                }
                if length < reached.nearest.1 {
                    reached.nearest = (node, length);
                }
            }
        }
        let mut by_node = BTreeMap::<Id, Vec<usize>>::new();
        for (place, reached) in reached.iter().enumerate() {
            if let Some(reached) = reached {
                by_node.entry(reached.nearest.0).or_default().push(place);
            }
        }
        let name = |node: Id| self.universe.get(node).map(|vertex| vertex.name.clone()).unwrap_or_default();
        let mut ways: Vec<Option<Way>> = vec![None; ids.len()];
        for (node, places) in by_node {
            search.search(node);
            for place in places {
                let (Some(Some(id)), Some(Some(reached))) = (ids.get(place), reached.get(place)) else {
                    continue;
                };
                let edges =
                    describe(self.universe, self.grants, &self.edges, node).path(&search.way(*id)).edges;
                let (worst, size) = reached.worst.clone();
                if let Some(way) = ways.get_mut(place) {
                    *way = Some(Way { node: name(worst), size, from: name(node), edges });
                }
            }
        }
        self.known.made = search.into_made();
        ways
    }

    /// How much a node reaches if permissions are others, which differ for these subjects alone.
    pub(in crate::audit) fn after<'s>(
        &mut self,
        node: &str,
        grants: &Grants,
        touched: impl Iterator<Item = &'s Subject> + Clone,
    ) -> Option<ReachSize> {
        let id = self.universe.find(VertexType::Node, "", node)?;
        let mut but: HashSet<Id> =
            touched.clone().filter_map(|subject| self.universe.find_subject(subject)).collect();
        // Which accounts show their tokens to kubelets depends on permissions too (E20).
        but.extend(self.universe.range(VertexType::Node, None));
        self.known.but = but;
        let edges = self.edges.with_grants(grants);
        // What a group loses, its members lose.
        let has_group = touched.clone().any(|subject| matches!(subject, Subject::Group { .. }));
        // A subject that only bindings named is unknown once none of them names it any more (AU-61).
        let is_unbound = |subject: &&Subject| !grants.is_bound(subject);
        let unknown = touched.filter(is_unbound).filter_map(|subject| self.universe.find_only_bound(subject));
        let unknown: Vec<Id> = unknown.collect();
        let search = Search::new(&edges, self.universe).ignoring(&unknown);
        let mut search = if has_group { search } else { search.with_known(&self.known) };
        search.search(id);
        Some(describe(self.universe, grants, &edges, id).size(&search))
    }
}

fn describe<'d>(universe: &'d Universe, grants: &'d Grants, edges: &'d Edges<'_>, node: Id) -> Describe<'d> {
    Describe { universe, grants, paths: 0, own_pods: edges.pods_on(node) }
}
