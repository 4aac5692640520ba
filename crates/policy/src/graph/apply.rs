//! The ways to change the graph from outside: objects are applied and deleted. How that is done is in `writer`.

use super::Graph;
use super::vertex::{Key, VertexError, VertexKind};
use super::writer::Change;
use crate::objects::pod::Pod;
use crate::objects::{Kind, Object};

fn vertex_of(kind: Kind) -> Option<VertexKind> {
    Some(match kind {
        Kind::PersistentVolume => VertexKind::PersistentVolume,
        Kind::Pod => VertexKind::Pod,
        Kind::PodCertificateRequest => VertexKind::PodCertificateRequest,
        Kind::ResourceSlice => VertexKind::ResourceSlice,
        Kind::VolumeAttachment => VertexKind::VolumeAttachment,
        _ => return None,
    })
}

impl Graph {
    /// Applies the current state of a new or changed object. Kinds that the graph does not use are ignored (NA-38).
    ///
    /// # Errors
    /// A name is too long, or the graph is full. The object is then not in the graph, not even in its old state, so it
    /// grants nothing.
    pub fn apply(&self, object: &Object<'_>) -> Result<(), VertexError> {
        match object {
            Object::PersistentVolume(volume) => Change::of(self).apply_volume(volume),
            Object::Pod(pod) => self.apply_pod(pod),
            Object::PodCertificateRequest(request) => {
                self.apply_direct(VertexKind::PodCertificateRequest, object, &request.spec.node_name)
            }
            Object::ResourceSlice(slice) => {
                self.apply_direct(VertexKind::ResourceSlice, object, &slice.spec.node_name)
            }
            Object::VolumeAttachment(attachment) => {
                self.apply_direct(VertexKind::VolumeAttachment, object, &attachment.spec.node_name)
            }
            _ => Ok(()),
        }
    }

    /// Takes an object out (NA-48, NA-51). Kinds that do not feed the graph, and objects that are not there, are ignored.
    pub fn delete(&self, kind: Kind, namespace: &str, name: &str) {
        let Some(vertex) = vertex_of(kind) else { return };
        let namespace = if kind.is_namespaced() { namespace } else { "" };
        Change::of(self).delete(&Key { kind: vertex, namespace, name });
    }

    /// Takes a pod in, whatever its phase (NA-44, NA-49, NA-56 to NA-62); of a mirror pod nothing but its node counts
    /// (MP-25, NC-21). An unbound pod is not in the graph (NA-43), and a pod that was bound
    /// and no longer is leaves it.
    ///
    /// # Errors
    /// As [`Graph::apply`].
    pub fn apply_pod(&self, pod: &Pod<'_>) -> Result<(), VertexError> {
        Change::of(self).apply_pod(pod)
    }

    /// Applies an object that is bound to a node itself: a volume attachment (NA-52), a resource slice (NA-53), which is
    /// reachable from no node unless it is bound to a single one, or a pod certificate request (NA-55).
    fn apply_direct(&self, kind: VertexKind, object: &Object<'_>, node: &str) -> Result<(), VertexError> {
        let (namespace, name) = object.key();
        let namespace = if object.kind().is_namespaced() { namespace } else { "" };
        Change::of(self).apply_direct(&Key { kind, namespace, name }, node)
    }
}
