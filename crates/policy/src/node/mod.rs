//! The Node authorizer: authorizes requests of kubelets (NA-1 to NA-110).
//!
//! A request for a resource with its own branch is decided by that branch alone, every other request by the static
//! rules (NA-73). The decision is allow or no opinion, never deny and never an error (NA-11).

mod explain;
mod holders;
mod near;
mod static_rules;

use std::sync::Arc;

use portcullis_apimachinery::selector::FieldOperator;

use crate::decision::{Authorizer, Decision, Reason};
use crate::extent::Extent;
use crate::features::{Feature, FeatureGates};
use crate::graph::{Graph, VertexKind};
use crate::identity::NodeIdentity;
use crate::objects::rbac::PolicyRule;
use crate::request::{Attributes, ResourceRequest, User};
use crate::rules::RuleListing;

pub use holders::AllowedNodes;
pub use near::Target;

/// The namespace of node leases (NA-88).
pub const NODE_LEASE_NAMESPACE: &str = "kube-node-lease";

const UNKNOWN_NODE: Decision = Decision::NoOpinion(Reason::Text("unknown node for user"));
const UNRELATED: Decision = Decision::NoOpinion(Reason::NodeUnrelated);
const ALLOW: Decision = Decision::Allow(Reason::None);

const fn no(reason: &'static str) -> Decision {
    Decision::NoOpinion(Reason::Text(reason))
}

/// The Node authorizer over a graph.
#[derive(Debug)]
pub struct NodeAuthorizer {
    graph: Arc<Graph>,
    gates: FeatureGates,
    /// The static rules that no branch shadows, for the given feature gates (NA-14).
    static_rules: Vec<PolicyRule>,
}

/// The resources that have a branch of their own (section 9 of the rules).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Branch {
    ConfigMapsOrSecrets(VertexKind),
    CsiNodes,
    Endpoints,
    GetOnly(VertexKind),
    Leases,
    Nodes,
    PersistentVolumeClaims,
    PodCertificateRequests,
    Pods,
    ResourceSlices,
    ServiceAccounts,
}

impl Branch {
    /// The branch of a resource: group and resource byte-exact, whatever the version (NA-25).
    fn of(group: &str, resource: &str, gates: FeatureGates) -> Option<Self> {
        Some(match (group, resource) {
            ("", "configmaps") => Self::ConfigMapsOrSecrets(VertexKind::ConfigMap),
            ("", "endpoints") if gates.is_on(Feature::PortcullisNodeEndpointsRestriction) => Self::Endpoints,
            ("", "nodes") if gates.is_on(Feature::AuthorizeNodeWithSelectors) => Self::Nodes,
            ("", "persistentvolumeclaims") => Self::PersistentVolumeClaims,
            ("", "persistentvolumes") => Self::GetOnly(VertexKind::PersistentVolume),
            ("", "pods") if gates.is_on(Feature::AuthorizeNodeWithSelectors) => Self::Pods,
            ("", "secrets") => Self::ConfigMapsOrSecrets(VertexKind::Secret),
            ("", "serviceaccounts") => Self::ServiceAccounts,
            ("certificates.k8s.io", "podcertificaterequests") => Self::PodCertificateRequests,
            ("coordination.k8s.io", "leases") => Self::Leases,
            ("resource.k8s.io", "resourceclaims") => Self::GetOnly(VertexKind::ResourceClaim),
            ("resource.k8s.io", "resourceslices") => Self::ResourceSlices,
            ("storage.k8s.io", "csinodes") => Self::CsiNodes,
            ("storage.k8s.io", "volumeattachments") => Self::GetOnly(VertexKind::VolumeAttachment),
            _ => return None,
        })
    }
}

/// One request of one node. Verbs are compared literally (NA-74).
#[derive(Clone, Copy)]
struct Ask<'a> {
    node: &'a str,
    verb: &'a str,
    request: &'a ResourceRequest<'a>,
}

impl NodeAuthorizer {
    /// Creates an authorizer over a graph, with the given feature gates.
    pub fn new(graph: Arc<Graph>, gates: FeatureGates) -> Self {
        let static_rules =
            static_rules::live(gates, |group, resource| Branch::of(group, resource, gates).is_some());
        Self { graph, gates, static_rules }
    }

    /// The graph of the decisions.
    pub fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// Whether every node may make a request, whatever is bound to it (NA-105). Names and namespaces play no part.
    pub fn allows_always(&self, verb: &str, request: &ResourceRequest<'_>) -> bool {
        Branch::of(request.group, request.resource, self.gates).is_none()
            && self.static_rules.iter().any(|rule| static_rules::covers(rule, verb, request))
    }

    /// Lists no rules. For a node the listing is incomplete, with the reason; for others it is complete (NA-12, RB-42).
    pub fn rules_for(&self, user: &User) -> RuleListing {
        let mut listing = RuleListing::default();
        if NodeIdentity::of(user).is_some() {
            listing.incomplete = true;
            listing.errors.push("node authorizer does not support user rule resolution".to_owned());
        }
        listing
    }

    /// Where the objects are that a node may get; nowhere for others. The kinds that pods refer to are found through the graph.
    pub fn extent(&self, attributes: &Attributes<'_>) -> Extent {
        let Some(request) = attributes.resource.filter(|_| NodeIdentity::of(attributes.user).is_some())
        else {
            return Extent::default();
        };
        let of_node = match Branch::of(request.group, request.resource, self.gates) {
            Some(Branch::ConfigMapsOrSecrets(kind)) => kind,
            Some(Branch::GetOnly(kind @ (VertexKind::PersistentVolume | VertexKind::ResourceClaim))) => kind,
            Some(Branch::PersistentVolumeClaims) => VertexKind::PersistentVolumeClaim,
            Some(Branch::Pods) => VertexKind::Pod,
            Some(Branch::ServiceAccounts) => VertexKind::ServiceAccount,
            _ => return Extent::everywhere(),
        };
        Extent { of_node: Some(of_node), ..Extent::default() }
    }

    fn decide(&self, ask: Ask<'_>) -> Decision {
        match Branch::of(ask.request.group, ask.request.resource, self.gates) {
            Some(Branch::ConfigMapsOrSecrets(kind)) => self.config_maps_or_secrets(kind, ask),
            Some(Branch::CsiNodes) => csi_nodes(ask),
            Some(Branch::Endpoints) => self.endpoints(ask),
            Some(Branch::GetOnly(kind)) => self.get_only(kind, ask),
            Some(Branch::Leases) => leases(ask),
            Some(Branch::Nodes) => nodes(ask),
            Some(Branch::PersistentVolumeClaims) => self.persistent_volume_claims(ask),
            Some(Branch::PodCertificateRequests) => self.pod_certificate_requests(ask),
            Some(Branch::Pods) => self.pods(ask),
            Some(Branch::ResourceSlices) => self.resource_slices(ask),
            Some(Branch::ServiceAccounts) => self.service_accounts(ask),
            None => self.static_list(ask),
        }
    }

    fn static_list(&self, ask: Ask<'_>) -> Decision {
        if self.static_rules.iter().any(|rule| static_rules::covers(rule, ask.verb, ask.request)) {
            ALLOW
        } else {
            Decision::NO_OPINION
        }
    }

    /// NA-64 with the request's namespace and name, verbatim (NA-70).
    fn related(&self, kind: VertexKind, ask: Ask<'_>) -> Decision {
        let ResourceRequest { namespace, name, .. } = *ask.request;
        if name.is_empty() {
            return no("no object name found");
        }
        if self.graph.related(kind, namespace, name, ask.node) { ALLOW } else { UNRELATED }
    }

    /// NA-75 to NA-78.
    fn config_maps_or_secrets(&self, kind: VertexKind, ask: Ask<'_>) -> Decision {
        if !matches!(ask.verb, "get" | "list" | "watch") {
            return no("can only read resources of this type");
        }
        self.namespaced(kind, ask)
    }

    /// The common part of NA-75 and NA-84: no subresource, a namespace and a name.
    fn namespaced(&self, kind: VertexKind, ask: Ask<'_>) -> Decision {
        if !ask.request.subresource.is_empty() {
            return no("cannot read subresource");
        }
        if ask.request.namespace.is_empty() {
            return no("can only read namespaced object of this type");
        }
        self.related(kind, ask)
    }

    /// NA-79 to NA-81.
    fn persistent_volume_claims(&self, ask: Ask<'_>) -> Decision {
        match ask.request.subresource {
            "status" if matches!(ask.verb, "update" | "patch") => {
                self.related(VertexKind::PersistentVolumeClaim, ask)
            }
            "status" => no("can only update or patch the status"),
            _ => self.get_only(VertexKind::PersistentVolumeClaim, ask),
        }
    }

    /// NA-80, NA-82.
    fn get_only(&self, kind: VertexKind, ask: Ask<'_>) -> Decision {
        if ask.verb != "get" {
            return no("can only get individual resources of this type");
        }
        if !ask.request.subresource.is_empty() {
            return no("cannot get subresource");
        }
        self.related(kind, ask)
    }

    /// NA-83 to NA-87.
    fn service_accounts(&self, ask: Ask<'_>) -> Decision {
        match (ask.verb, ask.request.subresource) {
            ("get", "") => {
                if self.gates.is_on(Feature::KubeletServiceAccountTokenForCredentialProviders)
                    || self.gates.is_on(Feature::PodCertificateRequest)
                {
                    self.namespaced(VertexKind::ServiceAccount, ask)
                } else {
                    no("not allowed to get service accounts")
                }
            }
            ("create", "token") => self.related(VertexKind::ServiceAccount, ask),
            _ => no("can only get individual service accounts, or create their tokens"),
        }
    }

    /// NA-90 to NA-93.
    fn resource_slices(&self, ask: Ask<'_>) -> Decision {
        if !ask.request.subresource.is_empty() {
            return no("cannot authorize resource slice subresources");
        }
        match ask.verb {
            "create" => ALLOW,
            "get" | "update" | "patch" | "delete" => self.related(VertexKind::ResourceSlice, ask),
            "list" | "watch" | "deletecollection" => {
                if !self.gates.is_on(Feature::AuthorizeNodeWithSelectors) || ask.selects_own_node() {
                    ALLOW
                } else {
                    no(
                        "can only list, watch or delete resource slices with a spec.nodeName field selector for itself",
                    )
                }
            }
            _ => no("can only create, get, update, patch, delete, list or watch a resource slice"),
        }
    }

    /// NA-98 to NA-103: a node reads the pods bound to it, and no others (NC-23). Mirror pods are no exception (MP-26).
    fn pods(&self, ask: Ask<'_>) -> Decision {
        match (ask.request.subresource, ask.verb) {
            ("", "get") => self.related(VertexKind::Pod, ask),
            ("", "list" | "watch") if ask.selects_own_node() => ALLOW,
            ("", "list" | "watch") if ask.request.name.is_empty() => {
                no("can only list or watch pods with a spec.nodeName field selector for itself")
            }
            ("", "list" | "watch") => self.related(VertexKind::Pod, ask),
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => ALLOW,
            _ => no("can only read, create, delete or evict pods, or write their status"),
        }
    }

    /// NA-103a, NA-103b.
    fn pod_certificate_requests(&self, ask: Ask<'_>) -> Decision {
        if !self.gates.is_on(Feature::PodCertificateRequest)
            || !self.gates.is_on(Feature::AuthorizeNodeWithSelectors)
        {
            return no("PodCertificateRequest feature gate is disabled");
        }
        match (ask.request.subresource, ask.verb) {
            ("", "create") => ALLOW,
            ("", "get") => self.related(VertexKind::PodCertificateRequest, ask),
            ("", "list" | "watch") if ask.selects_own_node() => ALLOW,
            ("", "list" | "watch") => no(
                "can only list or watch pod certificate requests with a spec.nodeName field selector for itself",
            ),
            _ => no("can only create, get, list or watch pod certificate requests"),
        }
    }

    /// DIVERGES: behind `PortcullisNodeEndpointsRestriction`, off by default. Kubernetes allows every node to get all
    /// Endpoints (NA-104 row 14); its design postponed this restriction. Only volumes need them.
    fn endpoints(&self, ask: Ask<'_>) -> Decision {
        self.get_only(VertexKind::Endpoints, ask)
    }
}

impl Ask<'_> {
    /// NA-26: one requirement is exactly `spec.nodeName=NODE`. All requirements must hold, so the others only narrow
    /// it.
    fn selects_own_node(&self) -> bool {
        self.request.field_selector.iter().any(|requirement| {
            requirement.operator == FieldOperator::Equals
                && requirement.field == "spec.nodeName"
                && requirement.value == self.node
        })
    }
}

/// NA-88: whatever the subresource (NA-110).
fn leases(ask: Ask<'_>) -> Decision {
    if !matches!(ask.verb, "get" | "create" | "update" | "patch" | "delete") {
        return no("can only get, create, update, patch, or delete a node lease");
    }
    if ask.request.namespace != NODE_LEASE_NAMESPACE {
        return no("can only access leases in the namespace kube-node-lease");
    }
    // The name of a new object is not known yet; admission checks it (NR-91).
    if ask.verb == "create" || ask.request.name == ask.node {
        ALLOW
    } else {
        no("can only access the node lease with the same name as the requesting node")
    }
}

/// NA-89: whatever the namespace.
fn csi_nodes(ask: Ask<'_>) -> Decision {
    if !matches!(ask.verb, "get" | "create" | "update" | "patch" | "delete") {
        return no("can only get, create, update, patch, or delete a CSINode");
    }
    if !ask.request.subresource.is_empty() {
        return no("cannot authorize CSINode subresources");
    }
    if ask.verb == "create" || ask.request.name == ask.node {
        ALLOW
    } else {
        no("can only access the CSINode with the same name as the requesting node")
    }
}

/// NA-94 to NA-97. No node deletes a Node, not even its own (NC-18).
fn nodes(ask: Ask<'_>) -> Decision {
    match (ask.request.subresource, ask.verb) {
        ("", "create" | "update" | "patch") | ("status", "update" | "patch") => ALLOW,
        ("", "get" | "list" | "watch") if ask.request.name == ask.node => ALLOW,
        ("", "get" | "list" | "watch") => no("can only read its own Node object"),
        _ => no("can only read, create or update a Node, or write its status"),
    }
}

impl Authorizer for NodeAuthorizer {
    /// NA-8, NA-73: not a node, no opinion; a node without a name, the same with a reason.
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        let Some(node) = NodeIdentity::of(attributes.user) else { return Decision::NO_OPINION };
        if node.name().is_empty() {
            return UNKNOWN_NODE;
        }
        let Some(request) = &attributes.resource else { return Decision::NO_OPINION };
        self.decide(Ask { node: node.name(), verb: attributes.verb, request })
    }
}
