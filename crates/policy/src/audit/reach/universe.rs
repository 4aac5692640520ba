//! Everything that a closure may hold, numbered in the order of the audit's rules (AU-60, AU-65): by type, namespace and name.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::OnceLock;

use hashbrown::{DefaultHashBuilder, HashSet, HashTable};

use super::super::Subject;
use super::super::rights::Grants;
use super::super::state::{Name, State};
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
        let (kind, namespace, name) = key_of(subject);
        Self::new(kind, namespace, &name)
    }

    fn key(&self) -> (VertexType, &str, &str) {
        (self.kind, &self.namespace, &self.name)
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

fn key_of(subject: &Subject) -> (VertexType, &str, Cow<'_, str>) {
    match subject {
        Subject::ServiceAccount { namespace, name } => (VertexType::Account, namespace, name.into()),
        Subject::Node { name } => (VertexType::User, "", user_of(name)),
        Subject::User { name } => (VertexType::User, "", name.into()),
        Subject::Group { name } => (VertexType::Group, "", name.into()),
    }
}

/// The user of a node.
fn user_of(node: &str) -> Cow<'_, str> {
    format!("{NODE_USER_PREFIX}{node}").into()
}

/// Where the state names a vertex. `Objects` sorts first, so that it counts for a vertex that both name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    /// In objects other than bindings.
    Objects,
    /// In the subjects of a binding.
    Bindings,
}

/// The namespace and the name of a vertex, and where the state names it.
type Named<'k> = (&'k str, Cow<'k, str>, Source);

/// Namespaces and names by type, while they are collected.
#[derive(Default)]
struct Names<'k>(BTreeMap<VertexType, Vec<Named<'k>>>);

impl<'k> Names<'k> {
    fn add(&mut self, kind: VertexType, names: impl Iterator<Item = (&'k str, &'k str)>) {
        let names = names.map(|(namespace, name)| (namespace, Cow::Borrowed(name), Source::Objects));
        self.0.entry(kind).or_default().extend(names);
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
    /// The vertices that only bindings name.
    only_bound: HashSet<Id>,
    /// Every namespace that is known, as an object or because there is something in it; sorted.
    namespaces: Vec<String>,
    /// All vertices by type, then by name; made when it is first needed.
    by_name: OnceLock<Vec<Id>>,
    by_type: BTreeMap<VertexType, Range<Id>>,
    /// The numbers by the hashes of the vertices: there are several times as many questions as vertices.
    numbers: HashTable<Id>,
    hasher: DefaultHashBuilder,
}

impl Universe {
    pub(in crate::audit) fn new(state: &State, direct: &DirectReach, grants: &Grants) -> Self {
        let (facts, nodes) = (state.facts(), state.nodes());
        let mut all = Names::default();
        all.add(VertexType::Admin, [("", "")].into_iter());
        all.add(VertexType::Node, nodes.iter().map(|node| ("", *node)));
        all.add(VertexType::Pod, facts.pods.iter().map(|pod| (&*pod.namespace, &*pod.name)));
        // Thousands of pods run as the same account.
        let run_as = facts.pods.iter().map(|pod| (&*pod.namespace, pod.runs_as()));
        let run_as: HashSet<(&str, &str)> = run_as.filter(|(_, account)| !account.is_empty()).collect();
        all.add(VertexType::Account, run_as.into_iter());
        let of_templates = facts.templates.iter();
        let of_templates = of_templates.map(|template| (&*template.namespace, &*template.account));
        all.add(VertexType::Account, of_templates);
        all.add(VertexType::Account, facts.accounts.keys().map(strs));
        all.add(VertexType::Secret, facts.secrets.keys().map(strs));
        for ((namespace, _), secret) in &facts.secrets {
            all.add(VertexType::Account, secret.account.iter().map(|account| (&**namespace, &**account)));
            let groups = secret.bootstrap.iter().flat_map(|token| &token.groups);
            all.add(VertexType::Group, groups.map(|group| ("", &**group)));
        }
        all.add(VertexType::ConfigMap, facts.config_maps.iter().map(strs));
        all.add(VertexType::Claim, facts.claims.iter().map(strs));
        all.add(VertexType::ResourceClaim, facts.resource_claims.iter().map(strs));
        all.add(VertexType::Volume, facts.volumes.keys().map(|name| ("", &**name)));
        let referred = facts.referred.iter().map(|(kind, (namespace, name))| (kind, namespace, name));
        let reached = direct.objects.iter().map(|(kind, namespace, name)| (kind, namespace, name));
        for (kind, namespace, name) in referred.chain(reached) {
            // There are no pods but those above.
            if let Some(kind) = VertexType::of(*kind).filter(|kind| *kind != VertexType::Pod) {
                all.add(kind, [(&**namespace, &**name)].into_iter());
            }
        }
        let users = nodes.iter().map(|node| (VertexType::User, "", user_of(node)));
        for (kind, namespace, name) in users {
            all.0.entry(kind).or_default().push((namespace, name, Source::Objects));
        }
        for (kind, namespace, name) in grants.subjects().map(key_of) {
            all.0.entry(kind).or_default().push((namespace, name, Source::Bindings));
        }
        let of_bindings = facts.rbac.role_bindings().map(|binding| &binding.metadata.namespace);
        Self::of(all, facts.namespaces.keys().chain(of_bindings).map(String::as_str))
    }

    fn of<'k>(all: Names<'k>, namespaces: impl Iterator<Item = &'k str>) -> Self {
        let mut vertices = Vec::new();
        let mut only_bound = HashSet::new();
        let mut by_type = BTreeMap::<VertexType, Range<Id>>::new();
        let number = |at: usize| Id::try_from(at).unwrap_or(Id::MAX);
        for (kind, mut names) in all.0 {
            // Parts of it are sorted.
            names.sort();
            names.dedup_by(|later, first| (later.0, &later.1) == (first.0, &first.1));
            let start = number(vertices.len());
            let bound = (start..).zip(&names).filter(|(_, (_, _, source))| *source == Source::Bindings);
            only_bound.extend(bound.map(|(id, _)| id));
            vertices.extend(names.iter().map(|(namespace, name, _)| Vertex::new(kind, namespace, name)));
            by_type.insert(kind, start..number(vertices.len()));
        }
        let mut namespaces: HashSet<&str> = namespaces.collect();
        let named = vertices.iter().map(|vertex| vertex.namespace.as_str());
        namespaces.extend(named.filter(|namespace| !namespace.is_empty()));
        let mut namespaces: Vec<String> = namespaces.into_iter().map(str::to_owned).collect();
        namespaces.sort_unstable();
        let hasher = DefaultHashBuilder::default();
        let hash = |vertex: &Vertex| hasher.hash_one(vertex.key());
        let mut numbers = HashTable::with_capacity(vertices.len());
        for (id, vertex) in (0..).zip(&vertices) {
            numbers.insert_unique(hash(vertex), id, |id: &Id| vertices.get(*id as usize).map_or(0, hash));
        }
        Self { namespaces, by_name: OnceLock::new(), vertices, only_bound, by_type, numbers, hasher }
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
        let key = (kind, namespace, name);
        let is_it = |id: &Id| self.get(*id).is_some_and(|vertex| vertex.key() == key);
        self.numbers.find(self.hasher.hash_one(key), is_it).copied()
    }

    /// The number of the vertex of a subject, if there is one.
    pub(super) fn find_subject(&self, subject: &Subject) -> Option<Id> {
        let (kind, namespace, name) = key_of(subject);
        self.find(kind, namespace, &name)
    }

    /// The number of the vertex of a subject that only bindings name (AU-61).
    pub(super) fn find_only_bound(&self, subject: &Subject) -> Option<Id> {
        self.find_subject(subject).filter(|id| self.only_bound.contains(id))
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
        let by_name = self.by_name.get_or_init(|| {
            let mut all: Vec<Id> = (0..).zip(&self.vertices).map(|(id, _)| id).collect();
            all.sort_by_key(|id| self.get(*id).map(|vertex| (vertex.kind, &*vertex.name)));
            all
        });
        let start = by_name.partition_point(|id| order(id).is_lt());
        let end = by_name.partition_point(|id| order(id).is_le());
        by_name.get(start..end).unwrap_or_default()
    }

    fn of_type(&self, kind: VertexType) -> Range<Id> {
        self.by_type.get(&kind).cloned().unwrap_or(0..0)
    }

    fn slice(&self, range: &Range<Id>) -> &[Vertex] {
        self.vertices.get(range.start as usize..range.end as usize).unwrap_or_default()
    }
}

fn strs((namespace, name): &Name) -> (&str, &str) {
    (namespace, name)
}
