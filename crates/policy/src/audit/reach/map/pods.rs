//! Pods by workload, and what nodes have because of them (E1 to E3).

use std::collections::{BTreeMap, BTreeSet};

use super::data::{MapPod, MapWorkload};
use crate::audit::reach::edges::{Edge, Edges, To};
use crate::audit::reach::universe::{Id, Universe, Vertex, VertexType};
use crate::audit::state::{Owners, PodFacts, State};

/// The workloads, and to which each pod belongs.
pub(super) struct Placed {
    pub(super) pods: Vec<MapPod>,
    pub(super) workloads: Vec<MapWorkload>,
}

/// Sorts the pods of a state by workload.
pub(super) struct Placing<'p, 'a> {
    state: &'a State,
    universe: &'p Universe,
    edges: &'p Edges<'a>,
    owners: Owners<'a>,
}

/// What a node has by E2 and E3.
#[derive(Default)]
struct OfNode {
    accounts: BTreeSet<Id>,
    objects: BTreeSet<Id>,
}

impl OfNode {
    fn of(leaving: &[Edge]) -> Self {
        let mut found = Self::default();
        for edge in leaving {
            let found = match edge.number {
                2 => &mut found.accounts,
                3 => &mut found.objects,
                _ => continue,
            };
            if let To::One(id) = edge.to {
                found.insert(id);
            }
        }
        found
    }
}

impl<'p, 'a> Placing<'p, 'a> {
    pub(super) fn new(state: &'a State, universe: &'p Universe, edges: &'p Edges<'a>) -> Self {
        Self { state, universe, edges, owners: Owners::new(&state.facts().templates) }
    }

    pub(super) fn place(&self) -> Placed {
        let range = self.universe.range(VertexType::Pod, None);
        let mut made = BTreeMap::<Id, (Option<Id>, MapWorkload)>::new();
        for pod in &self.state.facts().pods {
            if let Some(id) = self.universe.find(VertexType::Pod, &pod.namespace, &pod.name) {
                let node = self.universe.find(VertexType::Node, "", &pod.node);
                made.insert(id, (node, self.workload(id, pod)));
            }
        }
        // A pod of which only the name is known.
        for id in range {
            let named = |vertex: &Vertex| MapWorkload {
                namespace: vertex.namespace.clone(),
                name: vertex.name.clone(),
                kind: "Pod".to_owned(),
                ..MapWorkload::default()
            };
            let unknown = || (None, self.universe.get(id).map(named).unwrap_or_default());
            made.entry(id).or_insert_with(unknown);
        }
        self.give_to_nodes(&mut made);
        numbered(made)
    }

    /// A pod's workload, but for what its node has because of it.
    fn workload(&self, id: Id, pod: &PodFacts) -> MapWorkload {
        let leaving = self.edges.of(id).edges;
        let has = |number| leaving.iter().any(|edge| edge.number == number);
        let owner = self.owners.last(&pod.namespace, &pod.controller).filter(|_| !pod.is_mirror);
        let (kind, name) = match owner {
            Some(owner) => (owner.kind.as_str(), owner.name.as_str()),
            None if pod.is_mirror => ("Node", static_name(pod)),
            None => ("Pod", pod.name.as_str()),
        };
        MapWorkload {
            namespace: pod.namespace.clone(),
            name: name.to_owned(),
            kind: kind.to_owned(),
            gives_token: false,
            has_token: has(21),
            can_leave: has(22),
            is_mirror: pod.is_mirror,
            has_claim: pod.has_claim && !pod.is_mirror,
            objects: Vec::new(),
            account: self.universe.find(VertexType::Account, &pod.namespace, pod.runs_as()),
        }
    }

    /// Notes for each pod what its node has because of it.
    fn give_to_nodes(&self, made: &mut BTreeMap<Id, (Option<Id>, MapWorkload)>) {
        for node in self.universe.range(VertexType::Node, None) {
            let has = OfNode::of(&self.edges.of(node).edges);
            // Of the pods with one account, those that hold its token are the reason why the node gets tokens too.
            let mut given = BTreeSet::new();
            for is_holder in [true, false] {
                let mut by_these = Vec::new();
                for id in self.edges.pods_on(node) {
                    let Some((_, workload)) = made.get_mut(id).filter(|(_, w)| w.has_token == is_holder)
                    else {
                        continue;
                    };
                    let account = workload.account.filter(|account| has.accounts.contains(account));
                    let is_new = account.is_some_and(|account| !given.contains(&account));
                    workload.gives_token = is_new && !workload.is_mirror;
                    by_these.extend(account.filter(|_| workload.gives_token));
                }
                given.extend(by_these);
            }
            for id in self.edges.pods_on(node) {
                let (Some(pod), Some((_, workload))) = (self.universe.get(*id), made.get_mut(id)) else {
                    continue;
                };
                let references =
                    self.state.engine().graph().references_of(&pod.namespace, &pod.name).into_iter();
                let ids = references.filter_map(|(kind, namespace, name)| {
                    self.universe.find(VertexType::of(kind)?, &namespace, &name)
                });
                let ids: BTreeSet<Id> = ids.filter(|id| has.objects.contains(id)).collect();
                workload.objects = ids.into_iter().collect();
            }
        }
    }
}

/// The name of a static pod without that of its node, which the kubelet appends (MP-2).
fn static_name(pod: &PodFacts) -> &str {
    let name = pod.name.strip_suffix(pod.node.as_str()).and_then(|name| name.strip_suffix('-'));
    name.filter(|name| !name.is_empty()).unwrap_or(&pod.name)
}

fn numbered(made: BTreeMap<Id, (Option<Id>, MapWorkload)>) -> Placed {
    let mut numbers = BTreeMap::<&MapWorkload, u32>::new();
    for (_, workload) in made.values() {
        numbers.insert(workload, 0);
    }
    for (number, place) in (0..).zip(numbers.values_mut()) {
        *place = number;
    }
    let pods = made.values().map(|(node, workload)| MapPod {
        node: *node,
        workload: numbers.get(workload).copied().unwrap_or_default(),
    });
    Placed { pods: pods.collect(), workloads: numbers.keys().map(|workload| (*workload).clone()).collect() }
}
