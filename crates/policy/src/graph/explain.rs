//! Explains why a node reaches an object. Explanations may walk the whole graph; decisions do not use this module.

use std::fmt;

use super::Graph;
use super::links::Links;
use super::vertex::{Key, VertexId, VertexKind};

/// One vertex of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Step {
    /// The kind; none for the node itself.
    pub kind: Option<VertexKind>,
    /// The namespace, empty for cluster-scoped kinds.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.map_or("nodes", VertexKind::resource))?;
        f.write_str("/")?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

/// A path from a node to an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(pub Vec<Step>);

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str(" <- ")?;
            }
            write!(f, "{step}")?;
        }
        Ok(())
    }
}

impl Graph {
    /// Returns a path from a node to an object, the first by name if there are several; `None` if the node does not
    /// reach the object.
    pub fn path(&self, kind: VertexKind, namespace: &str, name: &str, node: &str) -> Option<Path> {
        let node_id = self.nodes.find(self.nodes.asker(node))?;
        if !self.related(kind, namespace, name, node) {
            return None;
        }
        let mut steps = self.with_writer(|links| {
            let target = links.find(&Key { kind, namespace, name })?;
            let is_here = |id: VertexId| links.is_on(id, node_id);
            match kind {
                VertexKind::Pod
                | VertexKind::PodCertificateRequest
                | VertexKind::ResourceSlice
                | VertexKind::VolumeAttachment => Some(vec![step(links, target)?]),
                VertexKind::PersistentVolume => {
                    let (claim, _) = links.volume(target, target)?;
                    Some(vec![first_pod(links, claim, is_here)?, step(links, claim)?, step(links, target)?])
                }
                _ => {
                    if let Some(pod) = first_pod(links, target, is_here) {
                        return Some(vec![pod, step(links, target)?]);
                    }
                    let mut paths: Vec<Vec<Step>> = links
                        .of_kind(VertexKind::PersistentVolume)
                        .into_iter()
                        .filter(|volume| is_here(*volume))
                        .filter_map(|volume| {
                            let (claim, names_target) = links.volume(volume, target)?;
                            if !names_target {
                                return None;
                            }
                            let pod = first_pod(links, claim, is_here)?;
                            Some(vec![pod, step(links, claim)?, step(links, volume)?, step(links, target)?])
                        })
                        .collect();
                    paths.sort_unstable();
                    paths.into_iter().next()
                }
            }
        })?;
        steps.insert(0, Step { kind: None, namespace: String::new(), name: node.to_owned() });
        Some(Path(steps))
    }

    /// The sorted names of the nodes that reach an object; also empty if nothing refers to the object.
    pub fn reached_by(&self, kind: VertexKind, namespace: &str, name: &str) -> Vec<String> {
        let nodes = self.with_writer(|links| {
            links.find(&Key { kind, namespace, name }).map(|id| links.nodes(id)).unwrap_or_default()
        });
        let mut names: Vec<String> = nodes.into_iter().filter_map(|id| self.nodes.name(id)).collect();
        names.sort_unstable();
        names
    }
}

fn step(links: &Links<'_>, id: VertexId) -> Option<Step> {
    links.key(id).map(|(kind, namespace, name)| Step { kind: Some(kind), namespace, name })
}

/// The first pod, by name, that refers to a vertex.
fn first_pod(links: &Links<'_>, target: VertexId, is_here: impl Fn(VertexId) -> bool) -> Option<Step> {
    links
        .of_kind(VertexKind::Pod)
        .into_iter()
        .filter(|pod| is_here(*pod) && links.pod_refers_to(*pod, target))
        .filter_map(|pod| step(links, pod))
        .min()
}
