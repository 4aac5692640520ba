//! Edges with their targets and grants numbered, each set and each grant once.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;

use super::data::{MapEdge, MapGrant, Target};
use super::pods::Placed;
use crate::audit::reach::edges::{Edges, Leaving, To};
use crate::audit::reach::universe::{Id, Universe, VertexType};
use crate::audit::rights::{GrantId, Grants};

/// An edge without its grant's number.
type Raw = (Id, u8, Target, Option<GrantId>);

/// All edges of a map.
#[derive(Default)]
pub(super) struct Drawn {
    pub(super) every_node: Vec<MapEdge>,
    pub(super) of_nodes: Vec<MapEdge>,
    pub(super) others: Vec<MapEdge>,
    pub(super) creators: Vec<u32>,
    pub(super) sets: Vec<Vec<u32>>,
    pub(super) grants: Vec<MapGrant>,
    pub(super) numbers: BTreeMap<GrantId, u32>,
}

/// The sets, while they are numbered.
struct Sets<'e, 'a> {
    edges: &'e Edges<'a>,
    known: HashMap<To, u32>,
    by_members: HashMap<Vec<u32>, u32>,
    sets: Vec<Vec<u32>>,
}

impl Sets<'_, '_> {
    /// The target of an edge; none if it is an empty set.
    fn target(&mut self, to: &To) -> Option<Target> {
        if let To::One(id) = to {
            return Some(Target::One(*id));
        }
        if let Some(number) = self.known.get(to) {
            return Some(Target::Set(*number));
        }
        let members: Vec<u32> = self.edges.members(to).collect();
        if members.is_empty() {
            return None;
        }
        let next = u32::try_from(self.sets.len()).ok()?;
        let number = *self.by_members.entry(members).or_insert_with_key(|members| {
            self.sets.push(members.clone());
            next
        });
        self.known.insert(to.clone(), number);
        Some(Target::Set(number))
    }
}

/// Numbers the edges of all nodes, and those that searches from them have made.
pub(super) fn draw(
    edges: &Edges<'_>,
    universe: &Universe,
    grants: &Grants,
    placed: &Placed,
    made: &HashMap<Id, Leaving>,
) -> Drawn {
    let mut sets = Sets { edges, known: HashMap::new(), by_members: HashMap::new(), sets: Vec::new() };
    let nodes = universe.range(VertexType::Node, None);
    let pods = universe.range(VertexType::Pod, None);
    let mut of_nodes = BTreeSet::<Raw>::new();
    for node in nodes.clone() {
        let by_pods = by_pods(placed, pods.start, edges.pods_on(node));
        for edge in edges.of(node).edges.iter().filter(|edge| edge.number != 1) {
            if matches!(edge.to, To::One(id) if by_pods.contains(&(edge.number, id))) {
                continue;
            }
            of_nodes.extend(sets.target(&edge.to).map(|to| (node, edge.number, to, edge.grant)));
        }
    }
    let mut others = BTreeSet::<Raw>::new();
    let mut creators = BTreeSet::new();
    let sorted: BTreeMap<Id, &Leaving> = made.iter().map(|(id, leaving)| (*id, leaving)).collect();
    for (id, leaving) in sorted {
        if nodes.contains(&id) || pods.contains(&id) {
            continue;
        }
        if leaving.creates_pods {
            creators.insert(id);
        }
        for edge in &leaving.edges {
            others.extend(sets.target(&edge.to).map(|to| (id, edge.number, to, edge.grant)));
        }
    }
    let (every_node, of_nodes) = split(of_nodes, nodes.len());
    let used = every_node.iter().chain(&of_nodes).chain(&others).filter_map(|raw| raw.3);
    let used: BTreeSet<GrantId> = used.collect();
    let numbers: BTreeMap<GrantId, u32> = used.into_iter().zip(0..).collect();
    let numbered = |raws: BTreeSet<Raw>| {
        let numbered = raws.into_iter().map(|(from, number, to, grant)| MapEdge {
            from,
            number,
            to,
            grant: grant.and_then(|grant| numbers.get(&grant).copied()),
        });
        let mut edges: Vec<MapEdge> = numbered.collect();
        edges.sort_unstable();
        edges
    };
    Drawn {
        every_node: numbered(every_node),
        of_nodes: numbered(of_nodes),
        others: numbered(others),
        creators: creators.into_iter().collect(),
        sets: sets.sets,
        grants: numbers.keys().map(|grant| words(grants, *grant)).collect(),
        numbers,
    }
}

/// The edges E2 and E3 that pods give to their node.
fn by_pods(placed: &Placed, first: Id, pods: &[Id]) -> BTreeSet<(u8, Id)> {
    let place = |id: &Id| placed.pods.get(id.checked_sub(first)? as usize);
    let workloads: BTreeSet<u32> = pods.iter().filter_map(place).map(|pod| pod.workload).collect();
    let mut given = BTreeSet::new();
    for workload in workloads.into_iter().filter_map(|place| placed.workloads.get(place as usize)) {
        given.extend(workload.account.filter(|_| workload.gives_token).map(|account| (2, account)));
        given.extend(workload.objects.iter().map(|object| (3, *object)));
    }
    given
}

/// Splits off the edges that every node has.
fn split(of_nodes: BTreeSet<Raw>, nodes: usize) -> (BTreeSet<Raw>, BTreeSet<Raw>) {
    let mut counts = BTreeMap::<(u8, Target, Option<GrantId>), usize>::new();
    for (_, number, to, grant) in &of_nodes {
        *counts.entry((*number, *to, *grant)).or_default() += 1;
    }
    let (common, rest): (BTreeSet<Raw>, BTreeSet<Raw>) = of_nodes
        .into_iter()
        .partition(|(_, number, to, grant)| counts.get(&(*number, *to, *grant)) == Some(&nodes));
    (common.into_iter().map(|(_, number, to, grant)| (0, number, to, grant)).collect(), rest)
}

fn words(grants: &Grants, id: GrantId) -> MapGrant {
    let Some(grant) = grants.grant(id) else { return MapGrant::default() };
    let (kind, namespace, name) = grant.binding;
    MapGrant {
        binding: (kind, namespace.to_owned(), name.to_owned()),
        role: (grant.role.0.to_owned(), grant.role.1.to_owned()),
        rule: grant.rule,
        text: grant.rule_text(),
        aggregated_from: grant.aggregated_from.to_vec(),
    }
}
