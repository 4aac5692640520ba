//! The status of ResourceClaims: allocated devices and reservations (AP-135).

use std::collections::HashSet;
use std::net::IpAddr;

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::quote::quoted;
use serde_json::Value;

use super::configuration::{MAX_CONFIG, validate_raw, validate_settings};
use super::devices::validate_binding;
use super::lists::{validate_list, validate_set};
use super::names::{pool_name, uid};
use super::requests::Names;
use crate::Map;
use crate::fields::{ErrorList, Errors, Members};
use crate::meta::is_terminating;
use crate::resources::formats::{dns_label, driver_name, immutable, one_of, qualified_name};
use crate::resources::scheduling::validate_node_selector;

const MAX_RESERVED: usize = 256;
const MAX_RESULTS: usize = 32;
const MAX_CONDITIONS: usize = 8;
const MAX_DATA: usize = 10 * 1024;
const MAX_INTERFACE_NAME: usize = 256;
const MAX_HARDWARE_ADDRESS: usize = 128;
const MAX_IPS: usize = 16;
const MAX_REASON: usize = 1024;
const MAX_MESSAGE: usize = 32 * 1024;

/// Driver, pool, device and share ID.
pub(super) type DeviceId<'a> = (&'a str, &'a str, &'a str, Option<&'a str>);

pub(super) fn device_id(device: &Map) -> DeviceId<'_> {
    let share = device.get("shareID").and_then(Value::as_str);
    (device.text("driver"), device.text("pool"), device.text("device"), share)
}

fn allocated(claim: &Map) -> HashSet<DeviceId<'_>> {
    let allocation = claim.object("status").object("allocation");
    allocation.object("devices").objects("results").map(device_id).collect()
}

/// Drops the status of devices that are no longer allocated.
pub(super) fn drop_released(claim: &mut Map, old: &Map) {
    let is_released = {
        let (before, after) = (allocated(old), allocated(claim));
        let devices = claim.object("status").objects("devices").map(device_id);
        devices.map(|id| before.contains(&id) && !after.contains(&id)).collect::<Vec<bool>>()
    };
    if !is_released.contains(&true) {
        return;
    }
    let Some(status) = claim.object_or_new("status") else { return };
    if let Some(devices) = status.get_mut("devices").and_then(Value::as_array_mut) {
        let mut is_released = is_released.into_iter();
        devices.retain(|_| is_released.next() != Some(true));
        if devices.is_empty() {
            status.remove("devices");
        }
    }
}

/// Validates an update of the status, without the metadata. The arguments are the new and the old object.
pub(super) fn validate(claim: &Map, old: &Map) -> Errors {
    let (status, old_status) = (claim.object("status"), old.object("status"));
    let mut errors = validate_set(
        "status.reservedFor",
        status.objects("reservedFor"),
        MAX_RESERVED,
        validate_consumer,
        |consumer| consumer.text("uid"),
    );
    let allocated = allocated(claim);
    errors.extend(validate_set(
        "status.devices",
        status.objects("devices"),
        usize::MAX,
        |field, device| validate_device(field, device, &allocated),
        device_id,
    ));
    errors.extend(validate_reservation(claim, old_status));
    let (allocation, old_allocation) = (status.object("allocation"), old_status.object("allocation"));
    if status.has("allocation") {
        if old_status.has("allocation") {
            errors.extend(immutable("status.allocation", allocation, old_allocation));
        } else {
            validate_allocation(allocation, &Names::of(claim.object("spec")), &mut errors);
        }
    }
    errors
}

fn validate_consumer(field: &str, consumer: &Map) -> Errors {
    let missing = ["resource", "name", "uid"].into_iter().filter(|name| consumer.text(name).is_empty());
    missing.map(|name| FieldError::required(format!("{field}.{name}"), "")).collect()
}

/// AP-135: only an allocated claim can be reserved, and a terminating claim cannot be reserved for further consumers.
fn validate_reservation(claim: &Map, old_status: &Map) -> Option<FieldError> {
    let status = claim.object("status");
    let reserved = status.list("reservedFor");
    let field = "status.reservedFor";
    if reserved.is_empty() {
        return None;
    }
    if !status.has("allocation") {
        return Some(FieldError::forbidden(field, "may not be specified when `allocated` is not set"));
    }
    // Decoded consumers have their members in one order.
    let before: HashSet<String> = old_status.list("reservedFor").iter().map(Value::to_string).collect();
    let is_new = |consumer: &Value| !before.contains(&consumer.to_string());
    let has_new = is_terminating(claim) && reserved.iter().any(is_new);
    let detail = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
    has_new.then(|| FieldError::forbidden(field, detail))
}

fn validate_allocation(allocation: &Map, names: &Names<'_>, errors: &mut Errors) {
    let devices = allocation.object("devices");
    errors.extend(validate_list(
        "status.allocation.devices.results",
        devices.objects("results"),
        MAX_RESULTS,
        |field, result| validate_result(field, result, names),
    ));
    errors.extend(validate_list(
        "status.allocation.devices.config",
        devices.objects("config"),
        2 * MAX_CONFIG,
        |field, config| validate_config(field, config, names),
    ));
    if allocation.has("nodeSelector") {
        let selector = allocation.object("nodeSelector");
        errors.extend(validate_node_selector("status.allocation.nodeSelector", selector));
    }
}

fn validate_result(field: &str, result: &Map, names: &Names<'_>) -> Errors {
    let mut errors = names.validate_reference(&format!("{field}.request"), result.text("request"));
    errors.extend(validate_device_names(field, result));
    errors.extend(validate_binding(field, result));
    errors
}

fn validate_device_names(field: &str, device: &Map) -> Errors {
    let mut errors = driver_name(&format!("{field}.driver"), device.text("driver"));
    errors.extend(pool_name(&format!("{field}.pool"), device.text("pool")));
    errors.extend(dns_label(&format!("{field}.device"), device.text("device")));
    if device.has("shareID") {
        errors.extend(uid(&format!("{field}.shareID"), device.text("shareID")));
    }
    errors
}

fn validate_config(field: &str, config: &Map, names: &Names<'_>) -> Errors {
    let at_source = format!("{field}.source");
    let mut errors = Errors::new();
    match config.text("source") {
        "" => errors.push(FieldError::required(at_source, "")),
        source => errors.extend(one_of(&at_source, source, &["FromClaim", "FromClass"])),
    }
    errors.extend(names.validate_references(field, config));
    errors.extend(validate_settings(field, config, false));
    errors
}

fn validate_device(field: &str, device: &Map, allocated: &HashSet<DeviceId<'_>>) -> Errors {
    let mut errors = validate_device_names(field, device);
    if !allocated.contains(&device_id(device)) {
        let shown = Value::Object(device.clone()).to_string();
        errors.push(FieldError::invalid(field, shown, "must be an allocated device in the claim"));
    }
    let at_conditions = format!("{field}.conditions");
    let count = device.list("conditions").len();
    errors.push_if(count > MAX_CONDITIONS, || FieldError::too_many(&at_conditions, count, MAX_CONDITIONS));
    validate_conditions(&at_conditions, device, &mut errors);
    if device.has("data") {
        errors.extend(validate_raw(&format!("{field}.data"), device.get("data"), MAX_DATA));
    }
    validate_network(&format!("{field}.networkData"), device.object("networkData"), &mut errors);
    errors
}

/// Validates conditions, with the rules of newer kinds.
fn validate_conditions(field: &str, owner: &Map, errors: &mut Errors) {
    let mut types = HashSet::new();
    for (i, condition) in owner.objects("conditions").enumerate() {
        let field = format!("{field}[{i}]");
        let (kind, reason) = (condition.text("type"), condition.text("reason"));
        errors.push_if(!types.insert(kind), || FieldError::duplicate(format!("{field}.type"), quoted(kind)));
        errors.extend(qualified_name(&format!("{field}.type"), kind));
        let statuses = ["False", "True", "Unknown"];
        errors.extend(one_of(&format!("{field}.status"), condition.text("status"), &statuses));
        let generation = condition.number("observedGeneration");
        if generation < 0 {
            let detail = "must be greater than or equal to zero";
            let at_generation = format!("{field}.observedGeneration");
            errors.push(FieldError::invalid(at_generation, generation.to_string(), detail));
        }
        if condition.text("lastTransitionTime").is_empty() {
            errors.push(FieldError::required(format!("{field}.lastTransitionTime"), "must be set"));
        }
        validate_reason(&format!("{field}.reason"), reason, errors);
        if condition.text("message").len() > MAX_MESSAGE {
            errors.push(FieldError::too_long(format!("{field}.message"), MAX_MESSAGE));
        }
    }
}

fn validate_reason(field: &str, reason: &str, errors: &mut Errors) {
    if reason.is_empty() {
        errors.push(FieldError::required(field, "must be set"));
        return;
    }
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if !reason.starts_with(|c: char| c.is_ascii_alphabetic())
        || !reason.ends_with(is_word)
        || !reason.chars().all(|c| is_word(c) || matches!(c, ',' | ':'))
    {
        let detail = "a condition reason must start with alphabetic character, optionally followed by a string of \
            alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'";
        errors.push(FieldError::invalid(field, quoted(reason), detail));
    }
    errors.push_if(reason.len() > MAX_REASON, || FieldError::too_long(field, MAX_REASON));
}

fn validate_network(field: &str, network: &Map, errors: &mut Errors) {
    let limits = [("interfaceName", MAX_INTERFACE_NAME), ("hardwareAddress", MAX_HARDWARE_ADDRESS)];
    for (name, limit) in limits {
        if network.text(name).len() > limit {
            errors.push(FieldError::too_long(format!("{field}.{name}"), limit));
        }
    }
    let check = |field: &str, address: &str| {
        let detail = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)";
        let error = || FieldError::invalid(field, quoted(address), detail);
        (!is_interface_address(address)).then(error).into_iter().collect()
    };
    errors.extend(validate_set(&format!("{field}.ips"), network.texts("ips"), MAX_IPS, check, |ip| ip));
}

/// Returns whether this is an interface address with prefix length, in canonical form.
fn is_interface_address(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let (Ok(ip), Ok(bits)) = (address.parse::<IpAddr>(), length.parse::<u8>()) else { return false };
    let is_mapped = matches!(ip, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some());
    bits <= if ip.is_ipv4() { 32 } else { 128 } && !is_mapped && format!("{ip}/{bits}") == text
}
