//! Validation of volume sources that refer to storage.

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::names;

use crate::fields::{ErrorList, Errors, Field};
use crate::resources::pods::amount;
use crate::resources::pods::syntax;
use crate::resources::pods::validate::{projected, selectors};
use crate::schema::values;

pub(super) fn validate(kind: &str, source: &Field<'_>, errors: &mut Errors) {
    match kind {
        "awsElasticBlockStore" => disk(source, "volumeID", errors),
        "azureDisk" => azure_disk(source, errors),
        "azureFile" => required(source, &["secretName", "shareName"], errors),
        "cephfs" => required(source, &["monitors"], errors),
        "cinder" => {
            required(source, &["volumeID"], errors);
            secret_ref(source, errors);
        }
        "configMap" => keys(source, "name", errors),
        "csi" => csi(source, errors),
        "ephemeral" => ephemeral(source, errors),
        "fc" => fibre_channel(source, errors),
        "flexVolume" => flex(source, errors),
        "flocker" => flocker(source, errors),
        // The path has a name of its own.
        "gcePersistentDisk" => {
            let path = source.path().to_string();
            let path = path.strip_suffix("gcePersistentDisk").unwrap_or_default();
            disk(&source.named(format!("{path}persistentDisk")), "pdName", errors);
        }
        "gitRepo" => {
            required(source, &["repository"], errors);
            errors.extend(source.child("directory").faults(syntax::descending_path));
        }
        "glusterfs" => required(source, &["endpoints", "path"], errors),
        "hostPath" => host_path(source, errors),
        "iscsi" => iscsi(source, errors),
        "nfs" => {
            required(source, &["server", "path"], errors);
            let path = source.child("path");
            errors.push_if(!path.text().starts_with('/'), || path.invalid("must be an absolute path"));
        }
        "persistentVolumeClaim" => required(source, &["claimName"], errors),
        "photonPersistentDisk" => required(source, &["pdID"], errors),
        "portworxVolume" => required(source, &["volumeID"], errors),
        "quobyte" => quobyte(source, errors),
        "rbd" => required(source, &["monitors", "image"], errors),
        "scaleIO" => required(source, &["gateway", "system", "volumeName"], errors),
        "secret" => keys(source, "secretName", errors),
        "storageos" => storage_os(source, errors),
        "vsphereVolume" => required(source, &["volumePath"], errors),
        _ => {}
    }
}

fn required(source: &Field<'_>, fields: &[&str], errors: &mut Errors) {
    for field in fields {
        errors.require(&source.child(field));
    }
}

fn secret_ref(source: &Field<'_>, errors: &mut Errors) {
    if let Some(secret) = source.child("secretRef").set() {
        required(&secret, &["name"], errors);
    }
}

fn within(field: &Field<'_>, errors: &mut Errors) {
    if field.number_if_set().is_some_and(|number| !(0..=255).contains(&number)) {
        errors.push(field.invalid("must be between 0 and 255, inclusive"));
    }
}

fn disk(source: &Field<'_>, name: &str, errors: &mut Errors) {
    required(source, &[name], errors);
    within(&source.child("partition"), errors);
}

fn keys(source: &Field<'_>, name: &str, errors: &mut Errors) {
    required(source, &[name], errors);
    projected::mode(&source.child("defaultMode"), errors);
    for item in source.child("items").items() {
        projected::key_to_path(&item, errors);
    }
}

fn host_path(source: &Field<'_>, errors: &mut Errors) {
    let path = source.child("path");
    if path.text().is_empty() {
        errors.push(path.required(""));
        return;
    }
    errors.extend(path.faults(syntax::no_backsteps));
    errors.check_one_of(&source.child("type"), values::HOST_PATH_TYPES);
}

fn iscsi(source: &Field<'_>, errors: &mut Errors) {
    required(source, &["targetPortal"], errors);
    let iqn = source.child("iqn");
    if iqn.text().is_empty() {
        errors.push(iqn.required(""));
    } else if !is_initiator(iqn.text()) {
        errors.push(iqn.invalid("must be valid format starting with iqn, eui, or naa"));
    }
    within(&source.child("lun"), errors);
    let uses_chap = source.child("chapAuthDiscovery").is_true() || source.child("chapAuthSession").is_true();
    let secret = source.child("secretRef");
    errors.push_if(uses_chap && !secret.is_set(), || secret.required(""));
    // The path is in lower case.
    let initiator = source.child("initiatorName").named(source.path().member("initiatorname"));
    if initiator.is_set() && !is_initiator(initiator.text()) {
        errors.push(initiator.invalid("must be valid format starting with iqn, eui, or naa"));
    }
}

/// `iqn.2001-04.com.example:x`, `eui.` and 16, or `naa.` and 32 letters and digits.
fn is_initiator(text: &str) -> bool {
    let is_id = |rest: &str, length: usize| {
        // Any character is accepted for the dot.
        let mut characters = rest.chars();
        characters.next().is_some()
            && characters.as_str().len() == length
            && characters.as_str().bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    if let Some(rest) = text.strip_prefix("eui") {
        return is_id(rest, 16);
    }
    if let Some(rest) = text.strip_prefix("naa") {
        return is_id(rest, 32);
    }
    // Only the end must match, so anything may precede another `iqn.`.
    text.starts_with("iqn")
        && text.match_indices("iqn.").any(|(at, _)| text.get(at + 4..).is_some_and(is_qualified))
}

/// `2001-04.com.example:x`: a month, a domain reversed, and a name after a colon.
fn is_qualified(text: &str) -> bool {
    let is_month = |text: &str| {
        let bytes = text.as_bytes();
        bytes.len() == 8
            && bytes.iter().enumerate().all(|(i, byte)| match i {
                4 => *byte == b'-',
                7 => *byte == b'.',
                _ => byte.is_ascii_digit(),
            })
    };
    let Some((month, rest)) = text.split_at_checked(8) else { return false };
    let Some((domain, name)) = rest.split_once(':') else { return false };
    let is_domain = !domain.is_empty()
        && domain.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'));
    let is_name = !name.is_empty()
        && !name.contains([',', ';', '*', '&', '$', '|', ' ', '\t', '\n', '\r', '\x0b', '\x0c']);
    is_month(month) && is_domain && is_name
}

fn fibre_channel(source: &Field<'_>, errors: &mut Errors) {
    let names = source.child("targetWWNs");
    let ids = source.child("wwids");
    if names.is_empty() && ids.is_empty() {
        errors.push(names.required("must specify either targetWWNs or wwids, but not both"));
    }
    if !names.is_empty() && !ids.is_empty() {
        errors.push(names.invalid("targetWWNs and wwids can not be specified simultaneously"));
    }
    if names.is_empty() {
        return;
    }
    let unit = source.child("lun");
    if unit.is_set() {
        within(&unit, errors);
    } else {
        errors.push(unit.required("lun is required if targetWWNs is specified"));
    }
}

fn flex(source: &Field<'_>, errors: &mut Errors) {
    required(source, &["driver"], errors);
    for (key, option) in source.child("options").entries() {
        let domain = key.split_once('/').map_or(key, |(domain, _)| domain);
        let domain = format!(".{}", domain.to_lowercase());
        if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
            errors.push(option.invalid("kubernetes.io and k8s.io namespaces are reserved"));
        }
    }
}

fn flocker(source: &Field<'_>, errors: &mut Errors) {
    let name = source.child("datasetName");
    let uuid = source.child("datasetUUID");
    if name.is_empty() && uuid.is_empty() {
        errors.push(source.required("one of datasetName and datasetUUID is required"));
    }
    if !name.is_empty() && !uuid.is_empty() {
        errors.push(source.invalid("datasetName and datasetUUID can not be specified simultaneously"));
    }
    errors.push_if(name.text().contains('/'), || name.invalid("must not contain '/'"));
}

fn quobyte(source: &Field<'_>, errors: &mut Errors) {
    let registry = source.child("registry");
    let tenant = source.child("tenant");
    if registry.text().is_empty() {
        errors.push(registry.required("must be a host:port pair or multiple pairs separated by commas"));
    } else if tenant.text().len() >= 65 {
        errors.push(tenant.required("must be a UUID and may not exceed a length of 64 characters"));
    } else {
        for _ in registry.text().split(',').filter(|pair| !is_host_and_port(pair)) {
            errors.push(registry.invalid("must be a host:port pair or multiple pairs separated by commas"));
        }
    }
    required(source, &["volume"], errors);
}

fn is_host_and_port(pair: &str) -> bool {
    match pair.strip_prefix('[') {
        Some(rest) => rest.split_once(']').is_some_and(|(_, port)| {
            port.strip_prefix(':').is_some_and(|port| !port.contains([':', '[', ']']))
        }),
        None => pair.matches(':').count() == 1 && !pair.contains(['[', ']']),
    }
}

fn azure_disk(source: &Field<'_>, errors: &mut Errors) {
    required(source, &["diskName", "diskURI"], errors);
    errors.check_one_of(&source.child("cachingMode"), values::AZURE_CACHING_MODES);
    let kind = source.child("kind");
    errors.check_one_of(&kind, values::AZURE_DISK_KINDS);
    let uri = source.child("diskURI");
    let prefix = if kind.text() == "Managed" { "/subscriptions/" } else { "https://" };
    errors.push_if(kind.is_set() && !uri.text().starts_with(prefix), || uri.not_supported(&[prefix]));
}

fn storage_os(source: &Field<'_>, errors: &mut Errors) {
    errors.require_syntax(&source.child("volumeName"), names::label_errors);
    errors.check_syntax(&source.child("volumeNamespace"), names::label_errors);
    secret_ref(source, errors);
}

fn csi(source: &Field<'_>, errors: &mut Errors) {
    let driver = source.child("driver");
    errors.require(&driver);
    errors.push_if(driver.text().len() > 63, || FieldError::too_long(driver.path(), 63));
    let faults = names::subdomain_errors(&driver.text().to_lowercase());
    errors.extend(faults.into_iter().map(|fault| driver.invalid(fault)));
    let Some(secret) = source.child("nodePublishSecretRef").set() else { return };
    let name = secret.child("name");
    if name.text().is_empty() {
        errors.push(name.required(""));
    } else {
        // The path is that of the source's name.
        errors.extend(name.named(source.path().member("name")).faults(names::subdomain_errors));
    }
}

/// Validates an ephemeral volume claim.
fn ephemeral(source: &Field<'_>, errors: &mut Errors) {
    let template = source.child("volumeClaimTemplate");
    if !template.is_set() {
        errors.push(template.required(""));
        return;
    }
    let metadata = template.child("metadata");
    for (key, value) in metadata.child("annotations").entries() {
        let annotations = value.named(metadata.child("annotations").path());
        let faults = names::label_key_errors(&key.to_lowercase());
        errors.extend(faults.into_iter().map(|fault| annotations.invalid(fault)));
    }
    selectors::labels(&metadata.child("labels"), errors);
    for (name, value) in metadata.entries().filter(|(name, _)| !matches!(*name, "annotations" | "labels")) {
        if !value.is_empty() && value.value().is_some_and(|value| !value.is_null()) {
            errors.push(metadata.child(name).forbidden("cannot be set"));
        }
    }
    claim(&template.child("spec"), errors);
}

fn claim(spec: &Field<'_>, errors: &mut Errors) {
    let known = values::VOLUME_ACCESS_MODES;
    let modes = spec.child("accessModes");
    errors.push_if(modes.is_empty(), || modes.required("at least 1 access mode is required"));
    if let Some(selector) = spec.child("selector").set() {
        selectors::selector(&selector, false, errors);
    }
    for mode in modes.items().filter(|mode| !known.contains(&mode.text())) {
        errors.push(mode.named(modes.path()).not_supported(known));
    }
    let is_exclusive = |mode: &Field<'_>| mode.text() == "ReadWriteOncePod";
    if modes.items().any(|mode| is_exclusive(&mode))
        && modes.items().any(|mode| !is_exclusive(&mode) && known.contains(&mode.text()))
    {
        errors.push(modes.forbidden("may not use ReadWriteOncePod with other access modes"));
    }
    // The path is that of all resources.
    let storage = spec.child("resources").child("requests").key("storage");
    let storage = storage.named(format!("{}.resources[storage]", spec.path()));
    let quantity = amount::quantity(storage.value());
    if !storage.is_set() {
        errors.push(storage.required(""));
    } else if quantity.is_negative() || quantity.is_zero() {
        errors.push(storage.invalid("must be greater than zero"));
    }
    for class in ["storageClassName", "volumeAttributesClassName"] {
        errors.check_syntax(&spec.child(class), names::subdomain_errors);
    }
    errors.check_one_of(&spec.child("volumeMode"), values::VOLUME_MODES);
    data_sources(spec, errors);
}

fn data_sources(spec: &Field<'_>, errors: &mut Errors) {
    let source = spec.child("dataSource");
    let reference = spec.child("dataSourceRef");
    for source in [&source, &reference].into_iter().filter(|source| source.is_set()) {
        for field in ["name", "kind"] {
            errors.require(&source.child(field));
        }
        let group = source.child("apiGroup");
        errors.push_if(
            group.text().is_empty() && source.child("kind").text() != "PersistentVolumeClaim",
            || source.invalid("must be 'PersistentVolumeClaim' when referencing the default apiGroup"),
        );
        errors.check_syntax(&group, names::subdomain_errors);
    }
    if source.is_set() && reference.is_set() {
        let is_same = ["apiGroup", "kind", "name"]
            .iter()
            .all(|field| source.child(field).text() == reference.child(field).text());
        if !is_same {
            errors.push(spec.child("dataSource").named(spec.path()).invalid("must match dataSourceRef"));
        }
    }
}
