//! The configuration of PodSecurity: the standards of namespaces whose labels do not name any, and who is exempt.

use std::collections::HashSet;
use std::sync::Arc;

use kinds::pod_security::{Level, NO_LEVEL, NO_VERSION, Policy, Standard, Version};
use policy::objects::decode::List;
use portcullis_apimachinery::field_error::{FieldError, FieldErrors};
use portcullis_apimachinery::names::{label_errors, subdomain_errors};
use portcullis_apimachinery::quote::quoted;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::document::{Form, Taken, decoded};

const KIND: &str = "PodSecurityConfiguration";
const FORMS: &[Form] = &[
    ("pod-security.admission.config.k8s.io/v1", KIND),
    ("pod-security.admission.config.k8s.io/v1beta1", KIND),
    ("pod-security.admission.config.k8s.io/v1alpha1", KIND),
];

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Document {
    defaults: Defaults,
    exemptions: Exempted,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct Defaults {
    enforce: String,
    enforce_version: String,
    audit: String,
    audit_version: String,
    warn: String,
    warn_version: String,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Exempted {
    usernames: List<String>,
    namespaces: List<String>,
    runtime_classes: List<String>,
}

/// See the module. Without one, a namespace without labels takes every pod, and nobody is exempt.
#[derive(Clone, Debug, Default)]
pub(in crate::admission) struct PodSecurity {
    /// The standards where no label of the namespace says otherwise.
    pub(in crate::admission) defaults: Policy,
    users: HashSet<String>,
    namespaces: HashSet<String>,
    /// The RuntimeClasses whose pods are not looked at.
    pub(in crate::admission) runtime_classes: Arc<HashSet<String>>,
}

impl PodSecurity {
    pub(super) fn read(document: Map<String, Value>) -> Taken<Self> {
        let Document { defaults, exemptions } = decoded(document, FORMS)?;
        let mut errors = FieldErrors::new();
        let mut standard = |mode, level: &str, version: &str| standard(mode, level, version, &mut errors);
        let defaults = Policy {
            enforce: standard("enforce", &defaults.enforce, &defaults.enforce_version),
            audit: standard("audit", &defaults.audit, &defaults.audit_version),
            warn: standard("warn", &defaults.warn, &defaults.warn_version),
        };
        let Exempted { usernames, namespaces, runtime_classes } = exemptions;
        let configuration = Self {
            defaults,
            namespaces: names("namespaces", namespaces, &mut errors, |name| label_errors(name).join(", ")),
            runtime_classes: Arc::new(names("runtimeClasses", runtime_classes, &mut errors, |name| {
                subdomain_errors(name).join(", ")
            })),
            users: names("usernames", usernames, &mut errors, |_| String::new()),
        };
        Ok((configuration, errors))
    }

    /// Whether the pods of a namespace are not looked at.
    pub(in crate::admission) fn exempts_namespace(&self, name: &str) -> bool {
        self.namespaces.contains(name)
    }

    /// Whether what a user writes is not looked at.
    pub(in crate::admission) fn exempts_user(&self, name: &str) -> bool {
        self.users.contains(name)
    }
}

/// Reads a standard. What is empty is as without a configuration.
fn standard(mode: &str, level: &str, version: &str, errors: &mut FieldErrors) -> Standard {
    let mut standard = Policy::default().enforce;
    if !level.is_empty() {
        match Level::parse(level) {
            Some(level) => standard.level = level,
            None => errors.push(FieldError::invalid(format!("defaults.{mode}"), quoted(level), NO_LEVEL)),
        }
    }
    if !version.is_empty() {
        match Version::parse(version) {
            Some(version) => standard.version = version,
            None => {
                let field = format!("defaults.{mode}-version");
                errors.push(FieldError::invalid(field, quoted(version), NO_VERSION));
            }
        }
    }
    standard
}

/// Reads names that are exempt: each once, and none that can be nobody's.
fn names(
    field: &str,
    list: List<String>,
    errors: &mut FieldErrors,
    fault: impl Fn(&str) -> String,
) -> HashSet<String> {
    let mut names = HashSet::with_capacity(list.len());
    for (at, name) in list.0.into_iter().enumerate() {
        let path = format!("exemptions.{field}[{at}]");
        let fault = fault(&name);
        if name.is_empty() {
            errors.push(FieldError::required(path, ""));
        } else if !fault.is_empty() {
            errors.push(FieldError::invalid(path, quoted(&name), fault));
        } else if names.contains(&name) {
            errors.push(FieldError::duplicate(path, quoted(&name)));
        } else {
            names.insert(name);
        }
    }
    names
}
