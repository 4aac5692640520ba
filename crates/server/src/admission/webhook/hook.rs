//! One webhook as it is configured: what it is asked about, and how. Read from its configuration once, and again when that
//! changes.

use std::time::Duration;

use kinds::Map;
use kinds::resource::Resource;
use kinds::resources::label_selectors::requirements;
use policy::objects::decode::{List, Text};
use policy::objects::strict;
use policy::restriction::Operation;
use portcullis_apimachinery::selector::LabelRequirement;
use serde::Deserialize;
use serde_json::Value;

use super::call::{Caller, ClientConfig};
use crate::match_conditions::AdmissionConditions;

/// The versions of AdmissionReview that are spoken, in the notation of configurations.
const VERSIONS: [(&str, &str); 2] = [("v1", "admission.k8s.io/v1"), ("v1beta1", "admission.k8s.io/v1beta1")];
/// The time that a webhook has to answer when its configuration does not say, and the most, in seconds.
const TIMEOUT: u64 = 10;
const MAX_TIMEOUT: u64 = 30;

/// A webhook.
pub(super) struct Hook {
    pub(super) name: String,
    rules: Vec<Rule>,
    /// Whether it is asked about requests for other versions of what its rules name.
    is_for_equivalent: bool,
    pub(super) namespaces: Vec<LabelRequirement>,
    pub(super) objects: Vec<LabelRequirement>,
    /// The match conditions, or why they cannot be compiled.
    pub(super) conditions: Result<AdmissionConditions, String>,
    /// Whether a write goes on when the webhook fails.
    pub(super) ignores_failure: bool,
    /// Whether it may be asked about dry runs.
    pub(super) may_run_dry: bool,
    /// Whether it is asked again after others have changed the object.
    pub(super) is_reinvoked: bool,
    /// The version of AdmissionReview that it is asked in.
    pub(super) api_version: Result<&'static str, String>,
    /// How it is called, or why it cannot be.
    pub(super) caller: Result<Caller, String>,
}

/// A rule: which requests a webhook is asked about.
struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    /// Resource and subresource.
    resources: Vec<(String, String)>,
    scope: Scope,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Any,
    Cluster,
    Namespaced,
}

/// A request, as far as rules look at it.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) operation: Operation,
    pub(super) subresource: &'a str,
    /// Whether the objects live in namespaces.
    pub(super) is_namespaced: bool,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Configuration<'a> {
    webhooks: List<Webhook<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Webhook<'a> {
    name: Text<'a>,
    admission_review_versions: List<Text<'a>>,
    client_config: ClientConfig<'a>,
    failure_policy: Text<'a>,
    match_conditions: List<Condition<'a>>,
    match_policy: Text<'a>,
    namespace_selector: Option<Map>,
    object_selector: Option<Map>,
    reinvocation_policy: Text<'a>,
    rules: List<RuleText<'a>>,
    side_effects: Text<'a>,
    timeout_seconds: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Condition<'a> {
    expression: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct RuleText<'a> {
    operations: List<Text<'a>>,
    api_groups: List<Text<'a>>,
    api_versions: List<Text<'a>>,
    resources: List<Text<'a>>,
    scope: Text<'a>,
}

/// Reads the webhooks of a configuration, in its order. Takes time: conditions are compiled, and authorities read.
///
/// # Errors
/// It is not known what one of the webhooks is for.
pub(super) fn read(configuration: &Map) -> Result<Vec<Hook>, String> {
    let read: Configuration<'_> = strict::from_map(configuration).map_err(|error| error.to_string())?;
    read.webhooks.iter().map(Hook::of).collect()
}

impl Hook {
    fn of(webhook: &Webhook<'_>) -> Result<Self, String> {
        let selector = |field: &str, selector: &Option<Map>| match selector {
            None => Ok(Vec::new()),
            Some(selector) => requirements(selector)
                .ok_or_else(|| format!("webhook {:?}: {field} is no label selector", &*webhook.name)),
        };
        let seconds = webhook.timeout_seconds.unwrap_or(TIMEOUT).clamp(1, MAX_TIMEOUT);
        let versions = &webhook.admission_review_versions;
        let spoken = versions.iter().find_map(|version| VERSIONS.iter().find(|(name, _)| *version == **name));
        Ok(Self {
            name: webhook.name.to_string(),
            rules: webhook.rules.iter().map(Rule::of).collect(),
            is_for_equivalent: webhook.match_policy != "Exact",
            namespaces: selector("namespaceSelector", &webhook.namespace_selector)?,
            objects: selector("objectSelector", &webhook.object_selector)?,
            conditions: conditions(webhook),
            ignores_failure: webhook.failure_policy == "Ignore",
            may_run_dry: matches!(&*webhook.side_effects, "None" | "NoneOnDryRun"),
            is_reinvoked: webhook.reinvocation_policy == "IfNeeded",
            api_version: spoken
                .map(|(_, version)| *version)
                .ok_or_else(|| "admissionReviewVersions has neither v1 nor v1beta1".to_owned()),
            caller: Caller::new(&webhook.client_config, Duration::from_secs(seconds)),
        })
    }

    /// The version of the kind that the webhook is asked in, out of these: that of the request comes first. None if the rules
    /// do not match.
    pub(super) fn version_for(
        &self,
        request: Request<'_>,
        versions: &[&'static Resource],
    ) -> Option<&'static Resource> {
        let count = if self.is_for_equivalent { versions.len() } else { 1 };
        let is_matched = |row: &Resource| self.rules.iter().any(|rule| rule.matches(request, row));
        versions.iter().take(count).copied().find(|row| is_matched(row))
    }
}

fn conditions(webhook: &Webhook<'_>) -> Result<AdmissionConditions, String> {
    let expressions: Vec<String> =
        webhook.match_conditions.iter().map(|condition| condition.expression.to_string()).collect();
    AdmissionConditions::compile(&expressions).map_err(|errors| {
        let told = errors.into_iter().map(|(at, error)| format!("matchConditions[{at}]: {error}"));
        told.collect::<Vec<_>>().join("; ")
    })
}

impl Rule {
    fn of(rule: &RuleText<'_>) -> Self {
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
            scope: match &*rule.scope {
                "Cluster" => Scope::Cluster,
                "Namespaced" => Scope::Namespaced,
                _ => Scope::Any,
            },
        }
    }

    fn matches(&self, request: Request<'_>, row: &Resource) -> bool {
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

/// Whether an object has these labels. One without metadata has none, and is not selected by anything but an empty selector.
pub(super) fn is_selected(requirements: &[LabelRequirement], object: Option<&Map>) -> bool {
    let has_metadata = |object: &&Map| object.get("metadata").is_some_and(Value::is_object);
    requirements.is_empty()
        || object.filter(has_metadata).is_some_and(|object| kinds::meta::labels_match(requirements, object))
}
