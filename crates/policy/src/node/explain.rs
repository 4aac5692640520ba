//! Explains decisions of the Node authorizer, and what a refused request would need.

use std::fmt;

use super::{Branch, NodeAuthorizer};
use crate::decision::Authorizer;
use crate::features::FeatureGates;
use crate::graph::{Path, VertexKind};
use crate::identity::NodeIdentity;
use crate::request::Attributes;

/// An explanation of one decision of the Node authorizer. Show it only to users who may see everything that it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeExplanation {
    /// Allowed by the path from the node to the object.
    AllowedByPath(Path),
    /// Allowed for every node, by the static rules or by a rule about the request alone.
    AllowedToNodes,
    /// The user is not a node.
    NotANode,
    /// Never allowed for a node, with the reason.
    Refused(String),
    /// Would be allowed if the node reached the object, which it does not.
    Unreached {
        /// The object.
        object: String,
        /// The first few nodes that reach it, sorted.
        reached_by: Vec<String>,
        /// The total number of nodes that reach it.
        reached_by_count: usize,
        /// The missing reference.
        needed: &'static str,
    },
}

/// The maximum number of nodes named in an explanation.
const NAMED_NODES: usize = 5;

impl NodeAuthorizer {
    /// Explains a decision. Walks the graph, so never use it while serving a request.
    pub fn explain(&self, attributes: &Attributes<'_>) -> NodeExplanation {
        let Some(node) = NodeIdentity::of(attributes.user) else { return NodeExplanation::NotANode };
        let decision = self.authorize(attributes);
        let related = attributes.resource.and_then(|request| {
            let kind = kind_of(request.group, request.resource, self.gates)?;
            (!request.name.is_empty()).then_some((kind, request))
        });
        if decision.is_allow() {
            return related
                .and_then(|(kind, r)| self.graph.path(kind, r.namespace, r.name, node.name()))
                .map_or(NodeExplanation::AllowedToNodes, NodeExplanation::AllowedByPath);
        }
        if let (crate::decision::Reason::NodeUnrelated, Some((kind, request))) = (decision.reason(), related)
        {
            let mut reached_by = self.graph.reached_by(kind, request.namespace, request.name);
            let reached_by_count = reached_by.len();
            reached_by.truncate(NAMED_NODES);
            let namespace =
                if request.namespace.is_empty() { String::new() } else { format!("{}/", request.namespace) };
            return NodeExplanation::Unreached {
                object: format!("{}/{namespace}{}", kind.resource(), request.name),
                reached_by,
                reached_by_count,
                needed: needed(kind),
            };
        }
        let reason = decision.reason().render(attributes).to_string();
        NodeExplanation::Refused(if reason.is_empty() {
            "no rule of the Node authorizer covers this verb and resource".to_owned()
        } else {
            reason
        })
    }
}

fn kind_of(group: &str, resource: &str, gates: FeatureGates) -> Option<VertexKind> {
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

fn needed(kind: VertexKind) -> &'static str {
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

impl fmt::Display for NodeExplanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllowedByPath(path) => write!(f, "allowed by the path {path}"),
            Self::AllowedToNodes => f.write_str("allowed to every node that asks for it this way"),
            Self::NotANode => {
                f.write_str("the user is not a node (name system:node:NAME and group system:nodes)")
            }
            Self::Refused(reason) => f.write_str(reason),
            Self::Unreached { object, reached_by, reached_by_count, needed } => {
                write!(f, "the node does not reach {object}; needed: {needed}; ")?;
                match reached_by_count {
                    0 => f.write_str("no node reaches it"),
                    count => {
                        write!(f, "reached by {}", reached_by.join(", "))?;
                        match count - reached_by.len() {
                            0 => Ok(()),
                            more => write!(f, " and {more} more"),
                        }
                    }
                }
            }
        }
    }
}
