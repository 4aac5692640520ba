//! The selector of a deny rule for the labels of namespaces, as it is written.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::objects::rbac::{LabelSelector, LabelSelectorRequirement};

/// A selector with more values is not searched for contradictions.
const MOST_VALUES: usize = 64;

/// A selector with the fields of Kubernetes. An unknown field is an error: a misspelled one would select everything.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct WrittenSelector {
    #[serde(default)]
    match_labels: BTreeMap<String, String>,
    #[serde(default)]
    match_expressions: Vec<WrittenRequirement>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WrittenRequirement {
    key: String,
    operator: String,
    #[serde(default)]
    values: Vec<String>,
}

impl WrittenSelector {
    pub(super) fn words(&self) -> usize {
        let of_expressions = self.match_expressions.iter().map(|one| one.values.len().saturating_add(1));
        self.match_labels.len().saturating_add(of_expressions.fold(0, usize::saturating_add))
    }

    /// # Errors
    /// What is wrong with a key, an operator or a value.
    pub(super) fn read(self) -> Result<LabelSelector, String> {
        let requirement = |written: WrittenRequirement| {
            let WrittenRequirement { key, operator, values } = written;
            LabelSelectorRequirement { key, operator, values }
        };
        let selector = LabelSelector {
            match_labels: self.match_labels.into_iter().collect(),
            match_expressions: self.match_expressions.into_iter().map(requirement).collect(),
        };
        selector.validate().map_err(|error| error.to_string())?;
        Ok(selector)
    }
}

/// Whether surely no labels satisfy a selector. Its keys do not depend on each other, so for each one a value is enough, or its
/// absence: one of those that the selector names, or one that it does not name.
pub(super) fn never_selects(selector: &LabelSelector) -> bool {
    let mut named = BTreeMap::<&str, Vec<&str>>::new();
    for (key, value) in &selector.match_labels {
        named.entry(key).or_default().push(value);
    }
    for LabelSelectorRequirement { key, values, .. } in &selector.match_expressions {
        named.entry(key).or_default().extend(values.iter().map(String::as_str));
    }
    let is_small = named.values().map(|values| values.len().saturating_add(1)).sum::<usize>() <= MOST_VALUES;
    is_small
        && named.iter().any(|(key, values)| {
            let mut candidates = values.iter().map(|value| Some(*value)).chain([None, Some("\u{1}another")]);
            !candidates.any(|value| is_met_at(selector, key, value))
        })
}

/// Whether the requirements for one key are met by this value, or by its absence.
fn is_met_at(selector: &LabelSelector, key: &str, value: Option<&str>) -> bool {
    let of_key = LabelSelector {
        match_labels: selector.match_labels.iter().filter(|(own, _)| own == key).cloned().collect(),
        match_expressions: selector.match_expressions.iter().filter(|one| one.key == key).cloned().collect(),
    };
    of_key.is_met(|_| value)
}
