//! By which paths a node may make a request, and what comes near to that (AU-100, AU-101). Walks the graph; decisions do not use
//! this module.

use super::explain::{kind_of, needed};
use super::{Ask, NODE_LEASE_NAMESPACE, NodeAuthorizer};
use crate::decision::{Authorizer, Decision, Reason};
use crate::factor::{Difference, Factor};
use crate::graph::VertexKind;
use crate::identity::{NODE_USER_PREFIX, NODES_GROUP, NodeIdentity};
use crate::request::{Attributes, ResourceRequest};

/// The verbs that some rule of the Node authorizer allows.
const VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// The subresources that some rule of the Node authorizer allows, and none.
const SUBRESOURCES: [&str; 4] = ["", "eviction", "status", "token"];

/// A request for an object that a node may get only because of what is bound to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// The kind.
    pub kind: VertexKind,
    /// The namespace; empty for cluster-scoped kinds.
    pub namespace: &'a str,
    /// The name.
    pub name: &'a str,
}

impl NodeAuthorizer {
    /// The first paths by which a request is allowed to a node, at most so many, and how many there are; none if it is not allowed.
    /// Allowed without a path: no object is needed.
    pub fn ways(&self, attributes: &Attributes<'_>, most: usize) -> Option<(Vec<String>, usize)> {
        if !self.authorize(attributes).is_allow() {
            return None;
        }
        let node = NodeIdentity::of(attributes.user)?.name();
        let Some(Target { kind, namespace, name }) = self.target(attributes) else {
            return Some((Vec::new(), 0));
        };
        let (paths, count) = self.graph.every_path(kind, namespace, name, node, most);
        Some((paths.iter().map(|path| path.from(node)).collect(), count))
    }

    /// The object on which the decision depends, if it depends on one.
    pub fn target<'a>(&self, attributes: &Attributes<'a>) -> Option<Target<'a>> {
        let request = attributes.resource?;
        let kind = kind_of(request.group, request.resource, self.gates)?;
        let ResourceRequest { namespace, name, .. } = request;
        self.depends_on_objects(attributes.verb, &request).then_some(Target { kind, namespace, name })
    }

    /// What a refused request would need, if a node can be allowed it.
    pub fn needed(&self, attributes: &Attributes<'_>) -> Option<&'static str> {
        let unrelated = matches!(self.authorize(attributes), Decision::NoOpinion(Reason::NodeUnrelated));
        self.target(attributes).filter(|_| unrelated).map(|target| needed(target.kind))
    }

    /// The single factors in which a refused request differs from one that is allowed to the node. Each value was tried.
    pub fn differences(&self, attributes: &Attributes<'_>) -> Vec<Difference> {
        let Some(request) = attributes.resource else { return Vec::new() };
        let Some(identity) = NodeIdentity::of(attributes.user) else {
            return self.without_group(attributes).into_iter().collect();
        };
        let (node, verb) = (identity.name(), attributes.verb);
        if node.is_empty() {
            return Vec::new();
        }
        let allows = |verb, request: ResourceRequest<'_>| {
            self.decide(Ask { node, verb, request: &request }).is_allow()
        };
        let verbs = VERBS.into_iter().filter(|verb| allows(verb, request)).map(str::to_owned).collect();
        let subresources = SUBRESOURCES
            .into_iter()
            .filter(|subresource| allows(verb, ResourceRequest { subresource, ..request }))
            .map(str::to_owned)
            .collect();
        let mut names = self.names(node, &request);
        names.retain(|name| allows(verb, ResourceRequest { name, ..request }));
        let mut namespaces = self.namespaces(node, &request);
        namespaces.retain(|namespace| allows(verb, ResourceRequest { namespace, ..request }));
        let differences = [
            Difference::new(Factor::Name, names, request.name),
            Difference::new(Factor::Subresource, subresources, request.subresource),
            Difference::new(Factor::Verb, verbs, verb),
            Difference::new(Factor::Namespace, namespaces, request.namespace),
            Difference::new(Factor::Node, self.other_nodes(attributes), node),
        ];
        differences.into_iter().filter(|difference| !difference.has.is_empty()).collect()
    }

    /// NA-3: a user with the name of a node that is not in the group of nodes.
    fn without_group(&self, attributes: &Attributes<'_>) -> Option<Difference> {
        let mut user = attributes.user.clone();
        user.groups.push(NODES_GROUP.to_owned());
        let is_allowed = user.name.starts_with(NODE_USER_PREFIX)
            && self.authorize(&Attributes { user: &user, ..*attributes }).is_allow();
        let groups = attributes.user.groups.join(",");
        is_allowed.then(|| Difference::new(Factor::Subject, vec![NODES_GROUP.to_owned()], &groups))
    }

    /// Names that the request could be meant to have: that of the node, and those of objects that it reaches, if the request has no
    /// name or a similar one.
    fn names(&self, node: &str, request: &ResourceRequest<'_>) -> Vec<String> {
        let mut names = vec![node.to_owned()];
        if let Some(kind) = kind_of(request.group, request.resource, self.gates) {
            let reached = self.graph.reached_of_kind(kind, node).into_iter();
            let here = reached.filter(|(namespace, _)| namespace == request.namespace).map(|(_, name)| name);
            names.extend(here.filter(|name| {
                let one = Difference::new(Factor::Name, vec![name.clone()], request.name);
                request.name.is_empty() || one.typing_error.is_some()
            }));
        }
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Namespaces that the request could be meant to have: where the node reaches an object of this name, that of node leases, and
    /// none.
    fn namespaces(&self, node: &str, request: &ResourceRequest<'_>) -> Vec<String> {
        let mut namespaces = vec![String::new(), NODE_LEASE_NAMESPACE.to_owned()];
        if let Some(kind) = kind_of(request.group, request.resource, self.gates) {
            let reached = self.graph.reached_of_kind(kind, node).into_iter();
            namespaces
                .extend(reached.filter(|(_, name)| name == request.name).map(|(namespace, _)| namespace));
        }
        namespaces.sort_unstable();
        namespaces.dedup();
        namespaces
    }

    /// The nodes that reach the object of a request, if the decision depends on it.
    fn other_nodes(&self, attributes: &Attributes<'_>) -> Vec<String> {
        let Some(Target { kind, namespace, name }) = self.target(attributes) else { return Vec::new() };
        self.graph.reached_by(kind, namespace, name)
    }
}
