//! States and their differences.

use std::sync::Arc;

use portcullis_policy::Mode;
use portcullis_policy::abac::{AbacPolicyFile, Compatibility};
use portcullis_policy::audit::diff::{self, CannotCompare, Report, Wanted};
use portcullis_policy::audit::reach::Asked;
use portcullis_policy::audit::state::{Item, ItemKind, State, StateBuilder};
use portcullis_policy::engine::EngineConfig;
use serde_json::{Value, json};

/// One side of a comparison.
#[derive(Clone, Debug, Default)]
pub(crate) struct Side {
    pub(crate) modes: Vec<Mode>,
    pub(crate) documents: Vec<Value>,
    /// The `spec` of each line of the ABAC policy file.
    pub(crate) lines: Vec<Value>,
    pub(crate) super_user: String,
}

impl Side {
    pub(crate) fn rbac(documents: Vec<Value>) -> Self {
        Self { modes: vec![Mode::Rbac], documents, ..Self::default() }
    }

    pub(crate) fn state(&self) -> State {
        let version = "abac.authorization.kubernetes.io/v1beta1";
        let line =
            |spec: &Value| json!({"apiVersion": version, "kind": "Policy", "spec": spec}).to_string() + "\n";
        let lines: String = self.lines.iter().map(line).collect();
        let yaml = |_: &str| Err("no line is YAML".to_owned());
        let file = AbacPolicyFile::parse("policy", lines.as_bytes(), Compatibility::Strict, yaml).unwrap();
        let config = EngineConfig {
            modes: self.modes.clone(),
            abac: self.modes.contains(&Mode::Abac).then(|| Arc::new(file)),
            super_user: self.super_user.clone(),
            ..EngineConfig::default()
        };
        let mut builder = StateBuilder::new(config).unwrap();
        for document in &self.documents {
            let of = |field: &str| document[field].as_str().unwrap();
            let kind = ItemKind::of(of("apiVersion"), of("kind")).expect("a kind that the audit reads");
            let text = document.to_string();
            builder.take(Item::parse(kind, &text).unwrap()).unwrap();
        }
        builder.finish()
    }
}

pub(crate) fn between(old: &Side, new: &Side, wanted: Wanted) -> Result<Report, CannotCompare> {
    diff::compare(&old.state(), &new.state(), wanted, &Asked { is_expired: &|_| false })
}

/// Everything that differs.
pub(crate) fn all(old: &Side, new: &Side) -> Report {
    between(old, new, Wanted { most: usize::MAX, rows: true }).unwrap()
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
