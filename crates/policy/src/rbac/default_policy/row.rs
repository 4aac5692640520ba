//! The notation of the default policy tables: lists are words in one string, and the core group is `core`.

use crate::features::{Feature, FeatureGates};
use crate::objects::rbac::PolicyRule;

pub(super) const ALL_VERBS: &str = "get list watch create update patch delete deletecollection";
/// The API groups of workloads, old and new.
pub(super) const APPS: &str = "apps extensions";
pub(super) const CORE: &str = "core";
pub(super) const READ: &str = "get list watch";
pub(super) const WATCH: &str = "list watch";
pub(super) const WRITE: &str = "create update patch delete deletecollection";

/// The rule of components that report events.
pub(super) const EVENTS: Row = allow("create update patch", "core events.k8s.io", "events");

/// One rule.
#[derive(Clone, Copy)]
pub(super) struct Row {
    verbs: &'static str,
    groups: &'static str,
    resources: &'static str,
    names: &'static str,
    urls: &'static str,
    more_urls: &'static [(Feature, &'static str)],
    when: &'static [Feature],
}

/// One role and its subjects.
#[derive(Clone, Copy)]
pub(super) struct RoleRow {
    pub(super) name: &'static str,
    pub(super) rules: &'static [Row],
    /// The aggregated role that includes this one (RB-83).
    pub(super) feeds: Option<&'static str>,
    /// The name of this role, if it is aggregated (RB-83).
    pub(super) collects: Option<&'static str>,
    /// The subjects of the binding; `None` if there is no binding, which differs from one without subjects.
    pub(super) bound_to: Option<&'static [Who]>,
    pub(super) when: &'static [Feature],
}

/// A subject of a default binding.
#[derive(Clone, Copy)]
pub(super) enum Who {
    /// A service account in `kube-system`.
    Account(&'static str),
    /// A group.
    Group(&'static str),
    /// A user.
    User(&'static str),
}

/// A rule over resources.
pub(super) const fn allow(verbs: &'static str, groups: &'static str, resources: &'static str) -> Row {
    Row { verbs, groups, resources, names: "", urls: "", more_urls: &[], when: &[] }
}

/// A rule over URL paths.
pub(super) const fn urls(verbs: &'static str, urls: &'static str) -> Row {
    Row { verbs, groups: "", resources: "", names: "", urls, more_urls: &[], when: &[] }
}

/// A role without rules that nobody is bound to.
pub(super) const fn role(name: &'static str) -> RoleRow {
    RoleRow { name, rules: &[], feeds: None, collects: None, bound_to: None, when: &[] }
}

impl Row {
    /// Limits the rule to objects with these names.
    pub(super) const fn only(self, names: &'static str) -> Self {
        Self { names, ..self }
    }

    /// Enables the rule only if all of these features are on (RB-92).
    pub(super) const fn when(self, when: &'static [Feature]) -> Self {
        Self { when, ..self }
    }

    /// Adds paths, each if its feature is on (RB-92).
    pub(super) const fn with_urls(self, more_urls: &'static [(Feature, &'static str)]) -> Self {
        Self { more_urls, ..self }
    }

    /// Returns the rule, if the features that it needs are on. Lists are sorted and without duplicates.
    pub(super) fn rule(&self, gates: FeatureGates) -> Option<PolicyRule> {
        if !all_on(self.when, gates) {
            return None;
        }
        let groups = self.groups.split_whitespace().map(|group| if group == CORE { "" } else { group });
        let more_urls =
            self.more_urls.iter().filter(|(feature, _)| gates.is_on(*feature)).map(|(_, url)| *url);
        Some(PolicyRule {
            verbs: sorted(self.verbs.split_whitespace()),
            api_groups: sorted(groups),
            resources: sorted(self.resources.split_whitespace()),
            resource_names: sorted(self.names.split_whitespace()),
            non_resource_urls: sorted(self.urls.split_whitespace().chain(more_urls)),
        })
    }
}

impl RoleRow {
    /// Has these rules.
    pub(super) const fn rules(self, rules: &'static [Row]) -> Self {
        Self { rules, ..self }
    }

    /// Binds the role to these subjects, by a binding of the same name.
    pub(super) const fn bound_to(self, who: &'static [Who]) -> Self {
        Self { bound_to: Some(who), ..self }
    }

    /// Makes this the aggregated role of this name.
    pub(super) const fn collects(self, name: &'static str) -> Self {
        Self { collects: Some(name), ..self }
    }

    /// Includes the role in the aggregated role of this name.
    pub(super) const fn feeds(self, name: &'static str) -> Self {
        Self { feeds: Some(name), ..self }
    }

    /// Includes the role only if all of these features are on (RB-92).
    pub(super) const fn when(self, when: &'static [Feature]) -> Self {
        Self { when, ..self }
    }

    /// Returns whether the role is part of the policy.
    pub(super) fn is_on(&self, gates: FeatureGates) -> bool {
        all_on(self.when, gates)
    }
}

/// The rules of some rows, with the given features.
pub(super) fn rules(rows: &[Row], gates: FeatureGates) -> Vec<PolicyRule> {
    rows.iter().filter_map(|row| row.rule(gates)).collect()
}

fn all_on(features: &[Feature], gates: FeatureGates) -> bool {
    features.iter().all(|&feature| gates.is_on(feature))
}

fn sorted(words: impl Iterator<Item = &'static str>) -> Vec<String> {
    let mut words: Vec<String> = words.map(str::to_owned).collect();
    words.sort_unstable();
    words.dedup();
    words
}
