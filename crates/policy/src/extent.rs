//! Where the objects of one kind are that a user may get: a bound for who has to look for them, not a decision.
//!
//! It may name too much, never too little, and changes with the objects from which decisions are made.

use std::collections::BTreeSet;

use crate::chain::{Chain, Member};
use crate::graph::VertexKind;
use crate::request::Attributes;

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

    fn add(&mut self, other: Self) {
        self.is_everywhere |= other.is_everywhere;
        self.namespaces.extend(other.namespaces);
        self.of_node = self.of_node.or(other.of_node);
    }
}

impl Chain {
    /// Where the objects are that a user may get (BC-40). The request has verb `get`, no name, and the namespace in which to
    /// look, or none. None if a webhook decides: it cannot be asked about every object.
    ///
    /// Looks at the bindings of all namespaces if the request has none, so decisions must not use it.
    pub fn extent(&self, attributes: &Attributes<'_>) -> Option<Extent> {
        if self.members().iter().any(|member| matches!(member, Member::Webhook)) {
            return None;
        }
        if self.is_first(attributes) {
            return Some(Extent::everywhere());
        }
        let mut extent = Extent::default();
        for member in self.members() {
            extent.add(member.extent(attributes));
        }
        Some(extent)
    }
}
