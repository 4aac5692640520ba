//! Tells a listener which nodes are about to reach other objects than before.
//!
//! Whoever keeps something that depends on what a node reaches, such as an open watch, need not look again after every change
//! of every object.

use std::fmt;
use std::sync::Arc;

use super::Graph;
use super::vertex::NodeId;
use super::writer::Change;

/// Is told of nodes that are about to reach other objects.
pub trait NodeChanges: fmt::Debug + Send + Sync {
    /// What this node reaches is about to change. Called by the writer, before any reader can see the change. A node may be named
    /// more than once. Must be fast, and must not change the graph.
    fn changing(&self, node: &str);
}

impl Graph {
    /// From now on tells this listener; only the first listener is told.
    pub fn tell_changes(&self, listener: Arc<dyn NodeChanges>) {
        // There is one server to a graph.
        let _ = self.listener.set(listener);
    }
}

impl Change<'_> {
    /// Tells that what these nodes reach is about to change.
    pub(super) fn tell(&self, nodes: impl IntoIterator<Item = NodeId>) {
        let Some(listener) = self.graph.listener.get() else { return };
        for name in nodes.into_iter().filter_map(|node| self.node_name(node)) {
            listener.changing(&name);
        }
    }
}
