//! The configuration document, and its conversion to a [`Config`].

use std::collections::BTreeMap;
use std::net::IpAddr;

use portcullis_apimachinery::duration;
use portcullis_apimachinery::names::is_dns_subdomain;
use serde::Deserialize;

use super::{
    Config, ConfigError, ConfigMapKey, DenyMode, ExtraNames, HOUR, MINUTE, MachineApi, PendingLimit,
    ReadYaml, SECOND, ServiceAccount, WindowOverride,
};
use crate::approval::machine::names::CidrError;
use crate::approval::machine::object::MachineKind;
use crate::objects::rbac::{LabelSelector, LabelSelectorRequirement};
use crate::objects::strict;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Document {
    node_client_cert: Option<NodeClientCert>,
    bootstrap_users: Option<Vec<String>>,
    #[serde(rename = "bootstrapCA")]
    bootstrap_ca: Option<KeyDocument>,
    #[serde(rename = "kubeletCA")]
    kubelet_ca: Option<KeyDocument>,
    #[serde(rename = "machineAPIs")]
    machine_apis: Option<Vec<String>>,
    machine_namespace: Option<String>,
    cluster_name: Option<String>,
    machine_window: Option<String>,
    machine_clock_skew: Option<String>,
    window_overrides: Option<Vec<OverrideDocument>>,
    pending_limit: Option<PendingLimit>,
    deny_mode: Option<DenyMode>,
    max_concurrent: Option<usize>,
    renewal_requires_machine: Option<bool>,
    #[serde(rename = "nodeCIDRs")]
    node_cidrs: Option<Vec<String>>,
    #[serde(rename = "extraSANs")]
    extra_sans: Option<Vec<ExtraDocument>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeClientCert {
    disabled: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyDocument {
    namespace: Option<String>,
    name: Option<String>,
    key: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OverrideDocument {
    selector: SelectorDocument,
    window: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ExtraDocument {
    selector: SelectorDocument,
    #[serde(default)]
    dns_names: Vec<String>,
    #[serde(default)]
    ip_addresses: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct SelectorDocument {
    #[serde(default)]
    match_labels: BTreeMap<String, String>,
    #[serde(default)]
    match_expressions: Vec<RequirementDocument>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequirementDocument {
    key: String,
    operator: String,
    #[serde(default)]
    values: Vec<String>,
}

impl Config {
    /// Parses a configuration. An empty document is refused, because it more likely means a lost file than an intended
    /// default.
    ///
    /// # Errors
    /// An unknown key, a value of another type, or one out of range.
    pub fn parse(text: &str, yaml: ReadYaml) -> Result<Self, ConfigError> {
        let value = yaml(text).map_err(ConfigError::Document)?;
        if value.is_null() {
            return Err(ConfigError::Document("the document is empty; write {} for the defaults".to_owned()));
        }
        if value.get("attestation").is_some() {
            let detail = "attestation is not supported; remove the key".to_owned();
            return Err(ConfigError::Value { key: "attestation", detail });
        }
        let document: Document =
            strict::from_str(&value.to_string()).map_err(|error| ConfigError::Document(described(&error)))?;
        document.into_config()
    }
}

/// The error without its position, which refers to an intermediate text and not to the user's.
fn described(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}

impl Document {
    fn into_config(self) -> Result<Config, ConfigError> {
        let default = Config::default();
        Ok(Config {
            client_approval_disabled: self.node_client_cert.and_then(|cert| cert.disabled).unwrap_or(false),
            bootstrap_users: given(self.bootstrap_users, default.bootstrap_users, |users| {
                all(users, service_account)
            })?,
            bootstrap_ca: config_map("bootstrapCA", self.bootstrap_ca, default.bootstrap_ca)?,
            kubelet_ca: config_map("kubeletCA", self.kubelet_ca, default.kubelet_ca)?,
            machine_apis: given(self.machine_apis, default.machine_apis, machine_apis)?,
            machine_namespace: not_empty("machineNamespace", self.machine_namespace)?,
            cluster_name: not_empty("clusterName", self.cluster_name)?,
            machine_window: given(self.machine_window, default.machine_window, |text| {
                window("machineWindow", &text)
            })?,
            machine_clock_skew: given(self.machine_clock_skew, default.machine_clock_skew, |text| {
                span("machineClockSkew", &text, 0, 60 * SECOND, "0s and 60s")
            })?,
            window_overrides: all(self.window_overrides.unwrap_or_default(), |entry| {
                Ok(WindowOverride {
                    selector: selector("windowOverrides", entry.selector)?,
                    window: window("windowOverrides", &entry.window)?,
                })
            })?,
            pending_limit: self.pending_limit.unwrap_or_default(),
            deny_mode: self.deny_mode.unwrap_or_default(),
            max_concurrent: given(self.max_concurrent, default.max_concurrent, |count| match count {
                1..=100 => Ok(count),
                _ => Err(value("maxConcurrent", format!("{count} is not between 1 and 100"))),
            })?,
            renewal_requires_machine: self.renewal_requires_machine.unwrap_or(false),
            node_cidrs: all(self.node_cidrs.unwrap_or_default(), |text| {
                text.parse().map_err(|error: CidrError| value("nodeCIDRs", error.to_string()))
            })?,
            extra_names: all(self.extra_sans.unwrap_or_default(), extra_names)?,
        })
    }
}

fn given<T, U>(
    given: Option<T>,
    default: U,
    read: impl Fn(T) -> Result<U, ConfigError>,
) -> Result<U, ConfigError> {
    given.map_or(Ok(default), read)
}

fn all<T, U>(items: Vec<T>, read: impl Fn(T) -> Result<U, ConfigError>) -> Result<Vec<U>, ConfigError> {
    items.into_iter().map(read).collect()
}

fn value(key: &'static str, detail: String) -> ConfigError {
    ConfigError::Value { key, detail }
}

fn not_empty(key: &'static str, text: Option<String>) -> Result<Option<String>, ConfigError> {
    match text {
        Some(text) if text.is_empty() => Err(value(key, "is empty; leave it out instead".to_owned())),
        text => Ok(text),
    }
}

fn service_account(user: String) -> Result<ServiceAccount, ConfigError> {
    let parts = user.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
    match parts {
        Some((namespace, name)) if is_dns_subdomain(namespace) && is_dns_subdomain(name) => {
            Ok(ServiceAccount { namespace: namespace.to_owned(), name: name.to_owned() })
        }
        _ => Err(value(
            "bootstrapUsers",
            format!(
                "{user:?} is not the user name of a service account, system:serviceaccount:NAMESPACE:NAME"
            ),
        )),
    }
}

fn config_map(
    at: &'static str,
    document: Option<KeyDocument>,
    default: ConfigMapKey,
) -> Result<ConfigMapKey, ConfigError> {
    let Some(document) = document else { return Ok(default) };
    Ok(ConfigMapKey {
        namespace: not_empty(at, document.namespace)?.or(default.namespace),
        name: not_empty(at, document.name)?.unwrap_or(default.name),
        key: not_empty(at, document.key)?.unwrap_or(default.key),
    })
}

fn machine_apis(texts: Vec<String>) -> Result<Vec<MachineApi>, ConfigError> {
    let mut apis: Vec<MachineApi> = Vec::new();
    for text in &texts {
        let (group, version) = match text.split_once('/') {
            Some((group, version)) => (group, Some(version)),
            None => (text.as_str(), None),
        };
        let is_known =
            |kind: MachineKind| kind.group() == group && version.is_none_or(|v| v == kind.version());
        if !MachineKind::ALL.into_iter().any(is_known) {
            let known = MachineKind::ALL.map(MachineKind::api_version).join(", ");
            return Err(value("machineAPIs", format!("{text:?} is not known; known are {known}")));
        }
        if apis.iter().any(|api| api.group == group) {
            return Err(value("machineAPIs", format!("the group {group} is named twice")));
        }
        apis.push(MachineApi { group: group.to_owned(), version: version.map(str::to_owned) });
    }
    Ok(apis)
}

fn span(key: &'static str, text: &str, least: i128, most: i128, limits: &str) -> Result<i128, ConfigError> {
    match duration::parse(text) {
        Some(span) if (least..=most).contains(&span) => Ok(span),
        Some(_) => Err(value(key, format!("{text:?} is not between {limits}"))),
        None => Err(value(key, format!("{text:?} is not a duration such as 2h or 90s"))),
    }
}

fn window(key: &'static str, text: &str) -> Result<i128, ConfigError> {
    span(key, text, 5 * MINUTE, 24 * HOUR, "5m and 24h")
}

fn selector(key: &'static str, document: SelectorDocument) -> Result<LabelSelector, ConfigError> {
    let requirement = |r: RequirementDocument| LabelSelectorRequirement {
        key: r.key,
        operator: r.operator,
        values: r.values,
    };
    let selector = LabelSelector {
        match_labels: document.match_labels.into_iter().collect(),
        match_expressions: document.match_expressions.into_iter().map(requirement).collect(),
    };
    selector.validate().map_err(|error| value(key, format!("selector: {error}")))?;
    Ok(selector)
}

fn extra_names(document: ExtraDocument) -> Result<ExtraNames, ConfigError> {
    let dns = |name: String| match is_dns_subdomain(&name) {
        true => Ok(name),
        false => Err(value("extraSANs", format!("dnsNames: {name:?} is not a lower-case DNS name"))),
    };
    let ip = |text: String| {
        text.parse::<IpAddr>()
            .map_err(|_| value("extraSANs", format!("ipAddresses: {text:?} is not an IP address")))
    };
    Ok(ExtraNames {
        selector: selector("extraSANs", document.selector)?,
        dns: all(document.dns_names, dns)?,
        ip: all(document.ip_addresses, ip)?,
    })
}
