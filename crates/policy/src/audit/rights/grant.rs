//! One grant: a rule of a role, and the binding that gives it to somebody.

use std::collections::BTreeMap;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::objects::rbac::PolicyRule;

/// A rule of a role, bound by a binding: numbers in a [`Grants`](super::Grants). They are in the order of binding kind,
/// namespace, name and rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GrantId {
    pub(super) binding: u32,
    pub(super) rule: u32,
}

/// A grant in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant<'a> {
    /// The kind, namespace (empty for a ClusterRoleBinding) and name of the binding.
    pub binding: (&'static str, &'a str, &'a str),
    /// The kind and name of the role.
    pub role: (&'a str, &'a str),
    /// The index of the rule in the stored role; none for a rule that the role is to aggregate.
    pub rule: Option<usize>,
    /// The ClusterRoles from which an aggregated role has the rule.
    pub aggregated_from: &'a [String],
    /// The rule itself; none if no rule of the role leads further.
    pub text: Option<&'a PolicyRule>,
}

impl Grant<'_> {
    /// The rule in words: verbs, resources, and the names or API groups that limit it.
    pub fn rule_text(&self) -> String {
        let Some(rule) = self.text else { return String::new() };
        let name = |group: &String| if group.is_empty() { "core".to_owned() } else { group.clone() };
        let groups: Vec<String> = rule.api_groups.iter().map(name).collect();
        let mut text =
            format!("{} {} ({})", rule.verbs.join(","), rule.resources.join(","), groups.join(","));
        if !rule.resource_names.is_empty() {
            text.push_str(&format!(" named {}", rule.resource_names.join(",")));
        }
        text
    }
}

impl Serialize for Grant<'_> {
    /// As in JSON (AU-66, AU-71): `binding`, `role`, the index of the rule or `pending`, and `aggregatedFrom`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (kind, namespace, name) = self.binding;
        let mut words = serializer.serialize_map(None)?;
        let binding = [("kind", kind), ("namespace", namespace), ("name", name)];
        let binding: BTreeMap<_, _> = binding.into_iter().filter(|(_, text)| !text.is_empty()).collect();
        words.serialize_entry("binding", &binding)?;
        words.serialize_entry("role", &BTreeMap::from([("kind", self.role.0), ("name", self.role.1)]))?;
        match self.rule {
            Some(rule) => words.serialize_entry("rule", &rule)?,
            None => words.serialize_entry("pending", &true)?,
        }
        if !self.aggregated_from.is_empty() {
            words.serialize_entry("aggregatedFrom", self.aggregated_from)?;
        }
        words.end()
    }
}
