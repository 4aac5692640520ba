//! The rules that a user holds, indexed by their words for the escalation check (RB-65 to RB-67).
//!
//! A caller chooses how many rules it holds and grants. So no rule is compared with each other one: for each word there
//! is the set of the rules that cover it, and a permission is covered if its words have a rule in common.

use std::borrow::{Borrow, Cow};

use hashbrown::HashMap;

use super::matching::ALL;
use super::rule_set::{RuleSet, Sets};
use crate::objects::rbac::PolicyRule;

/// See the module.
pub(super) struct Held<'a> {
    sets: Sets,
    verbs: Words<'a>,
    api_groups: Words<'a>,
    resources: Words<'a>,
    /// The entries `*/x`, by the subresource `x`.
    subresources: Words<'a>,
    names: Words<'a>,
    urls: Urls<'a>,
}

/// The rules by their words of one kind.
#[derive(Default)]
struct Words<'a> {
    /// The rules that cover every word.
    all: RuleSet,
    rules: HashMap<&'a str, RuleSet>,
}

/// The rules by their URLs.
#[derive(Default)]
struct Urls<'a> {
    exact: HashMap<&'a str, RuleSet>,
    /// In the order of their texts.
    prefixes: Vec<Prefix<'a>>,
}

/// A URL that ends with `*`.
struct Prefix<'a> {
    /// The URL without the `*` at its end.
    text: &'a str,
    /// The place of the longest other prefix that this one begins with.
    parent: Option<usize>,
    rules: RuleSet,
}

impl<'a> Held<'a> {
    /// Indexes rules. `steps` is the number of steps after which no permission counts as covered; see [`Sets`].
    pub(super) fn new<O: Borrow<PolicyRule>>(rules: &'a [O], steps: u64) -> Self {
        let sets = Sets::new(rules.len(), steps);
        let [mut verbs, mut api_groups, mut resources, mut subresources, mut names, mut exact, mut prefixes] =
            [const { Places::new() }; 7];
        for (place, rule) in rules.iter().enumerate() {
            let rule = rule.borrow();
            rule.verbs.iter().for_each(|verb| verbs.add(verb, place));
            rule.api_groups.iter().for_each(|group| api_groups.add(group, place));
            for resource in &rule.resources {
                resources.add(resource, place);
                if let Some(subresource) = resource.strip_prefix("*/") {
                    subresources.add(subresource, place);
                }
            }
            rule.resource_names.iter().for_each(|name| names.add(name, place));
            if rule.resource_names.is_empty() {
                names.all.push(place);
            }
            for url in &rule.non_resource_urls {
                match url.ends_with('*') {
                    true => prefixes.add(url.trim_end_matches('*'), place),
                    false => exact.add(url, place),
                }
            }
        }
        Self {
            verbs: verbs.with_wildcard(&sets),
            api_groups: api_groups.with_wildcard(&sets),
            resources: resources.with_wildcard(&sets),
            subresources: subresources.finished(&sets),
            names: names.finished(&sets),
            urls: Urls::new(exact.finished(&sets).rules, prefixes.finished(&sets).rules),
            sets,
        }
    }

    /// Whether all steps were taken. What was found since then is wrong.
    pub(super) fn is_exhausted(&self) -> bool {
        self.sets.is_exhausted()
    }

    /// Returns whether a single held rule covers every permission of a rule. May be false although the check of each
    /// permission succeeds.
    pub(super) fn covers_whole<'s>(&'s self, rule: &PolicyRule) -> bool {
        let mut left: Option<Cow<'_, RuleSet>> = None;
        let mut narrow = |covering: Cow<'s, RuleSet>| {
            let narrowed = match &left {
                Some(left) => Cow::Owned(self.sets.both(left, &covering)),
                None => covering,
            };
            !left.insert(narrowed).is_empty()
        };
        // A permission for a URL has no name, so a held rule with names does not cover it.
        let is_any_unnamed = rule.resource_names.is_empty() || !rule.non_resource_urls.is_empty();
        // First the words that few rules have: usually many rules name the same verbs and groups.
        rule.resources.iter().all(|resource| narrow(self.covering_resource(resource)))
            && rule.non_resource_urls.iter().all(|url| narrow(self.urls.covering(url, &self.sets)))
            && rule.resource_names.iter().all(|name| narrow(self.names.covering(name, &self.sets)))
            && rule.api_groups.iter().all(|group| narrow(self.api_groups.covering(group, &self.sets)))
            && rule.verbs.iter().all(|verb| narrow(self.verbs.covering(verb, &self.sets)))
            && (!is_any_unnamed || narrow(Cow::Borrowed(&self.names.all)))
    }

    /// Calls `report` for each permission of a rule that no single held rule covers, in the order of RB-65. A rule with
    /// an empty list for one of its factors has none.
    pub(super) fn report_uncovered(&self, rule: &PolicyRule, mut report: impl FnMut(PolicyRule)) {
        let sets = &self.sets;
        let one = |word: &str| vec![word.to_owned()];
        for group in &rule.api_groups {
            let of_group = self.api_groups.covering(group, sets);
            for resource in &rule.resources {
                let of_resource = sets.both(&of_group, &self.covering_resource(resource));
                for verb in &rule.verbs {
                    let of_verb = sets.both(&of_resource, &self.verbs.covering(verb, sets));
                    let permission = |resource_names| PolicyRule {
                        verbs: one(verb),
                        api_groups: one(group),
                        resources: one(resource),
                        resource_names,
                        ..PolicyRule::default()
                    };
                    if rule.resource_names.is_empty() && !sets.meet(&of_verb, &self.names.all) {
                        report(permission(Vec::new()));
                    }
                    for name in &rule.resource_names {
                        if !sets.meet(&of_verb, &self.names.covering(name, sets)) {
                            report(permission(one(name)));
                        }
                    }
                }
            }
        }
        for url in &rule.non_resource_urls {
            let of_url = sets.both(&self.urls.covering(url, sets), &self.names.all);
            for verb in &rule.verbs {
                if !sets.meet(&of_url, &self.verbs.covering(verb, sets)) {
                    report(PolicyRule {
                        verbs: one(verb),
                        non_resource_urls: one(url),
                        ..PolicyRule::default()
                    });
                }
            }
        }
    }

    /// RB-66: `*`, the resource as it is written, or `*/` and its subresource.
    fn covering_resource(&self, resource: &str) -> Cow<'_, RuleSet> {
        let below = resource.split_once('/').and_then(|(_, sub)| self.subresources.rules.get(sub));
        let exact = self.resources.rules.get(resource);
        self.sets.union([&self.resources.all].into_iter().chain(exact).chain(below))
    }
}

impl Words<'_> {
    fn covering(&self, word: &str, sets: &Sets) -> Cow<'_, RuleSet> {
        sets.union([&self.all].into_iter().chain(self.rules.get(word)))
    }
}

impl<'a> Urls<'a> {
    fn new(exact: HashMap<&'a str, RuleSet>, prefixes: HashMap<&'a str, RuleSet>) -> Self {
        let mut prefixes: Vec<Prefix<'a>> =
            prefixes.into_iter().map(|(text, rules)| Prefix { text, parent: None, rules }).collect();
        prefixes.sort_unstable_by_key(|prefix| prefix.text);
        // The prefixes that the last one begins with, the shortest first.
        let mut open: Vec<(usize, &str)> = Vec::new();
        for (place, prefix) in prefixes.iter_mut().enumerate() {
            while open.pop_if(|(_, text)| !prefix.text.starts_with(*text)).is_some() {}
            prefix.parent = open.last().map(|(parent, _)| *parent);
            open.push((place, prefix.text));
        }
        Self { exact, prefixes }
    }

    /// RB-17, RB-66: `*`, exactly the URL, or a prefix of it followed by `*`.
    fn covering(&self, url: &str, sets: &Sets) -> Cow<'_, RuleSet> {
        // All prefixes of the URL are prefixes of the last one that does not come after it, or this one itself.
        let last = self.prefixes.partition_point(|prefix| prefix.text <= url).checked_sub(1);
        let climb = |from: Option<usize>| from.and_then(|place| self.prefixes.get(place));
        let common = climb(last).map_or(0, |prefix| {
            prefix.text.bytes().zip(url.bytes()).take_while(|(one, other)| one == other).count()
        });
        let chain = std::iter::successors(climb(last), |prefix| climb(prefix.parent));
        let covering = chain.filter(|prefix| prefix.text.len() <= common).map(|prefix| &prefix.rules);
        sets.union(self.exact.get(url).into_iter().chain(covering))
    }
}

/// The places of rules by word, while they are collected.
struct Places<'a> {
    all: Vec<usize>,
    places: Option<HashMap<&'a str, Vec<usize>>>,
}

impl<'a> Places<'a> {
    const fn new() -> Self {
        Self { all: Vec::new(), places: None }
    }

    /// Adds a rule that does not come before another of the same word.
    fn add(&mut self, word: &'a str, place: usize) {
        let places = self.places.get_or_insert_default().entry(word).or_default();
        if places.last() != Some(&place) {
            places.push(place);
        }
    }

    /// The sets of words of which `*` covers all.
    fn with_wildcard(mut self, sets: &Sets) -> Words<'a> {
        self.all = self.places.as_mut().and_then(|places| places.remove(ALL)).unwrap_or_default();
        self.finished(sets)
    }

    fn finished(self, sets: &Sets) -> Words<'a> {
        let rules = self.places.into_iter().flatten();
        Words {
            all: sets.finished(self.all),
            rules: rules.map(|(word, places)| (word, sets.finished(places))).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(verb: &str, resource: String) -> PolicyRule {
        PolicyRule {
            verbs: vec![verb.into()],
            api_groups: vec![String::new()],
            resources: vec![resource],
            ..PolicyRule::default()
        }
    }

    /// The number of steps in which rules are compared with others.
    fn steps(held: &[PolicyRule], granted: &[PolicyRule]) -> u64 {
        let index = Held::new(held, u64::MAX);
        for rule in granted {
            index.covers_whole(rule);
            index.report_uncovered(rule, |_| {});
        }
        u64::MAX - index.sets.steps_left()
    }

    #[test]
    fn as_many_rules_again_take_as_many_steps_again_rb_66() {
        let rules = |verb: &str, count: usize| -> Vec<PolicyRule> {
            (0..count).map(|number| rule(verb, format!("resource{number}"))).collect()
        };
        for verb in ["get", "list"] {
            let [few, many] = [1_000, 4_000].map(|count| steps(&rules("get", count), &rules(verb, count)));
            assert!(many <= few * 5, "{verb}: {few} and {many} steps");
        }
    }

    #[test]
    fn rules_of_the_same_words_are_compared_64_at_a_time_rb_66() {
        // Each word of what is granted is in half of the rules, and no rule has both.
        let held: Vec<PolicyRule> = (0..6_400)
            .map(|number| match number % 2 {
                0 => rule("get", format!("nodes{number}")),
                _ => rule("list", "pods".into()),
            })
            .collect();
        let granted = vec![rule("get", "pods".into()); 1_000];
        let (pairs, steps) = (6_400 * 1_000, steps(&held, &granted));
        assert!(steps < pairs / 8, "{steps} steps for {pairs} pairs");
    }
}
