//! The rules of webhooks and policies, which select requests by what they do to which resource.

use kinds::resource::Resource;
use policy::objects::decode::{List, Text};
use policy::restriction::Operation;
use serde::Deserialize;

/// A rule.
pub(super) struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    /// Resource and subresource.
    resources: Vec<(String, String)>,
    /// The names of the objects; all if there are none.
    names: Vec<String>,
    scope: Scope,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Any,
    Cluster,
    Namespaced,
}

/// A rule as it is written.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct RuleText<'a> {
    operations: List<Text<'a>>,
    api_groups: List<Text<'a>>,
    api_versions: List<Text<'a>>,
    resources: List<Text<'a>>,
    resource_names: List<Text<'a>>,
    scope: Text<'a>,
}

/// A request, as far as rules look at it.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) operation: Operation,
    pub(super) subresource: &'a str,
    /// The name of the object; empty while it is still to be generated.
    pub(super) name: &'a str,
    /// Whether the objects live in namespaces.
    pub(super) is_namespaced: bool,
}

impl Rule {
    pub(super) fn of(rule: &RuleText<'_>) -> Self {
        let owned = |texts: &List<Text<'_>>| texts.iter().map(|text| text.to_string()).collect();
        let split = |text: &Text<'_>| {
            let (resource, subresource) = text.split_once('/').unwrap_or((text, ""));
            (resource.to_owned(), subresource.to_owned())
        };
        Self {
            operations: owned(&rule.operations),
            groups: owned(&rule.api_groups),
            versions: owned(&rule.api_versions),
            resources: rule.resources.iter().map(split).collect(),
            names: owned(&rule.resource_names),
            scope: match &*rule.scope {
                "Cluster" => Scope::Cluster,
                "Namespaced" => Scope::Namespaced,
                _ => Scope::Any,
            },
        }
    }

    /// Whether it selects a request for this version of the kind.
    pub(super) fn matches(&self, request: Request<'_>, row: &Resource) -> bool {
        let is = |pattern: &str, text: &str| pattern == "*" || pattern == text;
        let has = |patterns: &[String], text: &str| patterns.iter().any(|pattern| is(pattern, text));
        let scope = if request.is_namespaced { Scope::Namespaced } else { Scope::Cluster };
        (self.scope == Scope::Any || self.scope == scope)
            && has(&self.operations, operation(request.operation))
            && has(&self.groups, row.group)
            && has(&self.versions, row.version)
            && self.resources.iter().any(|(resource, subresource)| {
                is(resource, row.plural) && is(subresource, request.subresource)
            })
            && (self.names.is_empty() || self.names.iter().any(|name| name == request.name))
    }
}

/// The name of an operation in rules and reviews.
pub(super) fn operation(operation: Operation) -> &'static str {
    match operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
        Operation::Delete => "DELETE",
        Operation::Connect => "CONNECT",
    }
}
