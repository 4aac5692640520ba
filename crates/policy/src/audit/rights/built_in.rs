//! What the default policy of Kubernetes grants: no finding (AU-33). A label on an object proves nothing; only its content counts.

use hashbrown::{HashMap, HashSet};

use super::key::{Key, keys};
use crate::audit::Subject;
use crate::features::FeatureGates;
use crate::objects::Object;
use crate::objects::rbac::{Binding, PolicyRule, RoleRef};
use crate::rbac::{default_policy, is_covered};

/// Namespace (empty for cluster-scoped objects) and name.
type Name = (String, String);

/// The roles and bindings of the default policy.
#[derive(Debug, Default)]
pub(super) struct BuiltIn {
    roles: HashMap<Name, Vec<PolicyRule>>,
    bindings: HashMap<Name, (RoleRef, DefaultBinding)>,
}

/// Whom a binding of the default policy names.
#[derive(Clone, Debug)]
pub(super) struct DefaultBinding(HashSet<Key>);

impl DefaultBinding {
    pub(super) fn binds(&self, key: &Key) -> bool {
        self.0.contains(key)
    }
}

impl BuiltIn {
    pub(super) fn new() -> Self {
        let mut built_in = Self { roles: HashMap::new(), bindings: HashMap::new() };
        for object in default_policy::objects(FeatureGates::default()) {
            match object {
                Object::ClusterRole(role) | Object::Role(role) => {
                    built_in.roles.insert((role.metadata.namespace, role.metadata.name), role.rules);
                }
                Object::ClusterRoleBinding(binding) | Object::RoleBinding(binding) => {
                    let subjects = Subject::all_of(&binding);
                    let keys = subjects.filter_map(|subject| keys(&subject).into_iter().next()).collect();
                    let name = (binding.metadata.namespace, binding.metadata.name);
                    built_in.bindings.insert(name, (binding.role_ref, DefaultBinding(keys)));
                }
                _ => {}
            }
        }
        built_in
    }

    /// The binding of the default policy that has this name and role.
    pub(super) fn binding(&self, binding: &Binding) -> Option<DefaultBinding> {
        let name = (binding.metadata.namespace.clone(), binding.metadata.name.clone());
        let (role, default) = self.bindings.get(&name)?;
        let is_same = role.kind == binding.role_ref.kind && role.name == binding.role_ref.name;
        is_same.then(|| default.clone())
    }

    /// Whether the default policy has a role of this name.
    pub(super) fn has_role(&self, namespace: &str, name: &str) -> bool {
        self.roles.contains_key(&(namespace.to_owned(), name.to_owned()))
    }

    /// Whether the role of this name in the default policy grants all that a rule grants (RB-65). A rule that is too large to be
    /// compared is not built in.
    pub(super) fn has_rule(&self, namespace: &str, name: &str, rule: &PolicyRule) -> bool {
        let rules = self.roles.get(&(namespace.to_owned(), name.to_owned()));
        rules.is_some_and(|rules| is_covered(rules, rule))
    }
}
