//! What each subject may do by RBAC, of all that leads further (section 3 of the audit's rules).
//!
//! Rights are those of an identity as a whole: of its name and of the groups that the API server gives it (AU-31), from any
//! number of bindings, for the cluster or for a namespace (AU-32). A role is compared with the list of [`Ask`]s once, however many bindings name it. Rules that the
//! aggregation controller is to add count as if they were there (AU-25).

mod asks;
mod built_in;
mod key;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

pub(in crate::audit) use self::asks::asks_of;
pub use self::asks::{Ask, Verbs};
use self::built_in::{BuiltIn, DefaultBinding};
use self::key::{Key, keys};
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
    /// The rule itself; none if no rule of the role leads further.
    pub text: Option<&'a PolicyRule>,
}

impl Grant<'_> {
    /// The rule in words: verbs, resources, and the names or API groups that limit it.
    pub fn rule_text(&self) -> String {
        let Some(rule) = self.text else { return String::new() };
        let name = |group: &String| if group.is_empty() { "core".to_owned() } else { group.clone() };
        let groups: Vec<String> = rule.api_groups.iter().map(name).collect();
        let mut text =
            format!("{} {} ({})", rule.verbs.join(","), rule.resources.join(","), groups.join(","));
        if !rule.resource_names.is_empty() {
            text.push_str(&format!(" named {}", rule.resource_names.join(",")));
        }
        text
    }
}

impl Serialize for Grant<'_> {
    /// As in JSON (AU-66, AU-71): `binding`, `role`, the index of the rule or `pending`, and `aggregatedFrom`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (kind, namespace, name) = self.binding;
        let mut words = serializer.serialize_map(None)?;
        let binding = [("kind", kind), ("namespace", namespace), ("name", name)];
        let binding: BTreeMap<_, _> = binding.into_iter().filter(|(_, text)| !text.is_empty()).collect();
        words.serialize_entry("binding", &binding)?;
        words.serialize_entry("role", &BTreeMap::from([("kind", self.role.0), ("name", self.role.1)]))?;
        match self.rule {
            Some(rule) => words.serialize_entry("rule", &rule)?,
            None => words.serialize_entry("pending", &true)?,
        }
        if !self.aggregated_from.is_empty() {
            words.serialize_entry("aggregatedFrom", self.aggregated_from)?;
        }
        words.end()
    }
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

    /// Whether every name of the others is one of these.
    pub fn include(&self, others: &Self) -> bool {
        match (self, others) {
            (Self::Free, _) => true,
            (Self::Only(_), Self::Free) => false,
            (Self::Only(_), Self::Only(names)) => names.iter().all(|name| self.hold_for(name)),
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
    /// Whether the default policy of Kubernetes grants it to this subject (AU-33).
    pub is_built_in: bool,
}

impl Held {
    /// Whether it holds for every name, and for requests without one.
    pub fn is_free(&self) -> bool {
        self.names == Names::Free
    }

    /// Whether it is one to create something, or to change something that is there. Rules with names never allow to create
    /// (RB-15).
    pub fn writes(&self) -> bool {
        self.verbs.meets(Verbs::CHANGE) || (self.verbs.meets(Verbs::CREATE) && self.is_free())
    }
}

impl Rights {
    /// Whether each of these rights is covered by one of the others: then they lead no further.
    pub fn are_within(&self, others: &Self) -> bool {
        if (self.full.is_some() && others.full.is_none())
            || (self.aggregated.is_some() && others.aggregated.is_none())
        {
            return false;
        }
        let mut by_ask = HashMap::<(Ask, Option<&str>), Vec<&Held>>::new();
        for held in &others.held {
            by_ask.entry((held.ask, held.namespace.as_deref())).or_default().push(held);
        }
        let is_covered = |held: &Held| {
            let scopes = [None, held.namespace.as_deref()];
            let mut candidates = scopes.iter().filter_map(|scope| by_ask.get(&(held.ask, *scope))).flatten();
            candidates.any(|other| other.verbs.has_all(held.verbs) && other.names.include(&held.names))
        };
        self.held.iter().all(is_covered)
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

    /// The same rights without those that the default policy grants (AU-33).
    #[must_use]
    pub fn without_built_in(mut self) -> Self {
        self.held.retain(|held| !held.is_built_in);
        self
    }

    /// The first grant to create something for the whole cluster, or to change it under some name. Rules with names never allow to
    /// create (RB-15).
    pub fn writes(&self, ask: Ask) -> Option<GrantId> {
        self.free(ask, Verbs::CREATE).into_iter().chain(self.some(ask, Verbs::CHANGE)).min()
    }
}

/// The bindings and roles of a cluster, prepared for questions about subjects.
#[derive(Clone, Debug, Default)]
pub struct Grants {
    bindings: Vec<Arc<Bound>>,
    by_subject: HashMap<Key, Vec<u32>>,
    full_roles: HashSet<String>,
    /// The roles that somebody may bind by name: with the namespace of a Role.
    bindable: BTreeMap<(Option<String>, String), Arc<Compiled>>,
    built_in: Arc<BuiltIn>,
}

#[derive(Debug)]
struct Bound {
    namespace: Option<Arc<str>>,
    name: String,
    role_kind: String,
    role_name: String,
    role: Option<Arc<Compiled>>,
    subjects: Vec<Subject>,
    /// What the default policy has under this name.
    default: Option<DefaultBinding>,
}

impl Bound {
    /// The same binding with the same role, and no subjects.
    fn like(other: &Self) -> Self {
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
    rule: PolicyRule,
    /// Whether the default role of this name has it too.
    is_default: bool,
}

impl Grants {
    /// Prepares the roles and bindings of a cluster.
    pub fn new(objects: &Objects) -> Self {
        let built_in = Arc::new(BuiltIn::new());
        let mut roles = Roles::new(objects, &built_in);
        let is_full = |role: &&Role| role.rules.iter().any(asks::is_full);
        let stored_or_pending = objects.cluster_roles().chain(roles.aggregated().values());
        let full_roles = stored_or_pending.filter(is_full).map(|role| role.metadata.name.clone()).collect();
        let mut grants = Self { full_roles, built_in: built_in.clone(), ..Self::default() };
        for binding in objects.cluster_role_bindings().chain(objects.role_bindings()) {
            let made = roles.bound(binding, &built_in);
            let place = grants.bindings.len();
            grants.bindings.push(Arc::new(Bound::like(&made)));
            grants.rebind(place, made);
        }
        grants.bindable = roles.bindable();
        grants
    }

    /// The same for objects of which some changed: `roles` by namespace (empty for ClusterRoles) and name, and `bindings`, also new
    /// ones. Nothing else is read again. Also returns the subjects of the bindings that changed, or whose role did.
    pub(in crate::audit) fn revised(
        &self,
        objects: &Objects,
        roles: &BTreeSet<(String, String)>,
        bindings: &BTreeSet<(String, String)>,
    ) -> (Self, BTreeSet<Subject>) {
        let mut revised = self.clone();
        let mut subjects = BTreeSet::new();
        let built_in = self.built_in.clone();
        let mut compiled = Roles::new(objects, &built_in);
        let touched = with_aggregated(objects, roles);
        let mut known = BTreeSet::new();
        for place in 0..revised.bindings.len() {
            let Some(bound) = revised.bindings.get(place).cloned() else { continue };
            let key = (bound.namespace.as_deref().unwrap_or_default().to_owned(), bound.name.clone());
            let of_role = if bound.role_kind == "Role" { key.0.clone() } else { String::new() };
            let is_touched = touched.contains(&(of_role, bound.role_name.clone()));
            if bindings.contains(&key) {
                known.insert(key.clone());
                subjects.extend(bound.subjects.iter().cloned());
                revised.unbind(place, &bound);
                let Some(binding) = objects.binding(&key.0, &key.1) else { continue };
                let made = compiled.bound(binding, &built_in);
                revised.rebind(place, made);
            } else if is_touched {
                let role = compiled.role(&bound.role_kind, &key.0, &bound.role_name);
                subjects.extend(bound.subjects.iter().cloned());
                let made = Bound { role, subjects: bound.subjects.clone(), ..Bound::like(&bound) };
                if let Some(kept) = revised.bindings.get_mut(place) {
                    *kept = Arc::new(made);
                }
            }
        }
        for (namespace, name) in bindings.difference(&known) {
            if let Some(binding) = objects.binding(namespace, name) {
                let place = revised.bindings.len();
                let made = compiled.bound(binding, &built_in);
                subjects.extend(made.subjects.iter().cloned());
                revised.bindings.push(Arc::new(Bound::like(&made)));
                revised.rebind(place, made);
            }
        }
        let is_full = |name: &str| {
            let role = objects.cluster_role(name);
            role.is_some_and(|role| objects.rules_in_force(role).iter().any(asks::is_full))
        };
        for (_, name) in touched.iter().filter(|(namespace, _)| namespace.is_empty()) {
            if !is_full(name) {
                revised.full_roles.remove(name);
            }
        }
        for ((namespace, name), role) in &mut revised.bindable {
            let key = (namespace.clone().unwrap_or_default(), name.clone());
            if touched.contains(&key) {
                let kind = if namespace.is_some() { "Role" } else { "ClusterRole" };
                *role = compiled.role(kind, &key.0, name).unwrap_or_default();
            }
        }
        (revised, subjects)
    }

    fn unbind(&mut self, place: usize, bound: &Bound) {
        for subject in &bound.subjects {
            let places = keys(subject).into_iter().next().and_then(|key| self.by_subject.get_mut(&key));
            if let Some(places) = places {
                places.retain(|other| *other as usize != place);
            }
        }
    }

    fn rebind(&mut self, place: usize, bound: Bound) {
        let Ok(number) = u32::try_from(place) else { return };
        for subject in &bound.subjects {
            if let Some(key) = keys(subject).into_iter().next() {
                self.by_subject.entry(key).or_default().push(number);
            }
        }
        if let Some(kept) = self.bindings.get_mut(place) {
            *kept = Arc::new(bound);
        }
    }

    /// Whether the default policy has a role of this name; a ClusterRole without a namespace.
    pub(in crate::audit) fn is_default_role(&self, namespace: &str, name: &str) -> bool {
        self.built_in.has_role(namespace, name)
    }

    /// The namespaces (empty for ClusterRoleBindings) and names of the bindings of a role.
    pub(in crate::audit) fn bindings_of_role(
        &self,
        namespace: &str,
        name: &str,
    ) -> Vec<(&str, &str, &[Subject])> {
        let is_of_role = |bound: &&Arc<Bound>| {
            let own = bound.namespace.as_deref().unwrap_or_default();
            let of_role = if bound.role_kind == "Role" { own } else { "" };
            bound.role_name == name && of_role == namespace
        };
        self.bindings
            .iter()
            .filter(is_of_role)
            .map(|bound| {
                (
                    bound.namespace.as_deref().unwrap_or_default(),
                    bound.name.as_str(),
                    bound.subjects.as_slice(),
                )
            })
            .collect()
    }

    /// The roles that somebody may bind by name, each with the namespace of a Role.
    pub fn bindable(&self) -> impl Iterator<Item = (Option<&str>, &str)> {
        self.bindable.keys().map(|(namespace, name)| (namespace.as_deref(), name.as_str()))
    }

    /// The rights that a role of [`Grants::bindable`] gives to whoever is bound to it, for the cluster or in a namespace. Their
    /// grants name no binding.
    pub fn of_bindable(&self, role: (Option<&str>, &str), namespace: Option<&str>) -> Rights {
        let mut rights = Rights::default();
        let key = (role.0.map(str::to_owned), role.1.to_owned());
        let Some(compiled) = self.bindable.get(&key) else { return rights };
        let grant = |rule: u32| GrantId { binding: u32::MAX, rule };
        let namespace: Option<Arc<str>> = namespace.map(Into::into);
        if namespace.is_none() {
            rights.full = compiled.full.map(grant);
            rights.aggregated = compiled.is_aggregated.then_some(grant(0));
        }
        rights.held.extend(compiled.held.iter().map(|(rule, ask, verbs, names)| Held {
            ask: *ask,
            verbs: *verbs,
            names: names.clone(),
            namespace: namespace.clone(),
            grant: grant(*rule),
            is_built_in: false,
        }));
        rights
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
                self.add(*binding, &key, &mut rights);
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

    fn add(&self, binding: u32, key: &Key, rights: &mut Rights) {
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
        let is_default = bound.default.as_ref().is_some_and(|default| default.binds(key));
        let is_built_in =
            |rule: u32| is_default && role.rules.get(rule as usize).is_some_and(|rule| rule.is_default);
        rights.held.extend(role.held.iter().map(|(rule, ask, verbs, names)| Held {
            ask: *ask,
            verbs: *verbs,
            names: names.clone(),
            namespace: bound.namespace.clone(),
            grant: grant(*rule),
            is_built_in: is_built_in(*rule),
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
            text: source.map(|source| &source.rule),
        })
    }
}

/// The roles, and those that aggregate them, and so on.
fn with_aggregated(objects: &Objects, roles: &BTreeSet<(String, String)>) -> BTreeSet<(String, String)> {
    let mut all = roles.clone();
    loop {
        let sources = all.iter().filter(|(namespace, _)| namespace.is_empty());
        let sources: Vec<&Role> = sources.filter_map(|(_, name)| objects.cluster_role(name)).collect();
        let collects = |role: &&Role| sources.iter().any(|source| role.selects(source));
        let aggregated = objects.cluster_roles().filter(|role| role.is_aggregated()).filter(collects);
        let found: Vec<(String, String)> =
            aggregated.map(|role| (String::new(), role.metadata.name.clone())).collect();
        let before = all.len();
        all.extend(found);
        if all.len() == before {
            return all;
        }
    }
}

/// Compiles roles, each once.
struct Roles<'a> {
    objects: &'a Objects,
    /// The roles with the rules that the aggregation controller would write. Made when one is needed.
    aggregated: OnceCell<BTreeMap<String, Role>>,
    compiled: HashMap<(Option<String>, String), Option<Arc<Compiled>>>,
    built_in: &'a BuiltIn,
}

impl<'a> Roles<'a> {
    fn new(objects: &'a Objects, built_in: &'a BuiltIn) -> Self {
        Self { objects, aggregated: OnceCell::new(), compiled: HashMap::new(), built_in }
    }

    fn aggregated(&self) -> &BTreeMap<String, Role> {
        self.aggregated.get_or_init(|| {
            let mut roles: Vec<Role> = self.objects.cluster_roles().cloned().collect();
            // A role whose selector is invalid keeps its rules.
            let _ = aggregation::aggregate(&mut roles);
            let aggregated = roles.into_iter().filter(Role::is_aggregated);
            aggregated.map(|role| (role.metadata.name.clone(), role)).collect()
        })
    }

    /// A binding, with its role compiled.
    fn bound(&mut self, binding: &Binding, built_in: &BuiltIn) -> Bound {
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
    fn role(&mut self, kind: &str, namespace: &str, name: &str) -> Option<Arc<Compiled>> {
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
            let stored: HashSet<&PolicyRule> = role.rules.iter().collect();
            let aggregated = role.is_aggregated().then(|| self.aggregated().get(name)).flatten();
            let all = aggregated.into_iter().flat_map(|role| &role.rules);
            for rule in all.filter(|rule| !stored.contains(rule)) {
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
    fn bindable(&mut self) -> BTreeMap<(Option<String>, String), Arc<Compiled>> {
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
