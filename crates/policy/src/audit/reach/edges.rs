//! The edges of the closure (AU-62): what each vertex leads to.
//!
//! An edge may lead to a set of vertices, so that a right over a whole cluster is one edge and not one for each object.

use std::collections::BTreeMap;
use std::ops::Range;

use super::super::rights::{Ask, GrantId, Grants, Held, Names, Rights, Verbs};
use super::super::state::{PodFacts, State, Template, WORKLOADS};
use super::direct::DirectReach;
use super::universe::{Id, Universe, Vertex, VertexType};
use crate::chain::MASTERS_GROUP;
use crate::graph::VertexKind;
use crate::identity::{NODE_USER_PREFIX, NODES_GROUP};

/// Where an edge leads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum To {
    One(Id),
    /// All vertices of a range.
    Range(Span),
    /// A list of vertices, by its number in [`Edges`].
    List(usize),
}

/// A range that can be compared and hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Span(pub(super) Id, pub(super) Id);

/// An edge: its number in the rules (E1 to E31), where it leads, and the grant that makes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Edge {
    pub(super) number: u8,
    pub(super) to: To,
    pub(super) grant: Option<GrantId>,
}

/// What the closure asks about a state.
pub struct Asked<'a> {
    /// Whether a bootstrap token that expires at this time (RFC 3339) has expired. One without a time never does.
    pub is_expired: &'a dyn Fn(&str) -> bool,
}

impl std::fmt::Debug for Asked<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Asked")
    }
}

/// The edges of all vertices, made when they are asked for.
pub(super) struct Edges<'a> {
    state: &'a State,
    grants: &'a Grants,
    universe: &'a Universe,
    admin: Id,
    /// The vertices that a node leads to.
    of_nodes: BTreeMap<Id, Vec<Edge>>,
    of_pods: BTreeMap<Id, Vec<Edge>>,
    of_secrets: BTreeMap<Id, Vec<Edge>>,
    lists: Vec<Vec<Id>>,
    known: Known,
}

/// Lists that many edges share, by their numbers.
#[derive(Default)]
struct Known {
    /// The pods that run on each node.
    on_node: BTreeMap<Id, usize>,
    /// The pods that are no mirror pods: of the cluster, and of each namespace.
    live: usize,
    live_in: BTreeMap<String, usize>,
    /// The users and the groups that bindings name, and both without `system:masters`.
    bound_users: usize,
    bound_groups: usize,
    signed: usize,
    /// The accounts and secrets of pods with a controller and of templates (E23), and of DaemonSets (E24).
    controlled: usize,
    daemons: usize,
    /// The accounts and secrets of pods without a node: of the cluster, and of each namespace (E29).
    waiting: usize,
    waiting_in: BTreeMap<String, usize>,
    /// Whether pods may be created somewhere without a pod security standard that keeps them from the node (E11).
    lax: bool,
    audiences: Vec<String>,
    exec_verbs: Verbs,
    node_restriction: bool,
}

impl<'a> Edges<'a> {
    pub(super) fn new(
        state: &'a State,
        direct: &DirectReach,
        grants: &'a Grants,
        universe: &'a Universe,
        asked: &Asked<'_>,
    ) -> Self {
        let servers = state.api_servers();
        let facts = state.facts();
        let is_lax = |namespace: &String| facts.namespaces.get(namespace) != Some(&true);
        let get = if servers.may_get_containers() { Verbs::GET } else { Verbs::default() };
        let known = Known {
            lax: universe.namespaces().is_empty() || universe.namespaces().iter().any(is_lax),
            audiences: servers.audiences().iter().map(|audience| (*audience).to_owned()).collect(),
            exec_verbs: Verbs::CREATE.with(get),
            node_restriction: !servers.lack_node_restriction(),
            ..Known::default()
        };
        let mut edges = Self {
            state,
            grants,
            universe,
            admin: universe.find(VertexType::Admin, "", "").unwrap_or_default(),
            of_nodes: BTreeMap::new(),
            of_pods: BTreeMap::new(),
            of_secrets: BTreeMap::new(),
            lists: Vec::new(),
            known,
        };
        edges.list_shared();
        edges.take_pods();
        edges.take_nodes(direct);
        edges.take_secrets(asked);
        edges
    }

    /// The vertices of a set.
    pub(super) fn members(&self, to: &To) -> impl Iterator<Item = Id> {
        let (one, range, list): (Option<Id>, Range<Id>, &[Id]) = match to {
            To::One(id) => (Some(*id), 0..0, &[]),
            To::Range(Span(start, end)) => (None, *start..*end, &[]),
            To::List(list) => (None, 0..0, self.lists.get(*list).map(Vec::as_slice).unwrap_or_default()),
        };
        one.into_iter().chain(range).chain(list.iter().copied())
    }

    /// The pods that run on a node, sorted.
    pub(super) fn pods_on(&self, node: Id) -> &[Id] {
        let list = self.known.on_node.get(&node).and_then(|list| self.lists.get(*list));
        list.map(Vec::as_slice).unwrap_or_default()
    }

    /// The nodes that run a pod, no mirror pod, with a persistent volume claim (E27).
    pub(super) fn nodes_with_claims(&self) -> Vec<Id> {
        let pods = self.state.facts().pods.iter().filter(|pod| pod.has_claim && !pod.is_mirror);
        let mut nodes: Vec<Id> = pods.filter_map(|pod| self.node(&pod.node)).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// The edges of a vertex. Admin has none: nothing is expanded behind it.
    pub(super) fn of(&self, id: Id) -> Vec<Edge> {
        let made = |edges: &BTreeMap<Id, Vec<Edge>>| edges.get(&id).cloned().unwrap_or_default();
        match self.universe.get(id) {
            Some(Vertex { kind: VertexType::Node, .. }) => made(&self.of_nodes),
            Some(Vertex { kind: VertexType::Pod, .. }) => made(&self.of_pods),
            Some(Vertex { kind: VertexType::Secret, .. }) => made(&self.of_secrets),
            Some(vertex) => match vertex.subject() {
                Some(subject) => {
                    let is_node = vertex.kind == VertexType::User
                        && vertex.name.starts_with(NODE_USER_PREFIX)
                        && self.known.node_restriction;
                    Rightful { edges: self, rights: self.grants.of(&subject), is_node, found: Vec::new() }
                        .all()
                }
                None => Vec::new(),
            },
            None => Vec::new(),
        }
    }

    fn node(&self, name: &str) -> Option<Id> {
        self.universe.find(VertexType::Node, "", name)
    }

    fn keep(&mut self, mut list: Vec<Id>) -> usize {
        list.sort_unstable();
        list.dedup();
        self.lists.push(list);
        self.lists.len().saturating_sub(1)
    }

    /// The account of a pod or template, and the secrets that it names.
    fn account_and_secrets(&self, namespace: &str, account: &str, secrets: &[String]) -> Vec<Id> {
        let account = self.universe.find(VertexType::Account, namespace, account);
        account.into_iter().chain(self.universe.named(VertexType::Secret, Some(namespace), secrets)).collect()
    }

    fn list_shared(&mut self) {
        let state = self.state;
        let facts = state.facts();
        let (mut live, mut live_in) = (Vec::new(), BTreeMap::<String, Vec<Id>>::new());
        let (mut waiting, mut waiting_in) = (Vec::new(), BTreeMap::<String, Vec<Id>>::new());
        let (mut controlled, mut daemons) = (Vec::new(), Vec::new());
        let mut on_node = BTreeMap::<Id, Vec<Id>>::new();
        for pod in &facts.pods {
            let Some(id) = self.universe.find(VertexType::Pod, &pod.namespace, &pod.name) else { continue };
            let of_pod =
                |edges: &Self| edges.account_and_secrets(&pod.namespace, pod.runs_as(), &pod.secrets);
            match self.node(&pod.node) {
                Some(node) => on_node.entry(node).or_default().push(id),
                None if pod.node.is_empty() && !pod.is_mirror => {
                    waiting.extend(of_pod(self));
                    waiting_in.entry(pod.namespace.clone()).or_default().extend(of_pod(self));
                }
                None => {}
            }
            if pod.is_mirror {
                continue;
            }
            live.push(id);
            live_in.entry(pod.namespace.clone()).or_default().push(id);
            if !pod.controller.is_empty() {
                controlled.extend(of_pod(self));
            }
            if pod.controller == "DaemonSet" {
                daemons.extend(of_pod(self));
            }
        }
        for template in &facts.templates {
            let of_template = self.of_template(template);
            if template.kind == "DaemonSet" {
                daemons.extend(&of_template);
            }
            controlled.extend(of_template);
        }
        let bound: Vec<Id> = self
            .grants
            .subjects()
            .map(Vertex::of)
            .filter(|vertex| matches!(vertex.kind, VertexType::User | VertexType::Group))
            .filter_map(|vertex| self.universe.find(vertex.kind, "", &vertex.name))
            .collect();
        let masters = self.universe.find(VertexType::Group, "", MASTERS_GROUP);
        let of_type = |kind| {
            let range = self.universe.range(kind, None);
            bound.iter().copied().filter(|id| range.contains(id)).collect::<Vec<Id>>()
        };
        let (users, groups) = (of_type(VertexType::User), of_type(VertexType::Group));
        self.known.bound_users = self.keep(users);
        self.known.bound_groups = self.keep(groups);
        // CSR admission refuses the group (NR-109).
        self.known.signed = self.keep(bound.into_iter().filter(|id| Some(*id) != masters).collect());
        self.known.live = self.keep(live);
        self.known.waiting = self.keep(waiting);
        self.known.controlled = self.keep(controlled);
        self.known.daemons = self.keep(daemons);
        self.known.live_in =
            live_in.into_iter().map(|(namespace, list)| (namespace, self.keep(list))).collect();
        self.known.waiting_in =
            waiting_in.into_iter().map(|(namespace, list)| (namespace, self.keep(list))).collect();
        self.known.on_node = on_node.into_iter().map(|(node, list)| (node, self.keep(list))).collect();
    }

    fn of_template(&self, template: &Template) -> Vec<Id> {
        self.account_and_secrets(&template.namespace, &template.account, &template.secrets)
    }

    /// Whether an API token is in the containers of a pod. Mirror pods have none.
    fn has_api_token(&self, pod: &PodFacts) -> bool {
        let audiences: Vec<&str> = self.known.audiences.iter().map(String::as_str).collect();
        !pod.is_mirror && self.state.has_api_token(pod, &audiences)
    }

    /// E21, E22.
    fn take_pods(&mut self) {
        let state = self.state;
        for pod in &state.facts().pods {
            let Some(id) = self.universe.find(VertexType::Pod, &pod.namespace, &pod.name) else { continue };
            let mut edges = Vec::new();
            let account = self.universe.find(VertexType::Account, &pod.namespace, pod.runs_as());
            if let Some(account) = account.filter(|_| self.has_api_token(pod)) {
                edges.push(plain(21, account));
            }
            if let Some(node) = self.node(&pod.node).filter(|_| pod.escape.is_some()) {
                edges.push(plain(22, node));
            }
            if !edges.is_empty() {
                self.of_pods.insert(id, edges);
            }
        }
    }

    /// The edges of nodes: E1 to E4, E20, E25, E31. By E4 nodes have what RBAC gives them beside direct reach (AU-59).
    fn take_nodes(&mut self, direct: &DirectReach) {
        let state = self.state;
        let facts = state.facts();
        // An account whose pods on a node have no API token: the node gets none for it, if audiences are restricted.
        let mut with_token = std::collections::BTreeSet::new();
        let is_restricted = state.api_servers().restrict_audiences();
        if is_restricted {
            let pods = facts.pods.iter().filter(|pod| self.has_api_token(pod));
            with_token.extend(pods.map(|pod| (&*pod.node, &*pod.namespace, &*pod.account)));
        }
        let control_plane = facts.pods.iter().filter(|pod| pod.is_control_plane).map(|pod| &*pod.node);
        let control_plane: std::collections::BTreeSet<&str> = control_plane.collect();
        let talkers = self.talkers();
        let followers: Vec<&Template> = facts
            .templates
            .iter()
            .filter(|template| template.kind == "DaemonSet" && template.follows_node_labels)
            .collect();
        let mut made = BTreeMap::new();
        for (node, reached) in &direct.nodes {
            let Some(id) = self.node(node) else { continue };
            let mut edges = Vec::new();
            if let Some(pods) = self.known.on_node.get(&id) {
                edges.push(Edge { number: 1, to: To::List(*pods), grant: None });
            }
            for (kind, namespace, name) in reached.iter().filter_map(|index| direct.objects.get(*index)) {
                let (number, kind) = match kind {
                    VertexKind::ServiceAccount => (2, VertexType::Account),
                    VertexKind::Secret => (3, VertexType::Secret),
                    VertexKind::ConfigMap => (3, VertexType::ConfigMap),
                    VertexKind::PersistentVolumeClaim => (3, VertexType::Claim),
                    VertexKind::PersistentVolume => (3, VertexType::Volume),
                    VertexKind::ResourceClaim => (3, VertexType::ResourceClaim),
                    _ => continue,
                };
                let is_useless =
                    number == 2 && is_restricted && !with_token.contains(&(&**node, &**namespace, &**name));
                let target = self.universe.find(kind, namespace, name).filter(|_| !is_useless);
                edges.extend(target.map(|target| plain(number, target)));
            }
            let user = self.universe.find(VertexType::User, "", &format!("{NODE_USER_PREFIX}{node}"));
            edges.extend(user.map(|user| plain(4, user)));
            edges.extend(talkers.iter().cloned());
            for template in &followers {
                let taints = facts.nodes.get(node).map(Vec::as_slice).unwrap_or_default();
                if taints.iter().all(|taint| template.tolerations.tolerate(taint)) {
                    edges.extend(self.of_template(template).into_iter().map(|target| plain(25, target)));
                }
            }
            if control_plane.contains(node.as_str()) {
                edges.push(plain(31, self.admin));
            }
            made.insert(id, edges);
        }
        self.of_nodes = made;
    }

    /// The accounts that show their tokens to every kubelet (E20).
    fn talkers(&self) -> Vec<Edge> {
        let hosted = self.state.hosted_accounts();
        let mut talkers = Vec::new();
        for subject in hosted {
            let Some(grant) = self.grants.of(&subject).talks_to_kubelets else { continue };
            let vertex = Vertex::of(&subject);
            if let Some(id) = self.universe.find(vertex.kind, &vertex.namespace, &vertex.name) {
                talkers.push(Edge { number: 20, to: To::One(id), grant: Some(grant) });
            }
        }
        talkers
    }

    /// E5, E6.
    fn take_secrets(&mut self, asked: &Asked<'_>) {
        let state = self.state;
        for ((namespace, name), secret) in &state.facts().secrets {
            let Some(id) = self.universe.find(VertexType::Secret, namespace, name) else { continue };
            let mut edges = Vec::new();
            let account = secret.account.as_ref();
            let account =
                account.and_then(|account| self.universe.find(VertexType::Account, namespace, account));
            edges.extend(account.map(|account| plain(5, account)));
            let is_live = |expiration: &str| expiration.is_empty() || !(asked.is_expired)(expiration);
            for token in secret.bootstrap.iter().filter(|token| is_live(&token.expiration)) {
                let groups =
                    token.groups.iter().filter_map(|group| self.universe.find(VertexType::Group, "", group));
                edges.extend(groups.map(|group| plain(6, group)));
            }
            if !edges.is_empty() {
                self.of_secrets.insert(id, edges);
            }
        }
    }
}

fn plain(number: u8, to: Id) -> Edge {
    Edge { number, to: To::One(to), grant: None }
}

/// The edges of a subject, by its rights.
struct Rightful<'e, 'a> {
    edges: &'e Edges<'a>,
    rights: Rights,
    /// Whether it is a node, whose writes NodeRestriction bounds (E4).
    is_node: bool,
    found: Vec<Edge>,
}

impl Rightful<'_, '_> {
    fn all(mut self) -> Vec<Edge> {
        if let Some(grant) = self.rights.full {
            return vec![Edge { number: 14, to: To::One(self.edges.admin), grant: Some(grant) }];
        }
        self.secrets();
        self.pods();
        self.creates_pods();
        self.tokens();
        self.impersonation();
        self.escalation();
        self.kubelets();
        self.certificates();
        self.placement();
        self.webhooks();
        self.found
    }

    fn universe(&self) -> &Universe {
        self.edges.universe
    }

    fn lead(&mut self, number: u8, to: To, grant: GrantId) {
        self.found.push(Edge { number, to, grant: Some(grant) });
    }

    fn lead_to_admin(&mut self, number: u8, grant: GrantId) {
        self.lead(number, To::One(self.edges.admin), grant);
    }

    fn lead_to_all(&mut self, number: u8, kind: VertexType, namespace: Option<&str>, grant: GrantId) {
        let range = self.universe().range(kind, namespace);
        if !range.is_empty() {
            self.lead(number, To::Range(Span(range.start, range.end)), grant);
        }
    }

    /// The vertices of a type that a right is for.
    fn lead_to_named(&mut self, number: u8, kind: VertexType, held: &Held) {
        match &held.names {
            Names::Free => self.lead_to_all(number, kind, held.namespace.as_deref(), held.grant),
            Names::Only(names) => {
                for id in self.universe().named(kind, held.namespace.as_deref(), names) {
                    self.lead(number, To::One(id), held.grant);
                }
            }
        }
    }

    /// The pods, no mirror pods, that a right is for.
    fn lead_to_live_pods(&mut self, number: u8, held: &Held) {
        let known = &self.edges.known;
        let list = match &held.namespace {
            None => Some(known.live),
            Some(namespace) => known.live_in.get(&**namespace).copied(),
        };
        let Some(list) = list else { return };
        match &held.names {
            Names::Free => self.lead(number, To::List(list), held.grant),
            Names::Only(names) => {
                let live = self.edges.lists.get(list).map(Vec::as_slice).unwrap_or_default();
                let named = self.universe().named(VertexType::Pod, held.namespace.as_deref(), names);
                let named: Vec<Id> = named.into_iter().filter(|id| live.binary_search(id).is_ok()).collect();
                for id in named {
                    self.lead(number, To::One(id), held.grant);
                }
            }
        }
    }

    fn held(&self, ask: Ask, verbs: Verbs) -> Vec<Held> {
        self.rights.of(ask, verbs).cloned().collect()
    }

    /// E7, E28.
    fn secrets(&mut self) {
        let reads = self.held(Ask::Secrets, Verbs::READ);
        for held in &reads {
            self.lead_to_named(7, VertexType::Secret, held);
        }
        let fills = |held: &Held| {
            held.is_free() && held.verbs.meets(Verbs::CREATE) || held.verbs.meets(Verbs::CHANGE)
        };
        for write in self.held(Ask::Secrets, Verbs::WRITE).iter().filter(|held| fills(held)) {
            for read in &reads {
                // Both rights in one namespace: the narrower of the two.
                let namespace = match (&write.namespace, &read.namespace) {
                    (None, None) => None,
                    (Some(one), None) | (None, Some(one)) => Some(one.clone()),
                    (Some(one), Some(other)) if one == other => Some(one.clone()),
                    _ => continue,
                };
                self.lead_to_all(28, VertexType::Account, namespace.as_deref(), write.grant);
            }
        }
    }

    /// E8, E9, E30.
    fn pods(&mut self) {
        let verbs = self.edges.known.exec_verbs;
        for ask in [Ask::Exec, Ask::Attach] {
            for held in self.held(ask, verbs) {
                self.lead_to_named(8, VertexType::Pod, &held);
            }
        }
        if self.is_node {
            return;
        }
        for ask in [Ask::EphemeralContainers, Ask::Pods] {
            for held in self.held(ask, Verbs::CHANGE) {
                self.lead_to_live_pods(9, &held);
            }
        }
        for held in self.held(Ask::PodStatus, Verbs::CHANGE) {
            self.lead_to_all(30, VertexType::ResourceClaim, held.namespace.as_deref(), held.grant);
        }
    }

    /// The rights to have pods created.
    fn creations(&self) -> Vec<Held> {
        let pods = self.rights.of(Ask::Pods, Verbs::CREATE).filter(|held| held.is_free() && !self.is_node);
        let workloads = WORKLOADS.iter().flat_map(|row| {
            let writes = self.rights.of(Ask::Workload(row.0), Verbs::WRITE);
            writes.filter(|held| held.is_free() || held.verbs.meets(Verbs::CHANGE))
        });
        pods.chain(workloads).cloned().collect()
    }

    /// E10, E11.
    fn creates_pods(&mut self) {
        for held in self.creations() {
            self.lead_into_namespace([10, 11], held.namespace.as_deref(), held.grant);
        }
    }

    /// What follows from a pod in a namespace: E10, and E11 if nothing keeps the pod from the node.
    fn lead_into_namespace(&mut self, [inside, node]: [u8; 2], namespace: Option<&str>, grant: GrantId) {
        for kind in [VertexType::Account, VertexType::Secret, VertexType::ConfigMap, VertexType::Claim] {
            self.lead_to_all(inside, kind, namespace, grant);
        }
        let is_lax = match namespace {
            None => self.edges.known.lax,
            Some(namespace) => self.edges.state.facts().namespaces.get(namespace) != Some(&true),
        };
        if is_lax {
            self.lead_to_all(node, VertexType::Node, None, grant);
        }
    }

    /// E12.
    fn tokens(&mut self) {
        if self.is_node {
            return;
        }
        for held in self.held(Ask::Token, Verbs::CREATE) {
            self.lead_to_named(12, VertexType::Account, &held);
        }
    }

    /// E13, E14.
    fn impersonation(&mut self) {
        let users: Vec<Held> = self.rights.everywhere(Ask::Users, Verbs::IMPERSONATE).cloned().collect();
        let groups: Vec<Held> = self.rights.everywhere(Ask::Groups, Verbs::IMPERSONATE).cloned().collect();
        let accounts = self.held(Ask::Accounts, Verbs::IMPERSONATE);
        let (bound_users, bound_groups) = (self.edges.known.bound_users, self.edges.known.bound_groups);
        for held in &users {
            self.lead_to_bound(VertexType::User, bound_users, held);
        }
        for held in &accounts {
            self.lead_to_named(13, VertexType::Account, held);
        }
        // A group needs a user beside it.
        if users.is_empty() && accounts.is_empty() {
            return;
        }
        for held in &groups {
            self.lead_to_bound(VertexType::Group, bound_groups, held);
            if held.names.hold_for(MASTERS_GROUP) {
                self.lead_to_admin(14, held.grant);
            }
        }
        if !groups.iter().any(|held| held.names.hold_for(NODES_GROUP)) {
            return;
        }
        for held in &users {
            match &held.names {
                Names::Free => self.lead_to_all(13, VertexType::Node, None, held.grant),
                Names::Only(names) => {
                    let nodes = names.iter().filter_map(|name| name.strip_prefix(NODE_USER_PREFIX));
                    let nodes: Vec<Id> = nodes.filter_map(|node| self.edges.node(node)).collect();
                    for node in nodes {
                        self.lead(13, To::One(node), held.grant);
                    }
                }
            }
        }
    }

    fn lead_to_bound(&mut self, kind: VertexType, list: usize, held: &Held) {
        match &held.names {
            Names::Free => self.lead(13, To::List(list), held.grant),
            Names::Only(names) => {
                let bound = self.edges.lists.get(list).map(Vec::as_slice).unwrap_or_default();
                let named = self.universe().named(kind, Some(""), names);
                let named: Vec<Id> = named.into_iter().filter(|id| bound.binary_search(id).is_ok()).collect();
                for id in named {
                    self.lead(13, To::One(id), held.grant);
                }
            }
        }
    }

    /// E15, E16.
    fn escalation(&mut self) {
        let rights = &self.rights;
        let grants = self.edges.grants;
        let binds = |held: &&Held| grants.is_for_full_role(&held.names);
        let bind =
            rights.everywhere(Ask::ClusterRoles, Verbs::BIND).filter(binds).map(|held| held.grant).min();
        let bound = bind.filter(|_| rights.writes(Ask::ClusterRoleBindings).is_some());
        let escalates: Vec<&Held> = rights.everywhere(Ask::ClusterRoles, Verbs::ESCALATE).collect();
        let changed = escalates.iter().filter(|escalate| {
            let mut changes = rights.everywhere(Ask::ClusterRoles, Verbs::CHANGE);
            changes.any(|change| change.names.meet(&escalate.names))
        });
        let free = escalates.iter().filter(|escalate| {
            escalate.is_free()
                && rights.free(Ask::ClusterRoles, Verbs::CREATE).is_some()
                && rights.aggregated.is_some()
        });
        let escalated = changed.chain(free).map(|held| held.grant).min();
        // The same in one namespace.
        let mut inside: Vec<(String, GrantId)> = Vec::new();
        for namespace in self.universe().namespaces() {
            let is_here = |held: &&Held| held.namespace.as_deref().is_none_or(|own| own == namespace);
            let here = |ask, verbs| rights.of(ask, verbs).filter(is_here);
            let mut written = here(Ask::RoleBindings, Verbs::WRITE);
            let may_bind = written.any(|held| held.is_free() || held.verbs.meets(Verbs::CHANGE));
            let roles = here(Ask::Roles, Verbs::BIND).filter(|held| held.is_free());
            let cluster_roles = here(Ask::ClusterRoles, Verbs::BIND).filter(binds);
            let binds_here = roles.chain(cluster_roles).filter(|_| may_bind);
            let escalates_here = here(Ask::Roles, Verbs::ESCALATE).filter(|escalate| {
                here(Ask::Roles, Verbs::CHANGE).any(|change| change.names.meet(&escalate.names))
            });
            let grant = binds_here.chain(escalates_here).map(|held| held.grant).min();
            inside.extend(grant.map(|grant| (namespace.clone(), grant)));
        }
        for grant in bound.into_iter().chain(escalated) {
            self.lead_to_admin(15, grant);
        }
        for (namespace, grant) in inside {
            self.lead_to_all(16, VertexType::Pod, Some(&namespace), grant);
            self.lead_into_namespace([16, 16], Some(&namespace), grant);
        }
    }

    /// E17.
    fn kubelets(&mut self) {
        let proxies: Vec<Held> =
            self.rights.everywhere(Ask::NodeProxy, Verbs::GET.with(Verbs::CREATE)).cloned().collect();
        for held in proxies {
            match &held.names {
                Names::Free => {
                    let lists: Vec<usize> = self.edges.known.on_node.values().copied().collect();
                    for list in lists {
                        self.lead(17, To::List(list), held.grant);
                    }
                }
                Names::Only(names) => {
                    let nodes = names.iter().filter_map(|name| self.edges.node(name));
                    let lists = nodes.filter_map(|node| self.edges.known.on_node.get(&node).copied());
                    let lists: Vec<usize> = lists.collect();
                    for list in lists {
                        self.lead(17, To::List(list), held.grant);
                    }
                }
            }
        }
    }

    /// E18, E19.
    fn certificates(&mut self) {
        let rights = &self.rights;
        let Some(create) = rights.free(Ask::CertificateRequests, Verbs::CREATE) else { return };
        let signs = |signer: &str| {
            let mut held = rights.everywhere(Ask::Signers, Verbs::APPROVE);
            held.any(|held| held.names.hold_for(signer) || held.names.hold_for("kubernetes.io/*"))
        };
        let approval = rights.some(Ask::Approval, Verbs::CHANGE);
        let any_user = approval.filter(|_| signs("kubernetes.io/kube-apiserver-client"));
        let nodes = approval.filter(|_| signs("kubernetes.io/kube-apiserver-client-kubelet"));
        let nodes = nodes.or_else(|| rights.free(Ask::NodeClient, Verbs::CREATE).map(|_| create));
        let signed = self.edges.known.signed;
        if let Some(grant) = any_user {
            self.lead(18, To::List(signed), grant);
            self.lead_to_all(18, VertexType::Node, None, grant);
        }
        if let Some(grant) = nodes.filter(|_| !self.is_node) {
            self.lead_to_all(19, VertexType::Node, None, grant);
        }
    }

    /// E23, E24, E27, E29.
    fn placement(&mut self) {
        let known = &self.edges.known;
        if let Some(grant) = self.rights.free(Ask::Volumes, Verbs::CREATE) {
            self.lead_to_all(27, VertexType::Secret, None, grant);
        }
        if self.is_node {
            return;
        }
        if let Some(grant) = self.rights.free(Ask::Nodes, Verbs::CHANGE) {
            self.lead(23, To::List(known.controlled), grant);
        }
        if let Some(grant) = self.rights.free(Ask::NodeStatus, Verbs::CHANGE) {
            self.lead(24, To::List(known.daemons), grant);
        }
        for held in self.held(Ask::PodBinding, Verbs::CREATE) {
            let list = match &held.namespace {
                None => Some(known.waiting),
                Some(namespace) => known.waiting_in.get(&**namespace).copied(),
            };
            if let Some(list) = list {
                self.lead(29, To::List(list), held.grant);
            }
        }
    }

    /// E26.
    fn webhooks(&mut self) {
        let policies = self.rights.writes(Ask::MutatingPolicies);
        let policies = policies.filter(|_| self.rights.writes(Ask::MutatingPolicyBindings).is_some());
        for grant in self.rights.writes(Ask::MutatingWebhooks).into_iter().chain(policies) {
            self.lead_to_admin(26, grant);
        }
    }
}

/// Whether a subject's edge E27 holds although no node of the closure has a pod with a claim: it can have such a pod created.
pub(super) fn creates_pods_somewhere(edges: &[Edge]) -> bool {
    edges.iter().any(|edge| matches!(edge.number, 10 | 16))
}
