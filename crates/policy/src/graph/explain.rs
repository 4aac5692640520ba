//! Explains why a node reaches an object. Explanations may walk the whole graph; decisions do not use this module.

use std::fmt;

use super::Graph;
use super::vertex::{Key, VertexId, VertexKind};
use super::writer::Change;

/// One vertex of a path.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
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

impl Graph {
    /// Returns a path from a node to an object as text, the first by name if there are several; `None` if the node does
    /// not reach the object.
    pub fn path(&self, kind: VertexKind, namespace: &str, name: &str, node: &str) -> Option<String> {
        let node_id = self.nodes.find(self.nodes.asker(node))?;
        if !self.related(kind, namespace, name, node) {
            return None;
        }
        let links = Change::of(self);
        let target = links.find(&Key { kind, namespace, name })?.id;
        let is_here = |id: VertexId| links.is_on(id, node_id);
        let steps = match kind {
            VertexKind::Pod
            | VertexKind::PodCertificateRequest
            | VertexKind::ResourceSlice
            | VertexKind::VolumeAttachment => vec![step(&links, target)?],
            VertexKind::PersistentVolume => {
                let (claim, _) = links.volume(target, target)?;
                vec![first_pod(&links, claim, is_here)?, step(&links, claim)?, step(&links, target)?]
            }
            _ => match first_pod(&links, target, is_here) {
                Some(pod) => vec![pod, step(&links, target)?],
                None => {
                    let through = |volume: VertexId| {
                        let (claim, _) = links.volume(volume, target).filter(|(_, names_it)| *names_it)?;
                        let pod = first_pod(&links, claim, is_here)?;
                        Some(vec![pod, step(&links, claim)?, step(&links, volume)?, step(&links, target)?])
                    };
                    let volumes = links.of_kind(VertexKind::PersistentVolume).into_iter();
                    volumes.filter(|volume| is_here(*volume)).filter_map(through).min()?
                }
            },
        };
        Some(format!("nodes/{node}{}", steps.iter().map(Step::to_string).collect::<String>()))
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

fn step(links: &Change<'_>, id: VertexId) -> Option<Step> {
    links.key(id).map(|(kind, namespace, name)| Step { kind, namespace, name })
}

/// The first pod, by name, that refers to a vertex.
fn first_pod(links: &Change<'_>, target: VertexId, is_here: impl Fn(VertexId) -> bool) -> Option<Step> {
    links
        .of_kind(VertexKind::Pod)
        .into_iter()
        .filter(|pod| is_here(*pod) && links.pod_refers_to(*pod, target))
        .filter_map(|pod| step(links, pod))
        .min()
}
