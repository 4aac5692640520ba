//! The configurations of admission plugins.

use portcullis_server::admission::{AdmissionConfiguration, ConfigurationError};

pub(super) const CONFIGURATION: &[&str] = &[
    "apiVersion: apiserver.config.k8s.io/v1\n",
    "kind: AdmissionConfiguration\n",
    "plugins:\n",
    "- name: PodSecurity\n",
    "- name: ResourceQuota\n",
    "- name: LimitRanger\n",
    "  path: pod-security.yaml\n",
    "  path: input\n",
    "  configuration:\n",
    "    defaults: {audit: baseline, audit-version: latest}\n",
    "    exemptions: {usernames: ['', a, a]}\n",
    "    limitedResources:\n",
    "    - {apiGroup: '', resource: pods, matchContains: [a]}\n",
    "      matchScopes: [{scopeName: BestEffort, operator: Exists}]\n",
    "&a [*a]",
    "---\n",
];

/// The most errors that are reported: those of the plugins, and those of the last configuration.
const MOST_ERRORS: usize = 2_000;

/// The file that configurations name.
const POD_SECURITY: &str =
    "{apiVersion: pod-security.admission.config.k8s.io/v1, kind: PodSecurityConfiguration}";

/// Reads a configuration. Every other file that it names is the input itself.
pub(super) fn admission_configuration(input: &[u8]) -> bool {
    let open = |name: &str| match name {
        "pod-security.yaml" => Ok(POD_SECURITY.as_bytes().to_vec()),
        _ => Ok(input.to_vec()),
    };
    let read = AdmissionConfiguration::read(input, open);
    if let Err(ConfigurationError::Invalid(errors)) = &read {
        assert!(!errors.is_empty() && errors.len() <= MOST_ERRORS, "{} errors", errors.len());
        assert!(errors.iter().all(|error| error.starts_with("plugins[") || error.starts_with("there may")));
    }
    read.is_ok()
}
