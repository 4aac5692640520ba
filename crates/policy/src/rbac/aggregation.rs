//! Computes the rules of aggregated ClusterRoles (RB-79), and matches their label selectors.
//!
//! The aggregation controller writes the rules back; this module does not.

use std::collections::BTreeMap;
use std::hash::Hash;

use hashbrown::{HashMap, HashSet};
use portcullis_apimachinery::names::{label_key_errors, label_value_errors};

use crate::objects::rbac::{LabelSelector, LabelSelectorRequirement, PolicyRule, Role};

/// An invalid label selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// The operator is unknown.
    #[error("{0:?} is not a valid label selector operator: use In, NotIn, Exists or DoesNotExist")]
    Operator(String),
    /// `In` and `NotIn` need values.
    #[error("values of {0:?}: for 'in', 'notin' operators, values set can't be empty")]
    ValuesMissing(String),
    /// `Exists` and `DoesNotExist` take no values.
    #[error("values of {0:?}: values set must be empty for exists and does not exist")]
    ValuesUnexpected(String),
    /// The key is not a label key.
    #[error("{0:?} is not a label key: [prefix/]name, name of at most 63 letters, digits, '-', '_' and '.'")]
    Key(String),
    /// The value is not a label value.
    #[error("{1:?} is not a label value (key {0:?}): at most 63 letters, digits, '-', '_' and '.', or empty")]
    Value(String, String),
}

impl LabelSelector {
    /// Validates the selector (RB-73, RB-79).
    ///
    /// # Errors
    /// The first invalid requirement.
    pub fn validate(&self) -> Result<(), SelectorError> {
        for (key, value) in &self.match_labels {
            check_key(key)?;
            check_value(key, value)?;
        }
        self.match_expressions.iter().try_for_each(LabelSelectorRequirement::validate)
    }

    /// Returns whether labels satisfy all requirements. An empty selector matches everything.
    ///
    /// # Errors
    /// The selector is invalid; see [`LabelSelector::validate`].
    pub fn matches(&self, labels: &[(String, String)]) -> Result<bool, SelectorError> {
        self.validate()?;
        let labels = by_key(labels);
        Ok(self.is_met(|key| labels.get(key).copied()))
    }

    /// Like [`LabelSelector::matches`], for a selector that is valid and the value of each key. Allocates nothing.
    pub(crate) fn is_met<'l>(&self, value: impl Fn(&str) -> Option<&'l str>) -> bool {
        self.match_labels.iter().all(|(k, v)| value(k) == Some(v))
            && self.match_expressions.iter().all(|requirement| requirement.is_met(value(&requirement.key)))
    }
}

/// The labels of a role, by key.
type Labels<'a> = HashMap<&'a str, &'a str>;

/// The first of equal keys counts.
fn by_key(labels: &[(String, String)]) -> Labels<'_> {
    labels.iter().rev().map(|(key, value)| (key.as_str(), value.as_str())).collect()
}

impl LabelSelectorRequirement {
    fn validate(&self) -> Result<(), SelectorError> {
        match (self.operator.as_str(), self.values.is_empty()) {
            ("In" | "NotIn", true) => return Err(SelectorError::ValuesMissing(self.key.clone())),
            ("Exists" | "DoesNotExist", false) => {
                return Err(SelectorError::ValuesUnexpected(self.key.clone()));
            }
            ("In" | "NotIn" | "Exists" | "DoesNotExist", _) => {}
            (operator, _) => return Err(SelectorError::Operator(operator.to_owned())),
        }
        check_key(&self.key)?;
        self.values.iter().try_for_each(|value| check_value(&self.key, value))
    }

    fn is_met(&self, value: Option<&str>) -> bool {
        let is_listed = value.is_some_and(|value| self.values.iter().any(|listed| listed == value));
        match self.operator.as_str() {
            "In" => is_listed,
            "NotIn" => !is_listed,
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    }
}

impl Role {
    /// Whether this aggregated ClusterRole collects the rules of another one. An invalid selector selects nothing.
    pub(crate) fn selects(&self, other: &Self) -> bool {
        let selectors = self.aggregation_rule.iter().flat_map(|rule| &rule.cluster_role_selectors);
        self.metadata.name != other.metadata.name
            && selectors.into_iter().any(|selector| selector.matches(&other.metadata.labels) == Ok(true))
    }
}

/// Returns the rules that an aggregated ClusterRole should have, given all current ClusterRoles (RB-79); `None` for a
/// role without an aggregation rule. The result is empty if no role matches; the owner of the field then decides which
/// rules remain.
///
/// # Errors
/// A selector is invalid.
pub fn aggregated_rules<'a>(
    role: &Role,
    cluster_roles: impl IntoIterator<Item = &'a Role>,
) -> Result<Option<Vec<PolicyRule>>, SelectorError> {
    if role.aggregation_rule.is_none() {
        return Ok(None);
    }
    let roles: Vec<&Role> = cluster_roles.into_iter().collect();
    let feeders = Candidates::new(roles.iter().copied()).feeders(role)?;
    Ok(feeders.map(|feeders| union(feeders.iter().filter_map(|place| roles.get(*place)).map(|r| &*r.rules))))
}

/// Sets the rules of all aggregated ClusterRoles, including those that aggregate other aggregated roles, until nothing
/// changes (RB-79). A role that no other matches keeps its rules, as does one with an invalid selector; the errors name
/// the latter.
pub fn aggregate(cluster_roles: &mut [Role]) -> Vec<(String, SelectorError)> {
    let (mut collectors, errors) = collectors(cluster_roles);
    // The collectors that each role feeds.
    let mut fed: Vec<Vec<usize>> = vec![Vec::new(); cluster_roles.len()];
    for (number, collector) in collectors.iter().enumerate() {
        for feeder in &collector.feeders {
            if let Some(fed) = fed.get_mut(*feeder) {
                fed.push(number);
            }
        }
    }
    // In each round a rule reaches at least one more aggregated role, so this many rounds are enough. Without the
    // limit, roles that aggregate each other could swap the order of equal rules forever.
    for _ in 0..=collectors.len() + errors.len() {
        let mut changed = false;
        for number in 0..collectors.len() {
            let Some(collector) = collectors.get_mut(number).filter(|collector| collector.is_stale) else {
                continue;
            };
            collector.is_stale = false;
            let feeders = collector.feeders.iter().filter_map(|place| cluster_roles.get(*place));
            let rules = union(feeders.map(|role| &*role.rules));
            let place = collector.place;
            match cluster_roles.get_mut(place) {
                Some(role) if !rules.is_empty() && rules != role.rules => role.rules = rules,
                _ => continue,
            }
            changed = true;
            for number in fed.get(place).into_iter().flatten() {
                if let Some(collector) = collectors.get_mut(*number) {
                    collector.is_stale = true;
                }
            }
        }
        if !changed {
            break;
        }
    }
    errors
}

/// An aggregated ClusterRole. Roles are named by their places in the list of all.
struct Collector {
    place: usize,
    /// The roles that it selects, in the order in which their rules are added.
    feeders: Vec<usize>,
    /// Whether the rules of a feeder have changed since they were added.
    is_stale: bool,
}

/// Returns the aggregated roles, and those that have an invalid selector.
fn collectors(cluster_roles: &[Role]) -> (Vec<Collector>, Vec<(String, SelectorError)>) {
    let (mut collectors, mut errors) = (Vec::new(), Vec::new());
    let candidates = Candidates::new(cluster_roles);
    for (place, role) in cluster_roles.iter().enumerate() {
        match candidates.feeders(role) {
            Ok(Some(feeders)) => collectors.push(Collector { place, feeders, is_stale: true }),
            Ok(None) => {}
            Err(error) => errors.push((role.metadata.name.clone(), error)),
        }
    }
    (collectors, errors)
}

/// All ClusterRoles by name, with their places and labels. The last of equal names counts.
struct Candidates<'a>(BTreeMap<&'a str, (usize, Labels<'a>)>);

impl<'a> Candidates<'a> {
    fn new(cluster_roles: impl IntoIterator<Item = &'a Role>) -> Self {
        let candidate = |(place, role): (usize, &'a Role)| {
            (role.metadata.name.as_str(), (place, by_key(&role.metadata.labels)))
        };
        Self(cluster_roles.into_iter().enumerate().map(candidate).collect())
    }

    /// Returns the places of the roles that a role selects, each once: by selector, then by name. `None` if it is not
    /// aggregated.
    fn feeders(&self, role: &Role) -> Result<Option<Vec<usize>>, SelectorError> {
        let Some(aggregation) = &role.aggregation_rule else { return Ok(None) };
        let others = || self.0.iter().filter(|(name, _)| **name != role.metadata.name);
        // Without other roles nothing is matched, and no fault is found.
        if others().next().is_none() {
            return Ok(Some(Vec::new()));
        }
        let (mut feeders, mut seen) = (Vec::new(), HashSet::new());
        for selector in &aggregation.cluster_role_selectors {
            selector.validate()?;
            let selected =
                others().filter(|(_, (_, labels))| selector.is_met(|key| labels.get(key).copied()));
            feeders.extend(selected.map(|(_, (place, _))| *place).filter(|place| seen.insert(*place)));
        }
        Ok(Some(feeders))
    }
}

/// Returns the rules of all lists in their order, each once. A caller chooses how many there are, so they are compared
/// by hash.
fn union<'a, T: Clone + Eq + Hash + 'a>(lists: impl IntoIterator<Item = &'a [T]>) -> Vec<T> {
    let mut seen = HashSet::new();
    lists.into_iter().flatten().filter(|rule| seen.insert(*rule)).cloned().collect()
}

fn check_key(key: &str) -> Result<(), SelectorError> {
    if label_key_errors(key).is_empty() { Ok(()) } else { Err(SelectorError::Key(key.to_owned())) }
}

fn check_value(key: &str, value: &str) -> Result<(), SelectorError> {
    if label_value_errors(value).is_empty() {
        return Ok(());
    }
    Err(SelectorError::Value(key.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::hash::Hasher;

    use super::*;

    /// A rule that counts how often it is compared.
    #[derive(Clone, Debug)]
    struct Counted<'a>(u32, &'a Cell<usize>);

    impl PartialEq for Counted<'_> {
        fn eq(&self, other: &Self) -> bool {
            self.1.set(self.1.get() + 1);
            self.0 == other.0
        }
    }

    impl Eq for Counted<'_> {}

    impl Hash for Counted<'_> {
        fn hash<H: Hasher>(&self, state: &mut H) {
            self.0.hash(state);
        }
    }

    #[test]
    fn a_rule_is_not_compared_with_each_other_rule_rb_79() {
        let compared = Cell::new(0);
        let rules: Vec<Counted<'_>> = (0..10_000).map(|number| Counted(number, &compared)).collect();
        let all = union([&rules[..], &rules[5_000..]]);
        // A rule that is there twice is compared with its equal, and some are compared because parts of their hashes are
        // equal. Hashes are random: how many differs from run to run. Each with each other would be fifty million.
        assert!((5_000..100_000).contains(&compared.get()), "{} comparisons", compared.get());
        assert!(all.iter().map(|rule| rule.0).eq(0..10_000));
    }
}
