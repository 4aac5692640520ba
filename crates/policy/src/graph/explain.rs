//! Explains why a node reaches an object. Explanations may walk the whole graph; decisions do not use this module.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::atomic::Ordering;

use hashbrown::HashMap;

use super::Graph;
use super::vertex::{Key, NodeId, VertexId, VertexKind};
use super::writer::Change;

/// One vertex of a path.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Step {
    kind: VertexKind,
    /// Empty for cluster-scoped kinds.
    namespace: String,
    name: String,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, namespace, name } = self;
        let slash = if namespace.is_empty() { "" } else { "/" };
        write!(f, " <- {}/{namespace}{slash}{name}", kind.resource())
    }
}

/// A path from a node to an object, without the node.
type Path = Vec<Step>;

impl Graph {
    /// The sorted names of the nodes to which objects are bound (NA-42).
    pub fn nodes(&self) -> Vec<String> {
        let mut names = self.nodes.names();
        names.sort_unstable();
        names
    }

    /// Returns a path from a node to an object as text, the first by name if there are several; `None` if the node does
    /// not reach the object.
    pub fn path(&self, kind: VertexKind, namespace: &str, name: &str, node: &str) -> Option<String> {
        let id = self.nodes.find(self.nodes.asker(node))?;
        if !self.related(kind, namespace, name, node) {
            return None;
        }
        let path = paths(&Change::of(self), &Key { kind, namespace, name }, Some(id)).remove(&id)?;
        Some(text(node, &path))
    }

    /// The path of every node that reaches an object, by the name of the node: see [`Graph::path`]. Walks all pods once.
    pub fn paths(&self, kind: VertexKind, namespace: &str, name: &str) -> BTreeMap<String, String> {
        if !self.is_complete.load(Ordering::Acquire) {
            return BTreeMap::new();
        }
        let found = paths(&Change::of(self), &Key { kind, namespace, name }, None);
        let named = |(id, path): (NodeId, Path)| {
            let node = self.nodes.name(id)?;
            let path = text(&node, &path);
            Some((node, path))
        };
        found.into_iter().filter_map(named).collect()
    }

    /// The sorted names of the nodes that reach an object; also empty if nothing refers to the object.
    pub fn reached_by(&self, kind: VertexKind, namespace: &str, name: &str) -> Vec<String> {
        let links = Change::of(self);
        let found = links.find(&Key { kind, namespace, name });
        let nodes = found.map(|found| links.nodes(found.id)).unwrap_or_default();
        let mut names: Vec<String> = nodes.into_iter().filter_map(|id| self.nodes.name(id)).collect();
        names.sort_unstable();
        names
    }
}

/// The first path by name to a vertex, from each node or from this one alone.
fn paths(links: &Change<'_>, target: &Key<'_>, only: Option<NodeId>) -> BTreeMap<NodeId, Path> {
    let Some(target) = links.find(target).map(|found| found.id) else { return BTreeMap::new() };
    let Some(last) = step(links, target) else { return BTreeMap::new() };
    let is_asked_for = |node: &NodeId| only.is_none_or(|only| only == *node);
    match last.kind {
        VertexKind::Pod
        | VertexKind::PodCertificateRequest
        | VertexKind::ResourceSlice
        | VertexKind::VolumeAttachment => {
            let nodes = links.nodes(target).into_iter().filter(is_asked_for);
            nodes.map(|node| (node, vec![last.clone()])).collect()
        }
        kind => {
            let ways = Ways::of(links, target, kind == VertexKind::PersistentVolume);
            let (mut direct, mut through) = (BTreeMap::new(), BTreeMap::new());
            for pod in links.of_kind(VertexKind::Pod) {
                for node in links.nodes(pod).into_iter().filter(is_asked_for) {
                    for referred in links.pod_targets_of(pod) {
                        if ways.is_direct && *referred == target {
                            shorten(&mut direct, node, vec![step(links, pod), Some(last.clone())]);
                        }
                        for volume in ways.volumes.get(referred).into_iter().flatten() {
                            let steps = [pod, *referred, *volume].map(|id| step(links, id));
                            // A path to the volume itself ends with it.
                            let end = ways.is_direct.then(|| Some(last.clone()));
                            shorten(&mut through, node, steps.into_iter().chain(end).collect());
                        }
                    }
                }
            }
            // The paths without a volume come first.
            through.extend(direct);
            through
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

/// Notes a path of a node, if it comes before the one that is known.
fn shorten(known: &mut BTreeMap<NodeId, Path>, node: NodeId, steps: Vec<Option<Step>>) {
    let Some(path) = steps.into_iter().collect::<Option<Path>>() else { return };
    match known.entry(node) {
        Entry::Vacant(entry) => drop(entry.insert(path)),
        Entry::Occupied(mut entry) => {
            if path < *entry.get() {
                entry.insert(path);
            }
        }
    }
}

fn step(links: &Change<'_>, id: VertexId) -> Option<Step> {
    links.key(id).map(|(kind, namespace, name)| Step { kind, namespace, name })
}

fn text(node: &str, path: &[Step]) -> String {
    format!("nodes/{node}{}", path.iter().map(Step::to_string).collect::<String>())
}
