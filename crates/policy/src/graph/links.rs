//! Read-only access to the writer's state, for explanations.

use std::sync::PoisonError;

use super::vertex::{NodeId, VertexId, VertexKind};
use super::writer::Change;

impl Change<'_> {
    /// Kind, namespace and name of a vertex.
    pub(super) fn key(&self, id: VertexId) -> Option<(VertexKind, String, String)> {
        self.read(id, |shard, index| shard.key(index))
    }

    /// Returns whether a node reaches a vertex.
    pub(super) fn is_on(&self, id: VertexId, node: NodeId) -> bool {
        self.read(id, |shard, index| shard.contains(index, node))
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

    /// Returns whether a pod refers to a vertex.
    pub(super) fn pod_refers_to(&self, pod: VertexId, target: VertexId) -> bool {
        let links = self.writer.pods.peek(self.links(pod));
        links.is_some_and(|targets| targets.as_slice().contains(&target))
    }

    /// Returns the claim of a volume, and whether the volume's source refers to a vertex.
    pub(super) fn volume(&self, volume: VertexId, target: VertexId) -> Option<(VertexId, bool)> {
        let links = self.writer.volumes.peek(self.links(volume))?;
        Some((links.claim?, links.targets.as_slice().contains(&target)))
    }
}
