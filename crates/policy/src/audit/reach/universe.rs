//! Everything that a closure may hold, numbered in the order of the audit's rules (AU-60, AU-65): by type, namespace and name.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::super::Subject;
use super::super::rights::Grants;
use super::super::state::State;
use super::direct::DirectReach;
use crate::graph::VertexKind;
use crate::identity::NODE_USER_PREFIX;

/// The types of vertices, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VertexType {
    /// The credential and the root of a machine.
    Node,
    /// Code in a pod.
    Pod,
    /// A service account.
    Account,
    /// A user.
    User,
    /// A group.
    Group,
    /// Everything.
    Admin,
    /// A Secret.
    Secret,
    /// A ConfigMap.
    ConfigMap,
    /// A PersistentVolumeClaim.
    Claim,
    /// A PersistentVolume.
    Volume,
    /// A ResourceClaim.
    ResourceClaim,
}

impl VertexType {
    /// All of them, in their order.
    pub const ALL: [Self; 11] = [
        Self::Node,
        Self::Pod,
        Self::Account,
        Self::User,
        Self::Group,
        Self::Admin,
        Self::Secret,
        Self::ConfigMap,
        Self::Claim,
        Self::Volume,
        Self::ResourceClaim,
    ];

    /// The singular in lower case, as in subjects (AU-30).
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Pod => "pod",
            Self::Account => "serviceaccount",
            Self::User => "user",
            Self::Group => "group",
            Self::Admin => "admin",
            Self::Secret => "secret",
            Self::ConfigMap => "configmap",
            Self::Claim => "persistentvolumeclaim",
            Self::Volume => "persistentvolume",
            Self::ResourceClaim => "resourceclaim",
        }
    }

    pub(super) fn of(kind: VertexKind) -> Option<Self> {
        Some(match kind {
            VertexKind::ConfigMap => Self::ConfigMap,
            VertexKind::PersistentVolume => Self::Volume,
            VertexKind::PersistentVolumeClaim => Self::Claim,
            VertexKind::Pod => Self::Pod,
            VertexKind::ResourceClaim => Self::ResourceClaim,
            VertexKind::Secret => Self::Secret,
            VertexKind::ServiceAccount => Self::Account,
            VertexKind::Endpoints
            | VertexKind::PodCertificateRequest
            | VertexKind::ResourceSlice
            | VertexKind::VolumeAttachment => return None,
        })
    }
}

/// A vertex: its type, namespace (empty where there is none) and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Vertex {
    /// The type.
    pub kind: VertexType,
    /// The namespace, or empty.
    pub namespace: String,
    /// The name; empty for admin.
    pub name: String,
}

impl Vertex {
    pub(in crate::audit) fn new(kind: VertexType, namespace: &str, name: &str) -> Self {
        Self { kind, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// The vertex of a subject.
    pub(in crate::audit) fn of(subject: &Subject) -> Self {
        match subject {
            Subject::ServiceAccount { namespace, name } => Self::new(VertexType::Account, namespace, name),
            Subject::Node { name } => Self::new(VertexType::User, "", &format!("{NODE_USER_PREFIX}{name}")),
            Subject::User { name } => Self::new(VertexType::User, "", name),
            Subject::Group { name } => Self::new(VertexType::Group, "", name),
        }
    }

    /// The subject of a vertex; none for those that have no rights of their own.
    pub(in crate::audit) fn subject(&self) -> Option<Subject> {
        let name = self.name.clone();
        match self.kind {
            VertexType::Account => Some(Subject::ServiceAccount { namespace: self.namespace.clone(), name }),
            VertexType::User => Some(Subject::User { name }),
            VertexType::Group => Some(Subject::Group { name }),
            _ => None,
        }
    }
}

impl std::fmt::Display for Vertex {
    /// `TYPE/NAMESPACE/NAME`, `TYPE/NAME`, or `admin` (AU-30).
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kind, namespace, name } = self;
        match (kind, namespace.is_empty()) {
            (VertexType::Admin, _) => f.write_str("admin"),
            (_, true) => write!(f, "{}/{name}", kind.as_str()),
            (_, false) => write!(f, "{}/{namespace}/{name}", kind.as_str()),
        }
    }
}

/// The number of a vertex.
pub(super) type Id = u32;
/// The number of a namespace: its place among all, sorted.
pub(super) type NamespaceId = u32;

/// All vertices, sorted. A vertex's number is its place.
#[derive(Debug)]
pub(in crate::audit) struct Universe {
    vertices: Vec<Vertex>,
    /// Every namespace that is known, as an object or because there is something in it; sorted.
    namespaces: Vec<String>,
    /// All vertices by type, then by name.
    by_name: Vec<Id>,
    by_type: BTreeMap<VertexType, Range<Id>>,
}

impl Universe {
    pub(in crate::audit) fn new(state: &State, direct: &DirectReach, grants: &Grants) -> Self {
        let facts = state.facts();
        let mut all = BTreeSet::new();
        let mut add = |kind, namespace: &str, name: &str| {
            all.insert(Vertex::new(kind, namespace, name));
        };
        add(VertexType::Admin, "", "");
        for node in state.nodes() {
            add(VertexType::Node, "", node);
            add(VertexType::User, "", &format!("{NODE_USER_PREFIX}{node}"));
        }
        for pod in &facts.pods {
            add(VertexType::Pod, &pod.namespace, &pod.name);
            if !pod.runs_as().is_empty() {
                add(VertexType::Account, &pod.namespace, pod.runs_as());
            }
        }
        for template in &facts.templates {
            add(VertexType::Account, &template.namespace, &template.account);
        }
        for (namespace, name) in facts.accounts.keys() {
            add(VertexType::Account, namespace, name);
        }
        for ((namespace, name), secret) in &facts.secrets {
            add(VertexType::Secret, namespace, name);
            if let Some(account) = &secret.account {
                add(VertexType::Account, namespace, account);
            }
            for group in secret.bootstrap.iter().flat_map(|token| &token.groups) {
                add(VertexType::Group, "", group);
            }
        }
        let sets = [
            (VertexType::ConfigMap, &facts.config_maps),
            (VertexType::Claim, &facts.claims),
            (VertexType::ResourceClaim, &facts.resource_claims),
        ];
        for (kind, names) in sets {
            names.iter().for_each(|(namespace, name)| add(kind, namespace, name));
        }
        facts.volumes.keys().for_each(|name| add(VertexType::Volume, "", name));
        let referred = facts.referred.iter().map(|(kind, (namespace, name))| (kind, namespace, name));
        let reached = direct.objects.iter().map(|(kind, namespace, name)| (kind, namespace, name));
        for (kind, namespace, name) in referred.chain(reached) {
            if let Some(kind) = VertexType::of(*kind) {
                add(kind, namespace, name);
            }
        }
        all.extend(grants.subjects().map(Vertex::of));
        let of_bindings = facts.rbac.role_bindings().map(|binding| &binding.metadata.namespace);
        Self::of(all, facts.namespaces.keys().chain(of_bindings).cloned())
    }

    fn of(all: BTreeSet<Vertex>, namespaces: impl Iterator<Item = String>) -> Self {
        let vertices: Vec<Vertex> = all.into_iter().collect();
        let named = vertices.iter().map(|vertex| &vertex.namespace).filter(|namespace| !namespace.is_empty());
        let mut namespaces: BTreeSet<String> = namespaces.collect();
        for namespace in named {
            if !namespaces.contains(namespace) {
                namespaces.insert(namespace.clone());
            }
        }
        let mut by_type = BTreeMap::<VertexType, Range<Id>>::new();
        for (id, vertex) in (0..).zip(&vertices) {
            by_type.entry(vertex.kind).or_insert(id..id).end = id + 1;
        }
        let mut by_name: Vec<Id> = (0..).zip(&vertices).map(|(id, _)| id).collect();
        by_name.sort_by_key(|id| vertices.get(*id as usize).map(|vertex| (vertex.kind, &*vertex.name)));
        Self { namespaces: namespaces.into_iter().collect(), by_name, vertices, by_type }
    }

    pub(super) fn len(&self) -> usize {
        self.vertices.len()
    }

    /// All vertices, in their order.
    pub(super) fn into_vertices(self) -> Vec<Vertex> {
        self.vertices
    }

    pub(super) fn get(&self, id: Id) -> Option<&Vertex> {
        self.vertices.get(id as usize)
    }

    pub(super) fn namespaces(&self) -> &[String] {
        &self.namespaces
    }

    /// The name of a namespace by its number.
    pub(super) fn namespace(&self, id: NamespaceId) -> &str {
        self.namespaces.get(id as usize).map(String::as_str).unwrap_or_default()
    }

    /// The number of a namespace.
    pub(super) fn namespace_id(&self, name: &str) -> Option<NamespaceId> {
        let place = self.namespaces.binary_search_by(|known| known.as_str().cmp(name)).ok()?;
        NamespaceId::try_from(place).ok()
    }

    /// The number of a vertex, if there is one.
    pub(super) fn find(&self, kind: VertexType, namespace: &str, name: &str) -> Option<Id> {
        let range = self.of_type(kind);
        let key = (namespace, name);
        let found = self
            .slice(&range)
            .binary_search_by(|vertex| (&*vertex.namespace, &*vertex.name).cmp(&key))
            .ok()?;
        range.start.checked_add(Id::try_from(found).ok()?)
    }

    /// The vertices of a type, in one namespace or everywhere.
    pub(super) fn range(&self, kind: VertexType, namespace: Option<&str>) -> Range<Id> {
        let range = self.of_type(kind);
        let Some(namespace) = namespace else { return range };
        let slice = self.slice(&range);
        let start = slice.partition_point(|vertex| &*vertex.namespace < namespace);
        let end = slice.partition_point(|vertex| &*vertex.namespace <= namespace);
        let number = |at: usize| range.start.saturating_add(Id::try_from(at).unwrap_or(Id::MAX));
        number(start)..number(end)
    }

    /// The vertices of these names, in one namespace or everywhere: names that the state knows, as objects or by references
    /// (AU-61).
    pub(super) fn named(&self, kind: VertexType, namespace: Option<&str>, names: &[String]) -> Vec<Id> {
        match namespace {
            Some(namespace) => names.iter().filter_map(|name| self.find(kind, namespace, name)).collect(),
            None => names.iter().flat_map(|name| self.everywhere(kind, name)).copied().collect(),
        }
    }

    /// The vertices of a name, in whatever namespace.
    fn everywhere(&self, kind: VertexType, name: &str) -> &[Id] {
        let order =
            |id: &Id| self.get(*id).map(|vertex| (vertex.kind, &*vertex.name)).cmp(&Some((kind, name)));
        let start = self.by_name.partition_point(|id| order(id).is_lt());
        let end = self.by_name.partition_point(|id| order(id).is_le());
        self.by_name.get(start..end).unwrap_or_default()
    }

    fn of_type(&self, kind: VertexType) -> Range<Id> {
        self.by_type.get(&kind).cloned().unwrap_or(0..0)
    }

    fn slice(&self, range: &Range<Id>) -> &[Vertex] {
        self.vertices.get(range.start as usize..range.end as usize).unwrap_or_default()
    }
}
