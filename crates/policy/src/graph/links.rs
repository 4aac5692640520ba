//! Read-only access to the writer's state, for explanations and for the references of pods.

use std::sync::PoisonError;

use super::vertex::{VertexId, VertexKind};
use super::writer::Change;

impl Change<'_> {
    /// Kind, namespace and name of a vertex.
    pub(super) fn key(&self, id: VertexId) -> Option<(VertexKind, String, String)> {
        self.read(id, |shard, index| shard.key(index))
    }

    /// All vertices of a kind.
    pub(super) fn of_kind(&self, kind: VertexKind) -> Vec<VertexId> {
        let shards = self.graph.shards.iter().zip(0_u32..);
        shards
            .flat_map(|(shard, number)| {
                let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
                shard.of_kind(kind).map(|index| VertexId::new(number, index)).collect::<Vec<_>>()
            })
            .collect()
    }

    /// The vertices to which a pod refers.
    pub(super) fn pod_targets_of(&self, pod: VertexId) -> &[VertexId] {
        self.writer.pods.peek(self.links(pod)).map(|targets| targets.as_slice()).unwrap_or_default()
    }

    /// The vertices to which the source of a volume refers.
    pub(super) fn volume_targets_of(&self, volume: VertexId) -> &[VertexId] {
        let links = self.writer.volumes.peek(self.links(volume));
        links.map(|links| links.targets.as_slice()).unwrap_or_default()
    }

    /// Returns the claim of a volume, and whether the volume's source refers to a vertex.
    pub(super) fn volume(&self, volume: VertexId, target: VertexId) -> Option<(VertexId, bool)> {
        let links = self.writer.volumes.peek(self.links(volume))?;
        Some((links.claim?, links.targets.as_slice().contains(&target)))
    }
}
