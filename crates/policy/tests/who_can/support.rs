//! States, questions and their answers.

use std::collections::BTreeMap;

use portcullis_policy::audit::who_can::{Answer, Inventory, Listed, WhoCan};
use portcullis_policy::engine::{Builder, Engine, EngineConfig};
use portcullis_policy::objects::{Kind, Object};
use portcullis_policy::{Attributes, FeatureGates, Mode, ResourceRequest, User};
use serde_json::{Value, json};

/// The engine over a state, and what is known beside it.
pub(crate) struct State {
    pub(crate) engine: Engine,
    pub(crate) inventory: Inventory,
    user: User,
}

/// The modes that are the default.
pub(crate) fn node_rbac() -> EngineConfig {
    modes(&[Mode::Node, Mode::Rbac])
}

pub(crate) fn modes(modes: &[Mode]) -> EngineConfig {
    EngineConfig { modes: modes.to_vec(), webhooks: true, ..EngineConfig::default() }
}

impl State {
    pub(crate) fn new<'v>(config: EngineConfig, objects: impl IntoIterator<Item = &'v Value>) -> Self {
        let (mut builder, mut inventory) = (Builder::new(config).unwrap(), Inventory::default());
        for object in objects {
            let text = |field: &str| object[field].as_str().unwrap_or_default();
            let Some(kind) = Kind::of(text("apiVersion"), text("kind")) else { continue };
            let json = object.to_string();
            let object = Object::parse(kind, &json).unwrap();
            inventory.take(&object);
            builder.take(object).unwrap();
        }
        Self { engine: builder.finish(), inventory, user: User::default() }
    }

    pub(crate) fn who_can(&self) -> WhoCan<'_> {
        WhoCan::new(self.engine.chain(), FeatureGates::default(), &self.inventory)
    }

    /// `VERB RESOURCE[.GROUP][/SUBRESOURCE] NAMESPACE NAME`, `-` for nothing; or `VERB /PATH`.
    pub(crate) fn ask(&self, question: &str) -> Answer {
        self.asked(question, false)
    }

    /// The same, with the accounts that can through a group.
    pub(crate) fn expand(&self, question: &str) -> Answer {
        self.asked(question, true)
    }

    fn asked(&self, question: &str, expand: bool) -> Answer {
        let words: Vec<&str> = question.split(' ').map(|word| if word == "-" { "" } else { word }).collect();
        let attributes = match words[..] {
            [verb, path] => Attributes { user: &self.user, verb, path, resource: None },
            [verb, kind, namespace, name] => {
                let (kind, subresource) = kind.split_once('/').unwrap_or((kind, ""));
                let (resource, group) = kind.split_once('.').unwrap_or((kind, ""));
                let request = ResourceRequest {
                    namespace,
                    group,
                    resource,
                    subresource,
                    name,
                    ..ResourceRequest::default()
                };
                Attributes { user: &self.user, verb, path: "", resource: Some(request) }
            }
            _ => panic!("{question}"),
        };
        self.who_can().ask(&attributes, expand)
    }
}

/// The names of a list, as in reports: `group/x`.
pub(crate) fn names(listed: &[Listed]) -> Vec<String> {
    listed.iter().map(|listed| listed.subject.to_string()).collect()
}

/// The subjects of a list with their names of objects.
pub(crate) fn with_names(listed: &[Listed]) -> BTreeMap<String, Vec<String>> {
    listed.iter().map(|listed| (listed.subject.to_string(), listed.resource_names.clone())).collect()
}

/// The ways of the subject of this name.
pub(crate) fn through(listed: &[Listed], name: &str) -> Vec<String> {
    let listed = listed.iter().find(|listed| listed.subject.to_string() == name);
    listed.unwrap_or_else(|| panic!("{name} is not listed")).through.iter().map(ToString::to_string).collect()
}

const RBAC: &str = "rbac.authorization.k8s.io/v1";

pub(crate) fn cluster_role(name: &str, rules: Value) -> Value {
    json!({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules})
}

pub(crate) fn role(namespace: &str, name: &str, rules: Value) -> Value {
    json!({"apiVersion": RBAC, "kind": "Role", "metadata": {"namespace": namespace, "name": name}, "rules": rules})
}

pub(crate) fn cluster_binding(name: &str, role: &str, subjects: Value) -> Value {
    json!({
        "apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"kind": "ClusterRole", "name": role}, "subjects": subjects,
    })
}

/// The role is `Kind/NAME`.
pub(crate) fn binding(namespace: &str, name: &str, role: &str, subjects: Value) -> Value {
    let (kind, role) = role.split_once('/').unwrap();
    json!({
        "apiVersion": RBAC, "kind": "RoleBinding", "metadata": {"namespace": namespace, "name": name},
        "roleRef": {"kind": kind, "name": role}, "subjects": subjects,
    })
}

pub(crate) fn user(name: &str) -> Value {
    json!({"kind": "User", "name": name})
}

pub(crate) fn group(name: &str) -> Value {
    json!({"kind": "Group", "name": name})
}

pub(crate) fn account(namespace: &str, name: &str) -> Value {
    json!({"kind": "ServiceAccount", "namespace": namespace, "name": name})
}

/// A rule for the core group.
pub(crate) fn rule(verb: &str, resource: &str) -> Value {
    json!({"verbs": [verb], "apiGroups": [""], "resources": [resource]})
}

/// A rule for the core group and these names.
pub(crate) fn named_rule(verb: &str, resource: &str, names: &[&str]) -> Value {
    json!({"verbs": [verb], "apiGroups": [""], "resources": [resource], "resourceNames": names})
}
