//! The edges of the closure (AU-62): what each vertex leads to.
//!
//! An edge may lead to a set of vertices, so that a right over a whole cluster is one edge and not one for each object. What nodes,
//! pods and secrets lead to is here; what subjects lead to by their rights is in `rights`.

mod context;
mod edge;
mod rights;
mod shared;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use self::context::Context;
pub(super) use self::edge::{Edge, Leaving, To};
use self::rights::Rightful;
use self::shared::{Shared, of_template};
use super::direct::DirectReach;
use super::universe::{Id, Universe, Vertex, VertexType};
use crate::audit::rights::Grants;
use crate::audit::state::{NodeTaint, State, Template};
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

/// The edges of all vertices. Those of subjects are made when they are asked for.
pub(super) struct Edges<'a> {
    context: Context<'a>,
    /// What no permission changes, of nodes, pods and secrets.
    fixed: Arc<Fixed>,
    /// The accounts that show their tokens to every kubelet (E20).
    talkers: Vec<Edge>,
}

/// The edges that follow from objects alone.
#[derive(Default)]
struct Fixed {
    of_nodes: BTreeMap<Id, Vec<Edge>>,
    of_pods: BTreeMap<Id, Vec<Edge>>,
    of_secrets: BTreeMap<Id, Vec<Edge>>,
}

impl<'a> Edges<'a> {
    pub(super) fn new(
        state: &'a State,
        direct: &DirectReach,
        grants: &'a Grants,
        universe: &'a Universe,
        asked: &Asked<'_>,
    ) -> Self {
        let mut shared = Shared::new(state.facts(), grants, universe);
        let mut made = Making { context: Context::new(state, grants, universe), fixed: Fixed::default() };
        made.take_pods();
        made.take_nodes(direct, &mut shared);
        made.take_secrets(asked);
        let Making { context, fixed } = made;
        let talkers = talkers(&context);
        Self { context: context.with_shared(shared), fixed: Arc::new(fixed), talkers }
    }

    /// The same edges with other permissions. What follows from objects alone is shared.
    pub(super) fn with_grants<'b>(&self, grants: &'b Grants) -> Edges<'b>
    where
        'a: 'b,
    {
        let context = self.context.with_grants(grants);
        Edges { talkers: talkers(&context), context, fixed: Arc::clone(&self.fixed) }
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
        self.context.shared.on_node.get(&node).map(|list| self.context.shared.list(*list)).unwrap_or_default()
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
        let (made, more): (_, &[Edge]) = match vertex.kind {
            VertexType::Node => (&self.fixed.of_nodes, &self.talkers),
            VertexType::Pod => (&self.fixed.of_pods, &[]),
            VertexType::Secret => (&self.fixed.of_secrets, &[]),
            _ => return Leaving::default(),
        };
        let made = made.get(&id).map(Vec::as_slice).unwrap_or_default();
        Leaving { edges: made.iter().chain(more).cloned().collect(), creates_pods: false }
    }
}

/// The edges that follow from objects, while they are made.
struct Making<'a> {
    context: Context<'a>,
    fixed: Fixed,
}

impl Making<'_> {
    /// E21, E22.
    fn take_pods(&mut self) {
        let state = self.context.state;
        for pod in &state.facts().pods {
            let Some(id) = self.context.universe.find(VertexType::Pod, &pod.namespace, &pod.name) else {
                continue;
            };
            let mut edges = Vec::new();
            let account = self.context.universe.find(VertexType::Account, &pod.namespace, pod.runs_as());
            if let Some(account) = account.filter(|_| self.context.has_api_token(pod)) {
                edges.push(plain(21, account));
            }
            if let Some(node) = self.context.node(&pod.node).filter(|_| pod.access.way_out().is_some()) {
                edges.push(plain(22, node));
            }
            if !edges.is_empty() {
                self.fixed.of_pods.insert(id, edges);
            }
        }
    }

    /// The edges of nodes: E1 to E4, E20, E25, E31. By E4 nodes have what RBAC gives them beside direct reach (AU-59).
    fn take_nodes(&mut self, direct: &DirectReach, shared: &mut Shared) {
        let state = self.context.state;
        let facts = state.facts();
        // An account whose pods on a node have no API token: the node gets none for it, if audiences are restricted.
        let mut with_token = BTreeSet::new();
        let is_restricted = state.api_servers().restrict_audiences();
        if is_restricted {
            let pods = facts.pods.iter().filter(|pod| self.context.has_api_token(pod));
            with_token.extend(pods.map(|pod| (&*pod.node, &*pod.namespace, &*pod.account)));
        }
        let control_plane = facts.pods.iter().filter(|pod| pod.is_control_plane).map(|pod| &*pod.node);
        let control_plane: BTreeSet<&str> = control_plane.collect();
        let followers: Vec<&Template> = facts
            .templates
            .iter()
            .filter(|template| template.kind == "DaemonSet" && template.follows_node_labels)
            .collect();
        // Nodes with the same taints get the same DaemonSets (E25).
        let mut by_taints = BTreeMap::<&[NodeTaint], usize>::new();
        let mut made = BTreeMap::new();
        for (node, reached) in &direct.nodes {
            let Some(id) = self.context.node(node) else { continue };
            let mut edges = Vec::new();
            if let Some(pods) = shared.on_node.get(&id) {
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
                let target = self.context.universe.find(kind, namespace, name).filter(|_| !is_useless);
                edges.extend(target.map(|target| plain(number, target)));
            }
            let user = self.context.universe.find(VertexType::User, "", &format!("{NODE_USER_PREFIX}{node}"));
            edges.extend(user.map(|user| plain(4, user)));
            let taints = facts.nodes.get(node).map(|node| node.taints.as_slice()).unwrap_or_default();
            let list = *by_taints.entry(taints).or_insert_with(|| {
                let come =
                    |template: &&&Template| taints.iter().all(|taint| template.tolerations.tolerate(taint));
                let come = followers
                    .iter()
                    .filter(come)
                    .flat_map(|template| of_template(self.context.universe, template));
                let come = come.collect();
                shared.keep(come)
            });
            if !shared.list(list).is_empty() {
                edges.push(Edge { number: 25, to: To::List(list), grant: None });
            }
            if control_plane.contains(node.as_str()) {
                edges.push(plain(31, self.context.admin));
            }
            made.insert(id, edges);
        }
        self.fixed.of_nodes = made;
    }

    /// E5, E6.
    fn take_secrets(&mut self, asked: &Asked<'_>) {
        let state = self.context.state;
        for ((namespace, name), secret) in &state.facts().secrets {
            let Some(id) = self.context.universe.find(VertexType::Secret, namespace, name) else { continue };
            let mut edges = Vec::new();
            let account = secret.account.as_ref();
            let account = account
                .and_then(|account| self.context.universe.find(VertexType::Account, namespace, account));
            edges.extend(account.map(|account| plain(5, account)));
            let is_live = |expiration: &str| expiration.is_empty() || !(asked.is_expired)(expiration);
            for token in secret.bootstrap.iter().filter(|token| is_live(&token.expiration)) {
                let groups = token
                    .groups
                    .iter()
                    .filter_map(|group| self.context.universe.find(VertexType::Group, "", group));
                edges.extend(groups.map(|group| plain(6, group)));
            }
            if !edges.is_empty() {
                self.fixed.of_secrets.insert(id, edges);
            }
        }
    }
}

/// The accounts that show their tokens to every kubelet (E20).
fn talkers(context: &Context<'_>) -> Vec<Edge> {
    let mut talkers = Vec::new();
    for subject in context.state.hosted_accounts() {
        let Some(grant) = context.grants.talks_to_kubelets(&subject) else { continue };
        let vertex = Vertex::of(&subject);
        if let Some(id) = context.universe.find(vertex.kind, &vertex.namespace, &vertex.name) {
            talkers.push(Edge { number: 20, to: To::One(id), grant: Some(grant) });
        }
    }
    talkers
}

fn plain(number: u8, to: Id) -> Edge {
    Edge { number, to: To::One(to), grant: None }
}
