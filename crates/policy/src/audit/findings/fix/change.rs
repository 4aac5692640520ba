//! A change to the roles and bindings of a cluster: applied in memory, and printed as a patch or a manifest (AU-80).

use serde_json::{Value, json};

use crate::audit::kubelet_access::Objects;
use crate::objects::Object;
use crate::objects::rbac::{Binding, PolicyRule, Role, Subject};

/// Namespace (empty for cluster-scoped objects) and name.
pub(super) type Key = (String, String);

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// A role gets other rules.
    Rules { role: Key, from: Vec<PolicyRule>, to: Vec<PolicyRule> },
    /// A binding loses subjects.
    Subjects { binding: Key, from: Vec<Subject>, to: Vec<Subject> },
    /// A new role.
    NewRole(Role),
    /// A new binding.
    NewBinding(Binding),
}

impl Change {
    /// Applies it. What it changes is as it was when the change was made.
    pub(super) fn apply(&self, objects: &mut Objects) {
        match self {
            Self::Rules { role, to, .. } => objects.set_rules(&role.0, &role.1, to.clone()),
            Self::Subjects { binding, to, .. } => objects.set_subjects(&binding.0, &binding.1, to.clone()),
            Self::NewRole(role) => drop(objects.take(match role.metadata.namespace.as_str() {
                "" => Object::ClusterRole(role.clone()),
                _ => Object::Role(role.clone()),
            })),
            Self::NewBinding(binding) => drop(objects.take(match binding.metadata.namespace.as_str() {
                "" => Object::ClusterRoleBinding(binding.clone()),
                _ => Object::RoleBinding(binding.clone()),
            })),
        }
    }

    /// Takes it back.
    pub(super) fn undo(&self, objects: &mut Objects) {
        match self {
            Self::Rules { role, from, .. } => objects.set_rules(&role.0, &role.1, from.clone()),
            Self::Subjects { binding, from, .. } => {
                objects.set_subjects(&binding.0, &binding.1, from.clone())
            }
            Self::NewRole(role) => objects.remove_role(&role.metadata.namespace, &role.metadata.name),
            Self::NewBinding(binding) => {
                objects.remove_binding(&binding.metadata.namespace, &binding.metadata.name);
            }
        }
    }

    /// The role that it changes or makes.
    pub(super) fn role(&self) -> Option<Key> {
        match self {
            Self::Rules { role, .. } => Some(role.clone()),
            Self::NewRole(role) => Some((role.metadata.namespace.clone(), role.metadata.name.clone())),
            Self::Subjects { .. } | Self::NewBinding(_) => None,
        }
    }

    /// The binding that it changes or makes.
    pub(super) fn binding(&self) -> Option<Key> {
        match self {
            Self::Subjects { binding, .. } => Some(binding.clone()),
            Self::NewBinding(binding) => {
                Some((binding.metadata.namespace.clone(), binding.metadata.name.clone()))
            }
            Self::Rules { .. } | Self::NewRole(_) => None,
        }
    }

    /// What it is about: `apiVersion`, `kind`, `namespace`, `name`.
    pub(super) fn target(&self) -> Value {
        let (kind, key) = match self {
            Self::Rules { role, .. } => (kind("Role", &role.0), role.clone()),
            Self::NewRole(_) => (kind("Role", &self.key().0), self.key()),
            Self::Subjects { .. } | Self::NewBinding(_) => (kind("RoleBinding", &self.key().0), self.key()),
        };
        target("rbac.authorization.k8s.io/v1", &kind, &key)
    }

    fn key(&self) -> Key {
        self.role().or_else(|| self.binding()).unwrap_or_default()
    }

    /// A patch (RFC 6902): each value is tested before it is removed or replaced. None for a new object.
    pub(super) fn patch(&self) -> Option<Value> {
        let operations = match self {
            Self::Rules { from, to, .. } => of_list("/rules", from, to),
            Self::Subjects { from, to, .. } => of_list("/subjects", from, to),
            Self::NewRole(_) | Self::NewBinding(_) => return None,
        };
        Some(Value::Array(operations))
    }

    /// The object to be applied; none for a patch.
    pub(super) fn manifest(&self) -> Option<Value> {
        let mut object = match self {
            Self::NewRole(role) => serde_json::to_value(role).ok()?,
            Self::NewBinding(binding) => serde_json::to_value(binding).ok()?,
            Self::Rules { .. } | Self::Subjects { .. } => return None,
        };
        let fields = object.as_object_mut()?;
        fields.insert("apiVersion".to_owned(), json!("rbac.authorization.k8s.io/v1"));
        let kind = self.target().get("kind").cloned().unwrap_or_default();
        fields.insert("kind".to_owned(), kind);
        Some(object)
    }
}

/// The kind for an object with or without a namespace.
fn kind(namespaced: &str, namespace: &str) -> String {
    match namespace {
        "" => format!("Cluster{namespaced}"),
        _ => namespaced.to_owned(),
    }
}

/// An object by name.
pub(super) fn target(api_version: &str, kind: &str, (namespace, name): &Key) -> Value {
    let mut target = json!({"apiVersion": api_version, "kind": kind, "name": name});
    if let Some(fields) = target.as_object_mut().filter(|_| !namespace.is_empty()) {
        fields.insert("namespace".to_owned(), json!(namespace));
    }
    target
}

/// The operations that make one list of another. Entries keep their place: a changed one is replaced, those that are gone are
/// removed from the end.
fn of_list<T: PartialEq + serde::Serialize>(pointer: &str, from: &[T], to: &[T]) -> Vec<Value> {
    let mut operations = Vec::new();
    let kept = from.len().min(to.len());
    for (place, (old, new)) in from.iter().zip(to).enumerate().filter(|(_, (old, new))| old != new) {
        let path = format!("{pointer}/{place}");
        operations.push(json!({"op": "test", "path": path, "value": old}));
        operations.push(json!({"op": "replace", "path": path, "value": new}));
    }
    for (place, old) in from.iter().enumerate().skip(kept).rev() {
        let path = format!("{pointer}/{place}");
        operations.push(json!({"op": "test", "path": path, "value": old}));
        operations.push(json!({"op": "remove", "path": path}));
    }
    for new in to.iter().skip(kept) {
        operations.push(json!({"op": "add", "path": format!("{pointer}/-"), "value": new}));
    }
    operations
}
