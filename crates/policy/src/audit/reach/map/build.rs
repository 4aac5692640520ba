//! From a state to its map.

use super::data::{DirectCounts, MapNode, ReachMap};
use super::edges::draw;
use super::pods::Placing;
use super::ways::Ways;
use crate::audit::reach::closure::Search;
use crate::audit::reach::direct::DirectReach;
use crate::audit::reach::edges::{Asked, Edges};
use crate::audit::reach::missing::missing;
use crate::audit::reach::report::{Describe, ReachSize};
use crate::audit::reach::universe::{Universe, VertexType};
use crate::audit::rights::Grants;
use crate::audit::state::State;
use crate::graph::VertexKind;
use crate::identity::NODE_USER_PREFIX;

impl ReachMap {
    /// Makes the map of a state. The same state gives the same map, whatever the order of its objects (AU-131).
    pub fn of(state: &State, asked: &Asked<'_>) -> Self {
        let direct = DirectReach::of(state);
        let grants = Grants::new(&state.facts().rbac);
        let universe = Universe::new(state, &direct, &grants);
        let edges = Edges::new(state, &direct, &grants, &universe, asked);
        let placed = Placing::new(state, &universe, &edges).place();
        let admin = universe.find(VertexType::Admin, "", "").unwrap_or_default();
        let mut search = Search::new(&edges, &universe);
        let (mut ways, mut sizes) = (Ways::default(), Vec::<(DirectCounts, ReachSize)>::new());
        let mut reached_by = vec![0_u32; universe.len()];
        for node in universe.range(VertexType::Node, None) {
            let Some(vertex) = universe.get(node) else { continue };
            search.search(node);
            let own_pods = edges.pods_on(node);
            let describe = Describe { universe: &universe, grants: &grants, paths: 0, own_pods };
            let size = describe.size(&search);
            let user = universe.find(VertexType::User, "", &format!("{NODE_USER_PREFIX}{}", vertex.name));
            let is_own = |id| Some(id) == user || own_pods.binary_search(&id).is_ok();
            ways.take(sizes.len(), size.cluster_admin, &search.way_to_admin(), admin, is_own);
            for id in &search.found().order {
                if let Some(count) = reached_by.get_mut(*id as usize) {
                    *count = count.saturating_add(1);
                }
            }
            sizes.push((counts(&direct, &vertex.name), size));
        }
        let made = search.into_made();
        let drawn = draw(&edges, &universe, &grants, &placed, &made);
        drop(edges);
        let (ways, of_nodes) = ways.into_sorted(&drawn.numbers);
        let nodes = sizes.into_iter().enumerate();
        let nodes =
            nodes.map(|(place, (direct, size))| MapNode { direct, size, way: of_nodes.get(&place).copied() });
        Self {
            nodes: nodes.collect(),
            vertices: universe.into_vertices(),
            pods: placed.pods,
            workloads: placed.workloads,
            every_node: drawn.every_node,
            of_nodes: drawn.of_nodes,
            others: drawn.others,
            creators: drawn.creators,
            sets: drawn.sets,
            grants: drawn.grants,
            ways,
            reached_by,
            incomplete: missing(state, false),
        }
    }
}

fn counts(direct: &DirectReach, node: &str) -> DirectCounts {
    let mut counts = DirectCounts::default();
    for (kind, ..) in direct.reached(node) {
        match kind {
            VertexKind::Pod => counts.pods += 1,
            VertexKind::Secret => counts.secrets += 1,
            VertexKind::ConfigMap => counts.configmaps += 1,
            VertexKind::PersistentVolume => counts.volumes += 1,
            VertexKind::ServiceAccount => counts.accounts += 1,
            _ => {}
        }
    }
    counts
}
