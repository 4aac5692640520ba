//! Direct reach: what each node may read, or get a token of, by itself (section 4 of the audit's rules).
//!
//! Usually the graph lists it. Where the graph alone does not decide, because of other modes or feature gates, the authorizers
//! are asked about each object, which takes longer.

use std::collections::{BTreeMap, BTreeSet};

use super::super::state::State;
use crate::chain::{Member, Mode};
use crate::features::Feature;
use crate::graph::{ReachedObject, VertexKind};
use crate::identity::{NODE_USER_PREFIX, NODES_GROUP};
use crate::request::{Attributes, ResourceRequest, User};

/// The kinds of the lists, with the API group, and what must be allowed (AU-51 to AU-55).
const LISTS: [(VertexKind, &str, &str, &str); 9] = [
    (VertexKind::Secret, "", "get", ""),
    (VertexKind::ConfigMap, "", "get", ""),
    (VertexKind::PersistentVolumeClaim, "", "get", ""),
    (VertexKind::PersistentVolume, "", "get", ""),
    (VertexKind::ServiceAccount, "", "create", "token"),
    (VertexKind::ResourceClaim, "resource.k8s.io", "get", ""),
    (VertexKind::Pod, "", "get", ""),
    (VertexKind::VolumeAttachment, "storage.k8s.io", "get", ""),
    (VertexKind::ResourceSlice, "resource.k8s.io", "get", ""),
];

/// What each node reaches directly.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectReach {
    /// The objects that some node reaches, each once, in no particular order.
    pub objects: Vec<ReachedObject>,
    /// The indices of a node's objects, ascending, for every node of the state (AU-50).
    pub nodes: BTreeMap<String, Vec<usize>>,
}

impl DirectReach {
    /// Lists the direct reach of every node.
    pub fn of(state: &State) -> Self {
        let candidates = state.engine().graph().reached();
        let mut nodes = BTreeMap::<String, Vec<usize>>::new();
        let decides = Decides::of(state);
        let objects = match decides {
            Decides::Graph | Decides::GraphButDenied => candidates.objects,
            Decides::Chain => everything(state),
        };
        for node in state.nodes() {
            let of_graph = candidates.nodes.get(node);
            let user = User::new(format!("{NODE_USER_PREFIX}{node}"), [NODES_GROUP]);
            let is_reached = |index: &usize| {
                objects.get(*index).is_some_and(|object| match decides {
                    Decides::Graph => is_listed(object),
                    Decides::GraphButDenied => is_listed(object) && is_allowed(state, &user, object),
                    Decides::Chain => is_allowed(state, &user, object),
                })
            };
            let reached = match decides {
                Decides::Chain => (0..objects.len()).filter(is_reached).collect(),
                _ => of_graph.into_iter().flatten().copied().filter(is_reached).collect(),
            };
            nodes.insert(node.to_owned(), reached);
        }
        Self::of_used(objects, nodes)
    }

    /// Leaves out the objects that no node reaches.
    fn of_used(objects: Vec<ReachedObject>, mut nodes: BTreeMap<String, Vec<usize>>) -> Self {
        let mut is_used = vec![false; objects.len()];
        for index in nodes.values().flatten() {
            if let Some(is_used) = is_used.get_mut(*index) {
                *is_used = true;
            }
        }
        let places = is_used.iter().scan(0_usize, |used, is_used| {
            let place = *used;
            *used = used.saturating_add(usize::from(*is_used));
            Some(place)
        });
        let places: Vec<usize> = places.collect();
        for index in nodes.values_mut().flatten() {
            *index = places.get(*index).copied().unwrap_or(*index);
        }
        let used = objects.into_iter().zip(is_used).filter(|(_, is_used)| *is_used);
        Self { objects: used.map(|(object, _)| object).collect(), nodes }
    }

    /// The objects that a node reaches: by kind, and sorted by the bytes of `NAMESPACE/NAME` within a kind.
    pub(super) fn sorted(&self, node: &str) -> Vec<&ReachedObject> {
        let mut reached: Vec<&ReachedObject> = self.reached(node).collect();
        reached.sort_by_cached_key(|(kind, namespace, name)| (*kind, bytes(namespace, name)));
        reached
    }

    /// The objects that a node reaches.
    pub fn reached(&self, node: &str) -> impl Iterator<Item = &ReachedObject> {
        let reached = self.nodes.get(node).into_iter().flatten();
        reached.filter_map(|index| self.objects.get(*index))
    }
}

/// Who decides whether a node reaches an object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Decides {
    /// The graph: mode Node allows exactly what it says, and no mode before it denies.
    Graph,
    /// The graph, but for what mode Deny takes away.
    GraphButDenied,
    /// All authorizers, asked one object after the other (AU-58).
    Chain,
}

impl Decides {
    fn of(state: &State) -> Self {
        let engine = state.engine();
        let modes: Vec<Mode> = engine.chain().members().iter().map(Member::mode).collect();
        let gates = engine.gates();
        if !modes.contains(&Mode::Node)
            || modes.contains(&Mode::AlwaysAllow)
            || !gates.is_on(Feature::AuthorizeNodeWithSelectors)
        {
            Self::Chain
        } else if modes.contains(&Mode::Deny) {
            Self::GraphButDenied
        } else {
            Self::Graph
        }
    }
}

/// Whether an object of the graph is in a list, and a request can name it: a request for a Secret or a ConfigMap has a namespace.
fn is_listed((kind, namespace, name): &ReachedObject) -> bool {
    let needs_namespace = matches!(kind, VertexKind::Secret | VertexKind::ConfigMap);
    LISTS.iter().any(|(listed, ..)| listed == kind)
        && !name.is_empty()
        && !(needs_namespace && namespace.is_empty())
}

fn is_allowed(state: &State, user: &User, (kind, namespace, name): &ReachedObject) -> bool {
    let Some((_, group, verb, subresource)) = LISTS.iter().find(|(listed, ..)| listed == kind) else {
        return false;
    };
    let request = ResourceRequest {
        namespace,
        group,
        version: "v1",
        resource: kind.resource(),
        subresource,
        name,
        ..ResourceRequest::default()
    };
    let attributes = Attributes { user, verb, path: "", resource: Some(request) };
    state.engine().authorize(&attributes).is_allow()
}

/// Every object of the state and every name that some object refers to (AU-50).
fn everything(state: &State) -> Vec<ReachedObject> {
    let facts = state.facts();
    let named = |kind, names: &BTreeSet<(String, String)>| -> Vec<ReachedObject> {
        names.iter().map(|(namespace, name)| (kind, namespace.clone(), name.clone())).collect()
    };
    let mut all: BTreeSet<ReachedObject> = state.engine().graph().reached().objects.into_iter().collect();
    all.extend(named(VertexKind::ConfigMap, &facts.config_maps));
    all.extend(named(VertexKind::PersistentVolumeClaim, &facts.claims));
    all.extend(named(VertexKind::ResourceClaim, &facts.resource_claims));
    all.extend(named(VertexKind::Secret, &facts.secrets.keys().cloned().collect()));
    all.extend(named(VertexKind::ServiceAccount, &facts.accounts.keys().cloned().collect()));
    all.extend(facts.volumes.keys().map(|name| (VertexKind::PersistentVolume, String::new(), name.clone())));
    all.extend(
        facts.attachments.iter().map(|name| (VertexKind::VolumeAttachment, String::new(), name.clone())),
    );
    all.extend(facts.slices.iter().map(|name| (VertexKind::ResourceSlice, String::new(), name.clone())));
    all.extend(facts.pods.iter().map(|pod| (VertexKind::Pod, pod.namespace.clone(), pod.name.clone())));
    all.extend(
        facts.referred.iter().map(|(kind, (namespace, name))| (*kind, namespace.clone(), name.clone())),
    );
    all.into_iter().filter(|object| LISTS.iter().any(|(listed, ..)| *listed == object.0)).collect()
}

/// `NAMESPACE/NAME`, or the name alone.
pub(super) fn bytes(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}
