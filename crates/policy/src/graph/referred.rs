//! Finds the objects to which given pods refer, without a walk of the whole graph.

use std::collections::BTreeSet;

use super::Graph;
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
            let links = Change::of(self);
            let Some(pod) = links.find(&Key { kind: VertexKind::Pod, namespace, name }) else { continue };
            let mut take = |id: VertexId| {
                if let Some((_, namespace, name)) = links.key(id).filter(|(of, ..)| *of == kind) {
                    found.insert((namespace, name));
                }
            };
            take(pod.id);
            for target in links.pod_targets_of(pod.id) {
                take(*target);
                for volume in links.volumes_of(links.links(*target)).as_slice() {
                    take(*volume);
                    links.volume_targets_of(*volume).iter().copied().for_each(&mut take);
                }
            }
        }
        found
    }
}
