//! What the modes of one side grant, by user and group, and by what.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use super::node;
use super::shapes::{Shape, ShapeId, Shapes};
use super::words::{Collector, Factor, WordId, Words};
use crate::abac;
use crate::audit::Subject;
use crate::audit::kubelet_access::Objects;
use crate::audit::state::State;
use crate::audit::who_can::{RuleWay, Way};
use crate::chain::{Chain, MASTERS_GROUP, Member, Mode};
use crate::features::FeatureGates;
use crate::objects::rbac::{Binding, Role};
use crate::rbac::{Bound, GrantingRule};

/// A side: what decides there.
pub(super) struct Side<'s> {
    chain: &'s Chain,
    gates: FeatureGates,
    objects: &'s Objects,
    /// The ClusterRoles with the rules that the aggregation controller is to add (AU-25), by name.
    cluster_roles: HashMap<String, Role>,
}

impl<'s> Side<'s> {
    pub(super) fn of(state: &'s State) -> Self {
        let objects = &state.facts().rbac;
        let (cluster_roles, _) = objects.in_force();
        Self {
            chain: state.engine().chain(),
            gates: state.engine().gates(),
            objects,
            cluster_roles: cluster_roles.into_iter().collect(),
        }
    }

    /// Whether a mode is among the modes.
    pub(super) fn has(&self, mode: Mode) -> bool {
        self.chain.members().iter().any(|member| member.mode() == mode)
    }

    /// The lines of the ABAC policy file.
    pub(super) fn lines(&self) -> &'s [abac::Policy] {
        let file = self.chain.members().iter().find_map(|member| match member {
            Member::Abac(file) => Some(file),
            _ => None,
        });
        file.map(|file| file.policies()).unwrap_or_default()
    }

    fn super_user(&self) -> Option<String> {
        let name =
            |member: &Member| member.with_rbac(|index| index.super_user().map(str::to_owned)).flatten();
        self.chain.members().iter().find_map(name)
    }

    /// The bindings of mode RBAC.
    fn bindings(&self) -> impl Iterator<Item = &'s Binding> {
        let has_rbac = self.has(Mode::Rbac);
        // Without a namespace it serves no request (RB-34).
        let of_namespaces =
            self.objects.role_bindings().filter(|binding| !binding.metadata.namespace.is_empty());
        self.objects.cluster_role_bindings().chain(of_namespaces).filter(move |_| has_rbac)
    }

    /// The role that a binding grants (RB-32), its namespace unless it is a ClusterRole.
    fn role_of(&self, binding: &Binding) -> Option<&Role> {
        let (namespace, reference) = (&binding.metadata.namespace, &binding.role_ref);
        match reference.kind.as_str() {
            "ClusterRole" => self.cluster_roles.get(&reference.name),
            "Role" if !namespace.is_empty() => self.objects.role(namespace, &reference.name),
            _ => None,
        }
    }

    /// Adds the words of everything that decides here (AU-110).
    pub(super) fn add_words(&self, collector: &mut Collector) {
        if self.has(Mode::Rbac) {
            let rules = self.cluster_roles.values().chain(self.objects.roles()).flat_map(|role| &role.rules);
            rules.for_each(|rule| collector.add_rule(rule));
            let namespaces = self.objects.role_bindings().map(|binding| &binding.metadata.namespace);
            namespaces.for_each(|namespace| collector.add(Factor::Namespace, namespace));
        }
        self.lines().iter().for_each(|line| collector.add_line(line));
        if self.has(Mode::Node) {
            node::add_words(collector, self.gates);
        }
    }

    /// Everybody who is named here: in bindings, lines and flags. Who is allowed everything first is not (AC-63).
    pub(super) fn subjects(&self) -> HashSet<Subject> {
        let of_lines = self.lines().iter().flat_map(|line| {
            let user = (!line.user.is_empty()).then(|| Subject::of_user(&line.user));
            let group = (!line.group.is_empty()).then(|| Subject::group(line.group.as_str()));
            user.into_iter().chain(group)
        });
        let super_user = self.super_user().map(|name| Subject::of_user(&name));
        let all = self.bindings().flat_map(Subject::all_of).chain(of_lines).chain(super_user);
        all.map(Subject::or_node).filter(|subject| *subject != Subject::group(MASTERS_GROUP)).collect()
    }
}

/// By what something is granted, in numbers of its side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WayId {
    AlwaysAllow,
    Abac { line: usize },
    Node,
    SuperUser,
    Rule { binding: u32, rule: u32 },
}

/// One grant: a product in a namespace, or everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) namespace: Option<WordId>,
    pub(super) shape: ShapeId,
    pub(super) way: WayId,
}

/// Whom a grant is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Everybody,
    User(String),
    Group(String),
    /// A user as a member of a group.
    Member(String, String),
    /// A node by its own identity.
    Node(String),
}

/// The keys of the identity of a subject (AU-31).
pub(super) fn keys(subject: &Subject) -> Vec<Key> {
    let mut keys = vec![Key::Everybody];
    let user = subject.identity();
    match subject {
        Subject::Group { .. } => {}
        named => {
            keys.push(Key::User(user.name.clone()));
            keys.extend(user.groups.iter().map(|group| Key::Member(user.name.clone(), group.clone())));
            if let Subject::Node { name } = named {
                keys.push(Key::Node(name.clone()));
            }
        }
    }
    keys.extend(user.groups.into_iter().map(Key::Group));
    keys
}

/// All grants of one side.
pub(super) struct Grants<'s> {
    by_key: HashMap<Key, Vec<Held>>,
    /// The bindings, each with its role and the rules as they are stored.
    bindings: Vec<(&'s Binding, &'s Role)>,
    side: &'s Side<'s>,
}

impl<'s> Grants<'s> {
    pub(super) fn new(side: &'s Side<'s>, subjects: &[Subject], shapes: &mut Shapes<'_>) -> Self {
        let mut grants = Self { by_key: HashMap::new(), bindings: Vec::new(), side };
        if side.has(Mode::AlwaysAllow) {
            let all = shapes.everything();
            grants.add(Key::Everybody, None, &all, WayId::AlwaysAllow);
        }
        for line in side.lines() {
            grants.add_line(line, shapes);
        }
        if side.has(Mode::Node) {
            for name in subjects.iter().filter_map(|subject| match subject {
                Subject::Node { name } => Some(name),
                _ => None,
            }) {
                for (namespace, shape) in node::grants(name, side.gates, shapes) {
                    grants.add(Key::Node(name.clone()), namespace, &[shape], WayId::Node);
                }
            }
        }
        if let Some(name) = side.super_user() {
            let all = shapes.everything();
            grants.add(Key::User(name), None, &all, WayId::SuperUser);
        }
        grants.add_bindings(shapes);
        grants
    }

    /// Everybody who has grants.
    pub(super) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.by_key.keys()
    }

    /// The grants of a key.
    pub(super) fn of(&self, key: &Key) -> &[Held] {
        self.by_key.get(key).map(Vec::as_slice).unwrap_or_default()
    }

    fn add(&mut self, key: Key, namespace: Option<WordId>, shapes: &[ShapeId], way: WayId) {
        let held = shapes.iter().map(|shape| Held { namespace, shape: *shape, way });
        self.by_key.entry(key).or_default().extend(held);
    }

    fn add_line(&mut self, line: &abac::Policy, shapes: &mut Shapes<'_>) {
        let key = match (line.user.as_str(), line.group.as_str()) {
            ("", "") => return,
            (user, "") => Key::User(user.to_owned()),
            ("", group) => Key::Group(group.to_owned()),
            (user, group) => Key::Member(user.to_owned(), group.to_owned()),
        };
        let namespace = match shapes.vocabulary().field(Factor::Namespace, &line.namespace) {
            Words::Except(_) => None,
            Words::Only(words) => match words.as_slice() {
                [one] => Some(*one),
                _ => return,
            },
        };
        let way = WayId::Abac { line: line.line };
        let ids = shapes.of_line(line);
        let is_of_urls = |id: &ShapeId| shapes.get(*id).is_some_and(Shape::is_of_urls);
        let (of_urls, of_resources): (Vec<ShapeId>, Vec<ShapeId>) = ids.into_iter().partition(is_of_urls);
        self.add(key.clone(), namespace, &of_resources, way);
        // The namespace of a line plays no part for paths (AB-38).
        self.add(key, None, &of_urls, way);
    }

    fn add_bindings(&mut self, shapes: &mut Shapes<'_>) {
        // Each role once, by its address.
        let mut compiled: HashMap<*const Role, Arc<[Vec<ShapeId>]>> = HashMap::new();
        for binding in self.side.bindings() {
            let Some(role) = self.side.role_of(binding) else { continue };
            let rules = compiled
                .entry(std::ptr::from_ref(role))
                .or_insert_with(|| role.rules.iter().map(|rule| shapes.of_rule(rule)).collect());
            let rules = Arc::clone(rules);
            let Ok(number) = u32::try_from(self.bindings.len()) else { return };
            self.bindings.push((binding, role));
            self.bind(binding, number, &rules, shapes);
        }
    }

    fn bind(&mut self, binding: &Binding, number: u32, rules: &[Vec<ShapeId>], shapes: &Shapes<'_>) {
        let namespace = match binding.metadata.namespace.as_str() {
            "" => None,
            name => match shapes.vocabulary().id(Factor::Namespace, name) {
                Some(id) => Some(id),
                None => return,
            },
        };
        let subjects: HashSet<Subject> = Subject::all_of(binding).collect();
        for subject in subjects {
            let key = match subject {
                Subject::Group { name } => Key::Group(name),
                named => Key::User(named.identity().name),
            };
            for (rule, ids) in (0..).zip(rules) {
                // A path is in no namespace (RB-34).
                let counts = |id: &ShapeId| {
                    namespace.is_none() || shapes.get(*id).is_some_and(|shape| !shape.is_of_urls())
                };
                let ids: Vec<ShapeId> = ids.iter().copied().filter(counts).collect();
                self.add(key.clone(), namespace, &ids, WayId::Rule { binding: number, rule });
            }
        }
    }

    /// A way in words.
    pub(super) fn way(&self, way: WayId) -> Option<Way> {
        Some(match way {
            WayId::AlwaysAllow => Way::AlwaysAllow,
            WayId::Abac { line } => Way::Abac { line },
            WayId::Node => Way::Node { path: None },
            WayId::SuperUser => Way::SuperUser,
            WayId::Rule { binding, rule } => {
                let (binding, role) = self.bindings.get(binding as usize)?;
                let rule = role.rules.get(rule as usize)?;
                let stored = match binding.role_ref.kind.as_str() {
                    "ClusterRole" => self.side.objects.cluster_role(&role.metadata.name)?,
                    _ => role,
                };
                let index = stored.rules.iter().position(|own| own == rule);
                Way::Rule(RuleWay::of(&Arc::new(Bound::of(binding)), GrantingRule::new(rule, index)))
            }
        })
    }
}
