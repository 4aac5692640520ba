//! Lists of vertices to which many edges lead. Each is kept once.

use std::collections::BTreeMap;

use crate::audit::reach::universe::{Id, Universe, Vertex, VertexType};
use crate::audit::rights::Grants;
use crate::audit::state::{Facts, PodFacts, Template};
use crate::chain::MASTERS_GROUP;

/// The lists, and the numbers of those that have a name.
#[derive(Default)]
pub(super) struct Shared {
    lists: Vec<Vec<Id>>,
    /// The pods that run on each node, and on any.
    pub(super) on_node: BTreeMap<Id, usize>,
    pub(super) on_nodes: usize,
    /// The pods that are no mirror pods.
    pub(super) live: Scoped,
    /// The users and the groups that bindings name, and both without `system:masters`.
    pub(super) bound_users: usize,
    pub(super) bound_groups: usize,
    pub(super) signed: usize,
    /// The accounts and secrets of pods with a controller and of templates (E23), and of DaemonSets (E24).
    pub(super) controlled: usize,
    pub(super) daemons: usize,
    /// The accounts and secrets of pods without a node (E29).
    pub(super) waiting: Scoped,
}

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

impl Shared {
    pub(super) fn new(facts: &Facts, grants: &Grants, universe: &Universe) -> Self {
        let mut shared = Self::default();
        shared.take_pods(facts, universe);
        shared.take_bound(grants, universe);
        shared
    }

    /// The vertices of a list, sorted.
    pub(super) fn list(&self, list: usize) -> &[Id] {
        self.lists.get(list).map(Vec::as_slice).unwrap_or_default()
    }

    /// Keeps a list, and returns its number.
    pub(super) fn keep(&mut self, mut list: Vec<Id>) -> usize {
        list.sort_unstable();
        list.dedup();
        self.lists.push(list);
        self.lists.len().saturating_sub(1)
    }

    fn keep_scoped(&mut self, by_namespace: BTreeMap<String, Vec<Id>>) -> Scoped {
        let all = self.keep(by_namespace.values().flatten().copied().collect());
        let by_namespace = by_namespace.into_iter().map(|(namespace, list)| (namespace, self.keep(list)));
        Scoped { all, by_namespace: by_namespace.collect() }
    }

    fn take_pods(&mut self, facts: &Facts, universe: &Universe) {
        let (mut live, mut waiting) =
            (BTreeMap::<String, Vec<Id>>::new(), BTreeMap::<String, Vec<Id>>::new());
        let (mut controlled, mut daemons) = (Vec::new(), Vec::new());
        let mut on_node = BTreeMap::<Id, Vec<Id>>::new();
        for pod in &facts.pods {
            let Some(id) = universe.find(VertexType::Pod, &pod.namespace, &pod.name) else { continue };
            if let Some(node) = universe.find(VertexType::Node, "", &pod.node) {
                on_node.entry(node).or_default().push(id);
            }
            if pod.is_mirror {
                continue;
            }
            let of_pod = of_pod(universe, pod);
            if pod.node.is_empty() {
                waiting.entry(pod.namespace.clone()).or_default().extend(&of_pod);
            }
            live.entry(pod.namespace.clone()).or_default().push(id);
            if pod.controller.kind == "DaemonSet" {
                daemons.extend(&of_pod);
            }
            if !pod.controller.is_none() {
                controlled.extend(of_pod);
            }
        }
        for template in &facts.templates {
            let of_template = of_template(universe, template);
            if template.kind == "DaemonSet" {
                daemons.extend(&of_template);
            }
            controlled.extend(of_template);
        }
        self.live = self.keep_scoped(live);
        self.waiting = self.keep_scoped(waiting);
        self.controlled = self.keep(controlled);
        self.daemons = self.keep(daemons);
        self.on_nodes = self.keep(on_node.values().flatten().copied().collect());
        self.on_node = on_node.into_iter().map(|(node, list)| (node, self.keep(list))).collect();
    }

    fn take_bound(&mut self, grants: &Grants, universe: &Universe) {
        let bound = grants
            .subjects()
            .map(Vertex::of)
            .filter_map(|vertex| universe.find(vertex.kind, &vertex.namespace, &vertex.name));
        let bound: Vec<Id> = bound.collect();
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
