//! One webhook as it is configured: what it is asked about, and how. Read from its configuration once, and again when that
//! changes.

use std::time::Duration;

use kinds::Map;
use policy::objects::decode::{List, Text};
use policy::objects::strict;
use serde::Deserialize;

use super::call::{Caller, ClientConfig};
use crate::admission::matching::Matching;
use crate::admission::rules::RuleText;
use crate::match_conditions::AdmissionConditions;

/// The versions of AdmissionReview that are spoken, in the notation of configurations.
const VERSIONS: [(&str, &str); 2] = [("v1", "admission.k8s.io/v1"), ("v1beta1", "admission.k8s.io/v1beta1")];
/// The time that a webhook has to answer when its configuration does not say, and the most, in seconds.
const TIMEOUT: u64 = 10;
const MAX_TIMEOUT: u64 = 30;

/// A webhook.
pub(super) struct Hook {
    pub(super) name: String,
    /// What it is asked about.
    pub(super) matching: Matching,
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
        let seconds = webhook.timeout_seconds.unwrap_or(TIMEOUT).clamp(1, MAX_TIMEOUT);
        let versions = &webhook.admission_review_versions;
        let spoken = versions.iter().find_map(|version| VERSIONS.iter().find(|(name, _)| *version == **name));
        Ok(Self {
            name: webhook.name.to_string(),
            matching: Matching::of_webhook(
                &webhook.rules,
                &webhook.match_policy,
                [webhook.namespace_selector.as_ref(), webhook.object_selector.as_ref()],
            )
            .map_err(|error| format!("webhook {:?}: {error}", &*webhook.name))?,
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
}

fn conditions(webhook: &Webhook<'_>) -> Result<AdmissionConditions, String> {
    let expressions: Vec<String> =
        webhook.match_conditions.iter().map(|condition| condition.expression.to_string()).collect();
    AdmissionConditions::compile(&expressions).map_err(|errors| {
        let told = errors.into_iter().map(|(at, error)| format!("matchConditions[{at}]: {error}"));
        told.collect::<Vec<_>>().join("; ")
    })
}
