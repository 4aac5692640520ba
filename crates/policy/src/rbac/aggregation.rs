//! Computes the rules of aggregated ClusterRoles (RB-79), and matches their label selectors.
//!
//! The aggregation controller writes the rules back; this module does not.

use std::collections::BTreeMap;

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
        let value = |key: &str| labels.iter().find(|(k, _)| k == key).map(|(_, v)| v);
        Ok(self.match_labels.iter().all(|(k, v)| value(k) == Some(v))
            && self.match_expressions.iter().all(|requirement| requirement.is_met(value(&requirement.key))))
    }
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

    fn is_met(&self, value: Option<&String>) -> bool {
        let is_listed = value.is_some_and(|value| self.values.contains(value));
        match self.operator.as_str() {
            "In" => is_listed,
            "NotIn" => !is_listed,
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
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
    let Some(aggregation) = &role.aggregation_rule else { return Ok(None) };
    let by_name: BTreeMap<&str, &Role> = cluster_roles
        .into_iter()
        .filter(|other| other.metadata.name != role.metadata.name)
        .map(|other| (other.metadata.name.as_str(), other))
        .collect();
    let mut rules: Vec<PolicyRule> = Vec::new();
    for selector in &aggregation.cluster_role_selectors {
        for other in by_name.values() {
            if selector.matches(&other.metadata.labels)? {
                // A separate loop, because the rules of one role can contain duplicates too.
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

/// Sets the rules of all aggregated ClusterRoles, including those that aggregate other aggregated roles, until nothing
/// changes (RB-79). A role that no other matches keeps its rules, as does one with an invalid selector; the errors name
/// the latter.
pub fn aggregate(cluster_roles: &mut [Role]) -> Vec<(String, SelectorError)> {
    let mut errors = Vec::new();
    // In each round a rule reaches at least one more aggregated role, so this many rounds are enough. Without the
    // limit, roles that aggregate each other could swap the order of equal rules forever.
    let aggregated = cluster_roles.iter().filter(|role| role.aggregation_rule.is_some()).count();
    for _ in 0..=aggregated {
        errors.clear();
        let mut changed = false;
        for place in 0..cluster_roles.len() {
            let Some(role) = cluster_roles.get(place) else { continue };
            match aggregated_rules(role, &*cluster_roles) {
                Ok(Some(rules)) if !rules.is_empty() && rules != role.rules => {
                    changed = true;
                    if let Some(role) = cluster_roles.get_mut(place) {
                        role.rules = rules;
                    }
                }
                Ok(_) => {}
                Err(error) => errors.push((role.metadata.name.clone(), error)),
            }
        }
        if !changed {
            break;
        }
    }
    errors
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
