//! Which changes end a finding about permissions (AU-81, AU-83). Every change only takes away; what a subject keeps it had before.

use std::collections::{BTreeMap, BTreeSet};

use super::change::{Change, Key};
use super::cut::{Cut, Remains, cut};
use crate::audit::Subject;
use crate::audit::in_force::InForce;
use crate::audit::kubelet_access::Objects;
use crate::audit::rights::{Ask, Grants, Verbs};
use crate::audit::state::WORKLOADS;
use crate::objects::rbac::{self, Binding, OwnedMetadata, PolicyRule, RBAC_GROUP, Role, RoleRef};

/// The changes that end a finding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) changes: Vec<Change>,
    /// Whether wildcards went: then nobody knows what else was in use.
    pub(super) has_lost_wildcard: bool,
}

/// The permissions that make a finding: to take them away ends it.
///
/// DIVERGES from AU-83, by which `nodes/proxy` becomes the subresources that are used: without a log nobody knows which, and each of
/// them would make the account show its token to every kubelet (PC127), a finding more.
pub(super) fn cuts(id: &str) -> Vec<Cut> {
    let all = |asks: &[Ask], verbs: Verbs| asks.iter().map(|ask| Cut { ask: *ask, verbs }).collect();
    match id {
        "PC101" | "PC102" => all(&[Ask::NodeProxy], Verbs::GET.with(Verbs::CREATE)),
        "PC109" => all(&[Ask::ClusterRoles, Ask::Roles], Verbs::BIND.with(Verbs::ESCALATE)),
        "PC110" => all(&[Ask::Token], Verbs::CREATE),
        "PC111" => all(&[Ask::Secrets], Verbs::READ),
        "PC112" => all(&[Ask::Users, Ask::Groups, Ask::Accounts], Verbs::IMPERSONATE),
        "PC113" | "PC115" => all(&[Ask::Signers], Verbs::APPROVE),
        "PC116" => all(&[Ask::Nodes, Ask::NodeStatus], Verbs::CHANGE),
        "PC117" => all(&[Ask::Nodes], Verbs::CHANGE),
        "PC118" => {
            let mut cuts = all(&[Ask::Exec, Ask::Attach], Verbs::GET.with(Verbs::CREATE));
            cuts.push(Cut { ask: Ask::EphemeralContainers, verbs: Verbs::CHANGE });
            cuts
        }
        "PC119" => {
            let workloads: Vec<Ask> = WORKLOADS.iter().map(|row| Ask::Workload(row.0)).collect();
            let mut cuts: Vec<Cut> = all(&workloads, Verbs::WRITE);
            cuts.push(Cut { ask: Ask::Pods, verbs: Verbs::CREATE });
            cuts
        }
        "PC128" => {
            let mut cuts: Vec<Cut> = all(&[Ask::NodeLog, Ask::NodeConfig], Verbs::GET);
            cuts.push(Cut { ask: Ask::NodeCheckpoint, verbs: Verbs::CREATE });
            cuts
        }
        "PC129" => all(
            &[
                Ask::MutatingWebhooks,
                Ask::ValidatingWebhooks,
                Ask::MutatingPolicies,
                Ask::MutatingPolicyBindings,
                Ask::ValidatingPolicies,
                Ask::ValidatingPolicyBindings,
            ],
            Verbs::WRITE,
        ),
        "PC131" => all(&[Ask::PodStatus], Verbs::CHANGE),
        "PC137" => all(&[Ask::Volumes], Verbs::CREATE),
        _ => Vec::new(),
    }
}

/// Takes permissions from a subject, where these bindings give them to it.
pub(super) fn take_from(
    subject: &Subject,
    bindings: &BTreeSet<Key>,
    cuts: &[Cut],
    objects: &Objects,
    grants: &Grants,
    hash: &dyn Fn(&str) -> String,
) -> Plan {
    let mut plan = Plan::default();
    let in_force = InForce::new(objects);
    // The bindings of each role, so that a role is changed once.
    let mut by_role = BTreeMap::<Key, Vec<&Binding>>::new();
    for (namespace, name) in bindings {
        let Some(binding) = objects.binding(namespace, name) else { continue };
        if Subject::all_of(binding).any(|bound| bound == *subject) {
            by_role.entry(role_key(binding)).or_default().push(binding);
        }
    }
    for (key, bindings) in by_role {
        let Some(role) = role_of(objects, &key) else { continue };
        let rules: Vec<PolicyRule> = in_force.rules(role).cloned().collect();
        let (kept, has_lost_wildcard) = remaining(&rules, cuts);
        if kept == rules {
            continue;
        }
        plan.has_lost_wildcard |= has_lost_wildcard;
        if is_alone(subject, &key, &bindings, grants) && !role.is_aggregated() {
            plan.changes.push(rules_of(role, cuts));
        } else if let Some(changes) = in_sources(subject, role, &bindings, cuts, objects, grants) {
            plan.changes.extend(changes);
        } else {
            for binding in bindings {
                plan.changes.extend(moved(subject, binding, &kept, hash));
            }
        }
    }
    plan
}

/// Takes a subject out of bindings.
pub(super) fn remove_from(subject: &Subject, bindings: &BTreeSet<Key>, objects: &Objects) -> Plan {
    let bindings = bindings.iter().filter_map(|(namespace, name)| objects.binding(namespace, name));
    let changes = bindings.filter_map(|binding| without(binding, &|bound| bound == subject)).collect();
    Plan { changes, has_lost_wildcard: false }
}

/// A binding without some subjects; none if it has none of them.
pub(super) fn without(binding: &Binding, is_removed: &dyn Fn(&Subject) -> bool) -> Option<Change> {
    let namespace = &binding.metadata.namespace;
    let is_kept = |subject: &&rbac::Subject| {
        Subject::of(subject, namespace).is_none_or(|subject| !is_removed(&subject))
    };
    let to: Vec<rbac::Subject> = binding.subjects.iter().filter(is_kept).cloned().collect();
    (to.len() < binding.subjects.len()).then(|| Change::Subjects {
        binding: (namespace.clone(), binding.metadata.name.clone()),
        from: binding.subjects.clone(),
        to,
    })
}

/// Drops the entries of a role that grant nothing (PC136).
pub(super) fn without_meaningless(role: &Role, is_meaningless: &dyn Fn(&str) -> bool) -> Option<Change> {
    let clean = |rule: &PolicyRule| {
        let resources: Vec<String> =
            rule.resources.iter().filter(|entry| !is_meaningless(entry)).cloned().collect();
        let rule = PolicyRule { resources, ..rule.clone() };
        (!rule.resources.is_empty() || !rule.non_resource_urls.is_empty()).then_some(rule)
    };
    let to: Vec<PolicyRule> = role.rules.iter().filter_map(clean).collect();
    let role_key = (role.metadata.namespace.clone(), role.metadata.name.clone());
    (to != role.rules).then(|| Change::Rules { role: role_key, from: role.rules.clone(), to })
}

fn remaining(rules: &[PolicyRule], cuts: &[Cut]) -> (Vec<PolicyRule>, bool) {
    let mut all = Vec::new();
    let mut has_lost_wildcard = false;
    for rule in rules {
        let Remains { rules, has_lost_wildcard: lost } = cut(rule, cuts);
        has_lost_wildcard |= lost;
        all.extend(rules);
    }
    (all, has_lost_wildcard)
}

fn rules_of(role: &Role, cuts: &[Cut]) -> Change {
    Change::Rules {
        role: (role.metadata.namespace.clone(), role.metadata.name.clone()),
        from: role.rules.clone(),
        to: remaining(&role.rules, cuts).0,
    }
}

/// Whether the subject alone has a role, by these bindings alone, and the role is its owner's to change.
fn is_alone(subject: &Subject, role: &Key, bindings: &[&Binding], grants: &Grants) -> bool {
    !grants.is_default_role(&role.0, &role.1)
        && grants.bindings_of_role(&role.0, &role.1).iter().all(|(namespace, name, subjects)| {
            subjects.iter().all(|bound| bound == subject)
                && (subjects.is_empty()
                    || bindings.iter().any(|binding| {
                        binding.metadata.namespace == *namespace && binding.metadata.name == *name
                    }))
        })
}

/// An aggregated role that the subject alone has: the roles that it collects are changed, if nobody else has them. None if
/// somebody has.
fn in_sources(
    subject: &Subject,
    role: &Role,
    bindings: &[&Binding],
    cuts: &[Cut],
    objects: &Objects,
    grants: &Grants,
) -> Option<Vec<Change>> {
    let key = (String::new(), role.metadata.name.clone());
    if !role.is_aggregated() || !is_alone(subject, &key, bindings, grants) {
        return None;
    }
    let mut changes = Vec::new();
    for source in objects.cluster_roles().filter(|source| role.selects(source)) {
        if remaining(&source.rules, cuts).0 == source.rules {
            continue;
        }
        let name = &source.metadata.name;
        let is_bound = grants.bindings_of_role("", name).iter().any(|(_, _, subjects)| !subjects.is_empty());
        let is_shared = objects.cluster_roles().any(|other| {
            other.metadata.name != role.metadata.name && other.is_aggregated() && other.selects(source)
        });
        if is_bound || is_shared || source.is_aggregated() || grants.is_default_role("", name) {
            return None;
        }
        changes.push(rules_of(source, cuts));
    }
    if remaining(&role.rules, cuts).0 != role.rules {
        changes.push(rules_of(role, cuts));
    }
    Some(changes)
}

/// A role of its own for the subject, with what it keeps, in place of the shared one: added first, then removed.
fn moved(
    subject: &Subject,
    binding: &Binding,
    kept: &[PolicyRule],
    hash: &dyn Fn(&str) -> String,
) -> Vec<Change> {
    let namespace = &binding.metadata.namespace;
    // Entries that grant nothing would be findings of the new role.
    let is_of_use = |entry: &String| {
        !matches!(entry.as_str(), "nodes/*" | "*/*") && (namespace.is_empty() || !entry.starts_with("nodes/"))
    };
    let rules: Vec<PolicyRule> = kept
        .iter()
        .map(|rule| PolicyRule {
            resources: rule.resources.iter().filter(|entry| is_of_use(entry)).cloned().collect(),
            non_resource_urls: if namespace.is_empty() { rule.non_resource_urls.clone() } else { Vec::new() },
            ..rule.clone()
        })
        .filter(|rule| !rule.resources.is_empty() || !rule.non_resource_urls.is_empty())
        .collect();
    let Some(removed) = without(binding, &|bound| bound == subject) else { return Vec::new() };
    if rules.is_empty() {
        return vec![removed];
    }
    let digest = hash(&format!("{namespace}\n{}\n{rules:?}", binding.metadata.name));
    let name = format!("portcullis:{}:{digest}", subject.to_string().replace('/', ":"));
    let metadata =
        OwnedMetadata { name: name.clone(), namespace: namespace.clone(), ..OwnedMetadata::default() };
    let kind = if namespace.is_empty() { "ClusterRole" } else { "Role" };
    let entry = |bound: &&rbac::Subject| Subject::of(bound, namespace).as_ref() == Some(subject);
    let role = Role { metadata: metadata.clone(), rules, aggregation_rule: None };
    let new = Binding {
        metadata,
        subjects: binding.subjects.iter().find(entry).cloned().into_iter().collect(),
        role_ref: RoleRef { api_group: RBAC_GROUP.to_owned(), kind: kind.to_owned(), name },
    };
    vec![Change::NewRole(role), Change::NewBinding(new), removed]
}

/// The role of a binding: the namespace is empty for a ClusterRole.
pub(super) fn role_key(binding: &Binding) -> Key {
    let namespace = match binding.role_ref.kind.as_str() {
        "Role" => binding.metadata.namespace.clone(),
        _ => String::new(),
    };
    (namespace, binding.role_ref.name.clone())
}

/// A role by its key.
pub(super) fn role_of<'o>(objects: &'o Objects, (namespace, name): &Key) -> Option<&'o Role> {
    match namespace.as_str() {
        "" => objects.cluster_role(name),
        namespace => objects.role(namespace, name),
    }
}
