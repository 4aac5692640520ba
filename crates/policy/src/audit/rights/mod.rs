//! What each subject may do by RBAC, of all that leads further (section 3 of the audit's rules).
//!
//! Rights are those of an identity as a whole: of its name and of the groups that the API server gives it (AU-31), from any
//! number of bindings, for the cluster or for a namespace (AU-32). A role is compared with the list of [`Ask`]s once, however many bindings name it. Rules that the
//! aggregation controller is to add count as if they were there (AU-25).

mod asks;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

pub use self::asks::{Ask, Verbs};
use super::Subject;
use super::kubelet_access::Objects;
use crate::objects::rbac::{Binding, PolicyRule, Role};
use crate::rbac::aggregation;

/// A rule of a role, bound by a binding: numbers in a [`Grants`]. They are in the order of binding kind, namespace, name and
/// rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GrantId {
    binding: u32,
    rule: u32,
}

/// A grant in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant<'a> {
    /// The kind, namespace (empty for a ClusterRoleBinding) and name of the binding.
    pub binding: (&'static str, &'a str, &'a str),
    /// The kind and name of the role.
    pub role: (&'a str, &'a str),
    /// The index of the rule in the stored role; none for a rule that the role is to aggregate.
    pub rule: Option<usize>,
    /// The ClusterRoles from which an aggregated role has the rule.
    pub aggregated_from: &'a [String],
}

/// To which names a right is limited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Names {
    /// To none: it holds for every name, and for requests without one.
    Free,
    /// To these; sorted.
    Only(Arc<[String]>),
}

impl Names {
    /// Whether the right holds for a name.
    pub fn hold_for(&self, name: &str) -> bool {
        match self {
            Self::Free => true,
            Self::Only(names) => names.binary_search_by(|listed| listed.as_str().cmp(name)).is_ok(),
        }
    }

    /// Whether two rights have a name in common.
    pub fn meet(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Free, _) | (_, Self::Free) => true,
            (Self::Only(names), other) => names.iter().any(|name| other.hold_for(name)),
        }
    }
}

/// One right of an identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The resource.
    pub ask: Ask,
    /// The verbs.
    pub verbs: Verbs,
    /// The names.
    pub names: Names,
    /// The namespace; none for the whole cluster.
    pub namespace: Option<Arc<str>>,
    /// Where it comes from.
    pub grant: GrantId,
}

impl Held {
    /// Whether it holds for every name, and for requests without one.
    pub fn is_free(&self) -> bool {
        self.names == Names::Free
    }
}

/// All rights of one identity that lead further.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    held: Vec<Held>,
    /// A grant of everything (AU-36).
    pub full: Option<GrantId>,
    /// A ClusterRoleBinding to an aggregated role.
    pub aggregated: Option<GrantId>,
}

impl Rights {
    /// The rights on a resource with one of these verbs.
    pub fn of(&self, ask: Ask, verbs: Verbs) -> impl Iterator<Item = &Held> {
        self.held.iter().filter(move |held| held.ask == ask && held.verbs.meets(verbs))
    }

    /// The same, for the whole cluster. Only these count for cluster-scoped resources (RB-35).
    pub fn everywhere(&self, ask: Ask, verbs: Verbs) -> impl Iterator<Item = &Held> {
        self.of(ask, verbs).filter(|held| held.namespace.is_none())
    }

    /// The first grant of a right for the whole cluster, whatever the names.
    pub fn some(&self, ask: Ask, verbs: Verbs) -> Option<GrantId> {
        self.everywhere(ask, verbs).map(|held| held.grant).min()
    }

    /// The first grant of a right for the whole cluster and every name.
    pub fn free(&self, ask: Ask, verbs: Verbs) -> Option<GrantId> {
        self.everywhere(ask, verbs).filter(|held| held.is_free()).map(|held| held.grant).min()
    }

    /// The first grant to create something for the whole cluster, or to change it under some name. Rules with names never allow to
    /// create (RB-15).
    pub fn writes(&self, ask: Ask) -> Option<GrantId> {
        self.free(ask, Verbs::CREATE).into_iter().chain(self.some(ask, Verbs::CHANGE)).min()
    }
}

/// The bindings and roles of a cluster, prepared for questions about subjects.
#[derive(Debug, Default)]
pub struct Grants {
    bindings: Vec<Bound>,
    by_subject: HashMap<Key, Vec<u32>>,
    full_roles: HashSet<String>,
}

/// A user name or a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    User(String),
    Group(String),
}

#[derive(Debug)]
struct Bound {
    namespace: Option<Arc<str>>,
    name: String,
    role_kind: String,
    role_name: String,
    role: Option<Arc<Compiled>>,
    subjects: Vec<Subject>,
}

/// A role, compared with all asks.
#[derive(Debug, Default)]
struct Compiled {
    rules: Vec<RuleSource>,
    held: Vec<(u32, Ask, Verbs, Names)>,
    full: Option<u32>,
    talks_to_kubelets: Option<u32>,
    is_aggregated: bool,
}

#[derive(Debug)]
struct RuleSource {
    index: Option<usize>,
    from: Vec<String>,
}

/// The user name, and the groups that the API server gives to a subject (AU-31); its own key first.
fn keys(subject: &Subject) -> Vec<Key> {
    let user = subject.clone().or_node().identity();
    let own = match subject {
        // The first of its groups.
        Subject::Group { .. } => None,
        _ => Some(Key::User(user.name)),
    };
    own.into_iter().chain(user.groups.into_iter().map(Key::Group)).collect()
}

impl Grants {
    /// Prepares the roles and bindings of a cluster.
    pub fn new(objects: &Objects) -> Self {
        let mut roles = Roles::new(objects);
        let is_full = |role: &&Role| role.rules.iter().any(asks::is_full);
        let stored_or_pending = objects.cluster_roles().chain(roles.aggregated.values());
        let full_roles = stored_or_pending.filter(is_full).map(|role| role.metadata.name.clone()).collect();
        let mut grants = Self { full_roles, ..Self::default() };
        for binding in objects.cluster_role_bindings() {
            let role =
                (binding.role_ref.kind == "ClusterRole").then(|| roles.cluster(&binding.role_ref.name));
            grants.bind(None, binding, role.flatten());
        }
        for binding in objects.role_bindings() {
            let namespace = &binding.metadata.namespace;
            let role = match binding.role_ref.kind.as_str() {
                "ClusterRole" => roles.cluster(&binding.role_ref.name),
                "Role" => roles.namespaced(namespace, &binding.role_ref.name),
                _ => None,
            };
            grants.bind(Some(namespace.as_str().into()), binding, role);
        }
        grants
    }

    fn bind(&mut self, namespace: Option<Arc<str>>, binding: &Binding, role: Option<Arc<Compiled>>) {
        let Ok(place) = u32::try_from(self.bindings.len()) else { return };
        let own = namespace.as_deref().unwrap_or_default();
        let mut subjects: Vec<Subject> =
            binding.subjects.iter().filter_map(|subject| Subject::of(subject, own)).collect();
        subjects.sort();
        subjects.dedup();
        for subject in &subjects {
            let Some(key) = keys(subject).into_iter().next() else { continue };
            self.by_subject.entry(key).or_default().push(place);
        }
        self.bindings.push(Bound {
            namespace,
            name: binding.metadata.name.clone(),
            role_kind: binding.role_ref.kind.clone(),
            role_name: binding.role_ref.name.clone(),
            role,
            subjects,
        });
    }

    /// Everybody whom a binding names, with repetitions.
    pub fn subjects(&self) -> impl Iterator<Item = &Subject> {
        self.bindings.iter().flat_map(|bound| &bound.subjects)
    }

    /// All rights of an identity that lead further.
    pub fn of(&self, subject: &Subject) -> Rights {
        let mut rights = Rights::default();
        for key in keys(subject) {
            for binding in self.by_subject.get(&key).into_iter().flatten() {
                self.add(*binding, &mut rights);
            }
        }
        rights
    }

    /// A grant, bound to the subject's own name for the whole cluster, that is for programs which talk to kubelets (E20).
    pub fn talks_to_kubelets(&self, subject: &Subject) -> Option<GrantId> {
        let own = keys(subject).into_iter().next()?;
        let bindings = self.by_subject.get(&own).into_iter().flatten();
        let grants = bindings.filter_map(|binding| {
            let bound = self.bindings.get(*binding as usize).filter(|bound| bound.namespace.is_none())?;
            Some(GrantId { binding: *binding, rule: bound.role.as_ref()?.talks_to_kubelets? })
        });
        grants.min()
    }

    fn add(&self, binding: u32, rights: &mut Rights) {
        let Some(bound) = self.bindings.get(binding as usize) else { return };
        let Some(role) = &bound.role else { return };
        let grant = |rule: u32| GrantId { binding, rule };
        let first = |found: &mut Option<GrantId>, rule: Option<u32>| {
            *found = (*found).into_iter().chain(rule.map(grant)).min();
        };
        if bound.namespace.is_none() {
            first(&mut rights.full, role.full);
            first(&mut rights.aggregated, role.is_aggregated.then_some(0));
        }
        rights.held.extend(role.held.iter().map(|(rule, ask, verbs, names)| Held {
            ask: *ask,
            verbs: *verbs,
            names: names.clone(),
            namespace: bound.namespace.clone(),
            grant: grant(*rule),
        }));
    }

    /// Whether a right to bind is one for a role that grants everything: for every role, or for such a role by name.
    pub fn is_for_full_role(&self, names: &Names) -> bool {
        match names {
            Names::Free => true,
            Names::Only(names) => names.iter().any(|name| self.full_roles.contains(name)),
        }
    }

    /// A grant in words.
    pub fn grant(&self, id: GrantId) -> Option<Grant<'_>> {
        let bound = self.bindings.get(id.binding as usize)?;
        let source = bound.role.as_ref().and_then(|role| role.rules.get(id.rule as usize));
        Some(Grant {
            binding: match &bound.namespace {
                Some(namespace) => ("RoleBinding", namespace, &bound.name),
                None => ("ClusterRoleBinding", "", &bound.name),
            },
            role: (&bound.role_kind, &bound.role_name),
            rule: source.and_then(|source| source.index),
            aggregated_from: source.map(|source| source.from.as_slice()).unwrap_or_default(),
        })
    }
}

/// Compiles roles, each once.
struct Roles<'a> {
    objects: &'a Objects,
    /// The rules that the aggregation controller would write.
    aggregated: BTreeMap<String, Role>,
    compiled: HashMap<(Option<String>, String), Option<Arc<Compiled>>>,
}

impl<'a> Roles<'a> {
    fn new(objects: &'a Objects) -> Self {
        let mut roles: Vec<Role> = objects.cluster_roles().cloned().collect();
        // A role whose selector is invalid keeps its rules.
        let _ = aggregation::aggregate(&mut roles);
        let aggregated = roles.into_iter().filter(Role::is_aggregated);
        let aggregated = aggregated.map(|role| (role.metadata.name.clone(), role)).collect();
        Self { objects, aggregated, compiled: HashMap::new() }
    }

    fn cluster(&mut self, name: &str) -> Option<Arc<Compiled>> {
        let key = (None, name.to_owned());
        if let Some(done) = self.compiled.get(&key) {
            return done.clone();
        }
        let role = self.objects.cluster_role(name).map(|role| {
            let mut compiled = Compiled { is_aggregated: role.is_aggregated(), ..Compiled::default() };
            let sources = |rule: &PolicyRule| self.objects.sources(role, rule);
            for (index, rule) in role.rules.iter().enumerate() {
                compiled.take(rule, Some(index), &sources);
            }
            let stored: HashSet<&PolicyRule> = role.rules.iter().collect();
            let all = self.aggregated.get(name).into_iter().flat_map(|role| &role.rules);
            for rule in all.filter(|rule| !stored.contains(rule)) {
                compiled.take(rule, None, &sources);
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
                compiled.take(rule, Some(index), &|_| Vec::new());
            }
            Arc::new(compiled)
        });
        self.compiled.insert(key, role.clone());
        role
    }
}

impl Compiled {
    /// Takes a rule in if it leads further.
    fn take(
        &mut self,
        rule: &PolicyRule,
        index: Option<usize>,
        sources: &dyn Fn(&PolicyRule) -> Vec<String>,
    ) {
        let verbs = Verbs::of(rule);
        let asks: Vec<Ask> =
            if verbs == Verbs::default() { Vec::new() } else { asks::asks_of(rule).collect() };
        let (is_full, talks) = (asks::is_full(rule), asks::talks_to_kubelets(rule));
        let Ok(number) = u32::try_from(self.rules.len()) else { return };
        if asks.is_empty() && !is_full && !talks {
            return;
        }
        self.rules.push(RuleSource { index, from: sources(rule) });
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
