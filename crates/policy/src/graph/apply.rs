//! The ways to change the graph from outside: taking objects in and out, and ending a listing. How it is done is in
//! `writer`.

use std::collections::HashSet;

use super::shard::Key;
use super::writer::{Change, cluster_key};
use super::{Graph, VertexError, VertexKind};
use crate::objects::certificates::PodCertificateRequest;
use crate::objects::core::PersistentVolume;
use crate::objects::pod::Pod;
use crate::objects::resource::ResourceSlice;
use crate::objects::storage::VolumeAttachment;
use crate::objects::{Kind, Object};

/// A listing of all objects of one kind that is under way. Objects that are not applied before it is finished are
/// taken out then: never before, so the graph is never half empty.
#[derive(Debug)]
pub struct Relist {
    vertex: Option<VertexKind>,
    kind: Kind,
    seen: HashSet<(String, String)>,
}

impl Relist {
    /// Begins a listing of one kind.
    pub fn of(kind: Kind) -> Self {
        Self { vertex: vertex_of(kind), kind, seen: HashSet::new() }
    }

    /// Notes that the listing has an object, whether or not it could be applied.
    pub fn saw(&mut self, namespace: &str, name: &str) {
        let namespace = if self.kind.is_namespaced() { namespace } else { "" };
        self.seen.insert((namespace.to_owned(), name.to_owned()));
    }
}

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
    /// Takes the present form of an object in, whether it is new or changed. Kinds that do not feed the graph are
    /// ignored (NA-38).
    ///
    /// # Errors
    /// A name that is too long, or a graph that is full. Then the object is not in the graph, also not in its old
    /// form: what cannot be read grants nothing.
    pub fn apply(&self, object: &Object<'_>) -> Result<(), VertexError> {
        match object {
            Object::PersistentVolume(volume) => self.apply_volume(volume),
            Object::Pod(pod) => self.apply_pod(pod),
            Object::PodCertificateRequest(request) => self.apply_pod_certificate_request(request),
            Object::ResourceSlice(slice) => self.apply_resource_slice(slice),
            Object::VolumeAttachment(attachment) => self.apply_volume_attachment(attachment),
            _ => Ok(()),
        }
    }

    /// Takes an object out. Kinds that do not feed the graph, and objects that are not there, are ignored.
    pub fn delete(&self, kind: Kind, namespace: &str, name: &str) {
        let Some(vertex) = vertex_of(kind) else { return };
        let namespace = if kind.is_namespaced() { namespace } else { "" };
        Change::of(self).delete(&Key { kind: vertex, namespace, name });
    }

    /// Takes a pod in (NA-44, NA-56 to NA-62). An unbound pod is not in the graph (NA-43), and a pod that was bound
    /// and no longer is leaves it.
    ///
    /// # Errors
    /// As [`Graph::apply`].
    pub fn apply_pod(&self, pod: &Pod<'_>) -> Result<(), VertexError> {
        Change::of(self).apply_pod(pod)
    }

    /// Takes a volume in (NA-50, NA-63). A volume without a claim connects nothing.
    ///
    /// # Errors
    /// As [`Graph::apply`].
    pub fn apply_volume(&self, volume: &PersistentVolume<'_>) -> Result<(), VertexError> {
        Change::of(self).apply_volume(volume)
    }

    /// Takes a volume attachment in (NA-52).
    ///
    /// # Errors
    /// As [`Graph::apply`].
    pub fn apply_volume_attachment(&self, attachment: &VolumeAttachment<'_>) -> Result<(), VertexError> {
        let key = cluster_key(VertexKind::VolumeAttachment, &attachment.metadata.name);
        Change::of(self).apply_direct(&key, &attachment.spec.node_name)
    }

    /// Takes a resource slice in (NA-53). A slice that is not tied to one node is in reach of none.
    ///
    /// # Errors
    /// As [`Graph::apply`].
    pub fn apply_resource_slice(&self, slice: &ResourceSlice<'_>) -> Result<(), VertexError> {
        let key = cluster_key(VertexKind::ResourceSlice, &slice.metadata.name);
        Change::of(self).apply_direct(&key, &slice.spec.node_name)
    }

    /// Takes a pod certificate request in (NA-55).
    ///
    /// # Errors
    /// As [`Graph::apply`].
    pub fn apply_pod_certificate_request(
        &self,
        request: &PodCertificateRequest<'_>,
    ) -> Result<(), VertexError> {
        let key = Key {
            kind: VertexKind::PodCertificateRequest,
            namespace: &request.metadata.namespace,
            name: &request.metadata.name,
        };
        Change::of(self).apply_direct(&key, &request.spec.node_name)
    }

    /// Ends a listing: takes out every object of its kind that it did not have, and notes that the kind has been
    /// listed.
    pub fn finish_relist(&self, relist: &Relist) {
        if let Some(kind) = relist.vertex {
            let mut change = Change::of(self);
            for (namespace, name) in change.keys_of(kind) {
                if !relist.seen.contains(&(namespace.clone(), name.clone())) {
                    change.delete(&Key { kind, namespace: &namespace, name: &name });
                }
            }
        }
        self.mark_listed(relist.kind);
    }
}
