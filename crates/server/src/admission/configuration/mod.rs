//! The file of `--admission-control-config-file`: an `AdmissionConfiguration`, with the configurations of plugins.
//!
//! Decoding is strict, and all errors are reported together. Only the files that it names are read.
//!
//! DIVERGES: kube-apiserver passes over a plugin that it does not know, the second configuration of a plugin, and one for a
//! plugin that reads none. Here each is an error: whoever wrote it relies on it.

mod document;
mod pod_security;
mod resource_quota;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use kinds::quota::LimitedResource;
use policy::objects::decode::List;
use portcullis_apimachinery::quote::quoted;
use serde::Deserialize;
use serde_json::{Map, Value};

use self::document::{Form, decoded, read};
pub(super) use self::pod_security::PodSecurity;
use super::plugins::{AdmissionPlugins, Known};

/// From so many errors on no further plugin is looked at.
const MAX_ERRORS: usize = 100;
const FORMS: &[Form] = &[
    ("apiserver.config.k8s.io/v1", "AdmissionConfiguration"),
    ("apiserver.k8s.io/v1alpha1", "AdmissionConfiguration"),
];
/// The plugins with webhooks. Their configuration names the credentials that webhooks are shown.
const WEBHOOKS: [&str; 2] = ["MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"];

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Document {
    plugins: List<PluginEntry>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct PluginEntry {
    name: String,
    path: String,
    configuration: Option<Map<String, Value>>,
}

/// The configurations of admission plugins. Without a file, those of plugins that nobody configured.
#[derive(Clone, Debug, Default)]
pub struct AdmissionConfiguration {
    pub(super) pod_security: PodSecurity,
    /// The resources that need a quota (plugin ResourceQuota).
    pub(super) limited: Arc<[LimitedResource]>,
}

/// An invalid configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigurationError {
    /// The file is not an AdmissionConfiguration.
    #[error("{0}")]
    Unreadable(String),
    /// All errors in its plugins.
    #[error("{}", .0.join("; "))]
    Invalid(Vec<String>),
}

impl AdmissionConfiguration {
    /// Reads a file and those that it names, whose paths are relative to its directory.
    ///
    /// # Errors
    /// The file cannot be read, or see [`Self::read`].
    pub fn load(path: &Path) -> Result<Self, ConfigurationError> {
        let open = |path: &Path| std::fs::read(path).map_err(|error| format!("cannot be read: {error}"));
        let bytes = open(path).map_err(ConfigurationError::Unreadable)?;
        let directory = path.parent().unwrap_or(Path::new(""));
        Self::read(&bytes, |named| open(&directory.join(named)))
    }

    /// Reads a configuration, in YAML or JSON. `open` reads a file that it names.
    ///
    /// # Errors
    /// The text is not exactly one AdmissionConfiguration, or a plugin or its configuration is invalid. Unknown and duplicate
    /// fields are errors too.
    pub fn read(
        bytes: &[u8],
        open: impl Fn(&str) -> Result<Vec<u8>, String>,
    ) -> Result<Self, ConfigurationError> {
        let document: Document = read(bytes)
            .and_then(|document| decoded(document, FORMS))
            .map_err(ConfigurationError::Unreadable)?;
        let (mut configuration, mut errors, mut seen) = (Self::default(), Vec::new(), HashSet::new());
        for (at, entry) in document.plugins.0.into_iter().enumerate() {
            if errors.len() >= MAX_ERRORS {
                errors.push("there may be more errors".to_owned());
                break;
            }
            match (check_name(&entry.name), seen.insert(entry.name.clone())) {
                (Ok(()), true) => entry.configure(at, &open, &mut configuration, &mut errors),
                (Ok(()), false) => errors.push(format!(
                    "plugins[{at}].name: {} is configured twice: keep one of both",
                    quoted(&entry.name)
                )),
                (Err(why), _) => errors.push(format!("plugins[{at}].name: {why}")),
            }
        }
        if errors.is_empty() { Ok(configuration) } else { Err(ConfigurationError::Invalid(errors)) }
    }
}

fn check_name(name: &str) -> Result<(), String> {
    match AdmissionPlugins::known(name) {
        Known::Here | Known::WithoutEffect => Ok(()),
        Known::Missing => {
            Err(format!("{name} is not implemented here, and so cannot be relied on: leave it out"))
        }
        Known::Nowhere => {
            let names = AdmissionPlugins::names().collect::<Vec<_>>().join(", ");
            Err(format!("unknown plugin {}; there are {names}", quoted(name)))
        }
    }
}

impl PluginEntry {
    /// Reads the configuration of the plugin. What is embedded counts, and only without that the path, as in kube-apiserver.
    fn configure(
        self,
        at: usize,
        open: impl Fn(&str) -> Result<Vec<u8>, String>,
        configuration: &mut AdmissionConfiguration,
        errors: &mut Vec<String>,
    ) {
        let (place, document) = match (self.configuration, &*self.path) {
            (Some(embedded), _) => (format!("plugins[{at}].configuration"), Ok(embedded)),
            (None, "") => return,
            (None, path) => {
                (format!("plugins[{at}].path: {}", quoted(path)), open(path).and_then(|bytes| read(&bytes)))
            }
        };
        let taken = match &*self.name {
            "PodSecurity" => document.and_then(PodSecurity::read).map(|(read, faults)| {
                configuration.pod_security = read;
                faults
            }),
            "ResourceQuota" => document.and_then(resource_quota::read).map(|(read, faults)| {
                configuration.limited = read;
                faults
            }),
            name if WEBHOOKS.contains(&name) => {
                Err("admission webhooks are shown no credentials here: leave the configuration out"
                    .to_owned())
            }
            name => Err(format!("{name} reads no configuration here: leave it out")),
        };
        match taken {
            Ok(faults) => {
                let (told, has_more) = faults.told();
                errors.extend(told.iter().map(|fault| format!("{place}: {fault}")));
                if has_more {
                    errors.push(format!("{place}: there are more errors"));
                }
            }
            Err(why) => errors.push(format!("{place}: {why}")),
        }
    }
}

#[cfg(test)]
mod tests;
