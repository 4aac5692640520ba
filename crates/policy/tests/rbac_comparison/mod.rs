//! Rules are compared by hash and in sets; a model that compares each with each other comes to the same.
#![expect(clippy::indexing_slicing, reason = "a test stops where its own set-up fails")]

use portcullis_policy::objects::rbac::{
    AggregationRule, LabelSelector, LabelSelectorRequirement, OwnedMetadata, PolicyRule, Role,
};
use portcullis_policy::rbac::aggregation::{SelectorError, aggregate, aggregated_rules};
use portcullis_policy::rbac::covers;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

/// Some of the words, and one of many that are seldom equal.
fn words(
    of: &'static [&'static str],
    at_most: usize,
    prefix: &'static str,
) -> impl Strategy<Value = Vec<String>> {
    let own = prop::option::of((0..40).prop_map(move |number| format!("{prefix}{number}")));
    (subsequence(of, 0..=at_most), own)
        .prop_map(|(words, own)| words.into_iter().map(str::to_owned).chain(own).collect())
}

fn rule() -> impl Strategy<Value = PolicyRule> {
    (
        words(&["*", "get", "get", "list"], 2, "verb"),
        words(&["*", "", "apps"], 2, "group"),
        words(&["*", "pods", "pods/log", "*/log", "nodes", "pods/log/x", "*/log/x"], 3, "resource"),
        words(&["", "n", "*"], 1, "name"),
        words(&["", "*", "/x", "/x*", "/x/*", "/x/y*", "/x/y/**", "/y", "/y/", "/y/*"], 3, "/x/y/"),
    )
        .prop_map(|(verbs, api_groups, resources, resource_names, non_resource_urls)| PolicyRule {
            verbs,
            api_groups,
            resources,
            resource_names,
            non_resource_urls,
        })
}

/// Rules of which few or none have a `*`, so that there is something left to compare.
fn narrow_rule() -> impl Strategy<Value = PolicyRule> {
    rule().prop_map(|mut rule| {
        for list in [&mut rule.verbs, &mut rule.api_groups, &mut rule.resources] {
            list.retain(|word| word != "*");
        }
        rule
    })
}

fn rules(at_most: usize) -> impl Strategy<Value = Vec<PolicyRule>> {
    prop_oneof![
        prop::collection::vec(rule(), 0..4),
        // More rules than bits in a word.
        prop::collection::vec(narrow_rule(), 0..at_most),
    ]
}

fn labels() -> impl Strategy<Value = Vec<(String, String)>> {
    let label = (select(&["a", "b", "c"][..]), select(&["", "x", "y"][..]));
    prop::collection::vec(label, 0..3)
        .prop_map(|labels| labels.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
}

fn selector() -> impl Strategy<Value = LabelSelector> {
    let key = prop_oneof![20 => select(&["a", "b", "c"][..]), 1 => Just("-")];
    let operator = select(&["In", "NotIn", "Exists", "DoesNotExist"][..]);
    let values = subsequence(&["", "x", "y"][..], 1..=2);
    let requirement =
        (key, operator, values, prop::bool::weighted(0.05)).prop_map(|(key, operator, values, is_wrong)| {
            let has_values = operator.ends_with("In") != is_wrong;
            LabelSelectorRequirement {
                key: key.to_owned(),
                operator: operator.to_owned(),
                values: values.into_iter().filter(|_| has_values).map(str::to_owned).collect(),
            }
        });
    (labels(), prop::collection::vec(requirement, 0..2))
        .prop_map(|(match_labels, match_expressions)| LabelSelector { match_labels, match_expressions })
}

fn cluster_role() -> impl Strategy<Value = Role> {
    let selectors = prop::option::of(prop::collection::vec(selector(), 0..3));
    // The same rules again and again, in one role as well.
    let verbs = select(&["get", "list", "watch", "create"][..]);
    let rule = verbs.prop_map(|verb| PolicyRule { verbs: vec![verb.to_owned()], ..PolicyRule::default() });
    let name = select(&["p", "q", "r", "s", "t", "u", "v"][..]);
    (name, labels(), prop::collection::vec(rule, 0..4), selectors).prop_map(
        |(name, labels, rules, selectors)| Role {
            metadata: OwnedMetadata { name: name.to_owned(), labels, ..OwnedMetadata::default() },
            rules,
            aggregation_rule: selectors
                .map(|cluster_role_selectors| AggregationRule { cluster_role_selectors }),
        },
    )
}

/// RB-79: for each selector in order, the rules of all matching roles by name, each rule once.
fn aggregated_by_the_model(role: &Role, roles: &[Role]) -> Result<Option<Vec<PolicyRule>>, SelectorError> {
    let Some(aggregation) = &role.aggregation_rule else { return Ok(None) };
    let mut others: Vec<&Role> =
        roles.iter().filter(|other| other.metadata.name != role.metadata.name).collect();
    others.sort_by_key(|other| &other.metadata.name);
    let mut rules = Vec::new();
    for selector in &aggregation.cluster_role_selectors {
        for other in &others {
            if selector.matches(&other.metadata.labels)? {
                for rule in &other.rules {
                    if !rules.contains(rule) {
                        rules.push(rule.clone());
                    }
                }
            }
        }
    }
    Ok(Some(rules))
}

/// RB-79: one role after the other, until nothing changes; at most one round more than there are aggregated roles.
fn aggregate_by_the_model(roles: &mut [Role]) -> Vec<(String, SelectorError)> {
    let mut errors = Vec::new();
    for _ in 0..=roles.iter().filter(|role| role.aggregation_rule.is_some()).count() {
        let before = roles.to_vec();
        errors.clear();
        for place in 0..roles.len() {
            match aggregated_by_the_model(&roles[place], roles) {
                Ok(Some(rules)) if !rules.is_empty() => roles[place].rules = rules,
                Ok(_) => {}
                Err(error) => errors.push((roles[place].metadata.name.clone(), error)),
            }
        }
        if roles == before.as_slice() {
            break;
        }
    }
    errors
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn aggregated_roles_get_the_rules_of_the_model_in_its_order_rb_79(
        mut roles in prop::collection::vec(cluster_role(), 0..8),
    ) {
        roles.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        roles.dedup_by(|a, b| a.metadata.name == b.metadata.name);
        for role in &roles {
            prop_assert_eq!(aggregated_rules(role, &roles), aggregated_by_the_model(role, &roles));
        }
        let (mut aggregated, mut by_the_model) = (roles.clone(), roles);
        prop_assert_eq!(aggregate(&mut aggregated), aggregate_by_the_model(&mut by_the_model));
        prop_assert_eq!(aggregated, by_the_model);
    }

    #[test]
    fn what_is_left_uncovered_is_what_no_single_rule_covers_rb_65_rb_66(
        owner in rules(300),
        servant in rules(20),
    ) {
        let mut expected = Vec::new();
        for rule in &servant {
            for tuple in tuples(rule) {
                if !owner.iter().any(|owner| covers_tuple(owner, &tuple)) {
                    expected.push(tuple);
                }
            }
        }
        prop_assert_eq!(covers(&owner, &servant), (expected.is_empty(), expected));
    }
}

/// RB-65: groups outermost, then resources, verbs, names; then URLs, then verbs.
fn tuples(rule: &PolicyRule) -> Vec<PolicyRule> {
    let mut tuples = Vec::new();
    let one = |text: &String| vec![text.clone()];
    for group in &rule.api_groups {
        for resource in &rule.resources {
            for verb in &rule.verbs {
                let tuple = PolicyRule {
                    api_groups: one(group),
                    resources: one(resource),
                    verbs: one(verb),
                    ..PolicyRule::default()
                };
                if rule.resource_names.is_empty() {
                    tuples.push(tuple.clone());
                }
                for name in &rule.resource_names {
                    tuples.push(PolicyRule { resource_names: one(name), ..tuple.clone() });
                }
            }
        }
    }
    for url in &rule.non_resource_urls {
        for verb in &rule.verbs {
            tuples.push(PolicyRule {
                non_resource_urls: one(url),
                verbs: one(verb),
                ..PolicyRule::default()
            });
        }
    }
    tuples
}

/// RB-66, for a tuple of [`tuples`].
fn covers_tuple(owner: &PolicyRule, tuple: &PolicyRule) -> bool {
    let has = |list: &[String], entry: &str| list.iter().any(|e| e == entry);
    let named = match tuple.resource_names.as_slice() {
        [name] => owner.resource_names.is_empty() || has(&owner.resource_names, name),
        _ => owner.resource_names.is_empty(),
    };
    if !named || !(has(&owner.verbs, "*") || has(&owner.verbs, &tuple.verbs[0])) {
        return false;
    }
    if let [url] = tuple.non_resource_urls.as_slice() {
        return owner.non_resource_urls.iter().any(|entry| {
            entry == url || entry.ends_with('*') && url.starts_with(entry.trim_end_matches('*'))
        });
    }
    let (group, resource) = (&tuple.api_groups[0], &tuple.resources[0]);
    let suffix = resource.split_once('/').map(|(_, subresource)| format!("*/{subresource}"));
    (has(&owner.api_groups, "*") || has(&owner.api_groups, group))
        && (has(&owner.resources, "*")
            || has(&owner.resources, resource)
            || suffix.is_some_and(|suffix| has(&owner.resources, &suffix)))
}
