//! The edges of the closure (AU-62): what each vertex leads to.
//!
//! An edge may lead to a set of vertices, so that a right over a whole cluster is one edge and not one for each object. What nodes,
//! pods and secrets lead to is here; what subjects lead to by their rights is in `rights`.

mod context;
mod edge;
mod rights;
mod shared;

use std::collections::BTreeMap;

use hashbrown::{HashMap, HashSet};

use std::ops::Range;
use std::sync::Arc;

use self::context::Context;
pub(super) use self::edge::{Edge, Leaving, To};
use self::rights::Rightful;
use self::shared::{Shared, of_template};
use super::direct::DirectReach;
use super::universe::{Id, Universe, VertexType};
use crate::audit::rights::Grants;
use crate::audit::state::{Facts, NodeTaint, State, Template};
use crate::graph::VertexKind;
use crate::identity::NODE_USER_PREFIX;

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

/// The edges of all vertices. Those of a vertex are made when they are asked for.
pub(super) struct Edges<'a> {
    context: Context<'a>,
    fixed: Arc<Fixed<'a>>,
    /// The accounts that show their tokens to every kubelet (E20).
    talkers: Vec<Edge>,
}

/// The edges that do not depend on permissions, and what they are made from.
struct Fixed<'a> {
    direct: &'a DirectReach,
    /// The nodes that run a part of the control plane.
    control_plane: HashSet<&'a str>,
    /// For each node, the list of the accounts and secrets of DaemonSets that its own labels can select (E25).
    come: HashMap<Id, usize>,
    of_secrets: BTreeMap<Id, Vec<Edge>>,
}

impl<'a> Edges<'a> {
    pub(super) fn new(
        state: &'a State,
        direct: &'a DirectReach,
        grants: &'a Grants,
        universe: &'a Universe,
        asked: &Asked<'_>,
    ) -> Self {
        let mut shared = Shared::new(state.facts(), grants, universe);
        let control_plane = state.facts().pods.iter().filter(|pod| pod.is_control_plane);
        let fixed = Fixed {
            direct,
            control_plane: control_plane.map(|pod| pod.node.as_str()).collect(),
            come: by_own_labels(state.facts(), universe, &mut shared),
            of_secrets: of_secrets(state.facts(), universe, asked),
        };
        let context = Context::new(state, grants, universe, shared);
        Self { talkers: talkers(&context), context, fixed: Arc::new(fixed) }
    }

    /// The same edges with other permissions. What follows from objects alone is shared.
    pub(super) fn with_grants<'b>(&self, grants: &'b Grants) -> Edges<'b>
    where
        'a: 'b,
    {
        let context = self.context.with_grants(grants);
        let fixed: Arc<Fixed<'a>> = Arc::clone(&self.fixed);
        Edges { talkers: talkers(&context), context, fixed }
    }

    /// The vertices of a set.
    pub(super) fn members(&self, to: &To) -> impl Iterator<Item = Id> {
        let (one, range, list): (Option<Id>, Range<Id>, &[Id]) = match to {
            To::One(id) => (Some(*id), 0..0, &[]),
            To::All(kind, namespace) => {
                let namespace = namespace.map(|namespace| self.context.universe.namespace(namespace));
                (None, self.context.universe.range(*kind, namespace), &[])
            }
            To::List(list) => (None, 0..0, self.context.shared.list(*list)),
        };
        one.into_iter().chain(range).chain(list.iter().copied())
    }

    /// The pods that run on a node, sorted.
    pub(super) fn pods_on(&self, node: Id) -> &[Id] {
        self.context.shared.pods_on(node)
    }

    /// The nodes that run a pod, no mirror pod, with a persistent volume claim (E27).
    pub(super) fn nodes_with_claims(&self) -> Vec<Id> {
        let pods = self.context.state.facts().pods.iter().filter(|pod| pod.has_claim && !pod.is_mirror);
        let mut nodes: Vec<Id> = pods.filter_map(|pod| self.context.node(&pod.node)).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// The edges of a vertex. Admin has none: nothing is expanded behind it.
    pub(super) fn of(&self, id: Id) -> Leaving {
        let Some(vertex) = self.context.universe.get(id) else { return Leaving::default() };
        if let Some(subject) = vertex.subject() {
            let is_node = vertex.kind == VertexType::User
                && vertex.name.starts_with(NODE_USER_PREFIX)
                && self.context.has_node_restriction;
            return Rightful::new(&self.context, self.context.grants.of(&subject), is_node).all();
        }
        let edges = match vertex.kind {
            VertexType::Node => self.of_node(id, &vertex.name),
            VertexType::Pod => self.of_pod(id),
            VertexType::Secret => self.fixed.of_secrets.get(&id).cloned().unwrap_or_default(),
            _ => Vec::new(),
        };
        Leaving { edges, creates_pods: false }
    }

    /// E21, E22.
    fn of_pod(&self, id: Id) -> Vec<Edge> {
        let Some(pod) = self.context.shared.pods(id).next_back() else { return Vec::new() };
        let account = self.context.universe.find(VertexType::Account, &pod.namespace, pod.runs_as());
        let account = account.filter(|_| self.context.has_api_token(pod)).map(|account| plain(21, account));
        let node = self.context.node(&pod.node).filter(|_| pod.access.way_out().is_some());
        account.into_iter().chain(node.map(|node| plain(22, node))).collect()
    }

    /// E1 to E4, E20, E25, E31. By E4 nodes have what RBAC gives them beside direct reach (AU-59).
    fn of_node(&self, id: Id, node: &str) -> Vec<Edge> {
        let Context { state, universe, shared, admin, .. } = &self.context;
        let mut edges = Vec::new();
        if let Some(pods) = shared.on_node.get(&id) {
            edges.push(Edge { number: 1, to: To::List(*pods), grant: None });
        }
        // An account whose pods on a node have no API token: the node gets none for it, if audiences are restricted.
        let with_token: Option<HashSet<(&str, &str)>> = state.api_servers().restrict_audiences().then(|| {
            let pods = shared.pods_on(id).iter().flat_map(|pod| shared.pods(*pod));
            let pods = pods.filter(|pod| pod.node == node && self.context.has_api_token(pod));
            pods.map(|pod| (pod.namespace.as_str(), pod.account.as_str())).collect()
        });
        let has_token = |namespace, name| {
            with_token.as_ref().is_none_or(|accounts| accounts.contains(&(namespace, name)))
        };
        for (kind, namespace, name) in self.fixed.direct.reached(node) {
            let (number, kind) = match kind {
                VertexKind::ServiceAccount if !has_token(namespace, name) => continue,
                VertexKind::ServiceAccount => (2, VertexType::Account),
                VertexKind::Secret => (3, VertexType::Secret),
                VertexKind::ConfigMap => (3, VertexType::ConfigMap),
                VertexKind::PersistentVolumeClaim => (3, VertexType::Claim),
                VertexKind::PersistentVolume => (3, VertexType::Volume),
                VertexKind::ResourceClaim => (3, VertexType::ResourceClaim),
                _ => continue,
            };
            edges.extend(universe.find(kind, namespace, name).map(|target| plain(number, target)));
        }
        let user = universe.find(VertexType::User, "", &format!("{NODE_USER_PREFIX}{node}"));
        edges.extend(user.map(|user| plain(4, user)));
        if let Some(list) = self.fixed.come.get(&id) {
            edges.push(Edge { number: 25, to: To::List(*list), grant: None });
        }
        if self.fixed.control_plane.contains(node) {
            edges.push(plain(31, *admin));
        }
        edges.extend(self.talkers.iter().cloned());
        edges
    }
}

/// For each node, the list of the accounts and secrets of DaemonSets that its own labels can select (E25).
fn by_own_labels(facts: &Facts, universe: &Universe, shared: &mut Shared<'_>) -> HashMap<Id, usize> {
    let followers = facts.templates.iter();
    let followers: Vec<&Template> =
        followers.filter(|template| template.kind == "DaemonSet" && template.follows_node_labels).collect();
    let mut come = HashMap::new();
    if followers.is_empty() {
        return come;
    }
    // Nodes with the same taints get the same DaemonSets.
    let mut by_taints = BTreeMap::<&[NodeTaint], usize>::new();
    for id in universe.range(VertexType::Node, None) {
        let Some(node) = universe.get(id) else { continue };
        let taints = facts.nodes.get(&node.name).map(|node| node.taints.as_slice()).unwrap_or_default();
        let list = *by_taints.entry(taints).or_insert_with(|| {
            let tolerates =
                |template: &&&Template| taints.iter().all(|taint| template.tolerations.tolerate(taint));
            let come = followers.iter().filter(tolerates);
            shared.keep(come.flat_map(|template| of_template(universe, template)).collect())
        });
        if !shared.list(list).is_empty() {
            come.insert(id, list);
        }
    }
    come
}

/// E5, E6.
fn of_secrets(facts: &Facts, universe: &Universe, asked: &Asked<'_>) -> BTreeMap<Id, Vec<Edge>> {
    let is_live = |expiration: &str| expiration.is_empty() || !(asked.is_expired)(expiration);
    let mut made = BTreeMap::new();
    for ((namespace, name), secret) in &facts.secrets {
        let account = secret.account.iter();
        let accounts = account.filter_map(|account| universe.find(VertexType::Account, namespace, account));
        let tokens = secret.bootstrap.iter().filter(|token| is_live(&token.expiration));
        let groups = tokens.flat_map(|token| &token.groups);
        let groups = groups.filter_map(|group| universe.find(VertexType::Group, "", group));
        let edges: Vec<Edge> =
            accounts.map(|account| plain(5, account)).chain(groups.map(|group| plain(6, group))).collect();
        if edges.is_empty() {
            continue;
        }
        if let Some(id) = universe.find(VertexType::Secret, namespace, name) {
            made.insert(id, edges);
        }
    }
    made
}

/// The accounts that show their tokens to every kubelet (E20).
fn talkers(context: &Context<'_>) -> Vec<Edge> {
    let mut talkers = Vec::new();
    if !context.grants.has_talkers() {
        return talkers;
    }
    for subject in context.state.hosted_accounts() {
        let Some(grant) = context.grants.talks_to_kubelets(&subject) else { continue };
        if let Some(id) = context.universe.find_subject(&subject) {
            talkers.push(Edge { number: 20, to: To::One(id), grant: Some(grant) });
        }
    }
    talkers
}

fn plain(number: u8, to: Id) -> Edge {
    Edge { number, to: To::One(to), grant: None }
}
