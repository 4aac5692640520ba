//! Changes the graph. There is one writer at a time; readers take no lock, and wait for one change of one shard at most.
//!
//! The vertex of a pod or of a volume remembers the references of its object, so that a change is applied as a difference: new
//! references are added before old ones are removed (NA-41).

use std::hint::black_box;
use std::sync::{MutexGuard, PoisonError};

use smallvec::SmallVec;

use super::Graph;
use super::shard::{Shard, ShardEdit, Spot, VertexEdit};
use super::slab::{Ids, Target, Writer};
use super::table::mark_of;
use super::vertex::{Key, NO_LINKS, NodeId, VertexError, VertexId, VertexKind};
use crate::objects::core::PersistentVolume;
use crate::objects::pod::Pod;

/// How many vertices are prefetched together.
const WARM: usize = 8;

/// A flag in the link of a claim: the rest is not a volume but an index in `Writer::claims`.
const SEVERAL: u32 = 1 << 31;

/// Where a key is, if it is there.
#[derive(Clone, Copy, Debug)]
struct Place {
    shard: u32,
    mark: u32,
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
        let node = match self.hold_node(&pod.spec.node_name) {
            Ok(node) => node,
            Err(error) => {
                self.delete(&key);
                return Err(error);
            }
        };
        let mut targets = std::mem::take(&mut self.writer.scratch);
        targets.clear();
        let done = self.pod_targets(pod, node, &mut targets).and_then(|()| {
            // NA-40: each once; one that was made comes first.
            targets.sort_unstable();
            targets.dedup_by_key(|target| target.id);
            self.connect_pod(&key, node, &targets)
        });
        if done.is_err() {
            targets
                .iter()
                .filter(|target| target.is_made)
                .for_each(|target| self.detach(target.id, None, node));
            self.release_node(node);
            self.delete(&key);
        }
        self.writer.scratch = targets;
        done
    }

    /// Collects the vertices that a pod refers to; duplicates included. Those that are missing are made, with the pod's
    /// reference.
    fn pod_targets(
        &mut self,
        pod: &Pod<'_>,
        node: NodeId,
        targets: &mut Vec<Target>,
    ) -> Result<(), VertexError> {
        if pod.is_mirror() {
            return Ok(()); // NA-57
        }
        let namespace: &str = &pod.metadata.namespace;
        let mut result = Ok(());
        let mut is_told = false;
        let mut refer = |kind, name: &str| {
            if result.is_err() || name.is_empty() {
                return;
            }
            let key = Key { kind, namespace, name };
            let place = self.place(&key);
            let found = self.find_at(&key, place).map(|id| Target { id, is_made: false });
            let target = found.map_or_else(
                || {
                    if !std::mem::replace(&mut is_told, true) {
                        self.tell([node]);
                    }
                    self.make_at(&key, place, Some(node), &[]).map(|id| Target { id, is_made: true })
                },
                Ok,
            );
            match target {
                Ok(target) => targets.push(target),
                Err(error) => result = Err(error),
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
    fn connect_pod(&mut self, key: &Key<'_>, node: NodeId, targets: &[Target]) -> Result<(), VertexError> {
        let ids: Ids = targets.iter().map(|target| target.id).collect();
        let place = self.place(key);
        let Some(old) = self.find_at(key, place) else {
            self.tell([node]);
            self.attach_all(targets, node);
            let made = self.make_at(key, place, Some(node), &ids);
            if made.is_err() {
                for target in targets.iter().filter(|target| !target.is_made) {
                    self.detach(target.id, None, node);
                }
            }
            return made.map(drop);
        };
        let (old_node, old_targets) = (self.shard(old).only_node(old.index()), self.linked(old));
        let stays = old_node == Some(node);
        if stays && old_targets == ids {
            self.release_node(node);
            return Ok(());
        }
        let pod = self.relink(old, key, &ids)?;
        self.tell(old_node.into_iter().filter(|old| *old != node).chain([node]));
        // The new references first, then the old ones (NA-41).
        self.attach_all(targets, node);
        if !stays {
            self.add_direct(pod, node);
        }
        if let Some(old_node) = old_node {
            self.disconnect_pod(key.namespace, &old_targets, old_node);
            if !stays {
                self.take_direct(pod, old_node);
            }
            // The new node is already held; if it is the old one, this releases the second hold.
            self.release_node(old_node);
        }
        Ok(())
    }

    /// Adds a pod's references to those that were not made with them.
    fn attach_all(&mut self, targets: &[Target], node: NodeId) {
        for target in targets.iter().filter(|target| !target.is_made) {
            self.attach(target.id, node);
        }
    }

    /// Removes the references of a pod in this namespace.
    fn disconnect_pod(&mut self, namespace: &str, targets: &Ids, node: NodeId) {
        let marks = self.warm(namespace, targets);
        for (at, target) in targets.iter().enumerate() {
            self.detach(*target, marks.get(at).copied(), node);
        }
    }

    /// Connects a vertex to the only node that reaches it, or removes the vertex if there is no node.
    pub(super) fn apply_direct(&mut self, key: &Key<'_>, node: &str) -> Result<(), VertexError> {
        if node.is_empty() {
            self.delete(key);
            return Ok(());
        }
        let node = match self.hold_node(node) {
            Ok(node) => node,
            Err(error) => {
                self.delete(key);
                return Err(error);
            }
        };
        let place = self.place(key);
        let Some(id) = self.find_at(key, place) else {
            self.tell([node]);
            let made = self.make_at(key, place, Some(node), &[]);
            if made.is_err() {
                self.release_node(node);
            }
            return made.map(drop);
        };
        match self.shard(id).only_node(id.index()) {
            Some(old) if old != node => {
                self.tell([node, old]);
                self.add_direct(id, node);
                self.take_direct(id, old);
                self.release_node(old);
            }
            // It holds the node already.
            _ => self.release_node(node),
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
            match self.find_or_make(&Key { kind, namespace, name }) {
                Ok(id) => targets.push(id),
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
            // First those that nobody holds: what the old volume holds goes with it.
            targets.iter().for_each(|id| self.drop_if_unheld(*id));
            self.delete(&key);
        }
        done
    }

    fn connect_volume(
        &mut self,
        key: &Key<'_>,
        claim: &Key<'_>,
        targets: &[VertexId],
    ) -> Result<(), VertexError> {
        let claim = self.find_or_make(claim)?;
        let links: Ids = [claim].into_iter().chain(targets.iter().copied()).collect();
        let old = self.find(key).map(|id| (id, self.linked(id)));
        if old.as_ref().is_some_and(|(_, old)| *old == links) {
            return Ok(());
        }
        let volume = match &old {
            None => self.make_at(key, self.place(key), None, &links),
            Some((id, _)) => self.relink(*id, key, &links),
        };
        let volume = match volume {
            Ok(volume) => volume,
            Err(error) => {
                self.drop_if_unheld(claim);
                return Err(error);
            }
        };
        links.iter().for_each(|id| self.hold(*id));
        let nodes = self.nodes(claim);
        self.tell(nodes.iter().copied());
        for node in nodes {
            self.add_direct(volume, node);
            targets.iter().for_each(|target| self.add_direct(*target, node));
        }
        self.link_claim(claim, volume);
        match old {
            None => self.hold(volume),
            Some((id, links)) => {
                // The claim of before knows the volume by its number of before.
                self.disconnect_volume(id, volume, &links);
            }
        }
        Ok(())
    }

    /// Removes the edges of a volume whose claim knows it by the number `known`.
    fn disconnect_volume(&mut self, known: VertexId, volume: VertexId, links: &Ids) {
        let Some((claim, targets)) = links.split_first() else { return };
        self.unlink_claim(*claim, known);
        let nodes = self.nodes(*claim);
        self.tell(nodes.iter().copied());
        for node in nodes {
            self.take_direct(volume, node);
            targets.iter().for_each(|target| self.take_direct(*target, node));
        }
        targets.iter().for_each(|target| self.release(*target));
        self.release(*claim);
    }

    /// Removes a vertex with all its edges.
    pub(super) fn delete(&mut self, key: &Key<'_>) {
        let place = self.place(key);
        let Some(id) = self.find_at(key, place) else { return };
        let node = self.shard(id).only_node(id.index());
        match key.kind {
            VertexKind::Pod => {
                self.tell(node);
                let targets = self.linked(id);
                if let Some(node) = node {
                    self.disconnect_pod(key.namespace, &targets, node);
                }
                // With its links and its node, whose number may be used again only then.
                self.remove(id, place.mark);
                node.into_iter().for_each(|node| self.release_node(node));
            }
            VertexKind::PersistentVolume => {
                let links = self.linked(id);
                self.disconnect_volume(id, id, &links);
                self.remove(id, place.mark);
            }
            VertexKind::VolumeAttachment | VertexKind::ResourceSlice | VertexKind::PodCertificateRequest => {
                if let Some(node) = node {
                    self.tell([node]);
                    self.take_direct(id, node);
                    self.release_node(node);
                    self.release(id);
                }
            }
            _ => self.drop_if_unheld(id),
        }
    }

    /// Prefetches the memory that removing these vertices will touch, and returns their marks. In a large graph every vertex is
    /// a cache miss. Read one after the other, the misses add up; read together, they overlap.
    fn warm(&self, namespace: &str, ids: &[VertexId]) -> SmallVec<[u32; WARM]> {
        let hashes = self.graph.hashes();
        let ahead = ids.iter().take(WARM).map(|id| self.shard(*id).ahead(id.index(), namespace, hashes));
        ahead
            .map(|(mark, slot)| {
                black_box(slot);
                mark
            })
            .collect()
    }

    /// Adds one reference from a pod on a node; a claim passes it on to its volumes.
    fn attach(&mut self, id: VertexId, node: NodeId) {
        let (first, link) = self.write(id, |vertex| (vertex.refer(node), vertex.claim_link()));
        if first {
            self.each_volume(link, |change, id| change.add_direct(id, node));
        }
    }

    /// Removes one reference; a claim passes this on to its volumes.
    fn detach(&mut self, id: VertexId, mark: Option<u32>, node: NodeId) {
        let (last, link, namespace) = self.edit(id.shard(), |shard| {
            let mut vertex = shard.vertex(id.index(), mark);
            let (last, link) = (vertex.unrefer(node), vertex.claim_link());
            // The volumes of a claim hold it.
            (last, link, vertex.remove_if_unheld())
        });
        self.release_namespace(namespace.unwrap_or(0));
        if last {
            self.each_volume(link, |change, id| change.take_direct(id, node));
        }
    }

    /// Visits the volumes of a claim, and the vertices that their sources refer to.
    fn each_volume(&mut self, link: u32, mut visit: impl FnMut(&mut Self, VertexId)) {
        if link == NO_LINKS {
            return;
        }
        for volume in self.volumes_of(link) {
            visit(self, volume);
            self.linked(volume).iter().skip(1).for_each(|target| visit(self, *target));
        }
    }

    /// The volumes of a claim with this link.
    pub(super) fn volumes_of(&self, link: u32) -> Ids {
        if link == NO_LINKS {
            return Ids::default();
        }
        if link & SEVERAL == 0 {
            return Ids::from_slice(&[VertexId(link)]);
        }
        self.writer.claims.peek(link & !SEVERAL).cloned().unwrap_or_default()
    }

    fn link_claim(&mut self, claim: VertexId, volume: VertexId) {
        let link = self.claim_link(claim);
        if link == NO_LINKS {
            self.set_link(claim, volume.0);
        } else if link & SEVERAL == 0 {
            let place = self.writer.claims.keep(Ids::from_slice(&[VertexId(link), volume]));
            self.set_link(claim, place | SEVERAL);
        } else if let Some(volumes) = self.writer.claims.peek_mut(link & !SEVERAL) {
            volumes.push(volume);
        }
    }

    fn unlink_claim(&mut self, claim: VertexId, volume: VertexId) {
        let link = self.claim_link(claim);
        if link == volume.0 {
            self.set_link(claim, NO_LINKS);
        } else if link != NO_LINKS && link & SEVERAL != 0 {
            let place = link & !SEVERAL;
            let Some(volumes) = self.writer.claims.peek_mut(place) else { return };
            // A volume whose links change has two numbers for a moment, and is in this list twice.
            if let Some(at) = volumes.iter().position(|v| *v == volume) {
                volumes.swap_remove(at);
            }
            if let [only] = volumes.as_slice() {
                let only = *only;
                self.writer.claims.release(place);
                self.set_link(claim, only.0);
            }
        }
    }

    pub(super) fn shard(&self, id: VertexId) -> &'g Shard {
        self.graph.shard_at(id.shard())
    }

    fn write<T>(&mut self, id: VertexId, write: impl FnOnce(&mut VertexEdit<'_, '_>) -> T) -> T {
        self.edit(id.shard(), |shard| write(&mut shard.vertex(id.index(), None)))
    }

    fn edit<T>(&mut self, shard: u32, edit: impl for<'e> FnOnce(&mut ShardEdit<'e>) -> T) -> T {
        let Writer { shards: [first, others @ ..], .. } = &mut *self.writer;
        let other = shard.checked_sub(1).and_then(|at| others.get_mut(at as usize));
        edit(&mut self.graph.shard_at(shard).edit(other.unwrap_or(first), self.graph.hashes()))
    }

    fn add_direct(&mut self, id: VertexId, node: NodeId) {
        self.write(id, |vertex| vertex.add(node));
    }

    fn take_direct(&mut self, id: VertexId, node: NodeId) {
        self.write(id, |vertex| vertex.take(node));
    }

    /// The nodes that reach a vertex.
    pub(super) fn nodes(&self, id: VertexId) -> Vec<NodeId> {
        self.shard(id).nodes(id.index())
    }

    fn place(&self, key: &Key<'_>) -> Place {
        let hash = self.graph.hashes().of(key);
        Place { shard: Graph::shard_number(hash), mark: mark_of(hash) }
    }

    /// The vertex of a key.
    pub(super) fn find(&mut self, key: &Key<'_>) -> Option<VertexId> {
        self.find_at(key, self.place(key))
    }

    fn find_at(&mut self, key: &Key<'_>, Place { shard, mark }: Place) -> Option<VertexId> {
        let namespace = self.namespace(key.namespace)?;
        let spot = Spot { kind: key.kind, namespace, name: key.name, mark };
        self.graph.shard_at(shard).find(&spot).map(|index| VertexId::new(shard, index))
    }

    /// Returns the vertex of a key. If it is missing, makes one that nobody holds.
    fn find_or_make(&mut self, key: &Key<'_>) -> Result<VertexId, VertexError> {
        let place = self.place(key);
        match self.find_at(key, place) {
            Some(id) => Ok(id),
            None => self.make_at(key, place, None, &[]),
        }
    }

    /// Makes the vertex of a key that is absent: with one holder and one reference from a node, or with none of both.
    fn make_at(
        &mut self,
        key: &Key<'_>,
        Place { shard, mark }: Place,
        node: Option<NodeId>,
        links: &[VertexId],
    ) -> Result<VertexId, VertexError> {
        let namespace = self.hold_namespace(key.namespace)?;
        let spot = Spot { kind: key.kind, namespace, name: key.name, mark };
        let made = self.edit(shard, |shard| shard.insert(&spot, node, links));
        if made.is_err() {
            self.release_namespace(namespace);
        }
        made.map(|index| VertexId::new(shard, index))
    }

    /// Lets a vertex refer to others than before. Its number changes.
    fn relink(&mut self, id: VertexId, key: &Key<'_>, links: &[VertexId]) -> Result<VertexId, VertexError> {
        let Place { shard, mark } = self.place(key);
        let namespace = self.namespace(key.namespace).unwrap_or(0);
        let spot = Spot { kind: key.kind, namespace, name: key.name, mark };
        let made = self.edit(shard, |shard| shard.relink(id.index(), &spot, links));
        made.map(|index| VertexId::new(shard, index))
    }

    /// The vertices that a pod refers to; or the claim of a volume, and those that its source refers to.
    pub(super) fn linked(&self, id: VertexId) -> Ids {
        self.shard(id).links(id.index()).map(VertexId).collect()
    }

    /// The link of a claim.
    pub(super) fn claim_link(&self, id: VertexId) -> u32 {
        self.shard(id).claim_link(id.index())
    }

    fn set_link(&mut self, claim: VertexId, link: u32) {
        self.write(claim, |claim| claim.set_link(link));
    }

    fn hold(&mut self, id: VertexId) {
        self.write(id, |vertex| vertex.hold());
    }

    fn release(&mut self, id: VertexId) {
        self.write(id, |vertex| vertex.unhold());
        self.drop_if_unheld(id);
    }

    fn drop_if_unheld(&mut self, id: VertexId) {
        let removed = self.write(id, |vertex| vertex.remove_if_unheld());
        self.release_namespace(removed.unwrap_or(0));
    }

    fn remove(&mut self, id: VertexId, mark: u32) {
        let namespace = self.edit(id.shard(), |shard| shard.vertex(id.index(), Some(mark)).remove());
        self.release_namespace(namespace);
    }

    /// The number of a namespace plus one, and zero for none; `None` if no vertex has this namespace.
    fn namespace(&mut self, name: &str) -> Option<u32> {
        if name.is_empty() {
            return Some(0);
        }
        if self.writer.recent.0 != name {
            let names = &self.graph.namespaces;
            self.note_recent(name, names.find(names.hashed(name))?);
        }
        Some(self.writer.recent.1 + 1)
    }

    /// Returns the number of a namespace plus one, with one more holder; zero for none.
    fn hold_namespace(&mut self, name: &str) -> Result<u32, VertexError> {
        if let Some(namespace) = self.namespace(name) {
            namespace.checked_sub(1).into_iter().for_each(|number| self.graph.namespaces.hold_again(number));
            return Ok(namespace);
        }
        let names = &self.graph.namespaces;
        let number = names.hold(&mut self.writer.namespaces, names.hashed(name))?;
        self.note_recent(name, number);
        Ok(number + 1)
    }

    fn note_recent(&mut self, name: &str, number: u32) {
        let (recent, recent_number) = &mut self.writer.recent;
        recent.clear();
        recent.push_str(name);
        *recent_number = number;
    }

    fn release_namespace(&mut self, namespace: u32) {
        let Some(number) = namespace.checked_sub(1) else { return };
        let is_removed = self.graph.namespaces.release(&mut self.writer.namespaces, number);
        if is_removed && self.writer.recent.1 == number {
            self.writer.recent.0.clear();
        }
    }

    /// Returns the node of this name, creating it if needed, and adds one holder.
    fn hold_node(&mut self, name: &str) -> Result<NodeId, VertexError> {
        let Graph { nodes, .. } = self.graph;
        let name = nodes.hashed(name);
        nodes.hold(&mut self.writer.nodes, name).map(|number| NodeId::new(name.hash, number))
    }

    /// Removes one holder of a node. The node is removed with its last.
    fn release_node(&mut self, node: NodeId) {
        self.graph.nodes.release(&mut self.writer.nodes, node.number());
    }

    /// The name of a node that is held.
    pub(super) fn node_name(&self, node: NodeId) -> Option<String> {
        self.graph.nodes.name(node.number())
    }

    /// The name of a namespace by its number plus one; empty for zero.
    pub(super) fn namespace_name(&self, namespace: u32) -> Option<String> {
        namespace
            .checked_sub(1)
            .map_or_else(|| Some(String::new()), |number| self.graph.namespaces.name(number))
    }
}
