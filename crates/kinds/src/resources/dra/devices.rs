//! Devices of a ResourceSlice, and the counters that they share.

use std::collections::HashSet;

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::quote::quoted;
use serde_json::Value;

use super::capacity::validate_capacity;
use super::lists::{validate_list, validate_set};
use super::names::{at_key, qualified_name};
use crate::Map;
use crate::fields::{ErrorList, Errors, Members};
use crate::resources::formats::{self, dns_label, dns_subdomain, label_value, one_of};
use crate::resources::scheduling::validate_node_selector;
use crate::schema::values;

/// The maximum number of attributes and capacities of a device.
const MAX_FACTS: usize = 32;
/// The maximum size of an attribute value, in bytes.
const MAX_VALUE: usize = 64;
const MAX_TAINTS: usize = 16;
const MAX_COUNTERS: usize = 32;
/// The maximum number of counter sets that a device consumes.
const MAX_CONSUMED_SETS: usize = 2;
const MAX_CONDITIONS: usize = 4;

/// Validates a device. Unchanged taints are not validated again.
pub(super) fn validate_device(
    field: &str,
    device: &Map,
    old: Option<&Map>,
    is_selected_per_device: bool,
) -> Errors {
    let mut errors = dns_label(&format!("{field}.name"), device.text("name"));
    let (attributes, capacity) = (device.object("attributes"), device.object("capacity"));
    let count = attributes.len() + capacity.len();
    if count > MAX_FACTS {
        let detail = format!("the total number of attributes and capacities must not exceed {MAX_FACTS}");
        errors.push(FieldError::invalid(field, count.to_string(), detail));
    }
    for (key, attribute) in attributes {
        let field = at_key(&format!("{field}.attributes"), key);
        errors.extend(qualified_name(&field, key));
        errors.extend(attribute.as_object().into_iter().flat_map(|value| validate_attribute(&field, value)));
    }
    let is_shared = device.is_true("allowMultipleAllocations");
    for (key, capacity) in capacity {
        let field = at_key(&format!("{field}.capacity"), key);
        errors.extend(qualified_name(&field, key));
        let capacity = capacity.as_object();
        errors.extend(capacity.into_iter().flat_map(|value| validate_capacity(&field, value, is_shared)));
    }
    if old.is_none_or(|old| old.list("taints") != device.list("taints")) {
        let taints = device.objects("taints");
        errors.extend(validate_list(&format!("{field}.taints"), taints, MAX_TAINTS, validate_taint));
    }
    errors.extend(validate_set(
        &format!("{field}.consumesCounters"),
        device.objects("consumesCounters"),
        MAX_CONSUMED_SETS,
        |field, consumed| validate_counters(field, consumed, "counterSet"),
        |consumed| consumed.text("counterSet"),
    ));
    errors.extend(validate_nodes(field, device, is_selected_per_device));
    errors.extend(validate_binding(field, device));
    errors
}

/// Validates a shared counter set.
pub(super) fn validate_counter_set(field: &str, set: &Map) -> Errors {
    validate_counters(field, set, "name")
}

fn validate_counters(field: &str, owner: &Map, name: &str) -> Errors {
    let (at_name, at_counters) = (format!("{field}.{name}"), format!("{field}.counters"));
    let mut errors = match owner.text(name) {
        "" => Errors::from([FieldError::required(at_name, "")]),
        name => dns_label(&at_name, name),
    };
    let counters = owner.object("counters");
    match counters.len() {
        0 => errors.push(FieldError::required(at_counters, "")),
        1..=MAX_COUNTERS => {
            errors.extend(counters.keys().flat_map(|key| dns_label(&at_key(&at_counters, key), key)));
        }
        count => errors.push(FieldError::too_many(at_counters, count, MAX_COUNTERS)),
    }
    errors
}

/// Validates an attribute, which must have exactly one value.
fn validate_attribute(field: &str, attribute: &Map) -> Errors {
    let mut errors = Errors::new();
    let mut check = |name: &str, is_valid: fn(&str) -> bool| {
        let (field, value) = (format!("{field}.{name}"), attribute.text(name));
        if !is_valid(value) && attribute.has(name) {
            let detail = "must be a string compatible with semver.org spec 2.0.0";
            errors.push(FieldError::invalid(&field, quoted(value), detail));
        }
        errors.push_if(value.len() > MAX_VALUE, || FieldError::too_long(field, MAX_VALUE));
    };
    check("string", |_| true);
    check("version", is_semantic_version);
    let count = ["bool", "int", "string", "version"].iter().filter(|name| attribute.has(name)).count();
    if count != 1 {
        let shown = Value::Object(attribute.clone()).to_string();
        errors.push(FieldError::invalid(field, shown, "exactly one value must be specified"));
    }
    errors
}

/// Returns whether a text is a semantic version (semver.org 2.0.0), such as `1.2.3-rc.1+build.5`.
fn is_semantic_version(text: &str) -> bool {
    let (text, build) = text.split_once('+').map_or((text, None), |(text, build)| (text, Some(build)));
    let (core, release) = text.split_once('-').map_or((text, None), |(core, release)| (core, Some(release)));
    let is_number = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_digit())
            && (part == "0" || !part.starts_with('0'))
    };
    let is_word = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    core.split('.').count() == 3
        && core.split('.').all(is_number)
        && release.is_none_or(|parts| {
            parts.split('.').all(|part| is_word(part) && (!is_digits(part) || is_number(part)))
        })
        && build.is_none_or(|parts| parts.split('.').all(is_word))
}

fn validate_taint(field: &str, taint: &Map) -> Errors {
    let mut errors = formats::qualified_name(&format!("{field}.key"), taint.text("key"));
    errors.extend(label_value(&format!("{field}.value"), taint.text("value")));
    let at_effect = format!("{field}.effect");
    match taint.text("effect") {
        "" => errors.push(FieldError::required(at_effect, "")),
        effect => errors.extend(one_of(&at_effect, effect, values::DEVICE_TAINT_EFFECTS)),
    }
    errors
}

/// A device must select its nodes if and only if the slice delegates that to its devices.
fn validate_nodes(field: &str, device: &Map, is_selected_per_device: bool) -> Errors {
    let is_set_here = |name: &&str| device.has(name);
    if !is_selected_per_device {
        let detail = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to \
            true in the ResourceSlice spec";
        let has_any = ["nodeName", "nodeSelector", "allNodes"].iter().any(is_set_here);
        return has_any.then(|| FieldError::invalid(field, "null", detail)).into_iter().collect();
    }
    let mut errors = Errors::new();
    let mut ways = 0;
    if device.has("nodeName") {
        let at_name = format!("{field}.nodeName");
        match device.text("nodeName") {
            "" => errors.push(FieldError::invalid(at_name, "\"\"", "must not be empty")),
            node => {
                ways += 1;
                errors.extend(dns_subdomain(&at_name, node));
            }
        }
    }
    if device.has("nodeSelector") {
        ways += 1;
        let selector = device.object("nodeSelector");
        errors.extend(validate_node_selector(&format!("{field}.nodeSelector"), selector));
    }
    if device.is_true("allNodes") {
        ways += 1;
    } else if device.has("allNodes") {
        let detail = "must be either unset or set to true";
        errors.push(FieldError::invalid(format!("{field}.allNodes"), "false", detail));
    }
    let detail = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` \
        is set to true in the ResourceSlice spec";
    match ways {
        0 => errors.push(FieldError::required(field, detail)),
        1 => {}
        _ => errors.push(FieldError::invalid(field, format!("{ways} fields"), detail)),
    }
    errors
}

/// Validates the binding conditions and the binding failure conditions of a device.
pub(super) fn validate_binding(field: &str, device: &Map) -> Errors {
    let (good, bad) = ("bindingConditions", "bindingFailureConditions");
    let mut errors = Errors::new();
    for name in [good, bad] {
        let at_list = format!("{field}.{name}");
        errors.extend(validate_list(&at_list, device.texts(name), MAX_CONDITIONS, formats::qualified_name));
    }
    let wanted: HashSet<&str> = device.texts(good).collect();
    for name in [good, bad] {
        let mut seen = HashSet::new();
        for (i, condition) in device.texts(name).enumerate() {
            let field = format!("{field}.{name}[{i}]");
            errors.push_if(!seen.insert(condition), || FieldError::duplicate(&field, quoted(condition)));
            if name == bad && wanted.contains(condition) {
                let detail = "bindingFailureConditions must not overlap with bindingConditions";
                errors.push(FieldError::invalid(field, quoted(condition), detail));
            }
        }
    }
    for (missing, present) in [(good, bad), (bad, good)] {
        if device.list(missing).is_empty() && !device.list(present).is_empty() {
            let detail = format!("{missing} are required to use {present}");
            errors.push(FieldError::invalid(format!("{field}.{missing}"), "null", detail));
        }
    }
    errors
}
