//! What remains of a rule when some permissions are taken from it (AU-82). The result never grants more than the rule.

use crate::audit::rights::{Ask, Verbs};
use crate::objects::rbac::PolicyRule;
use crate::rbac::matching::{group_matches, resource_matches};
use crate::request::ResourceRequest;

/// Permissions to be taken away: verbs on a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) ask: Ask,
    pub(super) verbs: Verbs,
}

/// What remains, and whether a wildcard went with it: then nobody knows what else was in use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Remains {
    pub(super) rules: Vec<PolicyRule>,
    pub(super) has_lost_wildcard: bool,
}

/// Takes permissions from a rule.
pub(super) fn cut(rule: &PolicyRule, cuts: &[Cut]) -> Remains {
    let mut remains = Remains::default();
    let mut whole = Vec::new();
    for entry in &rule.resources {
        let alone = PolicyRule { resources: vec![entry.clone()], ..of_resources(rule) };
        let matching: Vec<&Cut> = cuts.iter().filter(|cut| grants(&alone, cut)).collect();
        if matching.is_empty() {
            whole.push(entry.clone());
        } else {
            cut_entry(&alone, &matching, &mut remains);
        }
    }
    let whole = PolicyRule { resources: whole, ..of_resources(rule) };
    if !whole.resources.is_empty() {
        remains.rules.insert(0, whole);
    }
    if !rule.non_resource_urls.is_empty() {
        remains.rules.push(PolicyRule {
            verbs: rule.verbs.clone(),
            non_resource_urls: rule.non_resource_urls.clone(),
            ..PolicyRule::default()
        });
    }
    remains.rules = merged(remains.rules);
    remains
}

/// A rule as it is about resources.
fn of_resources(rule: &PolicyRule) -> PolicyRule {
    PolicyRule { non_resource_urls: Vec::new(), ..rule.clone() }
}

/// Whether a rule grants one of the permissions of a cut.
fn grants(rule: &PolicyRule, cut: &Cut) -> bool {
    let (group, resource, subresource) = cut.ask.resource();
    let request = ResourceRequest { group, resource, subresource, ..ResourceRequest::default() };
    Verbs::of(rule).meets(cut.verbs) && group_matches(rule, &request) && resource_matches(rule, &request)
}

/// Takes permissions from a rule with one resource entry.
fn cut_entry(rule: &PolicyRule, cuts: &[&Cut], remains: &mut Remains) {
    let is_wildcard = rule.resources.iter().any(|entry| entry == "*" || entry.starts_with("*/"));
    let (touched, others): (Vec<String>, Vec<String>) = rule.api_groups.iter().cloned().partition(|group| {
        let of_group = PolicyRule { api_groups: vec![group.clone()], ..rule.clone() };
        cuts.iter().any(|cut| grants(&of_group, cut))
    });
    if !others.is_empty() {
        remains.rules.push(PolicyRule { api_groups: others, ..rule.clone() });
    }
    if is_wildcard || touched.iter().any(|group| group == "*") {
        remains.has_lost_wildcard = true;
        return;
    }
    if rule.verbs.iter().any(|verb| verb == "*") {
        remains.has_lost_wildcard = true;
        return;
    }
    for group in touched {
        let of_group = PolicyRule { api_groups: vec![group], ..rule.clone() };
        let is_kept = |verb: &String| {
            let of_verb = PolicyRule { verbs: vec![verb.clone()], ..of_group.clone() };
            !cuts.iter().any(|cut| grants(&of_verb, cut))
        };
        let verbs: Vec<String> = rule.verbs.iter().filter(|verb| is_kept(verb)).cloned().collect();
        if !verbs.is_empty() {
            remains.rules.push(PolicyRule { verbs, ..of_group });
        }
    }
}

/// Rules that differ in their resources alone are one rule.
fn merged(rules: Vec<PolicyRule>) -> Vec<PolicyRule> {
    let mut merged: Vec<PolicyRule> = Vec::new();
    for rule in rules {
        let is_same = |other: &&mut PolicyRule| {
            other.verbs == rule.verbs
                && other.api_groups == rule.api_groups
                && other.resource_names == rule.resource_names
                && other.non_resource_urls.is_empty()
                && rule.non_resource_urls.is_empty()
        };
        match merged.iter_mut().find(is_same) {
            Some(other) => other.resources.extend(rule.resources),
            None => merged.push(rule),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(verbs: &[&str], groups: &[&str], resources: &[&str]) -> PolicyRule {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        PolicyRule {
            verbs: words(verbs),
            api_groups: words(groups),
            resources: words(resources),
            ..PolicyRule::default()
        }
    }

    const PROXY: Cut = Cut { ask: Ask::NodeProxy, verbs: Verbs::GET.with(Verbs::CREATE) };
    const SECRETS: Cut = Cut { ask: Ask::Secrets, verbs: Verbs::READ };

    #[test]
    fn verbs_and_entries_go_and_the_rest_stays_au_82() {
        let before = rule(&["get", "delete"], &[""], &["nodes/proxy", "nodes/metrics"]);
        let remains = cut(&before, &[PROXY]);
        assert!(!remains.has_lost_wildcard);
        let kept = rule(&["get", "delete"], &[""], &["nodes/metrics"]);
        assert_eq!(remains.rules, [kept, rule(&["delete"], &[""], &["nodes/proxy"])]);
    }

    #[test]
    fn other_groups_keep_what_they_have() {
        let remains = cut(&rule(&["get", "list"], &["", "apps"], &["secrets"]), &[SECRETS]);
        assert_eq!(remains.rules, [rule(&["get", "list"], &["apps"], &["secrets"])]);
    }

    #[test]
    fn nothing_is_subtracted_from_a_wildcard() {
        for before in [
            rule(&["get"], &[""], &["*"]),
            rule(&["*"], &[""], &["secrets"]),
            rule(&["get"], &["*"], &["secrets"]),
        ] {
            let remains = cut(&before, &[SECRETS]);
            assert!(remains.has_lost_wildcard && remains.rules.is_empty(), "{before:?}");
        }
        let beside = cut(&rule(&["get"], &[""], &["*", "services"]), &[SECRETS]);
        assert_eq!(beside.rules, [rule(&["get"], &[""], &["services"])]);
    }

    #[test]
    fn urls_stay() {
        let urls = vec!["/metrics".to_owned()];
        let before = PolicyRule { non_resource_urls: urls.clone(), ..rule(&["get"], &[""], &["secrets"]) };
        let kept =
            PolicyRule { verbs: vec!["get".to_owned()], non_resource_urls: urls, ..PolicyRule::default() };
        assert_eq!(cut(&before, &[SECRETS]).rules, [kept]);
    }
}
