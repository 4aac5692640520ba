//! Of the nodes that reach something, the one that reaches most: whoever steals that one gains most from it (AU-71).

use std::collections::BTreeMap;

use super::closure::Search;
use super::direct::DirectReach;
use super::edges::{Asked, Edges};
use super::report::{Describe, PathEdge, ReachSize};
use super::universe::{Id, Universe, Vertex, VertexType};
use crate::audit::rights::Grants;
use crate::audit::state::State;

/// The way from a node to what was asked about, and how much the node reaches in all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::audit) struct Way {
    pub(in crate::audit) node: String,
    pub(in crate::audit) edges: Vec<PathEdge>,
    pub(in crate::audit) size: ReachSize,
}

/// The worst node for each of these, in the end; none for what no node reaches. Of nodes that reach as much the first by name
/// counts (AU-67).
pub(in crate::audit) fn worst(
    state: &State,
    direct: &DirectReach,
    grants: &Grants,
    asked: &Asked<'_>,
    targets: &[Vertex],
) -> Vec<Option<Way>> {
    let universe = Universe::new(state, direct, grants);
    let edges = Edges::new(state, direct, grants, &universe, asked);
    let mut search = Search::new(&edges, &universe);
    let find = |vertex: &Vertex| universe.find(vertex.kind, &vertex.namespace, &vertex.name);
    let ids: Vec<Option<Id>> = targets.iter().map(find).collect();
    let mut worst: Vec<Option<(Id, ReachSize)>> = vec![None; ids.len()];
    let describe =
        |node: Id| Describe { universe: &universe, grants, paths: 0, own_pods: edges.pods_on(node) };
    for node in universe.range(VertexType::Node, None) {
        search.search(node);
        let size = describe(node).size(&search);
        for (id, worst) in ids.iter().zip(&mut worst) {
            let is_worse = || worst.as_ref().is_none_or(|(_, other)| size.order() > other.order());
            if id.is_some_and(|id| search.has_found(id)) && is_worse() {
                *worst = Some((node, size.clone()));
            }
        }
    }
    let mut by_node = BTreeMap::<Id, Vec<usize>>::new();
    for (place, worst) in worst.iter().enumerate() {
        if let Some((node, _)) = worst {
            by_node.entry(*node).or_default().push(place);
        }
    }
    let mut ways: Vec<Option<Way>> = vec![None; ids.len()];
    for (node, places) in by_node {
        search.search(node);
        let name = universe.get(node).map(|vertex| vertex.name.clone()).unwrap_or_default();
        for place in places {
            let (Some(Some(id)), Some(Some((_, size)))) = (ids.get(place), worst.get(place)) else {
                continue;
            };
            let edges = describe(node).path(&search.way(*id)).edges;
            if let Some(way) = ways.get_mut(place) {
                *way = Some(Way { node: name.clone(), edges, size: size.clone() });
            }
        }
    }
    ways
}
