//! Checks whether the rules that a user holds cover the rules to be granted (RB-65 to RB-67).

use std::borrow::Borrow;

use super::held::Held;
use crate::objects::rbac::PolicyRule;

/// What a comparison may cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// The maximum number of permissions that are compared one by one: a rule of a few thousand words can expand to
    /// billions.
    pub(super) permissions: usize,
    /// The maximum number of steps, for users who hold a great many rules of the same words.
    pub(super) steps: u64,
}

/// A comparison that would cost more than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Excess {
    /// There are too many permissions to be compared one by one.
    Permissions,
    /// The comparison takes too many steps.
    Steps,
}

/// Returns whether the owner's rules cover everything that the servant's rules grant, and the uncovered permissions:
/// one rule per single permission, in the order of RB-65, duplicates included.
pub fn covers<O: Borrow<PolicyRule>>(owner: &[O], servant: &[PolicyRule]) -> (bool, Vec<PolicyRule>) {
    let uncovered = compare(&Held::new(owner, u64::MAX), servant);
    (uncovered.is_empty(), uncovered)
}

/// Returns whether the owner's rules cover a rule of somebody else's choice. One that is too large to be compared is not covered.
pub(crate) fn is_covered(owner: &[PolicyRule], servant: &PolicyRule) -> bool {
    let limits = Limits { permissions: 10_000, steps: 1_000_000 };
    uncovered(owner, std::slice::from_ref(servant), limits).is_ok_and(|uncovered| uncovered.is_empty())
}

/// Returns the permissions that the owner's rules do not cover, like [`covers`], within limits.
pub(super) fn uncovered<O: Borrow<PolicyRule>>(
    owner: &[O],
    servant: &[PolicyRule],
    limits: Limits,
) -> Result<Vec<PolicyRule>, Excess> {
    let held = Held::new(owner, limits.steps);
    let mut permissions: usize = 0;
    // Most grants are decided by this check, because a held rule that covers a rule covers all its permissions.
    let in_question = servant.iter().filter(|rule| !held.covers_whole(rule));
    let mut compared = Vec::new();
    for rule in in_question {
        permissions = permissions.saturating_add(number_of_permissions(rule));
        compared.push(rule);
    }
    if held.is_exhausted() {
        return Err(Excess::Steps);
    }
    if permissions > limits.permissions {
        return Err(Excess::Permissions);
    }
    let uncovered = compare(&held, compared);
    if held.is_exhausted() { Err(Excess::Steps) } else { Ok(uncovered) }
}

fn compare<'r>(held: &Held<'_>, rules: impl IntoIterator<Item = &'r PolicyRule>) -> Vec<PolicyRule> {
    let mut uncovered = Vec::new();
    for rule in rules {
        held.report_uncovered(rule, |permission| uncovered.push(permission));
    }
    uncovered
}

/// RB-65. A rule with an empty list for one of its factors has none.
fn number_of_permissions(rule: &PolicyRule) -> usize {
    let resources = [rule.resources.len(), rule.verbs.len(), rule.resource_names.len().max(1)]
        .into_iter()
        .fold(rule.api_groups.len(), usize::saturating_mul);
    resources.saturating_add(rule.non_resource_urls.len().saturating_mul(rule.verbs.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_beyond_its_limits_is_given_up_and_covers_nothing() {
        let rule = |verb: &str| PolicyRule {
            verbs: vec![verb.into()],
            non_resource_urls: vec!["/a".into(), "/b".into()],
            ..PolicyRule::default()
        };
        let held = [rule("get"), rule("put")];
        let excess = |verb: &str, permissions, steps| {
            uncovered(&held, &[rule(verb)], Limits { permissions, steps }).map(|found| found.len())
        };
        assert_eq!(excess("get", 0, 100), Ok(0), "one held rule covers it as a whole");
        assert_eq!(excess("list", 2, 100), Ok(2));
        assert_eq!(excess("list", 1, 100), Err(Excess::Permissions));
        assert_eq!(excess("list", 2, 1), Err(Excess::Steps));
        assert_eq!(excess("get", 2, 1), Err(Excess::Steps));
    }
}
