//! Read-only access to the writer's state, for explanations and for the references of pods.

use super::slab::Ids;
use super::vertex::{VertexId, VertexKind};
use super::writer::Change;

impl Change<'_> {
    /// Kind, namespace and name of a vertex.
    pub(super) fn key(&self, id: VertexId) -> Option<(VertexKind, String, String)> {
        let (kind, namespace, name) = self.shard(id).key(id.index())?;
        Some((kind, self.namespace_name(namespace)?, name))
    }

    /// All vertices of a kind.
    pub(super) fn of_kind(&self, kind: VertexKind) -> Vec<VertexId> {
        let shards = self.graph.shards.iter().zip(0_u32..);
        let ids = shards
            .flat_map(|(shard, number)| shard.of_kind(kind).map(move |index| VertexId::new(number, index)));
        ids.collect()
    }

    /// The vertices to which the source of a volume refers.
    pub(super) fn volume_targets_of(&self, volume: VertexId) -> Ids {
        let mut links = self.linked(volume);
        links.drain(..links.len().min(1));
        links
    }

    /// Returns the claim of a volume, and whether the volume's source refers to a vertex.
    pub(super) fn volume(&self, volume: VertexId, target: VertexId) -> Option<(VertexId, bool)> {
        let links = self.linked(volume);
        let (claim, targets) = links.split_first()?;
        Some((*claim, targets.contains(&target)))
    }
}
