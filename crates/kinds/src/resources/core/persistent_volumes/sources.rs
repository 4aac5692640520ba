//! The volume sources of persistent volumes.

use std::borrow::Cow;

use portcullis_apimachinery::field_error::FieldError;
use serde_json::Value;

use crate::Map;
use crate::fields::{ErrorList, Errors, Members};
use crate::resources::core::names::TextRule;
use crate::resources::formats::{dns_label, dns_subdomain};
use crate::schema::values;

/// A kind of source.
struct Source {
    /// The member of the spec.
    name: &'static str,
    /// The field path of the error if there is already another source.
    second: &'static str,
    /// Whether the volume supports mount options.
    takes_options: bool,
    /// Validates the source. The arguments are the path, the source, and the name of the volume.
    errors: fn(&str, &Map, &str) -> Errors,
    /// The path of these errors.
    field: &'static str,
}

impl Source {
    const fn new(name: &'static str, errors: fn(&str, &Map, &str) -> Errors) -> Self {
        Self { name, second: name, takes_options: true, errors, field: name }
    }

    const fn without_options(self) -> Self {
        Self { takes_options: false, ..self }
    }
}

/// All sources, in validation order.
const SOURCES: &[Source] = &[
    Source::new("hostPath", |field, source, _| host_path_errors(field, source)).without_options(),
    Source {
        field: "persistentDisk",
        ..Source::new("gcePersistentDisk", |field, source, _| disk_errors(field, source, "pdName"))
    },
    Source::new("awsElasticBlockStore", |field, source, _| disk_errors(field, source, "volumeID")),
    Source::new("glusterfs", |field, source, _| glusterfs_errors(field, source)),
    Source::new("flocker", |field, source, _| flocker_errors(field, source)),
    Source::new("nfs", |field, source, _| nfs_errors(field, source)),
    Source::new("rbd", |field, source, _| required(field, source, &["monitors", "image"])),
    Source::new("quobyte", |field, source, _| quobyte_errors(field, source)),
    Source {
        second: "cephFS",
        ..Source::new("cephfs", |field, source, _| required(field, source, &["monitors"]))
    },
    Source::new("iscsi", iscsi_errors),
    Source::new("cinder", |field, source, _| cinder_errors(field, source)),
    Source::new("fc", |field, source, _| fc_errors(field, source)),
    Source::new("flexVolume", |field, source, _| flex_errors(field, source)).without_options(),
    Source::new("azureFile", |field, source, _| azure_file_errors(field, source)),
    Source::new("vsphereVolume", |field, source, _| required(field, source, &["volumePath"])),
    Source::new("photonPersistentDisk", |field, source, _| required(field, source, &["pdID"])),
    Source::new("portworxVolume", |field, source, _| required(field, source, &["volumeID"])),
    Source::new("azureDisk", |field, source, _| azure_disk_errors(field, source)),
    Source::new("scaleIO", |field, source, _| required(field, source, &["gateway", "system", "volumeName"])),
    Source::new("local", |field, source, _| local_errors(field, source)).without_options(),
    Source::new("storageos", |field, source, _| storage_os_errors(field, source)).without_options(),
    Source::new("csi", |field, source, _| csi_errors(field, source)).without_options(),
];

/// Whether the volume supports mount options.
pub(super) fn takes_mount_options(spec: &Map) -> bool {
    SOURCES.iter().any(|source| source.takes_options && spec.has(source.name))
}

/// Returns the source for comparison (AP-133). The expansion secret of a CSI volume may be set once.
pub(super) fn of<'a>(spec: &'a Map, old: &Map) -> Vec<(&'static str, Cow<'a, Map>)> {
    const EXPANSION: &str = "controllerExpandSecretRef";
    let present = SOURCES.iter().filter(|source| spec.has(source.name));
    present
        .map(|source| {
            let mut value = Cow::Borrowed(spec.object(source.name));
            let was_unset = old.has("csi") && !old.object("csi").has(EXPANSION);
            if source.name == "csi" && was_unset && value.contains_key(EXPANSION) {
                value.to_mut().remove(EXPANSION);
            }
            (source.name, value)
        })
        .collect()
}

/// Validates the source of a volume: there must be exactly one.
pub(super) fn errors(spec: &Map, volume: &str) -> Errors {
    let mut errors = Errors::new();
    let mut count = 0;
    for source in SOURCES.iter().filter(|source| spec.has(source.name)) {
        // Kubernetes validates a FlexVolume even if it is not the first source.
        if count > 0 && source.name != "flexVolume" {
            let field = format!("spec.{}", source.second);
            errors.push(FieldError::forbidden(field, "may not specify more than 1 volume type"));
            continue;
        }
        count += 1;
        errors.extend((source.errors)(&format!("spec.{}", source.field), spec.object(source.name), volume));
        if source.name == "local" && !spec.has("nodeAffinity") {
            errors.push(FieldError::required("spec.nodeAffinity", "Local volume requires node affinity"));
        }
    }
    errors.push_if(count == 0, || FieldError::required("spec", "must specify a volume type"));
    let host_path = spec.object("hostPath").text("path");
    let recycles = spec.text("persistentVolumeReclaimPolicy") == "Recycle";
    if recycles && is_root(host_path) {
        let detail = "may not be 'recycle' for a hostPath mount of '/'";
        errors.push(FieldError::forbidden("spec.persistentVolumeReclaimPolicy", detail));
    }
    errors
}

/// Returns whether a path without `.` and `..` is the root.
fn is_root(path: &str) -> bool {
    let depth = path.split('/').try_fold(0_usize, |depth, part| match part {
        "" | "." => Some(depth),
        ".." => Some(depth.saturating_sub(1)),
        _ => depth.checked_add(1),
    });
    path.starts_with('/') && depth == Some(0)
}

/// Checks required members: non-empty strings or lists.
fn required(field: &str, source: &Map, members: &[&str]) -> Errors {
    let is_missing = |member: &&&str| source.text(member).is_empty() && source.list(member).is_empty();
    members
        .iter()
        .filter(is_missing)
        .map(|member| FieldError::required(format!("{field}.{member}"), ""))
        .collect()
}

/// A path without `..`.
fn backstep_error(field: &str, path: &str) -> Option<FieldError> {
    let has_backstep = path.split('/').any(|part| part == "..");
    has_backstep.then(|| FieldError::invalid(field, path, "must not contain '..'"))
}

fn host_path_errors(field: &str, source: &Map) -> Errors {
    let mut errors = required(field, source, &["path"]);
    if !errors.is_empty() {
        return errors;
    }
    errors.extend(backstep_error(&format!("{field}.path"), source.text("path")));
    let kind = source.text("type");
    errors.push_if(!values::HOST_PATH_TYPES.contains(&kind), || {
        FieldError::not_supported(format!("{field}.type"), kind, values::HOST_PATH_TYPES)
    });
    errors
}

fn local_errors(field: &str, source: &Map) -> Errors {
    let errors = required(field, source, &["path"]);
    if !errors.is_empty() {
        return errors;
    }
    backstep_error(&format!("{field}.path"), source.text("path")).into_iter().collect()
}

fn disk_errors(field: &str, source: &Map, id: &str) -> Errors {
    let mut errors = required(field, source, &[id]);
    let partition = source.number("partition");
    if !(0..=255).contains(&partition) {
        let detail = "must be between 1 and 255, inclusive";
        errors.push(FieldError::invalid(format!("{field}.partition"), partition.to_string(), detail));
    }
    errors
}

fn glusterfs_errors(field: &str, source: &Map) -> Errors {
    let mut errors = required(field, source, &["endpoints", "path"]);
    if source.has("endpointsNamespace") {
        let namespace_field = format!("{field}.endpointsNamespace");
        match source.text("endpointsNamespace") {
            "" => errors.push(FieldError::invalid(namespace_field, "", "must be a valid namespace name")),
            namespace => errors.extend(dns_label(&namespace_field, namespace)),
        }
    }
    errors
}

fn flocker_errors(field: &str, source: &Map) -> Errors {
    let (name, uuid) = (source.text("datasetName"), source.text("datasetUUID"));
    let mut errors = Errors::new();
    match (name.is_empty(), uuid.is_empty()) {
        (true, true) => {
            errors.push(FieldError::required(field, "one of datasetName and datasetUUID is required"));
        }
        (false, false) => {
            let detail = "datasetName and datasetUUID can not be specified simultaneously";
            errors.push(FieldError::invalid(field, "resource", detail));
        }
        _ => {}
    }
    if name.contains('/') {
        errors.push(FieldError::invalid(format!("{field}.datasetName"), name, "must not contain '/'"));
    }
    errors
}

fn nfs_errors(field: &str, source: &Map) -> Errors {
    let mut errors = required(field, source, &["server", "path"]);
    let path = source.text("path");
    if !path.starts_with('/') {
        errors.push(FieldError::invalid(format!("{field}.path"), path, "must be an absolute path"));
    }
    errors
}

fn quobyte_errors(field: &str, source: &Map) -> Errors {
    let registry = source.text("registry");
    let detail = "must be a host:port pair or multiple pairs separated by commas";
    let mut errors = Errors::new();
    if registry.is_empty() {
        errors.push(FieldError::required(format!("{field}.registry"), detail));
    } else if source.text("tenant").len() >= 65 {
        let detail = "must be a UUID and may not exceed a length of 64 characters";
        errors.push(FieldError::required(format!("{field}.tenant"), detail));
    } else {
        let bad = registry.split(',').filter(|pair| !is_host_and_port(pair));
        errors.extend(bad.map(|_| FieldError::invalid(format!("{field}.registry"), registry, detail)));
    }
    errors.extend(required(field, source, &["volume"]));
    errors
}

/// Returns whether a text is `host:port` or `[host]:port`; either part may be empty.
fn is_host_and_port(pair: &str) -> bool {
    let plain = |text: &str| !text.contains([':', '[', ']']);
    match pair.strip_prefix('[') {
        Some(rest) => {
            rest.split_once("]:").is_some_and(|(host, port)| !host.contains(['[', ']']) && plain(port))
        }
        None => pair.split_once(':').is_some_and(|(host, port)| plain(host) && plain(port)),
    }
}

fn iscsi_errors(field: &str, source: &Map, volume: &str) -> Errors {
    let mut errors = required(field, source, &["targetPortal"]);
    let (portal, initiator) = (source.text("targetPortal"), source.text("initiatorName"));
    let has_initiator = source.has("initiatorName");
    if has_initiator && volume.len() + 1 + portal.len() > 64 {
        let detail = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if \
            iscsi.initiatorName is specified.";
        errors.push(FieldError::invalid(format!("{field}.targetportal"), portal, detail));
    }
    match source.text("iqn") {
        "" => errors.push(FieldError::required(format!("{field}.iqn"), "")),
        name => errors.extend(qualified_name_error(&format!("{field}.iqn"), name)),
    }
    let lun = source.number("lun");
    if !(0..=255).contains(&lun) {
        let detail = "must be between 0 and 255, inclusive";
        errors.push(FieldError::invalid(format!("{field}.lun"), lun.to_string(), detail));
    }
    let needs_secret = source.is_true("chapAuthDiscovery") || source.is_true("chapAuthSession");
    match source.has("secretRef") {
        true => errors.extend(required(&format!("{field}.secretRef"), source.object("secretRef"), &["name"])),
        false if needs_secret => errors.push(FieldError::required(format!("{field}.secretRef"), "")),
        false => {}
    }
    if has_initiator {
        errors.extend(qualified_name_error(&format!("{field}.initiatorname"), initiator));
    }
    errors
}

/// An iSCSI name: `iqn.2001-04.com.example:disk`, `eui.` and 16, or `naa.` and 32 letters or digits.
fn qualified_name_error(field: &str, name: &str) -> Option<FieldError> {
    let has_id = |length: usize| {
        let id: Vec<char> = name.chars().skip(4).collect();
        id.len() == length && id.iter().all(char::is_ascii_alphanumeric)
    };
    let is_valid = match name.get(..3) {
        Some("iqn") => name.match_indices("iqn.").any(|(i, _)| name.get(i + 4..).is_some_and(is_dated_name)),
        Some("eui") => has_id(16),
        Some("naa") => has_id(32),
        _ => false,
    };
    (!is_valid).then(|| FieldError::invalid(field, name, "must be valid format"))
}

/// `2001-04.com.example:disk`.
fn is_dated_name(text: &str) -> bool {
    let Some((date, rest)) = text.split_once('.') else { return false };
    let is_date = date.len() == 7
        && date.bytes().enumerate().all(|(i, c)| if i == 4 { c == b'-' } else { c.is_ascii_digit() });
    let Some((authority, id)) = rest.split_once(':') else { return false };
    let is_authority = !authority.is_empty()
        && authority.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'.'));
    is_date
        && is_authority
        && !id.is_empty()
        && !id.contains([',', ';', '*', '&', '$', '|', ' ', '\t', '\n', '\r'])
}

fn cinder_errors(field: &str, source: &Map) -> Errors {
    let mut errors = required(field, source, &["volumeID"]);
    errors.extend(secret_errors(field, source));
    errors
}

/// A secret reference, if set, must have a name and a namespace.
fn secret_errors(field: &str, source: &Map) -> Errors {
    if !source.has("secretRef") {
        return Errors::new();
    }
    required(&format!("{field}.secretRef"), source.object("secretRef"), &["name", "namespace"])
}

fn fc_errors(field: &str, source: &Map) -> Errors {
    let targets = source.texts("targetWWNs").len();
    let mut errors = Errors::new();
    match (targets, source.texts("wwids").len()) {
        (0, 0) => {
            let detail = "must specify either targetWWNs or wwids, but not both";
            errors.push(FieldError::required(format!("{field}.targetWWNs"), detail));
        }
        (1.., 1..) => {
            let shown = Value::Array(source.list("targetWWNs").to_vec()).to_string();
            let detail = "targetWWNs and wwids can not be specified simultaneously";
            errors.push(FieldError::invalid(format!("{field}.targetWWNs"), shown, detail));
        }
        _ => {}
    }
    let lun = source.number("lun");
    if targets > 0 && !source.has("lun") {
        let detail = "lun is required if targetWWNs is specified";
        errors.push(FieldError::required(format!("{field}.lun"), detail));
    } else if targets > 0 && !(0..=255).contains(&lun) {
        let detail = "must be between 0 and 255, inclusive";
        errors.push(FieldError::invalid(format!("{field}.lun"), lun.to_string(), detail));
    }
    errors
}

fn flex_errors(field: &str, source: &Map) -> Errors {
    let mut errors = required(field, source, &["driver"]);
    for key in source.object("options").keys() {
        let namespace = key.split_once('/').map_or(key.as_str(), |(namespace, _)| namespace);
        let namespace = format!(".{}", namespace.to_lowercase());
        if namespace.ends_with(".kubernetes.io") || namespace.ends_with(".k8s.io") {
            let detail = "kubernetes.io and k8s.io namespaces are reserved";
            errors.push(FieldError::invalid(format!("{field}.options[{key}]"), key.as_str(), detail));
        }
    }
    errors
}

fn azure_file_errors(field: &str, source: &Map) -> Errors {
    let mut errors = required(field, source, &["secretName", "shareName"]);
    if source.has("secretNamespace") {
        errors.extend(required(field, source, &["secretNamespace"]));
    }
    errors
}

fn azure_disk_errors(field: &str, source: &Map) -> Errors {
    let mut errors = required(field, source, &["diskName", "diskURI"]);
    for (member, known) in [("cachingMode", values::AZURE_CACHING_MODES), ("kind", values::AZURE_DISK_KINDS)]
    {
        let value = source.text(member);
        if source.has(member) && !known.contains(&value) {
            errors.push(FieldError::not_supported(format!("{field}.{member}"), value, known));
        }
    }
    let (kind, uri) = (source.text("kind"), source.text("diskURI"));
    let prefix = if kind == "Managed" { "/subscriptions/" } else { "https://" };
    if source.has("kind") && !uri.starts_with(prefix) {
        errors.push(FieldError::not_supported(format!("{field}.diskURI"), uri, &[prefix]));
    }
    errors
}

fn storage_os_errors(field: &str, source: &Map) -> Errors {
    let mut errors = required(field, source, &["volumeName"]);
    for member in ["volumeName", "volumeNamespace"] {
        let value = source.text(member);
        if !value.is_empty() {
            errors.extend(dns_label(&format!("{field}.{member}"), value));
        }
    }
    errors.extend(secret_errors(field, source));
    errors
}

fn csi_errors(field: &str, source: &Map) -> Errors {
    let driver = source.text("driver");
    let mut errors = required(field, source, &["driver"]);
    errors.push_if(driver.len() > 63, || FieldError::too_long(format!("{field}.driver"), 63));
    errors.extend(dns_subdomain(&format!("{field}.driver"), &driver.to_lowercase()));
    errors.extend(required(field, source, &["volumeHandle"]));
    // The staging secret is not validated, as in Kubernetes.
    for member in [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ] {
        if source.has(member) {
            errors.extend(reference_errors(&format!("{field}.{member}"), source.object(member)));
        }
    }
    errors
}

fn reference_errors(field: &str, reference: &Map) -> Errors {
    let rules: [(&str, TextRule); 2] = [("name", dns_subdomain), ("namespace", dns_label)];
    let check = |(member, rule): (&str, TextRule)| {
        let field = format!("{field}.{member}");
        match reference.text(member) {
            "" => Errors::from([FieldError::required(field, "")]),
            value => rule(&field, value),
        }
    };
    rules.into_iter().flat_map(check).collect()
}
