//! What a comparison lacks (AU-21).

use std::collections::BTreeMap;

use crate::abac;
use crate::audit::state::{ItemKind, State};
use crate::audit::{Incomplete, Why};
use crate::objects::Kind;

/// The name of the question in lists of what is incomplete.
pub const RULE: &str = "diff";

/// The kinds of mode RBAC.
const OF_RBAC: [(Kind, &str); 4] = [
    (Kind::ClusterRoleBinding, "clusterrolebindings"),
    (Kind::ClusterRole, "clusterroles"),
    (Kind::RoleBinding, "rolebindings"),
    (Kind::Role, "roles"),
];

/// A part of the comparison that is not there, in words.
pub(super) fn cut(detail: String) -> Incomplete {
    unresolved("comparison", detail)
}

fn unresolved(input: &str, detail: String) -> Incomplete {
    Incomplete { input: input.to_owned(), why: Why::Unresolved, rules: vec![RULE], detail }
}

/// Which kinds of mode RBAC a state lacks, if it has that mode.
pub(super) fn of_rbac(state: &State, has_mode: bool) -> Vec<Incomplete> {
    let kinds = OF_RBAC.iter().filter(|(kind, _)| has_mode && !state.has(ItemKind::Decided(*kind)));
    let missing = kinds.map(|(kind, input)| Incomplete {
        input: (*input).to_owned(),
        why: Why::NotGiven,
        rules: vec![RULE],
        detail: format!("no {kind}: if the cluster has some, gains and losses are missing or wrong"),
    });
    missing.collect()
}

/// What both sides lack, and what one of them lacks, which the detail then says.
pub(super) fn of_both(old: Vec<Incomplete>, new: Vec<Incomplete>) -> Vec<Incomplete> {
    let mut sides = BTreeMap::<Incomplete, (bool, bool)>::new();
    for missing in old {
        sides.entry(missing).or_default().0 = true;
    }
    for missing in new {
        sides.entry(missing).or_default().1 = true;
    }
    let said = sides.into_iter().map(|(missing, sides)| {
        let whose = match sides {
            (true, true) => "both states",
            (true, false) => "the old state",
            _ => "the new state",
        };
        Incomplete { detail: format!("{whose}: {}", missing.detail), ..missing }
    });
    said.collect()
}

/// The lines of ABAC policy files that one side alone has, for one user as a member of a group: no subject stands for both, unless
/// it is a group that the API server gives this user.
pub(super) fn of_lines(old: &[abac::Policy], new: &[abac::Policy]) -> Vec<Incomplete> {
    let changed = |own: &[abac::Policy], others: &[abac::Policy], whose: &str| -> Vec<Incomplete> {
        let is_same = |line: &abac::Policy, other: &abac::Policy| {
            *line == abac::Policy { line: line.line, ..other.clone() }
        };
        let both = own.iter().filter(|line| !line.user.is_empty() && !line.group.is_empty());
        let changed = both.filter(|line| !others.iter().any(|other| is_same(line, other)));
        let told = changed.map(|abac::Policy { line, user, group, .. }| {
            let detail = format!(
                "line {line} of the {whose} policy file is for user {user:?} as a member of group {group:?}, which no subject \
                 stands for: what it changes may be missing"
            );
            unresolved("authorization-policy-file", detail)
        });
        told.collect()
    };
    [changed(old, new, "old"), changed(new, old, "new")].concat()
}

/// Mode Deny is not compared.
pub(super) fn of_deny() -> Incomplete {
    let detail = "what mode Deny denies is not taken away: gains and losses are those of the modes after it";
    unresolved("deny-rules", detail.to_owned())
}
