//! The answer of `portcullis reach`: by itself, and in the end.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::closure::{ClusterAdmin, Search, Step};
use super::direct::{DirectReach, bytes};
use super::universe::{Id, Universe, VertexType};
use crate::audit::Incomplete;
use crate::audit::rights::Grants;
use crate::audit::state::{ItemKind, State};
use crate::graph::VertexKind;
use crate::objects::Kind;

/// What one node reaches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeReach {
    /// The node.
    pub node: String,
    /// By itself (AU-51 to AU-55).
    #[serde(flatten)]
    pub direct: DirectLists,
    /// In the end; none if that was not asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closure: Option<Closure>,
    /// Of what it reaches by itself, the names without an object, by list (AU-57). Only of kinds of which objects were given; none
    /// if that was not asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub absent: Option<BTreeMap<&'static str, Vec<String>>>,
}

/// What a node reaches by itself: `NAMESPACE/NAME` or `NAME`, each list sorted by bytes (AU-56).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DirectLists {
    /// Secrets.
    pub secrets: Vec<String>,
    /// ConfigMaps.
    pub configmaps: Vec<String>,
    /// PersistentVolumeClaims.
    pub persistentvolumeclaims: Vec<String>,
    /// PersistentVolumes.
    pub persistentvolumes: Vec<String>,
    /// Service accounts of which it gets tokens.
    pub serviceaccounts: Vec<String>,
    /// ResourceClaims.
    pub resourceclaims: Vec<String>,
    /// Pods.
    pub pods: Vec<String>,
    /// VolumeAttachments.
    pub volumeattachments: Vec<String>,
    /// ResourceSlices.
    pub resourceslices: Vec<String>,
}

/// What a node reaches in the end (AU-66).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Closure {
    /// Whether that is everything.
    #[serde(serialize_with = "as_word")]
    pub cluster_admin: ClusterAdmin,
    /// The other nodes of which it gets the credential or root; sorted.
    pub nodes: Vec<String>,
    /// The service accounts of which it gets API tokens, as `NAMESPACE/NAME`; sorted.
    pub serviceaccounts: Vec<String>,
    /// How much that is.
    pub counts: Counts,
    /// Ways to admin, nodes, service accounts and secrets, the nearest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<Path>,
}

/// How much a node reaches in the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReachSize {
    /// Whether that is everything.
    #[serde(serialize_with = "as_word")]
    pub cluster_admin: ClusterAdmin,
    /// How much that is.
    #[serde(flatten)]
    pub counts: Counts,
}

impl ReachSize {
    /// As nodes are compared (AU-67): the greater reaches more.
    pub fn order(&self) -> (std::cmp::Reverse<ClusterAdmin>, usize, usize, usize) {
        let Counts { secrets, pods, nodes, .. } = &self.counts;
        (std::cmp::Reverse(self.cluster_admin), secrets.count, pods.count, *nodes)
    }
}

/// Counts of a closure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Secrets.
    pub secrets: Names,
    /// ConfigMaps.
    pub configmaps: Names,
    /// Pods in which it can run code.
    pub pods: Pods,
    /// The other nodes.
    pub nodes: usize,
    /// The service accounts.
    pub serviceaccounts: usize,
}

/// A number of names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Names {
    /// How many different ones.
    pub count: usize,
    /// Whether that is every name of the cluster, also those that are yet to come.
    #[serde(skip_serializing_if = "is_false")]
    pub all: bool,
    /// The namespaces of which it is every name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
}

/// A number of pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pods {
    /// All of them.
    pub count: usize,
    /// Those that run on other nodes, or on none.
    pub of_others: usize,
}

/// A way from the node to something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Path {
    /// Where it leads: `TYPE/NAMESPACE/NAME`, or `admin`.
    pub to: String,
    /// Its edges, in order.
    pub edges: Vec<PathEdge>,
}

/// One edge of a way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PathEdge {
    /// `E1` to `E31`.
    pub id: String,
    /// Where it comes from.
    pub from: String,
    /// Where it leads.
    pub to: String,
    /// The binding, role and rule that make it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grant: Option<Value>,
}

/// The whole answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The nodes, sorted by name.
    pub nodes: Vec<NodeReach>,
    /// What was missing.
    pub incomplete: Vec<Incomplete>,
}

impl DirectLists {
    /// Every list, with its name, in the order of the fields.
    pub fn each(&self) -> [(&'static str, &[String]); 9] {
        [
            ("secrets", &self.secrets),
            ("configmaps", &self.configmaps),
            ("persistentvolumeclaims", &self.persistentvolumeclaims),
            ("persistentvolumes", &self.persistentvolumes),
            ("serviceaccounts", &self.serviceaccounts),
            ("resourceclaims", &self.resourceclaims),
            ("pods", &self.pods),
            ("volumeattachments", &self.volumeattachments),
            ("resourceslices", &self.resourceslices),
        ]
    }

    pub(super) fn of(direct: &DirectReach, node: &str) -> Self {
        let mut lists = Self::default();
        for (kind, namespace, name) in direct.sorted(node) {
            let list = match kind {
                VertexKind::ConfigMap => &mut lists.configmaps,
                VertexKind::PersistentVolume => &mut lists.persistentvolumes,
                VertexKind::PersistentVolumeClaim => &mut lists.persistentvolumeclaims,
                VertexKind::Pod => &mut lists.pods,
                VertexKind::ResourceClaim => &mut lists.resourceclaims,
                VertexKind::ResourceSlice => &mut lists.resourceslices,
                VertexKind::Secret => &mut lists.secrets,
                VertexKind::ServiceAccount => &mut lists.serviceaccounts,
                VertexKind::VolumeAttachment => &mut lists.volumeattachments,
                VertexKind::Endpoints | VertexKind::PodCertificateRequest => continue,
            };
            list.push(bytes(namespace, name));
        }
        lists
    }
}

/// The names that a node reaches by itself and that no object has, by list (AU-57).
pub(super) fn absent(state: &State, direct: &DirectReach, node: &str) -> BTreeMap<&'static str, Vec<String>> {
    let facts = state.facts();
    let mut absent = BTreeMap::<&'static str, Vec<String>>::new();
    for (kind, namespace, name) in direct.sorted(node) {
        let key = || (namespace.clone(), name.clone());
        let (given, is_there) = match kind {
            VertexKind::ConfigMap => (ItemKind::ConfigMap, facts.config_maps.contains(&key())),
            VertexKind::PersistentVolume => {
                (ItemKind::Decided(Kind::PersistentVolume), facts.volumes.contains_key(name))
            }
            VertexKind::PersistentVolumeClaim => {
                (ItemKind::Decided(Kind::PersistentVolumeClaim), facts.claims.contains(&key()))
            }
            VertexKind::ResourceClaim => (ItemKind::ResourceClaim, facts.resource_claims.contains(&key())),
            VertexKind::Secret => (ItemKind::Secret, facts.secrets.contains_key(&key())),
            VertexKind::ServiceAccount => {
                (ItemKind::Decided(Kind::ServiceAccount), facts.accounts.contains_key(&key()))
            }
            // They are in the graph only as objects.
            VertexKind::Endpoints
            | VertexKind::Pod
            | VertexKind::PodCertificateRequest
            | VertexKind::ResourceSlice
            | VertexKind::VolumeAttachment => continue,
        };
        if state.has(given) && !is_there {
            absent.entry(kind.resource()).or_default().push(bytes(namespace, name));
        }
    }
    absent
}

/// Describes what a search found.
pub(super) struct Describe<'s> {
    pub(super) universe: &'s Universe,
    pub(super) grants: &'s Grants,
    /// How many ways of each type are described.
    pub(super) paths: usize,
    /// The pods that run on the node.
    pub(super) own_pods: &'s [Id],
}

impl Describe<'_> {
    pub(super) fn closure(&self, search: &Search<'_, '_>) -> Closure {
        let names = |ids: &[Id]| {
            let mut names: Vec<String> = ids
                .iter()
                .filter_map(|id| self.universe.get(*id))
                .map(|vertex| bytes(&vertex.namespace, &vertex.name))
                .collect();
            names.sort_unstable();
            names
        };
        let of_type = |kind| self.of_type(search, kind).collect::<Vec<Id>>();
        let (nodes, accounts) = (of_type(VertexType::Node), of_type(VertexType::Account));
        let secrets = of_type(VertexType::Secret);
        let mut paths = Vec::new();
        let to_admin = search.way_to_admin();
        if self.paths > 0 && !to_admin.is_empty() {
            paths.push(self.path(&to_admin));
        }
        for ids in [&nodes, &accounts, &secrets] {
            paths.extend(ids.iter().take(self.paths).map(|id| self.path(&search.way(*id))));
        }
        let ReachSize { cluster_admin, counts } = self.size(search);
        Closure { cluster_admin, nodes: names(&nodes), serviceaccounts: names(&accounts), counts, paths }
    }

    /// How much the last search found.
    pub(super) fn size(&self, search: &Search<'_, '_>) -> ReachSize {
        let count = |kind| self.of_type(search, kind).count();
        let of_others = self.of_type(search, VertexType::Pod);
        let of_others = of_others.filter(|id| self.own_pods.binary_search(id).is_err()).count();
        ReachSize {
            cluster_admin: search.cluster_admin(),
            counts: Counts {
                secrets: self.count(search, VertexType::Secret, count(VertexType::Secret)),
                configmaps: self.count(search, VertexType::ConfigMap, count(VertexType::ConfigMap)),
                pods: Pods { count: count(VertexType::Pod), of_others },
                nodes: count(VertexType::Node),
                serviceaccounts: count(VertexType::Account),
            },
        }
    }

    /// What the last search found of a type, nearest first.
    fn of_type<'f>(
        &self,
        search: &'f Search<'_, '_>,
        kind: VertexType,
    ) -> impl Iterator<Item = Id> + use<'f> {
        let range = self.universe.range(kind, None);
        search.found().order.iter().copied().filter(move |id| range.contains(id))
    }

    fn count(&self, search: &Search<'_, '_>, kind: VertexType, count: usize) -> Names {
        let (all, namespaces) = search.found().wholes(kind);
        let namespaces = namespaces.map(|namespace| self.universe.namespace(namespace).to_owned()).collect();
        Names { count, all, namespaces }
    }

    pub(super) fn path(&self, way: &[(Id, Step)]) -> Path {
        let name = |id: Id| self.universe.get(id).map(ToString::to_string).unwrap_or_default();
        let edges: Vec<PathEdge> = way
            .iter()
            .map(|(to, (number, from, grant))| PathEdge {
                id: format!("E{number}"),
                from: name(*from),
                to: name(*to),
                grant: grant
                    .and_then(|grant| self.grants.grant(grant))
                    .and_then(|grant| serde_json::to_value(grant).ok()),
            })
            .collect();
        Path { to: edges.last().map(|edge| edge.to.clone()).unwrap_or_default(), edges }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_false(flag: &bool) -> bool {
    !flag
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn as_word<S: serde::Serializer>(admin: &ClusterAdmin, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(admin.as_str())
}
