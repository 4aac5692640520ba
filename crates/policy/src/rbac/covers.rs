//! Checks whether the rules that a user holds cover the rules to be granted (RB-65 to RB-67).

use std::borrow::Borrow;

use super::matching::{ALL, url_covers};
use crate::objects::rbac::PolicyRule;

/// Returns whether the owner's rules cover everything that the servant's rules grant, and the uncovered permissions:
/// one rule per single permission, in the order of RB-65, duplicates included.
pub fn covers<O: Borrow<PolicyRule>>(owner: &[O], servant: &[PolicyRule]) -> (bool, Vec<PolicyRule>) {
    let uncovered: Vec<PolicyRule> = in_question(owner, servant)
        .filter(|permission| !is_covered(owner, permission))
        .map(PolicyRule::from)
        .collect();
    (uncovered.is_empty(), uncovered)
}

/// Returns the permissions that the owner's rules do not cover, like [`covers`]. `None` if more than `most` permissions
/// would have to be checked one by one: a rule of a few thousand words can expand to billions.
pub(super) fn uncovered<O: Borrow<PolicyRule>>(
    owner: &[O],
    servant: &[PolicyRule],
    most: usize,
) -> Option<Vec<PolicyRule>> {
    if in_question(owner, servant).nth(most).is_some() {
        return None;
    }
    Some(covers(owner, servant).1)
}

/// The permissions of those rules that no owner rule covers as a whole. Most grants are decided by this check, because
/// an owner rule that covers a rule covers all its permissions.
fn in_question<'a, O: Borrow<PolicyRule>>(
    owner: &'a [O],
    servant: &'a [PolicyRule],
) -> impl Iterator<Item = Permission<'a>> {
    servant.iter().filter(|rule| !owner.iter().any(|o| covers_whole(o.borrow(), rule))).flat_map(permissions)
}

/// RB-67: different permissions may be covered by different owner rules.
fn is_covered<O: Borrow<PolicyRule>>(owner: &[O], permission: &Permission<'_>) -> bool {
    owner.iter().any(|o| permission.is_covered_by(o.borrow()))
}

/// One single permission (RB-65).
#[derive(Clone, Copy, Debug)]
enum Permission<'a> {
    Resource { group: &'a str, resource: &'a str, verb: &'a str, name: Option<&'a str> },
    Url { url: &'a str, verb: &'a str },
}

/// The permissions of a rule, in the order of RB-65. A rule with an empty list for one of its factors has none.
fn permissions(rule: &PolicyRule) -> impl Iterator<Item = Permission<'_>> {
    let names = || {
        let unnamed = rule.resource_names.is_empty().then_some(None);
        unnamed.into_iter().chain(rule.resource_names.iter().map(|name| Some(name.as_str())))
    };
    let resources = rule.api_groups.iter().flat_map(move |group| {
        rule.resources.iter().flat_map(move |resource| {
            rule.verbs.iter().flat_map(move |verb| {
                names().map(move |name| Permission::Resource { group, resource, verb, name })
            })
        })
    });
    let urls = rule
        .non_resource_urls
        .iter()
        .flat_map(|url| rule.verbs.iter().map(move |verb| Permission::Url { url, verb }));
    resources.chain(urls)
}

impl Permission<'_> {
    /// RB-66: one owner rule covers the permission by itself.
    fn is_covered_by(&self, owner: &PolicyRule) -> bool {
        match *self {
            Self::Resource { group, resource, verb, name } => {
                covers_entry(&owner.verbs, verb)
                    && covers_entry(&owner.api_groups, group)
                    && covers_resource(owner, resource)
                    && covers_name(owner, name)
            }
            // A permission for a URL has no name, so an owner rule with names does not cover it either.
            Self::Url { url, verb } => {
                covers_entry(&owner.verbs, verb) && covers_url(owner, url) && covers_name(owner, None)
            }
        }
    }
}

/// Returns whether a single owner rule covers every permission of a rule. May be false although the check of each
/// permission succeeds.
fn covers_whole(owner: &PolicyRule, rule: &PolicyRule) -> bool {
    let all = |owner: &[String], servant: &[String]| servant.iter().all(|entry| covers_entry(owner, entry));
    all(&owner.verbs, &rule.verbs)
        && all(&owner.api_groups, &rule.api_groups)
        && rule.resources.iter().all(|resource| covers_resource(owner, resource))
        && rule.non_resource_urls.iter().all(|url| covers_url(owner, url))
        && (owner.resource_names.is_empty()
            || (!rule.resource_names.is_empty()
                && rule.non_resource_urls.is_empty()
                && rule.resource_names.iter().all(|name| covers_name(owner, Some(name)))))
}

fn covers_entry(owner: &[String], entry: &str) -> bool {
    owner.iter().any(|o| o == ALL || o == entry)
}

fn covers_resource(owner: &PolicyRule, resource: &str) -> bool {
    if covers_entry(&owner.resources, resource) {
        return true;
    }
    let Some((_, subresource)) = resource.split_once('/') else { return false };
    owner.resources.iter().any(|o| o.strip_prefix("*/") == Some(subresource))
}

fn covers_name(owner: &PolicyRule, name: Option<&str>) -> bool {
    owner.resource_names.is_empty() || name.is_some_and(|name| owner.resource_names.iter().any(|n| n == name))
}

fn covers_url(owner: &PolicyRule, url: &str) -> bool {
    owner.non_resource_urls.iter().any(|entry| url_covers(entry.as_bytes(), url))
}

impl From<Permission<'_>> for PolicyRule {
    fn from(permission: Permission<'_>) -> Self {
        match permission {
            Permission::Resource { group, resource, verb, name } => Self {
                verbs: vec![verb.to_owned()],
                api_groups: vec![group.to_owned()],
                resources: vec![resource.to_owned()],
                resource_names: name.map(str::to_owned).into_iter().collect(),
                ..Self::default()
            },
            Permission::Url { url, verb } => Self {
                verbs: vec![verb.to_owned()],
                non_resource_urls: vec![url.to_owned()],
                ..Self::default()
            },
        }
    }
}
