//! What comes near to allowing a request, and what would be enough (AU-101).

use portcullis_apimachinery::well_known::MIRROR_ANNOTATION;

use super::answer::Needed;
use super::hidden::HiddenPaths;
use super::miss::{Miss, MissKind, Place};
use crate::abac::{self, AbacPolicyFile, Policy};
use crate::audit::Subject;
use crate::audit::who_can::{ObjectName, RuleWay};
use crate::chain::Member;
use crate::factor::{Difference, Factor};
use crate::graph::Path;
use crate::identity::NodeIdentity;
use crate::node::NodeAuthorizer;
use crate::rbac::{self, RbacIndex};
use crate::request::{Attributes, User};

/// The near misses of one member, in no particular order; of paths that do not count, at most so many of each sort.
pub(super) fn of(
    member: &Member,
    hidden: &HiddenPaths,
    attributes: &Attributes<'_>,
    most: usize,
) -> Vec<Miss> {
    match member {
        Member::Abac(file) => by_abac(file, attributes),
        Member::Node(node) => by_node(node, hidden, attributes, most),
        Member::Rbac(_) | Member::LiveRbac(_) => {
            member.with_rbac(|index| by_rbac(index, attributes)).unwrap_or_default()
        }
        Member::AlwaysAllow | Member::AlwaysDeny | Member::Deny(_) | Member::Webhook => Vec::new(),
    }
}

/// What would be enough for one member to allow the request.
pub(super) fn needed(member: &Member, attributes: &Attributes<'_>) -> Option<Needed> {
    let user = attributes.user;
    // Nothing is granted to nobody (RB-24, AB-30).
    if user.name.is_empty() && user.groups.is_empty() {
        return None;
    }
    Some(match member {
        Member::Abac(_) => Needed::Abac { line: abac::needed(attributes) },
        Member::Node(node) => Needed::Node { object: node.needed(attributes)? },
        Member::Rbac(_) | Member::LiveRbac(_) => {
            let rule = rbac::needed(attributes);
            let namespace = attributes.resource.map(|request| request.namespace);
            let namespace = namespace.filter(|namespace| !namespace.is_empty()).map(str::to_owned);
            Needed::Rule { text: rbac::describe(&rule), rule, namespace }
        }
        Member::AlwaysAllow | Member::AlwaysDeny | Member::Deny(_) | Member::Webhook => return None,
    })
}

fn by_rbac(index: &RbacIndex, attributes: &Attributes<'_>) -> Vec<Miss> {
    let mut misses = Vec::new();
    index.each_own(attributes, |own| {
        if let Some(difference) = own.difference(attributes) {
            let place = Place::Rule(RuleWay::of(own.binding, own.shown()));
            let subject = Subject::of(&own.subject, own.binding.namespace());
            misses.push(Miss { subject, ..miss(MissKind::OwnGrant, difference, place) });
        }
    });
    for (binding, rules) in index.granting_others(attributes) {
        let subjects = binding.subjects().filter_map(|subject| Subject::of(&subject, binding.namespace()));
        let difference = other_subject(subjects.collect(), attributes.user);
        misses.extend(
            RuleWay::each(binding, &rules)
                .map(|(way, _)| miss(MissKind::OtherSubject, difference.clone(), Place::Rule(way))),
        );
    }
    for (role, rules) in index.granting_unbound(attributes) {
        let namespace = match (role.kind.as_str(), &attributes.resource) {
            ("Role", Some(request)) => request.namespace,
            _ => "",
        };
        let role = ObjectName { kind: role.kind, namespace: namespace.to_owned(), name: role.name };
        misses.extend(rules.iter().map(|rule| {
            let place = Place::Role {
                role: role.clone(),
                rule_index: rule.index.unwrap_or(usize::MAX),
                rule: rule.text.clone(),
            };
            miss(MissKind::UnboundRole, other_subject(Vec::new(), attributes.user), place)
        }));
    }
    for own in index.own_bindings(attributes).into_iter().filter(|own| own.is_dangling) {
        let role = ObjectName::role(own.binding);
        let binding_namespace = (!own.binding.is_cluster_wide()).then(|| own.binding.namespace());
        let mut similar: Vec<Difference> = index
            .role_names(&role.kind, binding_namespace)
            .into_iter()
            .map(|other| Difference::new(Factor::Role, vec![role.name.clone()], other))
            .filter(|difference| difference.typing_error.is_some())
            .collect();
        similar.sort_by(|a, b| a.wanted.cmp(&b.wanted));
        let missing = Difference::new(Factor::Role, vec![role.name.clone()], "");
        let difference = similar.into_iter().next().unwrap_or(missing);
        let subject = Subject::of(&own.subject, own.binding.namespace());
        let place = Place::Binding { binding: ObjectName::binding(own.binding), role };
        misses.push(Miss { subject, ..miss(MissKind::DanglingBinding, difference, place) });
    }
    misses
}

fn by_abac(file: &AbacPolicyFile, attributes: &Attributes<'_>) -> Vec<Miss> {
    let own = file.differing(attributes).into_iter();
    let own = own.map(|(line, difference)| miss(MissKind::OwnGrant, difference, Place::Line { line }));
    let others = file.covering(attributes).map(|Policy { line, user, group, .. }| {
        let subjects = [(!user.is_empty()).then(|| Subject::of_user(user))]
            .into_iter()
            .chain([(!group.is_empty()).then(|| Subject::group(group.as_str()))])
            .flatten();
        let difference = other_subject(subjects.collect(), attributes.user);
        miss(MissKind::OtherSubject, difference, Place::Line { line: *line })
    });
    own.chain(others).collect()
}

fn by_node(
    node: &NodeAuthorizer,
    hidden: &HiddenPaths,
    attributes: &Attributes<'_>,
    most: usize,
) -> Vec<Miss> {
    let reason = || Place::Reason {
        reason: match node.needed(attributes) {
            Some(needed) => format!("Node: needed: {needed}"),
            None => "Node".to_owned(),
        },
    };
    let differences = node.differences(attributes).into_iter();
    let mut misses: Vec<Miss> =
        differences.map(|difference| miss(MissKind::Node, difference, reason())).collect();
    let name = NodeIdentity::of(attributes.user).map_or("", NodeIdentity::name);
    if let Some(target) = node.target(attributes).filter(|_| !name.is_empty()) {
        let by =
            |path: Path, difference| miss(MissKind::Node, difference, Place::Path { path: path.to_string() });
        misses.extend(hidden.by_mirror_pods(target, name, most).into_iter().map(|path| {
            by(path, Difference::new(Factor::Annotation, vec![MIRROR_ANNOTATION.to_owned()], ""))
        }));
        misses.extend(
            hidden
                .by_unbound_pods(target, most)
                .into_iter()
                .map(|path| by(path, Difference::new(Factor::Node, vec![String::new()], name))),
        );
    }
    misses
}

fn miss(kind: MissKind, difference: Difference, place: Place) -> Miss {
    Miss { kind, difference: Some(difference), subject: None, place }
}

/// The subjects of a grant, and the user, with the group that is meant if one of them is mistyped.
fn other_subject(subjects: Vec<Subject>, user: &User) -> Difference {
    let own = std::iter::once(Subject::of_user(&user.name));
    let own = own.chain(user.groups.iter().map(|group| Subject::group(group.as_str())));
    let user_subject = Subject::of_user(&user.name).to_string();
    let mut has: Vec<String> = subjects.iter().map(ToString::to_string).collect();
    has.sort_unstable();
    has.dedup();
    // A user is compared with users, and a group with groups.
    let is_alike = |a: &Subject, b: &Subject| std::mem::discriminant(a) == std::mem::discriminant(b);
    let mistyped = own.into_iter().find_map(|own| {
        let alike = subjects.iter().filter(|subject| is_alike(subject, &own));
        let alike: Vec<String> = alike.map(ToString::to_string).collect();
        let difference = Difference::new(Factor::Subject, alike, &own.to_string());
        difference.typing_error.map(|error| (error, own.to_string()))
    });
    match mistyped {
        Some((error, own)) => {
            Difference { factor: Factor::Subject, has, wanted: own, typing_error: Some(error) }
        }
        None => Difference { factor: Factor::Subject, has, wanted: user_subject, typing_error: None },
    }
}
