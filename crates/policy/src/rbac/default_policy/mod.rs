//! The default RBAC policy of a new cluster (RB-80 to RB-97), for any setting of the feature gates.
//!
//! Tests compare the tables with Kubernetes. This module does not create or reconcile the objects.

mod cluster;
mod controllers;
mod namespaced;
mod row;

use row::{RoleRow, Who};
use serde_json::{Value, json};

use crate::features::FeatureGates;
use crate::objects::Object;
use crate::objects::rbac::{
    AggregationRule, Binding, LabelSelector, OwnedMetadata, PolicyRule, RBAC_GROUP, Role, RoleRef, Subject,
};

/// Set to `false` on a stored object to exclude it from start-up reconciliation (RB-80, RB-106).
pub const AUTOUPDATE_ANNOTATION: &str = "rbac.authorization.kubernetes.io/autoupdate";
/// The label of every default object, with its value (RB-80).
pub const BOOTSTRAPPING_LABEL: (&str, &str) = ("kubernetes.io/bootstrapping", "rbac-defaults");

/// The namespace of the service accounts that the policy names.
const SYSTEM_NAMESPACE: &str = "kube-system";
/// The name prefix of controller roles (RB-84).
const CONTROLLER_PREFIX: &str = "system:controller:";

/// The objects of the default policy: ClusterRoles, ClusterRoleBindings, Roles, RoleBindings, in this order.
///
/// The aggregated ClusterRoles `admin`, `edit` and `view` have no rules; see [`super::aggregation::aggregate`].
pub fn objects(gates: FeatureGates) -> Vec<Object<'static>> {
    let cluster_roles = cluster_roles(gates).map(Object::ClusterRole);
    let cluster_role_bindings = cluster_role_bindings(gates).map(Object::ClusterRoleBinding);
    let roles = namespaced::NAMESPACED_ROLES.iter().filter(|row| row.role.is_on(gates)).map(|row| {
        let mut made = role(&row.role, row.role.name.to_owned(), gates);
        made.metadata.namespace = row.namespace.to_owned();
        Object::Role(made)
    });
    let role_bindings =
        namespaced::NAMESPACED_ROLES.iter().filter(|row| row.role.is_on(gates)).filter_map(|row| {
            let mut binding = binding("Role", row.role.name.to_owned(), row.role.bound_to?);
            binding.metadata.namespace = row.namespace.to_owned();
            if !row.binding.is_empty() {
                binding.metadata.name = row.binding.to_owned();
            }
            Some(Object::RoleBinding(binding))
        });
    cluster_roles.chain(cluster_role_bindings).chain(roles).chain(role_bindings).collect()
}

/// The same objects as JSON documents, complete with `apiVersion` and `kind`.
///
/// # Errors
/// Never in practice: strings and lists can always be serialized.
pub fn documents(gates: FeatureGates) -> Result<Vec<Value>, serde_json::Error> {
    objects(gates).iter().filter_map(document).collect()
}

fn document(object: &Object<'_>) -> Option<Result<Value, serde_json::Error>> {
    let (kind, document) = match object {
        Object::ClusterRole(role) => ("ClusterRole", serde_json::to_value(role)),
        Object::ClusterRoleBinding(binding) => ("ClusterRoleBinding", serde_json::to_value(binding)),
        Object::Role(role) => ("Role", serde_json::to_value(role)),
        Object::RoleBinding(binding) => ("RoleBinding", serde_json::to_value(binding)),
        _ => return None,
    };
    Some(document.map(|mut document| {
        if let Some(fields) = document.as_object_mut() {
            fields.insert("apiVersion".to_owned(), json!("rbac.authorization.k8s.io/v1"));
            fields.insert("kind".to_owned(), json!(kind));
        }
        document
    }))
}

/// The rules of the ClusterRole `system:node`, in the order of NA-104. The Node authorizer uses them independently of
/// the ClusterRole (RB-95).
pub fn node_rules(gates: FeatureGates) -> Vec<PolicyRule> {
    row::rules(cluster::NODE_RULES, gates)
}

/// RB-81, RB-84.
fn cluster_roles(gates: FeatureGates) -> impl Iterator<Item = Role> {
    let own = cluster::CLUSTER_ROLES.iter().map(|row| (row, row.name.to_owned()));
    let controllers = controllers::CONTROLLER_ROLES.iter().map(|row| (row, controller_role(row)));
    own.chain(controllers)
        .filter(move |(row, _)| row.is_on(gates))
        .map(move |(row, name)| role(row, name, gates))
}

/// RB-82, RB-84.
fn cluster_role_bindings(gates: FeatureGates) -> impl Iterator<Item = Binding> {
    let own = cluster::CLUSTER_ROLES
        .iter()
        .filter(move |row| row.is_on(gates))
        .filter_map(|row| Some(binding("ClusterRole", row.name.to_owned(), row.bound_to?)));
    let controllers = controllers::CONTROLLER_ROLES
        .iter()
        .filter(move |row| row.is_on(gates))
        .map(|row| binding("ClusterRole", controller_role(row), &[Who::Account(row.name)]));
    own.chain(controllers)
}

fn controller_role(row: &RoleRow) -> String {
    format!("{CONTROLLER_PREFIX}{}", row.name)
}

fn role(row: &RoleRow, name: String, gates: FeatureGates) -> Role {
    let mut metadata = metadata(name);
    if let Some(fed) = row.feeds {
        metadata.labels.push((aggregation_label(fed), "true".to_owned()));
    }
    let selector = |collected| LabelSelector {
        match_labels: vec![(aggregation_label(collected), "true".to_owned())],
        match_expressions: Vec::new(),
    };
    Role {
        metadata,
        rules: row::rules(row.rules, gates),
        aggregation_rule: row
            .collects
            .map(|collected| AggregationRule { cluster_role_selectors: vec![selector(collected)] }),
    }
}

fn binding(role_kind: &str, name: String, who: &[Who]) -> Binding {
    Binding {
        metadata: metadata(name.clone()),
        subjects: who.iter().map(subject).collect(),
        role_ref: RoleRef { api_group: RBAC_GROUP.to_owned(), kind: role_kind.to_owned(), name },
    }
}

fn subject(who: &Who) -> Subject {
    let (kind, api_group, name, namespace) = match *who {
        Who::Account(name) => ("ServiceAccount", "", name, SYSTEM_NAMESPACE),
        Who::Group(name) => ("Group", RBAC_GROUP, name, ""),
        Who::User(name) => ("User", RBAC_GROUP, name, ""),
    };
    Subject { kind: kind.into(), api_group: api_group.into(), name: name.into(), namespace: namespace.into() }
}

/// RB-80.
fn metadata(name: String) -> OwnedMetadata {
    let (label, value) = BOOTSTRAPPING_LABEL;
    OwnedMetadata {
        name,
        labels: vec![(label.to_owned(), value.to_owned())],
        annotations: vec![(AUTOUPDATE_ANNOTATION.to_owned(), "true".to_owned())],
        ..OwnedMetadata::default()
    }
}

/// RB-83.
fn aggregation_label(role: &str) -> String {
    format!("rbac.authorization.k8s.io/aggregate-to-{role}")
}
