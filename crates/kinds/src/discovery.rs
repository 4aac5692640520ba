//! Discovery: the groups, versions and resources that are served (AP-100 to AP-105). All of it follows from the table of
//! kinds and from that of the reviews.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use crate::custom::Names;
use crate::custom::version::rank;
use crate::kinds::Kinds;
use crate::resource::{CREATE_VERBS, Resource, Subresource};
use crate::resources::definitions::DEFINITIONS;

/// The media type of the aggregated documents in requests.
pub const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The groups in the order in which clients should try them. Other groups follow, sorted by name.
const ORDER: &[&str] = &[
    "",
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "resource.k8s.io",
];

/// A review, which takes requests and keeps nothing.
pub(crate) struct Review {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) is_namespaced: bool,
}

const fn review(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
) -> Review {
    Review { group, version, kind, plural, is_namespaced: false }
}

const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";

/// The reviews.
static REVIEWS: &[Review] = &[
    review(AUTHENTICATION, "v1", "SelfSubjectReview", "selfsubjectreviews"),
    review(AUTHENTICATION, "v1", "TokenReview", "tokenreviews"),
    local_review("v1"),
    review(AUTHORIZATION, "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews"),
    review(AUTHORIZATION, "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews"),
    review(AUTHORIZATION, "v1", "SubjectAccessReview", "subjectaccessreviews"),
    local_review(OLD),
    review(AUTHORIZATION, OLD, "SelfSubjectAccessReview", "selfsubjectaccessreviews"),
    review(AUTHORIZATION, OLD, "SelfSubjectRulesReview", "selfsubjectrulesreviews"),
    review(AUTHORIZATION, OLD, "SubjectAccessReview", "subjectaccessreviews"),
];

/// The reviews in the version that is always served.
pub(crate) fn current_reviews() -> impl Iterator<Item = &'static Review> {
    reviews(false)
}

/// The reviews that are served, with their old version or without it.
fn reviews(with_old: bool) -> impl Iterator<Item = &'static Review> {
    REVIEWS.iter().filter(move |review| with_old || review.version != OLD)
}

/// The paths of [`Discovery::documents`] of a server with these kinds, which are known sooner than the documents.
pub fn paths(kinds: &Kinds, with_old_reviews: bool) -> BTreeSet<String> {
    let kinds = kinds.rows().map(|row| (row.group, row.version));
    let served = kinds.chain(reviews(with_old_reviews).map(|review| (review.group, review.version)));
    let mut paths = BTreeSet::from(["/api".to_owned(), "/apis".to_owned()]);
    for (group, version) in served.collect::<BTreeSet<_>>() {
        match group {
            "" => drop(paths.insert(format!("/api/{version}"))),
            group => paths.extend([format!("/apis/{group}"), format!("/apis/{group}/{version}")]),
        }
    }
    paths
}

const fn local_review(version: &'static str) -> Review {
    let review = review(AUTHORIZATION, version, "LocalSubjectAccessReview", "localsubjectaccessreviews");
    Review { is_namespaced: true, ..review }
}

/// The version of reviews that is served only if enabled.
const OLD: &str = "v1beta1";

/// The served groups, versions and resources.
#[derive(Clone, Debug)]
pub struct Discovery {
    groups: Vec<Group>,
}

#[derive(Clone, Debug)]
struct Group {
    name: &'static str,
    /// The preferred one first.
    versions: Vec<Version>,
}

#[derive(Clone, Debug)]
struct Version {
    group: &'static str,
    name: &'static str,
    /// By name.
    entries: Vec<Entry>,
}

/// A resource.
#[derive(Clone, Debug)]
struct Entry {
    name: &'static str,
    kind: &'static str,
    is_namespaced: bool,
    verbs: &'static [&'static str],
    /// The kind in lower case, unless a definition says another (AP-102).
    singular: String,
    short_names: Vec<String>,
    categories: Vec<String>,
    storage_hash: Option<String>,
    subresources: &'static [Subresource],
    /// Whether the subresources are listed as they stand here.
    is_custom: bool,
}

impl Discovery {
    /// The discovery documents of a server with these kinds, and with reviews, their old version too if it is switched on.
    /// `sha256` is the hash function of that name.
    pub fn of(kinds: &Kinds, with_old_reviews: bool, sha256: impl Fn(&[u8]) -> [u8; 32]) -> Self {
        let mut served: BTreeMap<(usize, &str), BTreeMap<&str, Vec<Entry>>> = BTreeMap::new();
        let mut add = |group: &'static str, version: &'static str, entry: Entry| {
            let place = ORDER.iter().position(|name| *name == group).unwrap_or(ORDER.len());
            let versions = served.entry((place, group)).or_default();
            versions.entry(version).or_default().push(entry);
        };
        for resource in kinds.rows() {
            add(resource.group, resource.version, Entry::of(resource, &sha256));
        }
        for review in reviews(with_old_reviews) {
            add(review.group, review.version, Entry::review(review));
        }
        let groups = served.into_iter().map(|((_, name), versions)| Group {
            name,
            versions: {
                let mut versions: Vec<Version> = versions
                    .into_iter()
                    .map(|(version, entries)| Version::new(name, version, entries))
                    .collect();
                versions.sort_by_key(|version| rank(version.name));
                versions
            },
        });
        Self { groups: groups.collect() }
    }

    /// Returns whether the group is served; empty for the core group.
    pub fn has_group(&self, group: &str) -> bool {
        self.groups.iter().any(|known| known.name == group)
    }

    /// All documents with their paths: `/api`, `/apis`, and one for each group and version (AP-100).
    pub fn documents(&self) -> Vec<(String, Value)> {
        let api = json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []});
        let groups: Vec<Value> = self.named().map(Group::describe).collect();
        let apis = json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups});
        let mut documents = vec![("/api".to_owned(), api), ("/apis".to_owned(), apis)];
        for group in self.named() {
            let mut document = group.describe();
            set(&mut document, "kind", json!("APIGroup"));
            set(&mut document, "apiVersion", json!("v1"));
            documents.push((format!("/apis/{}", group.name), document));
        }
        for version in self.groups.iter().flat_map(|group| &group.versions) {
            let prefix = if version.group.is_empty() { "/api" } else { "/apis" };
            documents.push((format!("{prefix}/{}", version.api_version()), version.list()));
        }
        documents
    }

    /// The aggregated documents of `/api` and `/apis`, each with everything below (AP-100).
    pub fn aggregated(&self) -> [(&'static str, Value); 2] {
        let list = |items: Vec<Value>| {
            json!({
                "kind": "APIGroupDiscoveryList",
                "apiVersion": "apidiscovery.k8s.io/v2",
                "metadata": {},
                "items": items,
            })
        };
        let core = self.groups.iter().filter(|group| group.name.is_empty());
        [
            ("/api", list(core.map(Group::aggregate).collect())),
            ("/apis", list(self.named().map(Group::aggregate).collect())),
        ]
    }

    /// All but the core group.
    fn named(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter().filter(|group| !group.name.is_empty())
    }
}

fn set(document: &mut Value, name: &str, value: Value) {
    if let Some(members) = document.as_object_mut() {
        members.insert(name.to_owned(), value);
    }
}

impl Group {
    /// As in the list of groups.
    fn describe(&self) -> Value {
        let versions: Vec<Value> = self
            .versions
            .iter()
            .map(|version| json!({"groupVersion": version.api_version(), "version": version.name}))
            .collect();
        json!({"name": self.name, "preferredVersion": versions.first(), "versions": versions})
    }

    fn aggregate(&self) -> Value {
        let metadata = if self.name.is_empty() { json!({}) } else { json!({"name": self.name}) };
        let versions: Vec<Value> = self.versions.iter().map(Version::aggregate).collect();
        json!({"metadata": metadata, "versions": versions})
    }
}

impl Version {
    fn new(group: &'static str, name: &'static str, mut entries: Vec<Entry>) -> Self {
        entries.sort_by_key(|entry| entry.name);
        Self { group, name, entries }
    }

    /// `v1` or `rbac.authorization.k8s.io/v1`.
    fn api_version(&self) -> String {
        match self.group {
            "" => self.name.to_owned(),
            group => format!("{group}/{}", self.name),
        }
    }

    /// The document of a version: resources and subresources, by name.
    fn list(&self) -> Value {
        let mut resources: Vec<(String, Value)> = Vec::new();
        for entry in &self.entries {
            resources.push((entry.name.to_owned(), entry.describe()));
            for below in entry.subresources {
                let name = format!("{}/{}", entry.name, below.name);
                let document = entry.describe_below(below, &name);
                resources.push((name, document));
            }
        }
        // Those of custom kinds are listed kind by kind, each with its status before its scale.
        if !self.entries.iter().any(|entry| entry.is_custom) {
            resources.sort_by(|(a, _), (b, _)| a.cmp(b));
        }
        json!({
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": self.api_version(),
            "resources": resources.into_iter().map(|(_, document)| document).collect::<Vec<_>>(),
        })
    }

    fn aggregate(&self) -> Value {
        let resources: Vec<Value> = self.entries.iter().map(|entry| entry.aggregate(self)).collect();
        json!({"version": self.name, "resources": resources, "freshness": "Current"})
    }
}

impl Entry {
    fn of(resource: &'static Resource, sha256: impl Fn(&[u8]) -> [u8; 32]) -> Self {
        // AP-105: of the version that is stored, whichever is read.
        let storage = || {
            let stored = resource.storage();
            // Kubernetes stores definitions in an older version.
            let version = if *stored == DEFINITIONS { "v1beta1" } else { stored.version };
            let hash = sha256(format!("{}/{version}/{}", stored.group, stored.kind).as_bytes());
            hash.first_chunk::<8>().map(|start| BASE64.encode(start))
        };
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let names = resource.custom.map_or_else(
            || Names {
                singular: resource.kind.to_ascii_lowercase(),
                short_names: owned(resource.short_names),
                categories: owned(resource.categories),
                ..Names::default()
            },
            |custom| custom.names(),
        );
        Self {
            name: resource.plural,
            kind: resource.kind,
            is_namespaced: resource.is_namespaced,
            verbs: resource.verbs,
            singular: names.singular,
            short_names: names.short_names,
            categories: names.categories,
            storage_hash: resource.action.is_none().then(storage).flatten(),
            subresources: resource.subresources(),
            is_custom: resource.custom.is_some(),
        }
    }

    fn review(resource: &Review) -> Self {
        Self {
            name: resource.plural,
            kind: resource.kind,
            is_namespaced: resource.is_namespaced,
            verbs: CREATE_VERBS,
            singular: resource.kind.to_ascii_lowercase(),
            short_names: Vec::new(),
            categories: Vec::new(),
            storage_hash: None,
            subresources: &[],
            is_custom: false,
        }
    }

    fn describe(&self) -> Value {
        let mut document = json!({
            "name": self.name,
            "singularName": self.singular,
            "namespaced": self.is_namespaced,
            "kind": self.kind,
            "verbs": self.verbs,
        });
        if !self.short_names.is_empty() {
            set(&mut document, "shortNames", json!(self.short_names));
        }
        if !self.categories.is_empty() {
            set(&mut document, "categories", json!(self.categories));
        }
        if let Some(hash) = &self.storage_hash {
            set(&mut document, "storageVersionHash", json!(hash));
        }
        document
    }

    fn describe_below(&self, below: &Subresource, name: &str) -> Value {
        let mut document = json!({
            "name": name,
            "singularName": "",
            "namespaced": self.is_namespaced,
            "kind": below.kind,
            "verbs": below.verbs,
        });
        if let Some(group) = below.group {
            set(&mut document, "group", json!(group));
        }
        if let Some(version) = below.version {
            set(&mut document, "version", json!(version));
        }
        document
    }

    fn aggregate(&self, version: &Version) -> Value {
        let kind = |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
        let mut document = json!({
            "resource": self.name,
            "responseKind": kind(version.group, version.name, self.kind),
            "scope": if self.is_namespaced { "Namespaced" } else { "Cluster" },
            "singularResource": self.singular,
            "verbs": self.verbs,
        });
        if !self.short_names.is_empty() {
            set(&mut document, "shortNames", json!(self.short_names));
        }
        if !self.categories.is_empty() {
            set(&mut document, "categories", json!(self.categories));
        }
        let mut below: Vec<&Subresource> = self.subresources.iter().collect();
        if !self.is_custom {
            below.sort_by_key(|below| below.name);
        }
        let below: Vec<Value> = below
            .into_iter()
            .map(|below| {
                let (group, version) =
                    (below.group.unwrap_or(version.group), below.version.unwrap_or(version.name));
                let response = kind(group, version, below.kind);
                json!({"subresource": below.name, "responseKind": response, "verbs": below.verbs})
            })
            .collect();
        if !below.is_empty() {
            set(&mut document, "subresources", json!(below));
        }
        document
    }
}
