//! The map of reach, walked by a naive search as the page does, compared with the naive closure.

use std::collections::{BTreeMap, BTreeSet};

use portcullis_policy::audit::reach::{Asked, MapEdge, ReachMap, Target};
use proptest::prelude::*;
use serde_json::Value;

use super::model::{Model, Vertex, name};
use super::{engine, state, states};

fn map_of(documents: &[Value]) -> ReachMap {
    ReachMap::of(&state(documents), &Asked { is_expired: &|_| false })
}

/// The edges of every vertex of a map, each member of a set by itself.
fn edges(map: &ReachMap) -> BTreeMap<u32, BTreeSet<(u8, u32)>> {
    let mut edges = BTreeMap::<u32, BTreeSet<(u8, u32)>>::new();
    let mut add = |from: u32, edge: &MapEdge| {
        let to = match edge.to {
            Target::One(id) => vec![id],
            Target::Set(set) => map.sets[set as usize].clone(),
        };
        edges.entry(from).or_default().extend(to.into_iter().map(|to| (edge.number, to)));
    };
    map.of_nodes.iter().chain(&map.others).for_each(|edge| add(edge.from, edge));
    for node in 0..u32::try_from(map.nodes.len()).unwrap() {
        map.every_node.iter().for_each(|edge| add(node, edge));
    }
    for (pod, place) in map.pods.iter().zip(map.nodes.len()..) {
        let (id, workload) = (u32::try_from(place).unwrap(), &map.workloads[pod.workload as usize]);
        if let Some(node) = pod.node {
            let of_node = edges.entry(node).or_default();
            of_node.insert((1, id));
            of_node.extend(workload.objects.iter().map(|object| (3, *object)));
            of_node.extend(workload.account.filter(|_| workload.gives_token).map(|account| (2, account)));
        }
        let of_pod = edges.entry(id).or_default();
        of_pod.extend(workload.account.filter(|_| workload.has_token).map(|account| (21, account)));
        of_pod.extend(pod.node.filter(|_| workload.can_leave).map(|node| (22, node)));
    }
    edges
}

/// The nodes with a claim (E27).
fn with_claims(map: &ReachMap) -> BTreeSet<u32> {
    let pods = map.pods.iter().filter(|pod| map.workloads[pod.workload as usize].has_claim);
    pods.filter_map(|pod| pod.node).collect()
}

/// Everything that a node reaches, and all edges that leave that.
fn walk(map: &ReachMap, node: u32) -> (BTreeSet<u32>, BTreeSet<(u8, u32, u32)>) {
    let (edges, claims) = (edges(map), with_claims(map));
    let (mut reached, mut used) = (BTreeSet::from([node]), BTreeSet::new());
    loop {
        let has_claim = reached.iter().any(|id| claims.contains(id));
        let holds = |from: &u32, number: u8| number != 27 || has_claim || map.creators.contains(from);
        let leaving = reached.iter().flat_map(|from| {
            let of = edges.get(from).into_iter().flatten();
            of.filter(|edge| holds(from, edge.0)).map(|edge| (edge.0, *from, edge.1))
        });
        used = leaving.chain(used.iter().copied()).collect();
        let before = reached.len();
        reached.extend(used.iter().filter(|edge| edge.0 != 26).map(|edge| edge.2));
        if reached.len() == before {
            return (reached, used);
        }
    }
}

fn vertex(map: &ReachMap, id: u32) -> Vertex {
    let vertex = &map.vertices[id as usize];
    (vertex.kind.as_str(), vertex.namespace.clone(), vertex.name.clone())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_walk_over_the_map_finds_the_naive_closure_au_137(documents in states::documents()) {
        let map = map_of(&documents);
        let model = Model::new(&documents, engine(&documents));
        let subject = |id: u32| match vertex(&map, id) {
            ("admin", ..) => "admin".to_owned(),
            vertex => format!("{}/{}", vertex.0, name(&vertex)),
        };
        for (node, id) in map.nodes.iter().zip(0_u32..) {
            let found = model.closure(&vertex(&map, id).2);
            let (reached, used) = walk(&map, id);
            prop_assert_eq!(node.size.cluster_admin.as_str(), found.admin);
            let reached: BTreeSet<Vertex> = reached.into_iter().map(|id| vertex(&map, id)).collect();
            prop_assert_eq!(&reached, &found.reached, "from {:?}", vertex(&map, id));
            let used: BTreeSet<(String, String, String)> =
                used.into_iter().map(|(number, from, to)| (format!("E{number}"), subject(from), subject(to))).collect();
            let more: Vec<_> = used.difference(&found.edges).collect();
            prop_assert!(more.is_empty(), "edges that are not there: {more:?}");
            // The way to admin that nodes share leads there.
            prop_assert_eq!(node.way.is_some(), found.admin != "no");
            let end = node.way.map(|way| map.ways[way].steps.last().unwrap().to);
            prop_assert!(end.is_none_or(|end| subject(end) == "admin"));
        }
        let shared: usize = map.ways.iter().map(|way| way.nodes).sum();
        prop_assert_eq!(shared, map.nodes.iter().filter(|node| node.way.is_some()).count());
    }

    #[test]
    fn the_order_of_the_documents_does_not_change_the_map_au_131(documents in states::documents()) {
        let one = map_of(&documents);
        let mut turned = documents;
        turned.reverse();
        prop_assert_eq!(one, map_of(&turned));
    }
}
