//! Finds the objects to which given pods refer, without a walk of the whole graph.

use std::collections::BTreeSet;

use super::Graph;
use super::reached::ReachedObject;
use super::vertex::{Key, VertexId, VertexKind};
use super::writer::Change;

impl Graph {
    /// The objects of a kind to which pods refer, directly or through a claim and its volume: namespace and name. The pods are
    /// given by namespace and name; those that are not bound to a node refer to nothing. Whether the objects exist is unknown.
    ///
    /// Costs as much as these pods have references. Waits for the writer, so decisions must not use it.
    pub fn referred<'p>(
        &self,
        kind: VertexKind,
        pods: impl IntoIterator<Item = (&'p str, &'p str)>,
    ) -> BTreeSet<(String, String)> {
        let mut found = BTreeSet::new();
        for (namespace, name) in pods {
            // Anew for each pod, so that the writer never waits for all of them.
            each_reference(&mut Change::of(self), namespace, name, |(of, namespace, name)| {
                if of == kind {
                    found.insert((namespace, name));
                }
            });
        }
        found
    }

    /// What a pod refers to, directly or through a claim and its volume, and the pod itself; of every kind. A pod that is not bound
    /// to a node refers to nothing. Costs as much as [`Graph::referred`].
    pub fn references_of(&self, namespace: &str, name: &str) -> BTreeSet<ReachedObject> {
        let mut found = BTreeSet::new();
        each_reference(&mut Change::of(self), namespace, name, |object| {
            found.insert(object);
        });
        found
    }
}

/// Takes a pod and the objects to which it refers.
fn each_reference(links: &mut Change<'_>, namespace: &str, name: &str, mut take: impl FnMut(ReachedObject)) {
    let Some(pod) = links.find(&Key { kind: VertexKind::Pod, namespace, name }) else { return };
    let links = &*links;
    let mut take = |id: VertexId| links.key(id).map(&mut take).unwrap_or_default();
    take(pod);
    for target in links.linked(pod) {
        take(target);
        for volume in links.volumes_of(links.claim_link(target)) {
            take(volume);
            links.volume_targets_of(volume).into_iter().for_each(&mut take);
        }
    }
}
