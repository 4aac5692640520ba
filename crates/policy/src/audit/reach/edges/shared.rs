//! Lists of vertices to which many edges lead. Each is kept once.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use crate::audit::reach::universe::{Id, Universe, VertexType};
use crate::audit::rights::Grants;
use crate::audit::state::{Facts, PodFacts, Template};
use crate::chain::MASTERS_GROUP;

/// A pod with the numbers of itself and of the node that it runs on.
struct Placed<'a> {
    id: Id,
    node: Option<Id>,
    facts: &'a PodFacts,
}

/// The lists, and the numbers of those that have a name.
pub(super) struct Shared<'a> {
    facts: &'a Facts,
    universe: &'a Universe,
    /// The pods in the order of their numbers.
    pods: Vec<Placed<'a>>,
    lists: Vec<Vec<Id>>,
    /// The lists [`CONTROLLED`] and [`DAEMONS`]. Few searches come to a right that leads there.
    rare: [OnceLock<Vec<Id>>; 2],
    /// The pods that run on each node, and on any.
    pub(super) on_node: BTreeMap<Id, usize>,
    pub(super) on_nodes: usize,
    /// The pods that are no mirror pods.
    pub(super) live: Scoped,
    /// The users and the groups that bindings name, and both without `system:masters`.
    pub(super) bound_users: usize,
    pub(super) bound_groups: usize,
    pub(super) signed: usize,
    /// The accounts and secrets of pods without a node (E29).
    pub(super) waiting: Scoped,
}

/// The list of the accounts and secrets of pods with a controller, and of templates (E23).
pub(super) const CONTROLLED: usize = 0;
/// The list of the accounts and secrets of DaemonSets and their pods (E24).
pub(super) const DAEMONS: usize = 1;
/// The number of the first of the other lists.
const FIRST: usize = 2;

/// A list for the cluster, and one for each namespace.
#[derive(Default)]
pub(super) struct Scoped {
    all: usize,
    by_namespace: BTreeMap<String, usize>,
}

impl Scoped {
    /// The list of a namespace, or of the cluster; none if there is nothing in the namespace.
    pub(super) fn of(&self, namespace: Option<&str>) -> Option<usize> {
        match namespace {
            None => Some(self.all),
            Some(namespace) => self.by_namespace.get(namespace).copied(),
        }
    }
}

impl<'a> Shared<'a> {
    pub(super) fn new(facts: &'a Facts, grants: &Grants, universe: &'a Universe) -> Self {
        let placed = |facts: &'a PodFacts| {
            let id = universe.find(VertexType::Pod, &facts.namespace, &facts.name)?;
            Some(Placed { id, node: universe.find(VertexType::Node, "", &facts.node), facts })
        };
        let mut pods: Vec<Placed<'_>> = facts.pods.iter().filter_map(placed).collect();
        pods.sort_by_key(|pod| pod.id);
        let mut shared = Self {
            facts,
            universe,
            pods,
            lists: Vec::new(),
            rare: Default::default(),
            on_node: BTreeMap::new(),
            on_nodes: 0,
            live: Scoped::default(),
            bound_users: 0,
            bound_groups: 0,
            signed: 0,
            waiting: Scoped::default(),
        };
        shared.take_pods();
        shared.take_bound(grants);
        shared
    }

    /// The vertices of a list, sorted.
    pub(super) fn list(&self, list: usize) -> &[Id] {
        match self.rare.get(list) {
            Some(rare) => rare.get_or_init(|| self.controlled(list == DAEMONS)),
            None => {
                list.checked_sub(FIRST).and_then(|place| self.lists.get(place)).map_or(&[], Vec::as_slice)
            }
        }
    }

    /// Keeps a list, and returns its number.
    pub(super) fn keep(&mut self, list: Vec<Id>) -> usize {
        let number = self.lists.len().saturating_add(FIRST);
        self.lists.push(sorted(list));
        number
    }

    fn keep_scoped(&mut self, by_namespace: BTreeMap<&str, Vec<Id>>) -> Scoped {
        let all = self.keep(by_namespace.values().flatten().copied().collect());
        let by_namespace =
            by_namespace.into_iter().map(|(namespace, list)| (namespace.to_owned(), self.keep(list)));
        Scoped { all, by_namespace: by_namespace.collect() }
    }

    /// The pods of a number: several if the state has several of one name.
    pub(super) fn pods(&self, id: Id) -> impl DoubleEndedIterator<Item = &'a PodFacts> {
        let start = self.pods.partition_point(|pod| pod.id < id);
        let pods = self.pods.get(start..).unwrap_or_default();
        let end = pods.iter().take_while(|pod| pod.id == id).count();
        pods.get(..end).unwrap_or_default().iter().map(|pod| pod.facts)
    }

    /// The pods that run on a node, sorted.
    pub(super) fn pods_on(&self, node: Id) -> &[Id] {
        self.on_node.get(&node).map(|list| self.list(*list)).unwrap_or_default()
    }

    fn take_pods(&mut self) {
        let (mut live, mut waiting) = (BTreeMap::<&str, Vec<Id>>::new(), BTreeMap::<&str, Vec<Id>>::new());
        let mut on_node = BTreeMap::<Id, Vec<Id>>::new();
        // Pods of one namespace follow each other.
        for pods in self.pods.chunk_by(|a, b| a.facts.namespace == b.facts.namespace) {
            let namespace = pods.first().map(|pod| pod.facts.namespace.as_str()).unwrap_or_default();
            let alive = || pods.iter().filter(|pod| !pod.facts.is_mirror);
            if alive().next().is_some() {
                live.insert(namespace, alive().map(|pod| pod.id).collect());
            }
            for pod in alive().filter(|pod| pod.facts.node.is_empty()) {
                waiting.entry(namespace).or_default().extend(of_pod(self.universe, pod.facts));
            }
            for (pod, node) in pods.iter().filter_map(|pod| Some((pod.id, pod.node?))) {
                on_node.entry(node).or_default().push(pod);
            }
        }
        self.live = self.keep_scoped(live);
        self.waiting = self.keep_scoped(waiting);
        self.on_nodes = self.keep(on_node.values().flatten().copied().collect());
        self.on_node = on_node.into_iter().map(|(node, list)| (node, self.keep(list))).collect();
    }

    /// The accounts and secrets of pods with a controller, and of templates; or those of DaemonSets alone.
    fn controlled(&self, daemons_alone: bool) -> Vec<Id> {
        let pods = self.pods.iter().map(|pod| pod.facts).filter(|pod| !pod.is_mirror);
        let pods = pods.filter(|pod| match daemons_alone {
            true => pod.controller.kind == "DaemonSet",
            false => !pod.controller.is_none(),
        });
        let templates = self.facts.templates.iter();
        let templates = templates.filter(|template| !daemons_alone || template.kind == "DaemonSet");
        let of_pods = pods.flat_map(|pod| of_pod(self.universe, pod));
        sorted(of_pods.chain(templates.flat_map(|template| of_template(self.universe, template))).collect())
    }

    fn take_bound(&mut self, grants: &Grants) {
        let universe = self.universe;
        let bound: Vec<Id> = grants.subjects().filter_map(|subject| universe.find_subject(subject)).collect();
        let of_type = |kind| {
            let range = universe.range(kind, None);
            bound.iter().copied().filter(move |id| range.contains(id)).collect::<Vec<Id>>()
        };
        let (users, groups) = (of_type(VertexType::User), of_type(VertexType::Group));
        // CSR admission refuses the group (NR-109).
        let masters = universe.find(VertexType::Group, "", MASTERS_GROUP);
        let signed = users.iter().chain(&groups).copied().filter(|id| Some(*id) != masters);
        self.signed = self.keep(signed.collect());
        self.bound_users = self.keep(users);
        self.bound_groups = self.keep(groups);
    }
}

fn sorted(mut list: Vec<Id>) -> Vec<Id> {
    list.sort_unstable();
    list.dedup();
    list
}

/// The account of a pod, and the secrets that it names.
fn of_pod(universe: &Universe, pod: &PodFacts) -> Vec<Id> {
    account_and_secrets(universe, &pod.namespace, pod.runs_as(), &pod.secrets)
}

/// The account of a template, and the secrets that it names.
pub(super) fn of_template(universe: &Universe, template: &Template) -> Vec<Id> {
    account_and_secrets(universe, &template.namespace, &template.account, &template.secrets)
}

fn account_and_secrets(universe: &Universe, namespace: &str, account: &str, secrets: &[String]) -> Vec<Id> {
    let account = universe.find(VertexType::Account, namespace, account);
    account.into_iter().chain(universe.named(VertexType::Secret, Some(namespace), secrets)).collect()
}
