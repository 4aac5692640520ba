//! Kinds of `rbac.authorization.k8s.io`. They are owned, because they are kept in the index.

use serde::{Deserialize, Serialize, Serializer};

use super::decode::{List, StringMap, or_default};

/// The group of all RBAC kinds.
pub const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// One rule of a role (RB-10 to RB-18).
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PolicyRule {
    /// The verbs, `*` for all.
    #[serde(deserialize_with = "strings")]
    pub verbs: Vec<String>,
    /// The API groups, `*` for all, empty text for the core group.
    #[serde(deserialize_with = "strings", skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    /// The resources, each with its subresource if it has one.
    #[serde(deserialize_with = "strings", skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// The object names; empty for any.
    #[serde(deserialize_with = "strings", skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    /// The URL paths, with an optional trailing `*`.
    #[serde(rename = "nonResourceURLs", deserialize_with = "strings", skip_serializing_if = "Vec::is_empty")]
    pub non_resource_urls: Vec<String>,
}

/// Object metadata, owned.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OwnedMetadata {
    /// The object's name.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// The namespace, empty for cluster-scoped objects.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The labels, in the order of the document.
    #[serde(deserialize_with = "owned_map", serialize_with = "map", skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<(String, String)>,
    /// The annotations, in the order of the document.
    #[serde(deserialize_with = "owned_map", serialize_with = "map", skip_serializing_if = "Vec::is_empty")]
    pub annotations: Vec<(String, String)>,
}

/// A Role or a ClusterRole; a Role has a namespace and no aggregation rule.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Role {
    /// The metadata.
    #[serde(deserialize_with = "or_default")]
    pub metadata: OwnedMetadata,
    /// The rules. An empty list is serialized as `null` (RB-2).
    #[serde(deserialize_with = "list", serialize_with = "null_if_empty")]
    pub rules: Vec<PolicyRule>,
    /// The selectors of an aggregated ClusterRole (RB-79).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aggregation_rule: Option<AggregationRule>,
}

/// The aggregation rule of a ClusterRole.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AggregationRule {
    /// A ClusterRole that matches any of these selectors is aggregated.
    #[serde(deserialize_with = "list")]
    pub cluster_role_selectors: Vec<LabelSelector>,
}

impl Role {
    /// Whether the rules are collected from other roles (RB-56).
    pub fn is_aggregated(&self) -> bool {
        self.aggregation_rule.as_ref().is_some_and(|rule| !rule.cluster_role_selectors.is_empty())
    }
}

/// A label selector object.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LabelSelector {
    /// Labels that must have exactly these values.
    #[serde(deserialize_with = "owned_map", serialize_with = "map", skip_serializing_if = "Vec::is_empty")]
    pub match_labels: Vec<(String, String)>,
    /// Further requirements.
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelSelectorRequirement>,
}

/// One requirement of a label selector object.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default)]
pub struct LabelSelectorRequirement {
    /// The label key.
    #[serde(deserialize_with = "or_default")]
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    #[serde(deserialize_with = "or_default")]
    pub operator: String,
    /// The values, for `In` and `NotIn`.
    #[serde(deserialize_with = "strings", skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// A RoleBinding or a ClusterRoleBinding; a ClusterRoleBinding has no namespace.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Binding {
    /// The metadata.
    #[serde(deserialize_with = "or_default")]
    pub metadata: OwnedMetadata,
    /// The subjects of the binding.
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub subjects: Vec<Subject>,
    /// The role.
    #[serde(deserialize_with = "or_default")]
    pub role_ref: RoleRef,
}

/// A subject of a binding (RB-20 to RB-23).
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Subject {
    /// `User`, `Group` or `ServiceAccount`; others match no user.
    #[serde(deserialize_with = "or_default")]
    pub kind: String,
    /// The API group of the kind; ignored in matching.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub api_group: String,
    /// The name.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// The namespace, for service accounts.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub namespace: String,
}

/// The role that a binding grants (RB-32).
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RoleRef {
    /// The API group of the kind; ignored in resolution.
    #[serde(deserialize_with = "or_default")]
    pub api_group: String,
    /// `Role` or `ClusterRole`; others are an error when resolved.
    #[serde(deserialize_with = "or_default")]
    pub kind: String,
    /// The name.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
}

impl Binding {
    /// Fills in the API groups that a client may leave out (RB-1).
    pub fn set_defaults(&mut self) {
        if self.role_ref.api_group.is_empty() {
            self.role_ref.api_group = RBAC_GROUP.to_owned();
        }
        for subject in &mut self.subjects {
            if subject.api_group.is_empty() && matches!(subject.kind.as_str(), "User" | "Group") {
                subject.api_group = RBAC_GROUP.to_owned();
            }
        }
    }
}

fn map<S: Serializer>(entries: &[(String, String)], s: S) -> Result<S::Ok, S::Error> {
    s.collect_map(entries.iter().map(|(k, v)| (k, v)))
}

fn null_if_empty<S: Serializer>(rules: &[PolicyRule], s: S) -> Result<S::Ok, S::Error> {
    if rules.is_empty() { s.serialize_none() } else { rules.serialize(s) }
}

fn list<'de, D: serde::Deserializer<'de>, T: Deserialize<'de> + Default>(d: D) -> Result<Vec<T>, D::Error> {
    List::<T>::deserialize(d).map(|list| list.0)
}

fn strings<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Vec<String>, D::Error> {
    list(d)
}

/// For `deserialize_with`: a map of strings, owned, in the order of the document.
pub(crate) fn owned_map<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Vec<(String, String)>, D::Error> {
    let map = StringMap::deserialize(d)?;
    Ok(map.0.into_iter().map(|(k, v)| (k.0.into_owned(), v.0.into_owned())).collect())
}
