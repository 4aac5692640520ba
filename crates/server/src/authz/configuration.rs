//! The file of `--authorization-config`: an `AuthorizationConfiguration` (AC-80 to AC-91).
//!
//! Decoding is strict, all errors are reported together, and a file with an error is not used at all.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use policy::chain::Mode;
use policy::review::ReviewVersion;
use portcullis_apimachinery::duration;
use portcullis_apimachinery::json;
use portcullis_apimachinery::names::is_dns_subdomain;
use portcullis_apimachinery::quote::quoted;
use serde::Deserialize;

use super::authorizers::Remote;
use super::metrics::webhook::WebhookMetrics;
use super::webhook::{FailurePolicy, Ttl, Webhook, WebhookConfig};
use crate::match_conditions::Conditions;
use crate::remote::kubeconfig;
use crate::state::yaml;

/// The maximum size of a file.
const MAX_BYTES: usize = 4 << 20;
/// AC-88
const MAX_CONDITIONS: usize = 64;
/// AC-85
const MAX_TIMEOUT: i128 = 30 * SECOND;
const SECOND: i128 = 1_000_000_000;
const GROUP: &str = "apiserver.config.k8s.io";
const VERSIONS: [&str; 3] = ["v1", "v1beta1", "v1alpha1"];

/// A configuration as decoded. If two are equal, no reload is needed (AC-114).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Document {
    api_version: String,
    kind: String,
    authorizers: Option<Vec<AuthorizerEntry>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct AuthorizerEntry {
    r#type: String,
    name: String,
    webhook: Option<WebhookEntry>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct WebhookEntry {
    #[serde(rename = "authorizedTTL")]
    authorized_ttl: Option<String>,
    cache_authorized_requests: Option<bool>,
    #[serde(rename = "unauthorizedTTL")]
    unauthorized_ttl: Option<String>,
    cache_unauthorized_requests: Option<bool>,
    timeout: Option<String>,
    subject_access_review_version: String,
    match_condition_subject_access_review_version: String,
    failure_policy: String,
    connection_info: ConnectionInfo,
    match_conditions: Option<Vec<MatchCondition>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct ConnectionInfo {
    r#type: String,
    kube_config_file: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct MatchCondition {
    expression: String,
}

/// A validated configuration.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// The types, in order.
    pub modes: Vec<Mode>,
    /// The webhook configurations in order, each with its connection file.
    pub webhooks: Vec<(WebhookConfig, PathBuf)>,
}

/// An invalid configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigurationError {
    /// The file is not an AuthorizationConfiguration.
    #[error("{0}")]
    Unreadable(String),
    /// All errors in its fields.
    #[error("{}", .0.join("; "))]
    Invalid(Vec<String>),
}

impl Document {
    /// Parses the text of a file, YAML or JSON.
    ///
    /// # Errors
    /// The text is not exactly one AuthorizationConfiguration. Unknown and duplicate fields are errors too.
    pub fn read(bytes: &[u8]) -> Result<Self, ConfigurationError> {
        let unreadable = ConfigurationError::Unreadable;
        if bytes.len() > MAX_BYTES {
            return Err(unreadable(format!("larger than {MAX_BYTES} bytes")));
        }
        let text = json::utf8(bytes).map_err(|error| unreadable(error.to_string()))?;
        let json = yaml::to_json(text).map_err(|error| unreadable(error.to_string()))?;
        // AC-89
        if json.trim().is_empty() || json.trim() == "null" {
            return Ok(Self::default());
        }
        json::check(&json).map_err(|error| unreadable(format!("must be one object: {error}")))?;
        let document: Self = policy::objects::strict::from_str(&json)
            .map_err(|error: serde_json::Error| unreadable(format!("strict decoding error: {error}")))?;
        let is_known = VERSIONS.iter().any(|version| document.api_version == format!("{GROUP}/{version}"));
        if !is_known || document.kind != "AuthorizationConfiguration" {
            return Err(unreadable(format!(
                "no kind {:?} is registered for version {:?}: write kind AuthorizationConfiguration and apiVersion \
                 {GROUP}/v1",
                document.kind, document.api_version
            )));
        }
        Ok(document)
    }

    /// Validates the configuration and the files that it names (AC-91).
    ///
    /// # Errors
    /// All errors.
    pub fn validate(&self) -> Result<Configuration, ConfigurationError> {
        let mut faults = Faults::default();
        let mut configuration = Configuration { modes: Vec::new(), webhooks: Vec::new() };
        let mut names: Vec<&str> = Vec::new();
        let entries = self.authorizers.as_deref().unwrap_or_default();
        if entries.is_empty() {
            faults.required("authorizers", "at least one authorization mode must be defined");
        }
        for (at, entry) in entries.iter().enumerate() {
            let path = format!("authorizers[{at}]");
            let Some(mode) = entry.mode(&path, &configuration.modes, &mut faults) else { continue };
            configuration.modes.push(mode);
            entry.check_name(&path, mode, &names, &mut faults);
            names.push(&entry.name);
            match (&entry.webhook, mode) {
                (Some(webhook), Mode::Webhook) => {
                    configuration.webhooks.extend(webhook.validate(&path, &entry.name, &mut faults));
                }
                (None, Mode::Webhook) => {
                    faults.required(&format!("{path}.webhook"), "required when type=Webhook");
                }
                // AC-83
                (Some(_), _) => faults.invalid(
                    &format!("{path}.webhook"),
                    "non-null",
                    "may only be specified when type=Webhook",
                ),
                (None, _) => {}
            }
        }
        if faults.0.is_empty() { Ok(configuration) } else { Err(ConfigurationError::Invalid(faults.0)) }
    }
}

impl Configuration {
    /// Connects the webhooks, each with a connection of its own (AC-90).
    ///
    /// # Errors
    /// A connection file is invalid.
    pub fn connect(&self, metrics: &WebhookMetrics) -> Result<Vec<Arc<dyn Remote>>, ConfigurationError> {
        let webhooks = self.webhooks.iter().map(|(config, path)| connect(config, path, metrics));
        webhooks.collect()
    }
}

/// Creates a webhook with this configuration, over the connection that a file describes.
///
/// # Errors
/// The file is invalid.
pub fn connect(
    config: &WebhookConfig,
    path: &Path,
    metrics: &WebhookMetrics,
) -> Result<Arc<dyn Remote>, ConfigurationError> {
    let connection =
        kubeconfig::load(path).map_err(|error| ConfigurationError::Unreadable(error.to_string()))?;
    let webhook = Webhook::new(config.clone(), connection, metrics.clone());
    webhook
        .map(|webhook| Arc::new(webhook) as Arc<dyn Remote>)
        .map_err(|error| ConfigurationError::Unreadable(format!("{}: {error}", path.display())))
}

impl AuthorizerEntry {
    /// AC-80
    fn mode(&self, path: &str, seen: &[Mode], faults: &mut Faults) -> Option<Mode> {
        let path = format!("{path}.type");
        if self.r#type.is_empty() {
            faults.required(&path, "");
            return None;
        }
        let Ok(mode) = self.r#type.parse::<Mode>() else {
            faults.unsupported(&path, &self.r#type, &Mode::ALL.map(Mode::name));
            return None;
        };
        if mode != Mode::Webhook && seen.contains(&mode) {
            faults.duplicate(&path, &self.r#type);
            return None;
        }
        Some(mode)
    }

    /// AC-81, AC-82
    fn check_name(&self, path: &str, mode: Mode, seen: &[&str], faults: &mut Faults) {
        let path = format!("{path}.name");
        if self.name.is_empty() {
            faults.required(&path, "");
        } else if seen.contains(&self.name.as_str()) {
            faults.duplicate(&path, &self.name);
        } else if !is_dns_subdomain(&self.name) {
            faults.invalid(
                &path,
                &self.name,
                "authorizer name is invalid: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
                 characters, '-' or '.', and must start and end with an alphanumeric character",
            );
        }
        let expected = mode.name().to_lowercase();
        if mode != Mode::Webhook && self.name != expected {
            faults.0.push(format!("expected name {expected} for authorizer {mode} instead of {}", self.name));
        }
    }
}

impl WebhookEntry {
    /// AC-84 to AC-88. Returns none after an error, which is added to the faults.
    fn validate(&self, path: &str, name: &str, faults: &mut Faults) -> Option<(WebhookConfig, PathBuf)> {
        let before = faults.0.len();
        let timeout = faults.duration(&format!("{path}.timeout"), self.timeout.as_deref(), 0, |timeout| {
            (timeout > 0 && timeout <= MAX_TIMEOUT).then_some(()).ok_or("must be > 0s and <= 30s")
        });
        let ttl = |field: &str, text: &Option<String>, default: i128, faults: &mut Faults| {
            faults.duration(&format!("{path}.{field}"), text.as_deref(), default, |ttl| {
                (ttl > 0).then_some(()).ok_or("must be > 0s")
            })
        };
        let authorized = ttl("authorizedTTL", &self.authorized_ttl, 300 * SECOND, faults);
        let unauthorized = ttl("unauthorizedTTL", &self.unauthorized_ttl, 30 * SECOND, faults);
        let version = match self.subject_access_review_version.as_str() {
            "v1" => ReviewVersion::V1,
            "v1beta1" => ReviewVersion::V1beta1,
            other => {
                faults.choice(&format!("{path}.subjectAccessReviewVersion"), other, &["v1", "v1beta1"]);
                ReviewVersion::V1
            }
        };
        let conditions = self.match_conditions.as_deref().unwrap_or_default();
        let version_path = format!("{path}.matchConditionSubjectAccessReviewVersion");
        match self.match_condition_subject_access_review_version.as_str() {
            "v1" => {}
            "" if conditions.is_empty() => {}
            "" => faults.required(&version_path, "required if match conditions are specified"),
            other => faults.unsupported(&version_path, other, &["v1"]),
        }
        let failure_policy = match self.failure_policy.as_str() {
            "NoOpinion" => FailurePolicy::NoOpinion,
            "Deny" => FailurePolicy::Deny,
            other => {
                faults.choice(&format!("{path}.failurePolicy"), other, &["Deny", "NoOpinion"]);
                FailurePolicy::Deny
            }
        };
        let file = self.connection_info.validate(&format!("{path}.connectionInfo"), faults);
        let conditions = compile(path, conditions, faults);
        if faults.0.len() > before {
            return None;
        }
        let cached =
            |flag: Option<bool>, ttl: Duration| if flag.unwrap_or(true) { ttl } else { Duration::ZERO };
        let ttl = Ttl {
            authorized: cached(self.cache_authorized_requests, authorized?),
            unauthorized: cached(self.cache_unauthorized_requests, unauthorized?),
        };
        let conditions = Arc::new(conditions);
        let name = name.to_owned();
        Some((WebhookConfig { name, version, timeout: timeout?, ttl, failure_policy, conditions }, file?))
    }
}

impl ConnectionInfo {
    /// AC-86, AC-87
    fn validate(&self, path: &str, faults: &mut Faults) -> Option<PathBuf> {
        let file_path = format!("{path}.kubeConfigFile");
        let file = self.kube_config_file.as_deref();
        match self.r#type.as_str() {
            "KubeConfigFile" => {
                let name = file.filter(|file| !file.is_empty());
                let Some(name) = name else {
                    faults.required(&file_path, "");
                    return None;
                };
                if !Path::new(name).is_absolute() {
                    faults.invalid(&file_path, name, "must be an absolute path");
                    return None;
                }
                match std::fs::metadata(name) {
                    Err(error) => faults.invalid(&file_path, name, &format!("error loading file: {error}")),
                    Ok(found) if !found.is_file() => {
                        faults.invalid(&file_path, name, "must be a regular file");
                    }
                    Ok(_) => return Some(PathBuf::from(name)),
                }
            }
            "InClusterConfig" => {
                if let Some(file) = file {
                    faults.invalid(&file_path, file, "can only be set when type=KubeConfigFile");
                }
                let why = "InClusterConfig cannot be used by an API server itself: use KubeConfigFile";
                faults.invalid(&format!("{path}.type"), "InClusterConfig", why);
            }
            other => {
                faults.choice(&format!("{path}.type"), other, &["InClusterConfig", "KubeConfigFile"]);
            }
        }
        None
    }
}

/// AC-88
fn compile(path: &str, conditions: &[MatchCondition], faults: &mut Faults) -> Conditions {
    if conditions.len() > MAX_CONDITIONS {
        let count = conditions.len();
        faults.0.push(format!(
            "{path}.matchConditions: Too many: {count}: must have at most {MAX_CONDITIONS} items"
        ));
        return Conditions::default();
    }
    let before = faults.0.len();
    let mut seen: Vec<&str> = Vec::new();
    for (at, condition) in conditions.iter().enumerate() {
        let path = format!("{path}.matchConditions[{at}].expression");
        let expression = condition.expression.as_str();
        if expression.trim().is_empty() {
            faults.required(&path, "");
        } else if seen.contains(&expression) {
            faults.duplicate(&path, expression);
        }
        seen.push(expression);
    }
    if faults.0.len() > before {
        return Conditions::default();
    }
    let expressions: Vec<String> = conditions.iter().map(|condition| condition.expression.clone()).collect();
    match Conditions::compile(&expressions) {
        Ok(conditions) => conditions,
        Err(errors) => {
            for (at, error) in errors {
                let expression = expressions.get(at).map(String::as_str).unwrap_or_default();
                faults.invalid(&format!("{path}.matchConditions[{at}].expression"), expression, &error);
            }
            Conditions::default()
        }
    }
}

/// The errors, each with its field, in the wording of Kubernetes.
#[derive(Default)]
struct Faults(Vec<String>);

impl Faults {
    fn required(&mut self, path: &str, detail: &str) {
        let detail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
        self.0.push(format!("{path}: Required value{detail}"));
    }

    fn invalid(&mut self, path: &str, value: &str, detail: &str) {
        self.0.push(format!("{path}: Invalid value: {}: {detail}", quoted(value)));
    }

    fn duplicate(&mut self, path: &str, value: &str) {
        self.0.push(format!("{path}: Duplicate value: {}", quoted(value)));
    }

    fn unsupported(&mut self, path: &str, value: &str, supported: &[&str]) {
        let supported: Vec<String> = supported.iter().map(|value| quoted(value)).collect();
        let (value, supported) = (quoted(value), supported.join(", "));
        self.0.push(format!("{path}: Unsupported value: {value}: supported values: {supported}"));
    }

    /// Adds an error for a value that is not one of the supported ones.
    fn choice(&mut self, path: &str, value: &str, supported: &[&str]) {
        if value.is_empty() { self.required(path, "") } else { self.unsupported(path, value, supported) }
    }

    /// Parses a duration; a missing one and zero mean the default, if there is one (AC-85).
    fn duration(
        &mut self,
        path: &str,
        text: Option<&str>,
        default: i128,
        check: impl Fn(i128) -> Result<(), &'static str>,
    ) -> Option<Duration> {
        let nanoseconds = match text.map(duration::parse) {
            None | Some(Some(0)) => default,
            Some(Some(nanoseconds)) => nanoseconds,
            Some(None) => {
                let text = text.unwrap_or_default();
                self.invalid(path, text, "not a duration: write a number with a unit, such as 3s or 1m30s");
                return None;
            }
        };
        if nanoseconds == 0 {
            self.required(path, "");
            return None;
        }
        if let Err(detail) = check(nanoseconds) {
            self.invalid(path, text.unwrap_or_default(), detail);
            return None;
        }
        u64::try_from(nanoseconds).ok().map(Duration::from_nanos)
    }
}
