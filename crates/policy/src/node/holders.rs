//! To which nodes a request is allowed (AU-92). Walks all nodes; decisions do not use this module.

use std::collections::BTreeMap;

use super::explain::kind_of;
use super::{Ask, NodeAuthorizer};
use crate::decision::{Decision, Reason};
use crate::request::ResourceRequest;

/// The nodes to which a request is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedNodes {
    /// Every node, also one to which nothing belongs.
    Every,
    /// These, by name, each with the path to the object; none where the name of the node is enough.
    These(BTreeMap<String, Option<String>>),
}

impl NodeAuthorizer {
    /// The nodes to which a request is allowed: of those that the graph knows, and the one that a request for a Node, a lease
    /// or a CSINode names (AU-92). A Node object without anything bound to it reaches nothing, so these are all.
    pub fn allowed_nodes(&self, verb: &str, request: &ResourceRequest<'_>) -> AllowedNodes {
        let known = self.graph.nodes();
        let allows = |node: &str| self.decide(Ask { node, verb, request }).is_allow();
        if allows(&stranger(&known, request.name)) {
            return AllowedNodes::Every;
        }
        let named = Some(request.name).filter(|name| !name.is_empty());
        let candidates = known.iter().map(String::as_str).chain(named);
        let mut allowed: BTreeMap<String, Option<String>> =
            candidates.filter(|node| allows(node)).map(|node| (node.to_owned(), None)).collect();
        if !allowed.is_empty()
            && let Some(kind) = kind_of(request.group, request.resource, self.gates)
        {
            for (node, path) in self.graph.paths(kind, request.namespace, request.name) {
                if let Some(known) = allowed.get_mut(&node) {
                    *known = Some(path);
                }
            }
        }
        AllowedNodes::These(allowed)
    }

    /// Whether the decision on a request depends on what is bound to the node that asks.
    pub fn depends_on_objects(&self, verb: &str, request: &ResourceRequest<'_>) -> bool {
        let node = stranger(&self.graph.nodes(), request.name);
        let decision = self.decide(Ask { node: &node, verb, request });
        matches!(decision, Decision::NoOpinion(Reason::NodeUnrelated))
    }
}

/// The name of a node that is none of the known ones, which are sorted, and not named by the request.
fn stranger(known: &[String], named: &str) -> String {
    let mut name = "stranger".to_owned();
    while name == named || known.binary_search(&name).is_ok() {
        name.push('x');
    }
    name
}
