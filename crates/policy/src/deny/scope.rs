//! Node-scoped service accounts: what a token that is bound to a pod may reach is narrowed to the node of that pod (BC-32).
//!
//! A daemon runs on every node under one service account, so whoever breaks into one node can act on all of them. Here the node of
//! the token decides: of the resources in scope the account reaches the objects of its own node alone. This never allows
//! anything. DIVERGES: Kubernetes puts the node into tokens, and has no authorizer that looks at it.

use portcullis_apimachinery::selector::FieldOperator;

use super::COLLECTIONS;
use super::pattern::Pattern;
use super::subject::Subject;
use crate::decision::Reason;
use crate::graph::{Graph, VertexKind};
use crate::identity::bound_node;
use crate::node::NODE_LEASE_NAMESPACE;
use crate::request::{Attributes, ResourceRequest, User};

/// The most accounts, and the most resources.
const MOST: usize = 1_000;

/// How it is known to which node an object belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Belongs {
    /// It has the name of its node.
    ByName,
    /// In the namespace of node leases it has the name of its node. In other namespaces leases belong to no node, and are not in
    /// scope.
    AsLease,
    /// What the graph of the Node authorizer says. A list by `spec.nodeName` has only objects of that node where `has_field`.
    ByGraph { kind: VertexKind, has_field: bool },
}

/// The resources of which it is known to which node their objects belong: the group, the plural, how, and whether it is in scope
/// when no resources are named.
const RESOURCES: [(&str, &str, Belongs, bool); 14] = {
    use Belongs::{AsLease, ByGraph, ByName};
    const fn by_graph(kind: VertexKind) -> Belongs {
        ByGraph { kind, has_field: false }
    }
    [
        ("", "configmaps", by_graph(VertexKind::ConfigMap), true),
        ("", "endpoints", by_graph(VertexKind::Endpoints), false),
        ("", "nodes", ByName, true),
        ("", "persistentvolumeclaims", by_graph(VertexKind::PersistentVolumeClaim), true),
        ("", "persistentvolumes", by_graph(VertexKind::PersistentVolume), true),
        ("", "pods", ByGraph { kind: VertexKind::Pod, has_field: true }, true),
        ("", "secrets", by_graph(VertexKind::Secret), true),
        ("", "serviceaccounts", by_graph(VertexKind::ServiceAccount), true),
        (
            "certificates.k8s.io",
            "podcertificaterequests",
            ByGraph { kind: VertexKind::PodCertificateRequest, has_field: true },
            false,
        ),
        ("coordination.k8s.io", "leases", AsLease, true),
        ("resource.k8s.io", "resourceclaims", by_graph(VertexKind::ResourceClaim), false),
        (
            "resource.k8s.io",
            "resourceslices",
            ByGraph { kind: VertexKind::ResourceSlice, has_field: true },
            true,
        ),
        ("storage.k8s.io", "csinodes", ByName, true),
        ("storage.k8s.io", "volumeattachments", by_graph(VertexKind::VolumeAttachment), true),
    ]
};

/// The name of a resource in flags: the plural, and the group after a dot if there is one.
fn name_of(group: &str, plural: &str) -> String {
    if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") }
}

/// Which accounts are node-scoped, and for which resources.
#[derive(Clone, Debug)]
pub struct NodeScope {
    accounts: Vec<Subject>,
    /// For each of [`RESOURCES`], whether it is in scope.
    resources: [bool; RESOURCES.len()],
}

impl NodeScope {
    /// The scope of these accounts, each `namespace:name` with `*` for any text in either part, for these resources; without any, for
    /// those of [`NodeScope::usual_resources`].
    ///
    /// # Errors
    /// An account or a resource cannot be read. The text says which, and what to write.
    pub fn new(accounts: &[String], resources: &[String]) -> Result<Self, String> {
        if accounts.is_empty() {
            return Err("no account is named: write namespace:name".to_owned());
        }
        if accounts.len() > MOST || resources.len() > MOST {
            return Err(format!("there are more than {MOST}"));
        }
        let account = |text: &String| {
            let parts = text
                .split_once(':')
                .filter(|(namespace, name)| !namespace.is_empty() && !name.is_empty() && !name.contains(':'));
            let (namespace, name) =
                parts.ok_or_else(|| format!("{text:?} is no account: write namespace:name"))?;
            let pattern = |text| Pattern::of_name(text).map_err(|why| format!("{text:?} {why}"));
            Ok::<_, String>(Subject::ServiceAccount { namespace: pattern(namespace)?, name: pattern(name)? })
        };
        let mut scoped = RESOURCES.map(|(_, _, _, is_usual)| is_usual && resources.is_empty());
        for wanted in resources {
            let place = RESOURCES.iter().position(|(group, plural, ..)| name_of(group, plural) == *wanted);
            let Some(in_scope) = place.and_then(|place| scoped.get_mut(place)) else {
                let known: Vec<String> =
                    RESOURCES.iter().map(|(group, plural, ..)| name_of(group, plural)).collect();
                return Err(format!(
                    "of {wanted:?} it is not known to which node an object belongs: use {}",
                    known.join(", ")
                ));
            };
            *in_scope = true;
        }
        Ok(Self { accounts: accounts.iter().map(account).collect::<Result<_, _>>()?, resources: scoped })
    }

    /// The resources that are in scope when none are named.
    pub fn usual_resources() -> Vec<String> {
        let usual = RESOURCES.iter().filter(|(.., is_usual)| *is_usual);
        usual.map(|(group, plural, ..)| name_of(group, plural)).collect()
    }

    /// Whether a user is one of the accounts.
    pub fn is_scoped(&self, user: &User) -> bool {
        self.accounts.iter().any(|account| account.is(user, true))
    }

    /// How an object of a resource belongs to a node, if the resource is in scope.
    fn resource(&self, request: &ResourceRequest<'_>) -> Option<Belongs> {
        // A Binding is a write of the pod that it names.
        let plural = match (request.group, request.resource) {
            ("", "bindings") => "pods",
            (_, plural) => plural,
        };
        let rows = RESOURCES.iter().zip(self.resources);
        rows.filter(|(_, in_scope)| *in_scope)
            .find(|((group, own, ..), _)| *group == request.group && *own == plural)
            .map(|((_, _, belongs, _), _)| *belongs)
    }

    /// Why a request is denied, if it is. Allocates nothing.
    pub(super) fn denies(&self, attributes: &Attributes<'_>, graph: Option<&Graph>) -> Option<Reason> {
        let request = attributes.resource.as_ref()?;
        if !self.is_scoped(attributes.user) {
            return None;
        }
        let belongs = self.resource(request)?;
        if belongs == Belongs::AsLease
            && !request.namespace.is_empty()
            && request.namespace != NODE_LEASE_NAMESPACE
        {
            return None;
        }
        let Some(node) = bound_node(attributes.user) else {
            return Some(Reason::Text(
                "node-scoped: the token of the service account is bound to no pod on a node",
            ));
        };
        let is_collection = COLLECTIONS.contains(&attributes.verb);
        if request.name.is_empty() {
            let may_list = matches!(belongs, Belongs::ByGraph { has_field: true, .. });
            if is_collection && may_list && selects(request, "spec.nodeName", node) {
                return None;
            }
            return Some(Reason::Text(match (is_collection, may_list) {
                (true, true) => {
                    "node-scoped: name the node with the field selector spec.nodeName, or one object with metadata.name"
                }
                (true, false) => "node-scoped: name one object with the field selector metadata.name",
                (false, _) => {
                    "node-scoped: of an object without a name it is not known to which node it belongs"
                }
            }));
        }
        let is_own = match belongs {
            Belongs::ByName | Belongs::AsLease => request.name == node,
            Belongs::ByGraph { kind, .. } => {
                graph.is_some_and(|graph| graph.related(kind, request.namespace, request.name, node))
            }
        };
        match (is_own, belongs) {
            (true, _) => None,
            (false, Belongs::ByGraph { .. }) => Some(Reason::NotOfNode),
            (false, _) => Some(Reason::Text("node-scoped: the object is one of another node")),
        }
    }

    /// Explains why a request is not denied.
    pub(super) fn explain(&self, attributes: &Attributes<'_>) -> &'static str {
        let Some(request) = &attributes.resource else { return "node scope: no object is asked for" };
        if !self.is_scoped(attributes.user) {
            return "node scope: the user is no node-scoped service account";
        }
        match self.resource(request) {
            None => "node scope: the resource is not in scope",
            Some(_) => "node scope: within the node of the token",
        }
    }
}

/// Whether a field selector requires exactly this value. All requirements must hold, so others only narrow it.
fn selects(request: &ResourceRequest<'_>, field: &str, value: &str) -> bool {
    request.field_selector.iter().any(|requirement| {
        requirement.operator == FieldOperator::Equals
            && requirement.field == field
            && requirement.value == value
    })
}
