//! The rules of aggregated ClusterRoles (RB-79), and the label selectors that say where they come from.
//!
//! Writing them back is the controller's work, not done here.

use std::collections::BTreeMap;

use crate::objects::rbac::{LabelSelector, LabelSelectorRequirement, PolicyRule, Role};

/// A label selector that means nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// The operator is none of the four.
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
    /// Checks that the selector means something (RB-73, RB-79).
    ///
    /// # Errors
    /// The first requirement that does not.
    pub fn validate(&self) -> Result<(), SelectorError> {
        for (key, value) in &self.match_labels {
            check_key(key)?;
            check_value(key, value)?;
        }
        self.match_expressions.iter().try_for_each(LabelSelectorRequirement::validate)
    }

    /// Whether labels satisfy all requirements; an empty selector takes everything.
    ///
    /// # Errors
    /// The selector means nothing: see [`LabelSelector::validate`].
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

/// The rules that an aggregated ClusterRole should have, given all ClusterRoles as they are now (RB-79); nothing for
/// a role without an aggregation rule. An empty result says that no role feeds this one: what then stays is for the
/// owner of the field to say.
///
/// # Errors
/// A selector means nothing.
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
                // An own loop: rules of one role can repeat each other as well.
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

/// Fills in the rules of all aggregated ClusterRoles, roles that feed on others included, until nothing changes
/// (RB-79). A role that none feeds keeps its rules, as does one with a selector that means nothing; the errors name
/// those.
pub fn aggregate(cluster_roles: &mut [Role]) -> Vec<(String, SelectorError)> {
    let mut errors = Vec::new();
    // A rule crosses at least one more aggregated role in each round, so by then all have arrived. Roles that feed each
    // other in a circle could go on swapping the order of equal rules for ever.
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
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if is_label_text(name) && prefix.is_none_or(is_subdomain) {
        return Ok(());
    }
    Err(SelectorError::Key(key.to_owned()))
}

fn check_value(key: &str, value: &str) -> Result<(), SelectorError> {
    if value.is_empty() || is_label_text(value) {
        return Ok(());
    }
    Err(SelectorError::Value(key.to_owned(), value.to_owned()))
}

fn is_label_text(text: &str) -> bool {
    let is_edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= 63
        && is_edge(bytes.first())
        && is_edge(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

fn is_subdomain(text: &str) -> bool {
    let is_edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    text.len() <= 253
        && text.split('.').all(|label| {
            let bytes = label.as_bytes();
            is_edge(bytes.first())
                && is_edge(bytes.last())
                && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
        })
}
