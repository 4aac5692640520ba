//! ResourceSlices, in which drivers publish devices.

use std::borrow::Cow;

use portcullis_apimachinery::field_error::FieldError;
use serde_json::Value;

use super::USUAL;
use super::devices::{validate_counter_set, validate_device};
use super::lists::validate_set;
use super::names::pool_name;
use crate::Map;
use crate::fields::{ErrorList, Errors, Members, begin_generation, node_name, raise_generation};
use crate::resource::{Index, MetadataChecks, Resource, Selectable};
use crate::resources::cells::{AGE, NAME, age, name, text_column};
use crate::resources::formats::{dns_subdomain, driver_name, immutable};
use crate::resources::scheduling::validate_node_selector;
use crate::schema::resource::slice::RESOURCE_SLICE;
use crate::table::{Column, Row};

/// The row of ResourceSlices.
pub static RESOURCE_SLICES: Resource = Resource {
    kind: "ResourceSlice",
    plural: "resourceslices",
    schema: &RESOURCE_SLICE,
    metadata_checks: MetadataChecks { alone: 0, as_update: 1, knows_finalizers: true },
    is_namespaced: false,
    selectable: &[
        Selectable::new("spec.nodeName", |slice| Cow::Borrowed(slice.object("spec").text("nodeName"))),
        Selectable::new("spec.driver", |slice| Cow::Borrowed(slice.object("spec").text("driver"))),
    ],
    selects_namespace: false,
    // Each node watches its own slices.
    index: Some(Index { field: "spec.nodeName", read: node_name }),
    default_times: stamp_taints,
    prepare_create: |slice| {
        drop_disabled(slice);
        begin_generation(slice);
    },
    validate_create: |slice| validate(slice, None),
    prepare_update: |slice, old| {
        drop_disabled(slice);
        let has_changed = slice.object("spec") != old.object("spec");
        raise_generation(slice, old, has_changed);
    },
    validate_update: |slice, old| validate(slice, Some(old)),
    columns: COLUMNS,
    row,
    ..USUAL
};

const COLUMNS: &[Column] = &[
    NAME,
    text_column("Node", "The node that the devices are on."),
    text_column("Driver", "The driver that offers them."),
    text_column("Pool", "The pool that they belong to."),
    AGE,
];

const MAX_DEVICES: usize = 128;
/// The maximum number of devices if one of them has a taint or shares counters.
const MAX_COMPLEX_DEVICES: usize = 64;
const MAX_COUNTER_SETS: usize = 8;

/// Sets the times of new taints. `now` is a time as objects hold it, such as
/// `2026-01-02T03:04:05Z`.
fn stamp_taints(slice: &mut Map, now: &str) {
    let Some(spec) = slice.object_or_new("spec") else { return };
    for device in spec.objects_mut("devices") {
        for taint in device.objects_mut("taints").filter(|taint| taint.text("timeAdded").is_empty()) {
            taint.insert("timeAdded".to_owned(), Value::from(now));
        }
    }
}

/// Drops fields of disabled feature gates: list attributes, and resources of the node itself.
fn drop_disabled(slice: &mut Map) {
    let Some(spec) = slice.object_or_new("spec") else { return };
    for device in spec.objects_mut("devices") {
        device.remove("nodeAllocatableResourceMappings");
        let attributes = device.get_mut("attributes").and_then(Value::as_object_mut);
        for attribute in attributes.into_iter().flat_map(Map::values_mut).filter_map(Value::as_object_mut) {
            ["bools", "ints", "strings", "versions"]
                .into_iter()
                .for_each(|name| drop(attribute.remove(name)));
        }
    }
}

fn validate(slice: &Map, old: Option<&Map>) -> Errors {
    let spec = slice.object("spec");
    let old_spec = old.map(|old| old.object("spec"));
    let mut errors = driver_name("spec.driver", spec.text("driver"));
    validate_pool(spec.object("pool"), &mut errors);
    if let Some(old) = old_spec {
        let (pool, old_pool) = (spec.object("pool"), old.object("pool"));
        errors.extend(immutable("spec.pool.name", pool.text("name"), old_pool.text("name")));
        errors.extend(immutable("spec.driver", spec.text("driver"), old.text("driver")));
        errors.extend(immutable("spec.nodeName", spec.get("nodeName"), old.get("nodeName")));
    }
    validate_nodes(spec, &mut errors);
    if spec.has("sharedCounters") && spec.has("devices") {
        let detail = "only one of `sharedCounters` or `devices` is allowed";
        errors.push(FieldError::invalid("spec", "\"\"", detail));
    }
    errors.extend(validate_devices(spec, old_spec));
    errors.extend(validate_set(
        "spec.sharedCounters",
        spec.objects("sharedCounters"),
        MAX_COUNTER_SETS,
        validate_counter_set,
        |set| set.text("name"),
    ));
    errors
}

fn validate_devices(spec: &Map, old_spec: Option<&Map>) -> Errors {
    let is_complex =
        |device: &Map| ["taints", "consumesCounters"].into_iter().any(|name| !device.list(name).is_empty());
    let limit = match spec.objects("devices").any(is_complex) {
        true => MAX_COMPLEX_DEVICES,
        false => MAX_DEVICES,
    };
    let is_selected_per_device = spec.is_true("perDeviceNodeSelection");
    let namesake = |name: &str| {
        old_spec.and_then(|old| old.objects("devices").find(|device| device.text("name") == name))
    };
    let check = |field: &str, device: &Map| {
        validate_device(field, device, namesake(device.text("name")), is_selected_per_device)
    };
    validate_set("spec.devices", spec.objects("devices"), limit, check, |device| device.text("name"))
}

fn validate_pool(pool: &Map, errors: &mut Errors) {
    errors.extend(pool_name("spec.pool.name", pool.text("name")));
    let (count, generation) = (pool.number("resourceSliceCount"), pool.number("generation"));
    if count <= 0 {
        let detail = "must be greater than zero";
        errors.push(FieldError::invalid("spec.pool.resourceSliceCount", count.to_string(), detail));
    }
    if generation < 0 {
        let detail = "must be greater than or equal to zero";
        errors.push(FieldError::invalid("spec.pool.generation", generation.to_string(), detail));
    }
}

/// The slice must select its nodes in exactly one way.
fn validate_nodes(spec: &Map, errors: &mut Errors) {
    let mut ways = 0;
    if spec.has("nodeName") {
        match spec.text("nodeName") {
            "" => {
                let detail = "must be either unset or set to a non-empty string";
                errors.push(FieldError::invalid("spec.nodeName", "\"\"", detail));
            }
            node => {
                ways += 1;
                errors.extend(dns_subdomain("spec.nodeName", node));
            }
        }
    }
    if spec.has("nodeSelector") {
        ways += 1;
        let selector = spec.object("nodeSelector");
        errors.extend(validate_node_selector("spec.nodeSelector", selector));
        let count = selector.list("nodeSelectorTerms").len();
        let detail = "must have exactly one node selector term";
        errors.push_if(count != 1, || {
            FieldError::invalid("spec.nodeSelector.nodeSelectorTerms", count.to_string(), detail)
        });
    }
    for name in ["allNodes", "perDeviceNodeSelection"].into_iter().filter(|name| spec.has(name)) {
        if spec.is_true(name) {
            ways += 1;
        } else {
            let detail = "must be either unset or set to true";
            errors.push(FieldError::invalid(format!("spec.{name}"), "false", detail));
        }
    }
    let detail =
        "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    match ways {
        0 => errors.push(FieldError::required("spec", detail)),
        1 => {}
        _ => {
            let detail = format!("{detail}, but multiple fields are set");
            errors.push(FieldError::invalid("spec", format!("{ways} fields"), detail));
        }
    }
}

/// AP-91.
fn row(slice: &Map, now: i64) -> Row {
    let spec = slice.object("spec");
    Row::of(vec![
        name(slice),
        Value::from(spec.text("nodeName")),
        Value::from(spec.text("driver")),
        Value::from(spec.object("pool").text("name")),
        age(slice, now),
    ])
}
