//! Changes the graph. There is one writer at a time; readers are not blocked meanwhile.
//!
//! The writer remembers the references of every applied object, so that a change is applied as a difference: new
//! references are added before old ones are removed (NA-41).

use std::hint::black_box;
use std::sync::{MutexGuard, PoisonError};

use smallvec::SmallVec;

use super::Graph;
use super::shard::Shard;
use super::slab::{Ids, VolumeLinks, Writer};
use super::vertex::{Key, NO_LINKS, NodeId, VertexError, VertexId, VertexKind};
use crate::objects::core::PersistentVolume;
use crate::objects::pod::Pod;

/// How many vertices are prefetched together.
const WARM: usize = 8;

/// A flag in the links of a claim: the rest is not a volume but an index in `Writer::claims`.
const SEVERAL: u32 = 1 << 31;

/// The result of a vertex lookup.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) id: VertexId,
    /// The links of the vertex; see [`Writer`].
    links: u32,
    /// The node that reaches it, if there is exactly one.
    node: Option<NodeId>,
}

impl Found {
    fn at(shard: &Shard, number: u32, index: u32) -> Self {
        let (links, node) = (shard.links(index), shard.only_node(index));
        Self { id: VertexId::new(number, index), links, node }
    }
}

/// The graph with its writer locked. All changes go through this type.
pub(super) struct Change<'g> {
    pub(super) graph: &'g Graph,
    pub(super) writer: MutexGuard<'g, Writer>,
}

impl<'g> Change<'g> {
    /// Waits for the previous change to finish.
    pub(super) fn of(graph: &'g Graph) -> Self {
        Self { graph, writer: graph.writer.lock().unwrap_or_else(PoisonError::into_inner) }
    }

    /// See [`Graph::apply_pod`].
    pub(super) fn apply_pod(&mut self, pod: &Pod<'_>) -> Result<(), VertexError> {
        let namespace: &str = &pod.metadata.namespace;
        let key = Key { kind: VertexKind::Pod, namespace, name: &pod.metadata.name };
        if pod.spec.node_name.is_empty() {
            self.delete(&key);
            return Ok(());
        }
        let node = match self.graph.nodes.hold(&pod.spec.node_name) {
            Ok(node) => node,
            Err(error) => {
                self.delete(&key);
                return Err(error);
            }
        };
        let mut targets = std::mem::take(&mut self.writer.scratch);
        targets.clear();
        let done = self.pod_targets(pod, node, &mut targets).and_then(|()| {
            // NA-40
            targets.sort_unstable();
            targets.dedup();
            self.connect_pod(&key, node, &targets)
        });
        // After a failure there may be vertices without holders.
        if done.is_err() {
            self.graph.nodes.release(node);
            self.delete(&key);
            targets.iter().for_each(|id| self.drop_if_unheld(*id));
        }
        self.writer.scratch = targets;
        done
    }

    /// Collects the vertices that a pod refers to, creating them if needed; duplicates included.
    fn pod_targets(
        &mut self,
        pod: &Pod<'_>,
        node: NodeId,
        targets: &mut Vec<VertexId>,
    ) -> Result<(), VertexError> {
        if pod.is_mirror() {
            return Ok(()); // NA-57
        }
        let namespace: &str = &pod.metadata.namespace;
        let mut result = Ok(());
        let mut refer = |kind, name: &str| {
            if result.is_ok() && !name.is_empty() {
                match self.find_or_make(&Key { kind, namespace, name }, Some(node)) {
                    Ok(found) => targets.push(found.id),
                    Err(error) => result = Err(error),
                }
            }
        };
        refer(VertexKind::ServiceAccount, pod.service_account()); // NA-58
        pod.each_secret(|name| refer(VertexKind::Secret, name));
        pod.each_config_map(|name| refer(VertexKind::ConfigMap, name));
        pod.each_claim(|name| refer(VertexKind::PersistentVolumeClaim, name));
        pod.each_resource_claim(|name| refer(VertexKind::ResourceClaim, name));
        pod.each_endpoints(|name| refer(VertexKind::Endpoints, name));
        result
    }

    /// Connects a pod to its node, which the caller already holds for it, and to its references. After a failure the
    /// node is still held.
    fn connect_pod(
        &mut self,
        key: &Key<'_>,
        node_id: NodeId,
        targets: &[VertexId],
    ) -> Result<(), VertexError> {
        let Found { id: pod, links: place, node: old_node } = self.find_or_make(key, Some(node_id))?;
        if place != NO_LINKS {
            let same = self.writer.pods.peek(place).is_some_and(|old| **old == *targets);
            if same && old_node == Some(node_id) {
                self.graph.nodes.release(node_id);
                return Ok(());
            }
        }
        self.tell(old_node.into_iter().filter(|old| *old != node_id).chain([node_id]));
        // The new references first, then the old ones (NA-41).
        for target in targets {
            self.attach(*target, node_id);
        }
        let new = Ids::from_slice(targets);
        if place == NO_LINKS {
            let place = self.writer.pods.keep(new);
            let hasher = &self.graph.hasher;
            self.write(pod, |shard, index| {
                shard.add(index, node_id, hasher);
                shard.set_links(index, place);
                shard.hold(index);
            });
            return Ok(());
        }
        if old_node != Some(node_id) {
            self.add_direct(pod, node_id);
        }
        let old =
            self.writer.pods.peek_mut(place).map(|slot| std::mem::replace(slot, new)).unwrap_or_default();
        if let Some(old_node) = old_node {
            self.disconnect_pod(&old, old_node);
            if old_node != node_id {
                self.take_direct(pod, old_node);
            }
            // The new node is already held; if it is the old one, this releases the second hold.
            self.graph.nodes.release(old_node);
        }
        Ok(())
    }

    fn disconnect_pod(&mut self, targets: &Ids, node: NodeId) {
        self.warm(targets);
        for target in targets {
            self.detach(*target, node);
        }
    }

    /// Connects a vertex to the only node that reaches it, or removes the vertex if there is no node.
    pub(super) fn apply_direct(&mut self, key: &Key<'_>, node: &str) -> Result<(), VertexError> {
        if node.is_empty() {
            self.delete(key);
            return Ok(());
        }
        let found = self.graph.nodes.hold(node).and_then(|node_id| {
            let found = self.find_or_make(key, Some(node_id));
            if found.is_err() {
                self.graph.nodes.release(node_id);
            }
            Ok((found?, node_id))
        });
        let (Found { id, node: old, .. }, node_id) = match found {
            Ok(found) => found,
            Err(error) => {
                self.delete(key);
                return Err(error);
            }
        };
        match old {
            None => {
                self.tell([node_id]);
                self.add_direct(id, node_id);
                self.hold(id);
            }
            Some(old) if old == node_id => self.graph.nodes.release(old),
            Some(old) => {
                self.tell([node_id, old]);
                self.add_direct(id, node_id);
                self.take_direct(id, old);
                self.graph.nodes.release(old);
            }
        }
        Ok(())
    }

    /// Applies a volume (NA-50, NA-63). A volume without a claim has no edges.
    pub(super) fn apply_volume(&mut self, volume: &PersistentVolume<'_>) -> Result<(), VertexError> {
        let name: &str = &volume.metadata.name;
        let key = Key { kind: VertexKind::PersistentVolume, namespace: "", name };
        let Some(claim) = &volume.spec.claim_ref else {
            self.delete(&key);
            return Ok(());
        };
        let claim =
            Key { kind: VertexKind::PersistentVolumeClaim, namespace: &claim.namespace, name: &claim.name };
        let mut targets = Vec::new();
        let mut failure = None;
        let mut refer = |kind, namespace: &str, name: &str| {
            match self.find_or_make(&Key { kind, namespace, name }, None) {
                Ok(found) => targets.push(found.id),
                Err(error) => failure = Some(error),
            };
        };
        volume.each_secret(|namespace, name| refer(VertexKind::Secret, namespace, name));
        volume.each_endpoints(|namespace, name| refer(VertexKind::Endpoints, namespace, name));
        targets.sort_unstable();
        targets.dedup();
        let done = match failure {
            Some(error) => Err(error),
            None => self.connect_volume(&key, &claim, &targets),
        };
        if done.is_err() {
            self.delete(&key);
            targets.iter().for_each(|id| self.drop_if_unheld(*id));
        }
        done
    }

    fn connect_volume(
        &mut self,
        key: &Key<'_>,
        claim: &Key<'_>,
        targets: &[VertexId],
    ) -> Result<(), VertexError> {
        let Found { id: volume, links: place, .. } = self.find_or_make(key, None)?;
        let claim = match self.find_or_make(claim, None) {
            Ok(claim) => claim.id,
            Err(error) => {
                self.drop_if_unheld(volume);
                return Err(error);
            }
        };
        let old = self.writer.volumes.peek(place).filter(|_| place != NO_LINKS);
        if old.is_some_and(|old| old.claim == Some(claim) && *old.targets == *targets) {
            return Ok(());
        }
        self.hold(claim);
        for target in targets {
            self.hold(*target);
        }
        let nodes = self.nodes(claim);
        self.tell(nodes.iter().copied());
        for node in nodes {
            self.add_direct(volume, node);
            for target in targets {
                self.add_direct(*target, node);
            }
        }
        self.link_claim(claim, volume);
        let new = VolumeLinks { claim: Some(claim), targets: Ids::from_slice(targets) };
        if place == NO_LINKS {
            let place = self.writer.volumes.keep(new);
            self.set_links(volume, place);
            self.hold(volume);
            return Ok(());
        }
        let old = self.writer.volumes.peek_mut(place).map(|slot| std::mem::replace(slot, new));
        if let Some(old) = old {
            self.disconnect_volume(volume, &old);
        }
        Ok(())
    }

    fn disconnect_volume(&mut self, volume: VertexId, links: &VolumeLinks) {
        let Some(claim) = links.claim else { return };
        self.unlink_claim(claim, volume);
        let nodes = self.nodes(claim);
        self.tell(nodes.iter().copied());
        for node in nodes {
            self.take_direct(volume, node);
            for target in links.targets.as_slice() {
                self.take_direct(*target, node);
            }
        }
        for target in links.targets.as_slice() {
            self.release(*target);
        }
        self.release(claim);
    }

    /// Removes a vertex with all its edges.
    pub(super) fn delete(&mut self, key: &Key<'_>) {
        let Some(Found { id, links: place, node }) = self.find(key) else { return };
        match key.kind {
            VertexKind::Pod if place != NO_LINKS => {
                self.tell(node);
                let targets = self.writer.pods.release(place);
                if let Some(node) = node {
                    self.disconnect_pod(&targets, node);
                    self.graph.nodes.release(node);
                }
                // With its links and its node.
                let graph = self.graph;
                self.write(id, |shard, index| shard.remove(index, &graph.hasher));
            }
            VertexKind::PersistentVolume if place != NO_LINKS => {
                let links = self.writer.volumes.release(place);
                self.set_links(id, NO_LINKS);
                self.disconnect_volume(id, &links);
                self.release(id);
            }
            VertexKind::VolumeAttachment | VertexKind::ResourceSlice | VertexKind::PodCertificateRequest => {
                if let Some(node) = node {
                    self.tell([node]);
                    self.take_direct(id, node);
                    self.graph.nodes.release(node);
                    self.release(id);
                }
            }
            _ => self.drop_if_unheld(id),
        }
    }

    /// Prefetches the memory that removing these vertices will touch. In a large graph every vertex is a cache miss.
    /// Read one after the other, each under its own lock, the misses add up; read together, they overlap.
    fn warm(&self, ids: &[VertexId]) {
        let graph = self.graph;
        let shards: SmallVec<[_; WARM]> = ids
            .iter()
            .take(WARM)
            .map(|id| (graph.shard_at(id.shard()).read().unwrap_or_else(PoisonError::into_inner), id.index()))
            .collect();
        let marks: SmallVec<[_; WARM]> =
            shards.iter().map(|(shard, index)| shard.key_hash(*index, &graph.hasher)).collect();
        let slots = shards.iter().zip(&marks).map(|((shard, _), hash)| shard.ahead(*hash));
        black_box(slots.fold(0, |all, slot| all ^ slot));
    }

    /// Adds one reference from a pod on a node; a claim passes it on to its volumes.
    fn attach(&mut self, id: VertexId, node: NodeId) {
        let hasher = &self.graph.hasher;
        let (first, links) = self.write(id, |shard, index| {
            shard.hold(index);
            (shard.add(index, node, hasher), shard.links(index))
        });
        if first {
            self.each_volume(links, |change, volume, targets| {
                change.add_direct(volume, node);
                for target in targets {
                    change.add_direct(*target, node);
                }
            });
        }
    }

    /// Removes one reference; a claim passes this on to its volumes.
    fn detach(&mut self, id: VertexId, node: NodeId) {
        let graph = self.graph;
        let (last, links) = self.write(id, |shard, index| {
            let (last, links) = (shard.take(index, node, &graph.hasher), shard.links(index));
            shard.unhold(index);
            // The volumes of a claim hold it.
            shard.remove_if_unheld(index, &graph.hasher);
            (last, links)
        });
        if last {
            self.each_volume(links, |change, volume, targets| {
                change.take_direct(volume, node);
                for target in targets {
                    change.take_direct(*target, node);
                }
            });
        }
    }

    /// Visits the volumes of a claim with their edges.
    ///
    /// INVARIANT: of the vertices that pods refer to only claims have links, so others have no volumes.
    fn each_volume(&mut self, claim_links: u32, mut visit: impl FnMut(&mut Self, VertexId, &[VertexId])) {
        for volume in self.volumes_of(claim_links).as_slice() {
            let place = self.links(*volume);
            // The links are taken out during the visit and put back. The visit changes other vertices, never these
            // links.
            let Some(links) = self.writer.volumes.peek_mut(place).map(std::mem::take) else { continue };
            visit(self, *volume, links.targets.as_slice());
            if let Some(slot) = self.writer.volumes.peek_mut(place) {
                *slot = links;
            }
        }
    }

    /// The volumes of a claim. The links of other vertices that pods refer to are none.
    pub(super) fn volumes_of(&self, links: u32) -> Ids {
        if links == NO_LINKS {
            return Ids::default();
        }
        if links & SEVERAL == 0 {
            return Ids::from_slice(&[VertexId(links)]);
        }
        self.writer.claims.peek(links & !SEVERAL).cloned().unwrap_or_default()
    }

    fn link_claim(&mut self, claim: VertexId, volume: VertexId) {
        let links = self.links(claim);
        if links == NO_LINKS {
            self.set_links(claim, volume.0);
        } else if links & SEVERAL == 0 {
            let place = self.writer.claims.keep(Ids::from_slice(&[VertexId(links), volume]));
            self.set_links(claim, place | SEVERAL);
        } else if let Some(volumes) = self.writer.claims.peek_mut(links & !SEVERAL) {
            volumes.push(volume);
        }
    }

    fn unlink_claim(&mut self, claim: VertexId, volume: VertexId) {
        let links = self.links(claim);
        if links == volume.0 {
            self.set_links(claim, NO_LINKS);
        } else if links != NO_LINKS && links & SEVERAL != 0 {
            let place = links & !SEVERAL;
            let Some(volumes) = self.writer.claims.peek_mut(place) else { return };
            // Remove one entry only: while a volume changes its secrets, it is in this list twice.
            if let Some(at) = volumes.iter().position(|v| *v == volume) {
                volumes.swap_remove(at);
            }
            if let [only] = volumes.as_slice() {
                let only = *only;
                self.writer.claims.release(place);
                self.set_links(claim, only.0);
            }
        }
    }

    /// Looks at a vertex.
    pub(super) fn read<T>(&self, id: VertexId, read: impl FnOnce(&Shard, u32) -> T) -> T {
        let shard = self.graph.shard_at(id.shard()).read().unwrap_or_else(PoisonError::into_inner);
        read(&shard, id.index())
    }

    fn write<T>(&self, id: VertexId, write: impl FnOnce(&mut Shard, u32) -> T) -> T {
        let mut shard = self.graph.shard_at(id.shard()).write().unwrap_or_else(PoisonError::into_inner);
        write(&mut shard, id.index())
    }

    fn add_direct(&mut self, id: VertexId, node: NodeId) -> bool {
        self.write(id, |shard, index| shard.add(index, node, &self.graph.hasher))
    }

    fn take_direct(&mut self, id: VertexId, node: NodeId) -> bool {
        self.write(id, |shard, index| shard.take(index, node, &self.graph.hasher))
    }

    /// The nodes that reach a vertex.
    pub(super) fn nodes(&self, id: VertexId) -> Vec<NodeId> {
        self.read(id, |shard, index| shard.nodes(index))
    }

    /// The vertex of a key.
    pub(super) fn find(&self, key: &Key<'_>) -> Option<Found> {
        let hash = key.hash(&self.graph.hasher);
        let number = Graph::shard_number(hash);
        let shard = self.graph.shard_at(number).read().unwrap_or_else(PoisonError::into_inner);
        shard.find(hash, key).map(|index| Found::at(&shard, number, index))
    }

    /// Returns the vertex of a key, creating it if needed. `node` is the node that is about to reach it.
    fn find_or_make(&self, key: &Key<'_>, node: Option<NodeId>) -> Result<Found, VertexError> {
        let hash = key.hash(&self.graph.hasher);
        let number = Graph::shard_number(hash);
        let mut shard = self.graph.shard_at(number).write().unwrap_or_else(PoisonError::into_inner);
        let index = match shard.find(hash, key) {
            Some(index) => index,
            None => shard.insert(hash, key, node)?,
        };
        Ok(Found::at(&shard, number, index))
    }

    /// The links of a vertex; see [`Writer`].
    pub(super) fn links(&self, id: VertexId) -> u32 {
        self.read(id, |shard, index| shard.links(index))
    }

    fn set_links(&mut self, id: VertexId, links: u32) {
        self.write(id, |shard, index| shard.set_links(index, links));
    }

    fn hold(&mut self, id: VertexId) {
        self.write(id, |shard, index| shard.hold(index));
    }

    fn release(&mut self, id: VertexId) {
        let graph = self.graph;
        self.write(id, |shard, index| {
            shard.unhold(index);
            shard.remove_if_unheld(index, &graph.hasher);
        });
    }

    fn drop_if_unheld(&mut self, id: VertexId) {
        let graph = self.graph;
        self.write(id, |shard, index| shard.remove_if_unheld(index, &graph.hasher));
    }
}
