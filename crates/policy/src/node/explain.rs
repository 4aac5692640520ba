//! Explains decisions of the Node authorizer, and what a refused request would need.

use super::{Branch, NodeAuthorizer};
use crate::decision::{Authorizer, Reason};
use crate::features::FeatureGates;
use crate::graph::VertexKind;
use crate::identity::NodeIdentity;
use crate::request::{Attributes, ResourceRequest};

/// The maximum number of nodes named in an explanation.
const NAMED_NODES: usize = 5;

impl NodeAuthorizer {
    /// Explains a decision. Show it only to users who may see everything that it names. Walks the graph, so never use it
    /// while serving a request.
    pub fn explain(&self, attributes: &Attributes<'_>) -> String {
        let Some(node) = NodeIdentity::of(attributes.user) else {
            return "the user is not a node (name system:node:NAME and group system:nodes)".to_owned();
        };
        let decision = self.authorize(attributes);
        let related = attributes.resource.and_then(|request| {
            let kind = kind_of(request.group, request.resource, self.gates)?;
            (!request.name.is_empty()).then_some((kind, request))
        });
        if decision.is_allow() {
            return match related.and_then(|(kind, r)| self.graph.path(kind, r.namespace, r.name, node.name()))
            {
                Some(path) => format!("allowed by the path {path}"),
                None => "allowed to every node that asks for it this way".to_owned(),
            };
        }
        if let (Reason::NodeUnrelated, Some((kind, request))) = (decision.reason(), related) {
            return self.unreached(kind, request);
        }
        match decision.reason().render(attributes).to_string() {
            reason if reason.is_empty() => {
                "no rule of the Node authorizer covers this verb and resource".to_owned()
            }
            reason => reason,
        }
    }

    /// Explains what a request would need whose object the node does not reach.
    fn unreached(&self, kind: VertexKind, request: ResourceRequest<'_>) -> String {
        let ResourceRequest { namespace, name, .. } = request;
        let slash = if namespace.is_empty() { "" } else { "/" };
        let mut nodes = self.graph.reached_by(kind, namespace, name);
        let more = nodes.len().saturating_sub(NAMED_NODES);
        nodes.truncate(NAMED_NODES);
        let reached = match (nodes.join(", "), more) {
            (nodes, _) if nodes.is_empty() => "no node reaches it".to_owned(),
            (nodes, 0) => format!("reached by {nodes}"),
            (nodes, more) => format!("reached by {nodes} and {more} more"),
        };
        let (resource, needed) = (kind.resource(), needed(kind));
        format!("the node does not reach {resource}/{namespace}{slash}{name}; needed: {needed}; {reached}")
    }
}

pub(super) fn kind_of(group: &str, resource: &str, gates: FeatureGates) -> Option<VertexKind> {
    match Branch::of(group, resource, gates)? {
        Branch::ConfigMapsOrSecrets(kind) | Branch::GetOnly(kind) => Some(kind),
        Branch::Endpoints => Some(VertexKind::Endpoints),
        Branch::PersistentVolumeClaims => Some(VertexKind::PersistentVolumeClaim),
        Branch::PodCertificateRequests => Some(VertexKind::PodCertificateRequest),
        Branch::Pods => Some(VertexKind::Pod),
        Branch::ResourceSlices => Some(VertexKind::ResourceSlice),
        Branch::ServiceAccounts => Some(VertexKind::ServiceAccount),
        Branch::CsiNodes | Branch::Leases | Branch::Nodes => None,
    }
}

pub(super) fn needed(kind: VertexKind) -> &'static str {
    match kind {
        VertexKind::ConfigMap => "a pod on the node that refers to the config map",
        VertexKind::Endpoints => "a pod on the node that mounts a glusterfs volume naming the endpoints",
        VertexKind::PersistentVolume => "a pod on the node that uses the claim which the volume is bound to",
        VertexKind::PersistentVolumeClaim => "a pod on the node that uses the claim",
        VertexKind::Pod => "the pod bound to the node",
        VertexKind::PodCertificateRequest => "the request made for the node",
        VertexKind::ResourceClaim => "a pod on the node that uses the resource claim",
        VertexKind::ResourceSlice => "a resource slice of the node",
        VertexKind::Secret => {
            "a pod on the node that refers to the secret, or uses a claim whose volume names the secret"
        }
        VertexKind::ServiceAccount => "a pod on the node that runs as the service account",
        VertexKind::VolumeAttachment => "the volume attached to the node",
    }
}
