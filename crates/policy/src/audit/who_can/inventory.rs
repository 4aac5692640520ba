//! What is known of a cluster beside what its engine keeps, and what the engine needs for a request.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::audit::Subject;
use crate::chain::Mode;
use crate::engine::{EngineConfig, needs};
use crate::graph::Graph;
use crate::identity::ACCOUNT_PREFIX;
use crate::node::NodeAuthorizer;
use crate::objects::rbac::Role;
use crate::objects::{Kind, Object};
use crate::request::Attributes;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    kinds: BTreeSet<Kind>,
    namespaces: BTreeSet<String>,
    accounts: BTreeSet<Subject>,
    cluster_roles: BTreeMap<String, Role>,
}

impl Inventory {
    /// Notes an object.
    pub fn take(&mut self, object: &Object<'_>) {
        self.kinds.insert(object.kind());
        let (namespace, name) = object.key();
        if !namespace.is_empty() && object.kind().is_namespaced() && !self.namespaces.contains(namespace) {
            self.namespaces.insert(namespace.to_owned());
        }
        match object {
            Object::Namespace(_) => drop(self.namespaces.insert(name.to_owned())),
            Object::ServiceAccount(_) => {
                self.accounts.insert(Subject::of_user(&format!("{ACCOUNT_PREFIX}{namespace}:{name}")));
            }
            Object::ClusterRole(role) => drop(self.cluster_roles.insert(name.to_owned(), role.clone())),
            _ => {}
        }
    }

    /// The namespaces of the state: those that are there, and those that have objects (AU-95).
    pub fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.namespaces.iter().map(String::as_str)
    }

    /// The service accounts of the state.
    pub(super) fn accounts(&self) -> impl Iterator<Item = &Subject> {
        self.accounts.iter()
    }

    /// The ClusterRoles as they are stored, by name.
    pub(in crate::audit) fn cluster_roles(&self) -> Vec<Role> {
        self.cluster_roles.values().cloned().collect()
    }

    /// Which of these kinds the state has no object of. Of files it cannot be told whether the cluster has some (AU-23).
    pub fn missing(&self, kinds: &BTreeSet<Kind>) -> Vec<Kind> {
        kinds.iter().copied().filter(|kind| !self.has(*kind)).collect()
    }

    /// Whether the state has an object of a kind.
    pub(in crate::audit) fn has(&self, kind: Kind) -> bool {
        self.kinds.contains(&kind)
    }
}

/// The part of the cluster that an answer is about, beside the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Whether the accounts are asked for that can through a group (AU-90).
    pub expand: bool,
    /// Whether every namespace is asked about (AU-95).
    pub each_namespace: bool,
}

/// The kinds of objects that the answer for a request depends on, each once. The user of the request plays no part.
pub fn kinds(config: &EngineConfig, attributes: &Attributes<'_>, scope: Scope) -> BTreeSet<Kind> {
    let has_namespace =
        scope.each_namespace || attributes.resource.is_some_and(|request| !request.namespace.is_empty());
    let mut kinds: BTreeSet<Kind> = BTreeSet::new();
    for mode in &config.modes {
        let of_mode = needs::of_mode(*mode, config).into_iter();
        match mode {
            // Bindings of a namespace grant nothing beyond it (RB-34, RB-35).
            Mode::Rbac => kinds.extend(of_mode.filter(|kind| has_namespace || !kind.is_namespaced())),
            Mode::Node if !depends_on_objects(config, attributes) => {}
            _ => kinds.extend(of_mode),
        }
    }
    kinds.extend(scope.expand.then_some(Kind::ServiceAccount));
    kinds.extend(scope.each_namespace.then_some(Kind::Namespace));
    kinds
}

/// Whether mode Node looks at what is bound to a node before it allows this.
fn depends_on_objects(config: &EngineConfig, attributes: &Attributes<'_>) -> bool {
    let node = NodeAuthorizer::new(Arc::new(Graph::new()), config.gates);
    attributes.resource.is_some_and(|request| node.depends_on_objects(attributes.verb, &request))
}
