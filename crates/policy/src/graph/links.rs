//! Read-only access to the writer's state, for explanations.

use std::sync::PoisonError;

use super::Graph;
use super::vertex::{Key, NodeId, VertexId, VertexKind};
use super::writer::Change;

impl Graph {
    /// Gives access to the writer's state, for explanations.
    pub(super) fn with_writer<T>(&self, read: impl FnOnce(&Links<'_>) -> T) -> T {
        let change = Change::of(self);
        read(&Links { change: &change })
    }
}

/// The writer's state, for explanations.
pub(super) struct Links<'c> {
    change: &'c Change<'c>,
}

impl Links<'_> {
    pub(super) fn find(&self, key: &Key<'_>) -> Option<VertexId> {
        self.change.find(key).map(|found| found.id)
    }

    pub(super) fn key(&self, id: VertexId) -> Option<(VertexKind, String, String)> {
        self.change.read(id, |shard, index| shard.key(index))
    }

    pub(super) fn nodes(&self, id: VertexId) -> Vec<NodeId> {
        self.change.nodes(id)
    }

    pub(super) fn is_on(&self, id: VertexId, node: NodeId) -> bool {
        self.change.read(id, |shard, index| shard.contains(index, node))
    }

    /// All vertices of a kind.
    pub(super) fn of_kind(&self, kind: VertexKind) -> Vec<VertexId> {
        let shards = self.change.graph.shards.iter().zip(0_u32..);
        shards
            .flat_map(|(shard, number)| {
                let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
                shard.of_kind(kind).map(|index| VertexId::new(number, index)).collect::<Vec<_>>()
            })
            .collect()
    }

    /// Returns whether a pod refers to a vertex.
    pub(super) fn pod_refers_to(&self, pod: VertexId, target: VertexId) -> bool {
        let links = self.change.writer.pods.peek(self.change.links(pod));
        links.is_some_and(|targets| targets.as_slice().contains(&target))
    }

    /// Returns the claim of a volume, and whether the volume's source refers to a vertex.
    pub(super) fn volume(&self, volume: VertexId, target: VertexId) -> Option<(VertexId, bool)> {
        let links = self.change.writer.volumes.peek(self.change.links(volume))?;
        Some((links.claim?, links.targets.as_slice().contains(&target)))
    }
}
