//! Paths that do not count: by pods that are bound to no node, and by mirror pods (NA-43, NA-57). The same graph finds them, over
//! these pods as if they counted.

use crate::graph::{Graph, Path, VertexError};
use crate::node::Target;
use crate::objects::meta::Metadata;
use crate::objects::pod::Pod;
use crate::objects::{Object, decode::StringMap};

/// The node of pods that are bound to none. No node has this name.
const UNBOUND: &str = "\0";

/// See the module.
#[derive(Debug, Default)]
pub struct HiddenPaths(Graph);

impl HiddenPaths {
    /// Notes an object.
    ///
    /// # Errors
    /// See [`Graph::apply`].
    pub fn take(&mut self, object: &Object<'_>) -> Result<(), VertexError> {
        match object {
            Object::PersistentVolume(_) => self.0.apply(object),
            Object::Pod(pod) if pod.is_mirror() || pod.spec.node_name.is_empty() => {
                self.0.apply_pod(&as_if_it_counted(pod))
            }
            _ => Ok(()),
        }
    }

    /// Says that all objects were noted.
    pub fn finish(&mut self) {
        self.0.mark_complete();
    }

    /// The first paths by mirror pods of a node, at most so many.
    pub(super) fn by_mirror_pods(&self, target: Target<'_>, node: &str, most: usize) -> Vec<Path> {
        self.0.every_path(target.kind, target.namespace, target.name, node, most).0
    }

    /// The first paths by pods that are bound to no node, at most so many.
    pub(super) fn by_unbound_pods(&self, target: Target<'_>, most: usize) -> Vec<Path> {
        self.by_mirror_pods(target, UNBOUND, most)
    }
}

/// The pod without its annotations, and bound.
fn as_if_it_counted<'a>(pod: &Pod<'a>) -> Pod<'a> {
    let mut pod = pod.clone();
    pod.metadata = Metadata { annotations: StringMap::default(), ..pod.metadata };
    if pod.spec.node_name.is_empty() {
        pod.spec.node_name = UNBOUND.into();
    }
    pod
}
