//! Where the objects of one kind are that a user may get: a bound for who has to look for them, not a decision.
//!
//! It may name too much, never too little, and changes with the objects from which decisions are made.

use std::collections::BTreeSet;

use crate::graph::VertexKind;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Anywhere; the rest then says nothing.
    pub is_everywhere: bool,
    /// In these namespaces. Of kind Namespace: these objects.
    pub namespaces: BTreeSet<String>,
    /// Among the objects of this kind to which the pods of the user's node refer, or the pods themselves.
    pub of_node: Option<VertexKind>,
}

impl Extent {
    /// Anywhere.
    pub fn everywhere() -> Self {
        Self { is_everywhere: true, ..Self::default() }
    }

    /// The objects of both.
    pub(crate) fn add(&mut self, other: Self) {
        self.is_everywhere |= other.is_everywhere;
        self.namespaces.extend(other.namespaces);
        self.of_node = self.of_node.or(other.of_node);
    }
}
