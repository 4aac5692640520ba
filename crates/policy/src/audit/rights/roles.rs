//! Roles and bindings, compared with all asks.

use std::collections::BTreeMap;

use hashbrown::{HashMap, HashSet};

use std::sync::Arc;

use super::asks::{self, Ask, Verbs};
use super::built_in::{BuiltIn, DefaultBinding};
use super::held::Names;
use crate::audit::Subject;
use crate::audit::in_force::InForce;
use crate::audit::kubelet_access::Objects;
use crate::objects::rbac::{Binding, PolicyRule};

#[derive(Debug)]
pub(super) struct Bound {
    pub(super) namespace: Option<Arc<str>>,
    pub(super) name: String,
    pub(super) role_kind: String,
    pub(super) role_name: String,
    pub(super) role: Option<Arc<Compiled>>,
    pub(super) subjects: Vec<Subject>,
    /// The role of this name in the default policy.
    pub(super) default: Option<DefaultBinding>,
}

impl Bound {
    /// The same binding with the same role, and no subjects.
    pub(super) fn like(other: &Self) -> Self {
        Self {
            namespace: other.namespace.clone(),
            name: other.name.clone(),
            role_kind: other.role_kind.clone(),
            role_name: other.role_name.clone(),
            role: other.role.clone(),
            subjects: Vec::new(),
            default: other.default.clone(),
        }
    }
}

/// A role, compared with all asks.
#[derive(Debug, Default)]
pub(super) struct Compiled {
    pub(super) rules: Vec<RuleSource>,
    pub(super) held: Vec<(u32, Ask, Verbs, Names)>,
    pub(super) full: Option<u32>,
    pub(super) talks_to_kubelets: Option<u32>,
    pub(super) is_aggregated: bool,
}

#[derive(Debug)]
pub(super) struct RuleSource {
    pub(super) index: Option<usize>,
    pub(super) from: Vec<String>,
    pub(super) rule: PolicyRule,
    /// Whether the default role of this name has it too.
    pub(super) is_default: bool,
}

/// Compiles roles, each once.
pub(super) struct Roles<'a> {
    objects: &'a Objects,
    in_force: InForce<'a>,
    compiled: HashMap<(Option<String>, String), Option<Arc<Compiled>>>,
    built_in: &'a BuiltIn,
}

impl<'a> Roles<'a> {
    pub(super) fn new(objects: &'a Objects, built_in: &'a BuiltIn) -> Self {
        Self { objects, in_force: InForce::new(objects), compiled: HashMap::new(), built_in }
    }

    /// The rules that are in force.
    pub(super) fn in_force(&self) -> &InForce<'a> {
        &self.in_force
    }

    /// A binding, with its role compiled.
    pub(super) fn bound(&mut self, binding: &Binding, built_in: &BuiltIn) -> Bound {
        let namespace = binding.metadata.namespace.as_str();
        let mut subjects: Vec<Subject> = Subject::all_of(binding).collect();
        subjects.sort();
        subjects.dedup();
        Bound {
            namespace: (!namespace.is_empty()).then(|| namespace.into()),
            name: binding.metadata.name.clone(),
            role_kind: binding.role_ref.kind.clone(),
            role_name: binding.role_ref.name.clone(),
            role: self.role(&binding.role_ref.kind, namespace, &binding.role_ref.name),
            subjects,
            default: built_in.binding(binding),
        }
    }

    /// The role of a binding in a namespace, or in none (RB-32).
    pub(super) fn role(&mut self, kind: &str, namespace: &str, name: &str) -> Option<Arc<Compiled>> {
        match (kind, namespace) {
            ("ClusterRole", _) => self.cluster(name),
            ("Role", "") => None,
            ("Role", namespace) => self.namespaced(namespace, name),
            _ => None,
        }
    }

    fn cluster(&mut self, name: &str) -> Option<Arc<Compiled>> {
        let key = (None, name.to_owned());
        if let Some(done) = self.compiled.get(&key) {
            return done.clone();
        }
        let role = self.objects.cluster_role(name).map(|role| {
            let mut compiled = Compiled { is_aggregated: role.is_aggregated(), ..Compiled::default() };
            let source = |index: Option<usize>, rule: &PolicyRule| RuleSource {
                index,
                from: self.objects.sources(role, rule),
                rule: rule.clone(),
                is_default: self.built_in.has_rule("", name, rule),
            };
            for (index, rule) in role.rules.iter().enumerate() {
                compiled.take(rule, &|rule| source(Some(index), rule));
            }
            for rule in self.in_force.pending(role) {
                compiled.take(rule, &|rule| source(None, rule));
            }
            Arc::new(compiled)
        });
        self.compiled.insert(key, role.clone());
        role
    }

    fn namespaced(&mut self, namespace: &str, name: &str) -> Option<Arc<Compiled>> {
        let key = (Some(namespace.to_owned()), name.to_owned());
        if let Some(done) = self.compiled.get(&key) {
            return done.clone();
        }
        let role = self.objects.role(namespace, name).map(|role| {
            let mut compiled = Compiled::default();
            for (index, rule) in role.rules.iter().enumerate() {
                compiled.take(rule, &|rule| RuleSource {
                    index: Some(index),
                    from: Vec::new(),
                    rule: rule.clone(),
                    is_default: self.built_in.has_rule(namespace, name, rule),
                });
            }
            Arc::new(compiled)
        });
        self.compiled.insert(key, role.clone());
        role
    }
}

impl Roles<'_> {
    /// All roles that compiled rules allow to bind by name, and those that these allow, and so on.
    pub(super) fn bindable(&mut self) -> BTreeMap<(Option<String>, String), Arc<Compiled>> {
        let mut found = BTreeMap::new();
        let mut to_read: Vec<Arc<Compiled>> = self.compiled.values().flatten().cloned().collect();
        let mut named = HashSet::new();
        while let Some(role) = to_read.pop() {
            let binds = role.held.iter().filter(|(_, ask, verbs, _)| {
                matches!(ask, Ask::ClusterRoles | Ask::Roles) && verbs.meets(Verbs::BIND)
            });
            for (_, ask, _, names) in binds {
                let Names::Only(names) = names else { continue };
                for name in names.iter() {
                    if !named.insert((*ask, name.clone())) {
                        continue;
                    }
                    let keys: Vec<(Option<String>, String)> = match ask {
                        Ask::ClusterRoles => vec![(None, name.clone())],
                        _ => self
                            .namespaces_of(name)
                            .map(|namespace| (Some(namespace), name.clone()))
                            .collect(),
                    };
                    for key in keys {
                        let role = match &key.0 {
                            None => self.cluster(name),
                            Some(namespace) => self.namespaced(namespace, name),
                        };
                        let Some(role) = role else { continue };
                        to_read.push(role.clone());
                        found.insert(key, role);
                    }
                }
            }
        }
        found
    }

    /// The namespaces that have a Role of this name.
    fn namespaces_of(&self, name: &str) -> impl Iterator<Item = String> + use<> {
        let roles = self.objects.roles().filter(|role| role.metadata.name == name);
        roles.map(|role| role.metadata.namespace.clone()).collect::<Vec<_>>().into_iter()
    }
}

impl Compiled {
    /// Takes a rule in if it leads further.
    fn take(&mut self, rule: &PolicyRule, source: &dyn Fn(&PolicyRule) -> RuleSource) {
        let verbs = Verbs::of(rule);
        let asks: Vec<Ask> =
            if verbs == Verbs::default() { Vec::new() } else { asks::asks_of(rule).collect() };
        let (is_full, talks) = (asks::is_full(rule), asks::talks_to_kubelets(rule));
        let Ok(number) = u32::try_from(self.rules.len()) else { return };
        if asks.is_empty() && !is_full && !talks {
            return;
        }
        self.rules.push(source(rule));
        let names = match rule.resource_names.as_slice() {
            [] => Names::Free,
            names => {
                let mut names = names.to_vec();
                names.sort_unstable();
                names.dedup();
                Names::Only(names.into())
            }
        };
        self.held.extend(asks.into_iter().map(|ask| (number, ask, verbs, names.clone())));
        if is_full {
            self.full.get_or_insert(number);
        }
        if talks {
            self.talks_to_kubelets.get_or_insert(number);
        }
    }
}
