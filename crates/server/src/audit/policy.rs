//! The audit policy: which requests are logged, and at which level (`--audit-policy-file`).
//!
//! The first matching rule decides. Without a matching rule nothing is logged. Unknown fields are errors, because a
//! mistyped field would silently change what a rule matches.
//!
//! DIVERGES: kube-apiserver warns about unknown fields and ignores them.

use policy::User;
use policy::request_info::RequestInfo;
use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::json::{self, JsonError};
use portcullis_apimachinery::quote::quoted;
use serde::Deserialize;

use super::level::{Level, Stages};
use super::rule::{Rule, Rules};
use super::wanted::{API_VERSION, Wanted};
use crate::state::yaml;

/// An audit policy.
#[derive(Clone, Debug)]
pub struct Policy {
    rules: Vec<Rule>,
}

/// An invalid policy.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PolicyError {
    /// The file is not YAML or JSON of this form.
    #[error(transparent)]
    Form(#[from] JsonError),
    /// The document has the wrong kind.
    #[error("expected apiVersion {API_VERSION} and kind Policy, found {} and {}", quoted(.api_version), quoted(.kind))]
    Kind {
        /// The API version in the file.
        api_version: String,
        /// The kind in the file.
        kind: String,
    },
    /// A policy without rules would log nothing, which is never intended.
    #[error("rules: must not be empty; add at least one, such as `- level: Metadata`")]
    NoRules,
    /// Invalid values.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Invalid(Vec<FieldError>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Document {
    #[serde(default)]
    api_version: Option<String>,
    #[serde(default)]
    kind: Option<String>,
    #[serde(default, rename = "metadata")]
    _metadata: Option<serde::de::IgnoredAny>,
    #[serde(default)]
    rules: Option<Vec<Rules>>,
    #[serde(default)]
    omit_stages: Option<Vec<String>>,
    #[serde(default)]
    omit_managed_fields: Option<bool>,
}

impl Policy {
    /// Parses a policy from YAML or JSON.
    ///
    /// # Errors
    /// See [`PolicyError`]; each error names the place in the file.
    pub fn read(text: &str) -> Result<Self, PolicyError> {
        let json = yaml::to_json(text)?;
        json::check(&json)?;
        let document: Document =
            serde_json::from_str(&json).map_err(|error| JsonError::of_decoding(&json, &error))?;
        let (api_version, kind) =
            (document.api_version.unwrap_or_default(), document.kind.unwrap_or_default());
        if (api_version.as_str(), kind.as_str()) != (API_VERSION, "Policy") {
            return Err(PolicyError::Kind { api_version, kind });
        }
        let mut errors = Vec::new();
        let omitted =
            Stages::read(document.omit_stages.as_deref().unwrap_or_default(), "omitStages", &mut errors);
        let omits_managed_fields = document.omit_managed_fields.unwrap_or_default();
        let rules = document.rules.unwrap_or_default();
        if rules.is_empty() {
            return Err(PolicyError::NoRules);
        }
        let rules = rules
            .into_iter()
            .enumerate()
            .map(|(at, rule)| {
                rule.checked(&format!("rules[{at}]"), omitted, omits_managed_fields, &mut errors)
            })
            .collect();
        match errors.is_empty() {
            true => Ok(Self { rules }),
            false => Err(PolicyError::Invalid(errors)),
        }
    }

    /// Returns what the first matching rule logs for a request. If authentication failed there is no user, and rules
    /// that name users or groups do not match.
    ///
    /// DIVERGES: bodies with secret values (`secrets`, `serviceaccounts/token`, `tokenreviews`) are logged only if a
    /// rule names that resource; a rule for all resources, or for a whole group, logs their metadata.
    pub fn wanted(&self, user: Option<&User>, info: &RequestInfo) -> Wanted {
        let Some(rule) = self.rules.iter().find(|rule| rule.fits(user, info)) else { return Wanted::NOTHING };
        let wanted = rule.wanted();
        if is_secret(info) && !rule.names(info) {
            return Wanted { level: wanted.level.min(Level::Metadata), omits_messages: true, ..wanted };
        }
        wanted
    }
}

/// Returns whether the request or response body contains secrets.
fn is_secret(info: &RequestInfo) -> bool {
    matches!(
        (info.group(), info.resource(), info.subresource()),
        ("", "secrets", _) | ("", "serviceaccounts", "token") | ("authentication.k8s.io", "tokenreviews", _)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(rules: &str) -> Policy {
        Policy::read(&format!("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n{rules}")).unwrap()
    }

    fn level(policy: &Policy, user: Option<&User>, method: &str, target: &str) -> &'static str {
        policy.wanted(user, &RequestInfo::parse(method, target).unwrap()).level.name()
    }

    #[test]
    fn the_first_rule_that_fits_decides_and_without_one_nothing_is_written() {
        let policy = policy(
            "- {level: None, users: [quiet]}\n- {level: Request, verbs: [create], userGroups: [loud]}\n- {level: Metadata, userGroups: [loud]}",
        );
        let (quiet, loud) = (User::new("quiet", ["loud"]), User::new("x", ["loud"]));
        assert_eq!(level(&policy, Some(&quiet), "POST", "/api/v1/nodes"), "None");
        assert_eq!(level(&policy, Some(&loud), "POST", "/api/v1/nodes"), "Request");
        assert_eq!(level(&policy, Some(&loud), "GET", "/api/v1/nodes"), "Metadata");
        assert_eq!(level(&policy, Some(&User::new("y", ["other"])), "GET", "/api/v1/nodes"), "None");
        assert_eq!(level(&policy, None, "GET", "/api/v1/nodes"), "None");
    }

    #[test]
    fn resources_are_named_as_kubernetes_documents_it() {
        // https://kubernetes.io/docs/reference/config-api/apiserver-audit.v1/#audit-k8s-io-v1-GroupResources
        let fits = |resources: &str, target: &str| {
            let rule = format!("- {{level: Metadata, resources: [{{group: '', resources: [{resources}]}}]}}");
            level(&policy(&rule), None, "GET", target) == "Metadata"
        };
        let (pod, log) = ("/api/v1/namespaces/d/pods/p", "/api/v1/namespaces/d/pods/p/log");
        let scale = "/api/v1/namespaces/d/replicationcontrollers/r/scale";
        for (resources, of_pod, of_log, of_scale) in [
            ("pods", true, false, false),
            ("pods/log", false, true, false),
            ("'*'", true, true, true),
            ("pods/*", true, true, false),
            ("'*/scale'", false, false, true),
            ("'*/log'", false, true, false),
            ("po", false, false, false),
        ] {
            assert_eq!(fits(resources, pod), of_pod, "{resources}");
            assert_eq!(fits(resources, log), of_log, "{resources}");
            assert_eq!(fits(resources, scale), of_scale, "{resources}");
            assert!(!fits(resources, "/apis/apps/v1/namespaces/d/pods/p"), "of another group");
            assert!(!fits(resources, "/healthz"));
        }
        let named =
            policy("- {level: Metadata, resources: [{group: '', resources: [pods], resourceNames: [p]}]}");
        assert_eq!(level(&named, None, "GET", pod), "Metadata");
        assert_eq!(level(&named, None, "GET", "/api/v1/namespaces/d/pods/q"), "None");
        assert_eq!(level(&named, None, "GET", "/api/v1/namespaces/d/pods"), "None");
    }

    #[test]
    fn namespaces_and_urls_narrow_a_rule() {
        let in_none = policy("- {level: Metadata, namespaces: ['']}");
        assert_eq!(level(&in_none, None, "GET", "/api/v1/nodes/n"), "Metadata");
        assert_eq!(level(&in_none, None, "GET", "/api/v1/namespaces/d/pods"), "None");
        assert_eq!(level(&in_none, None, "GET", "/healthz"), "None");
        let urls = policy("- {level: Metadata, nonResourceURLs: ['/healthz*', /version]}");
        for (path, expected) in [
            ("/healthz", "Metadata"),
            ("/healthz/ping", "Metadata"),
            ("/version", "Metadata"),
            ("/version/", "None"),
        ] {
            assert_eq!(level(&urls, None, "GET", path), expected, "{path}");
        }
        assert_eq!(level(&urls, None, "GET", "/api/v1/nodes"), "None");
    }

    #[test]
    fn a_policy_that_makes_no_sense_is_refused_with_the_field() {
        let refuse = |text: &str| Policy::read(text).unwrap_err().to_string();
        let with =
            |rule: &str| refuse(&format!("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- {rule}"));
        for (rule, part) in [
            ("{}", "rules[0].level"),
            ("{level: Everything}", "rules[0].level"),
            ("{level: Metadata, user: [a]}", "unknown field `user`"),
            ("{level: Metadata, users: a}", "rules[0].users"),
            ("{level: Metadata, level: None}", "given twice"),
            ("{level: Metadata, omitStages: [Later]}", "rules[0].omitStages[0]"),
            ("{level: Metadata, nonResourceURLs: [healthz]}", "rules[0].nonResourceURLs[0]"),
            ("{level: Metadata, nonResourceURLs: ['/a*b']}", "rules[0].nonResourceURLs[0]"),
            ("{level: Metadata, nonResourceURLs: [/a], namespaces: [b]}", "rules[0].nonResourceURLs"),
            ("{level: Metadata, resources: [{group: apps/v1}]}", "rules[0].resources[0].group"),
            (
                "{level: Metadata, resources: [{group: apps, resourceNames: [x]}]}",
                "rules[0].resources[0].resourceNames",
            ),
        ] {
            assert!(with(rule).contains(part), "{rule}: {}", with(rule));
        }
        assert!(refuse("apiVersion: audit.k8s.io/v1\nkind: Policy").contains("rules"));
        assert!(
            refuse("apiVersion: audit.k8s.io/v1beta1\nkind: Policy\nrules: [{level: None}]")
                .contains("v1beta1")
        );
        assert!(refuse("rules: [{level: None}]").contains("audit.k8s.io/v1"));
        assert!(Policy::read("").is_err());
    }
}
