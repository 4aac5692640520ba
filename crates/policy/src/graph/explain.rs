//! Explains why a node reaches an object. Explanations may walk the whole graph; decisions do not use this module.

use std::cmp::Ordering;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt;
use std::sync::atomic;

use hashbrown::HashMap;

use super::Graph;
use super::vertex::{Key, NodeId, VertexId, VertexKind};
use super::writer::Change;

/// One vertex of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Step {
    /// The kind.
    pub kind: VertexKind,
    /// The namespace; empty for cluster-scoped kinds.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, namespace, name } = self;
        let slash = if namespace.is_empty() { "" } else { "/" };
        write!(f, "{}/{namespace}{slash}{name}", kind.resource())
    }
}

/// A path from an object to a node, without the node. Shorter ones come first, and of equal length those that begin with the least
/// object (AU-65).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path(Vec<Step>);

impl Path {
    /// The path as text, from this node to the object.
    pub fn from(&self, node: &str) -> String {
        format!("nodes/{node} <- {self}")
    }
}

impl fmt::Display for Path {
    /// From the object that is bound to the node to the object that is asked for.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.0.iter().rev().enumerate() {
            write!(f, "{}{step}", if at > 0 { " <- " } else { "" })?;
        }
        Ok(())
    }
}

impl PartialOrd for Path {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Path {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.0.len(), &self.0).cmp(&(other.0.len(), &other.0))
    }
}

impl Graph {
    /// The sorted names of the nodes to which objects are bound (NA-42).
    pub fn nodes(&self) -> Vec<String> {
        let links = Change::of(self);
        let mut names: Vec<String> = links.graph.nodes.all().collect();
        names.sort_unstable();
        names
    }

    /// Returns the first path (AU-65) from a node to an object as text; `None` if the node does not reach the object.
    pub fn path(&self, kind: VertexKind, namespace: &str, name: &str, node: &str) -> Option<String> {
        let (paths, _) = self.every_path(kind, namespace, name, node, 1);
        paths.first().map(|path| path.from(node))
    }

    /// The first paths (AU-65) from a node to an object, at most so many, and how many there are. Walks all pods once.
    pub fn every_path(
        &self,
        kind: VertexKind,
        namespace: &str,
        name: &str,
        node: &str,
        most: usize,
    ) -> (Vec<Path>, usize) {
        let id = self.node(node);
        let Some(id) = id.filter(|_| self.related(kind, namespace, name, node)) else {
            return (Vec::new(), 0);
        };
        let (mut first, mut count) = (BinaryHeap::new(), 0);
        each_path(&mut Change::of(self), &Key { kind, namespace, name }, Some(id), |_, path| {
            count += 1;
            first.push(path);
            if first.len() > most {
                first.pop();
            }
        });
        (first.into_sorted_vec(), count)
    }

    /// The first path of every node that reaches an object, by the name of the node: see [`Graph::path`]. Walks all pods once.
    pub fn paths(&self, kind: VertexKind, namespace: &str, name: &str) -> BTreeMap<String, String> {
        if !self.is_complete.load(atomic::Ordering::Acquire) {
            return BTreeMap::new();
        }
        let mut found: BTreeMap<NodeId, Path> = BTreeMap::new();
        let mut links = Change::of(self);
        each_path(&mut links, &Key { kind, namespace, name }, None, |node, path| match found.entry(node) {
            Entry::Vacant(entry) => drop(entry.insert(path)),
            Entry::Occupied(mut entry) if path < *entry.get() => drop(entry.insert(path)),
            Entry::Occupied(_) => {}
        });
        let named = |(id, path): (NodeId, Path)| {
            let node = links.node_name(id)?;
            let path = path.from(&node);
            Some((node, path))
        };
        found.into_iter().filter_map(named).collect()
    }

    /// The sorted names of the nodes that reach an object; also empty if nothing refers to the object.
    pub fn reached_by(&self, kind: VertexKind, namespace: &str, name: &str) -> Vec<String> {
        let mut links = Change::of(self);
        let found = links.find(&Key { kind, namespace, name });
        let nodes = found.map(|id| links.nodes(id)).unwrap_or_default();
        let mut names: Vec<String> = nodes.into_iter().filter_map(|id| links.node_name(id)).collect();
        names.sort_unstable();
        names
    }

    /// The sorted namespaces and names of the objects of a kind that a node reaches.
    pub fn reached_of_kind(&self, kind: VertexKind, node: &str) -> Vec<(String, String)> {
        let Some(node) = self.node(node) else { return Vec::new() };
        let links = Change::of(self);
        let reached = links.of_kind(kind).into_iter().filter(|id| links.nodes(*id).contains(&node));
        let keys = reached.filter_map(|id| links.key(id));
        let mut objects: Vec<_> = keys.map(|(_, namespace, name)| (namespace, name)).collect();
        objects.sort_unstable();
        objects
    }
}

/// Passes each path to a vertex to `take`, from each node or from this one alone.
fn each_path(
    links: &mut Change<'_>,
    target: &Key<'_>,
    only: Option<NodeId>,
    mut take: impl FnMut(NodeId, Path),
) {
    let Some(target) = links.find(target) else { return };
    let links = &*links;
    let Some(kind) = step(links, target).map(|last| last.kind) else { return };
    let is_asked_for = |node: &NodeId| only.is_none_or(|only| only == *node);
    let mut take = |node, vertices: &[VertexId]| {
        let steps: Option<Vec<Step>> = vertices.iter().map(|id| step(links, *id)).collect();
        steps.into_iter().for_each(|steps| take(node, Path(steps)));
    };
    if matches!(
        kind,
        VertexKind::Pod
            | VertexKind::PodCertificateRequest
            | VertexKind::ResourceSlice
            | VertexKind::VolumeAttachment
    ) {
        let nodes = links.nodes(target).into_iter().filter(is_asked_for);
        nodes.for_each(|node| take(node, &[target]));
        return;
    }
    let ways = Ways::of(links, target, kind == VertexKind::PersistentVolume);
    for pod in links.of_kind(VertexKind::Pod) {
        for node in links.nodes(pod).into_iter().filter(is_asked_for) {
            for referred in links.linked(pod) {
                if ways.is_direct && referred == target {
                    take(node, &[target, pod]);
                }
                for volume in ways.volumes.get(&referred).into_iter().flatten() {
                    // A path to the volume itself begins with it.
                    let path = [target, *volume, referred, pod];
                    take(node, if ways.is_direct { &path } else { path.get(1..).unwrap_or_default() });
                }
            }
        }
    }
}

/// How pods lead to a vertex.
struct Ways {
    /// By their own references to it.
    is_direct: bool,
    /// By their claims: the volumes of each claim that lead there.
    volumes: HashMap<VertexId, Vec<VertexId>>,
}

impl Ways {
    fn of(links: &Change<'_>, target: VertexId, is_volume: bool) -> Self {
        let mut volumes: HashMap<VertexId, Vec<VertexId>> = HashMap::new();
        let all = if is_volume { vec![target] } else { links.of_kind(VertexKind::PersistentVolume) };
        for volume in all {
            if let Some((claim, names_it)) = links.volume(volume, target)
                && (names_it || is_volume)
            {
                volumes.entry(claim).or_default().push(volume);
            }
        }
        Self { is_direct: !is_volume, volumes }
    }
}

fn step(links: &Change<'_>, id: VertexId) -> Option<Step> {
    links.key(id).map(|(kind, namespace, name)| Step { kind, namespace, name })
}
