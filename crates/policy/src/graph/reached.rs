//! Lists what each node reaches. Decisions do not use this module.

use std::collections::BTreeMap;

use super::Graph;
use super::vertex::{VertexId, VertexKind};
use super::writer::Change;

/// An object that some node reaches: its kind, its namespace (empty for cluster-scoped kinds) and its name.
pub type ReachedObject = (VertexKind, String, String);

/// What each node reaches. Objects are stored once, however many nodes reach them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    /// The objects, in no particular order.
    pub objects: Vec<ReachedObject>,
    /// The indices of a node's objects, by the name of the node; ascending. A node without objects is absent.
    pub nodes: BTreeMap<String, Vec<usize>>,
}

impl Graph {
    /// Lists what each node reaches (NA-64), whether the graph is complete or not. Waits for the writer and holds it up.
    pub fn reached(&self) -> Reached {
        let links = Change::of(self);
        let mut reached = Reached::default();
        let mut names = BTreeMap::new();
        for kind in VertexKind::ALL {
            for id in links.of_kind(kind) {
                reached.take(&links, id, &mut names);
            }
        }
        reached
    }
}

impl Reached {
    fn take(&mut self, links: &Change<'_>, id: VertexId, names: &mut BTreeMap<u32, Option<String>>) {
        let nodes = links.nodes(id);
        if nodes.is_empty() {
            return;
        }
        let Some(object) = links.key(id) else { return };
        let index = self.objects.len();
        self.objects.push(object);
        for node in nodes {
            let name = names.entry(node.0).or_insert_with(|| links.node_name(node));
            let Some(name) = name else { continue };
            match self.nodes.get_mut(name.as_str()) {
                Some(objects) => objects.push(index),
                None => drop(self.nodes.insert(name.clone(), vec![index])),
            }
        }
    }
}
