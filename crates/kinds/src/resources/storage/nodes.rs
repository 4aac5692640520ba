//! CSINodes: the CSI drivers of a node.

use std::collections::{BTreeSet, HashMap};

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::quote::quoted;
use serde_json::Value;

use super::USUAL;
use crate::Map;
use crate::fields::{ErrorList, Errors, Members};
use crate::resource::{MetadataChecks, Resource};
use crate::resources::cells::{AGE, NAME, age, name, text_column};
use crate::resources::formats::{driver_name, immutable, qualified_name};
use crate::schema::storage::CSI_NODE;
use crate::table::{Column, Row};

/// The row of CSINodes.
pub static CSI_NODES: Resource = Resource {
    kind: "CSINode",
    plural: "csinodes",
    schema: &CSI_NODE,
    metadata_checks: MetadataChecks { alone: 1, as_update: 0, knows_finalizers: true },
    default,
    validate_create: validate,
    validate_update,
    columns: &[NAME, DRIVERS, AGE],
    row: |node, now| {
        Row::of(vec![name(node), Value::from(node.object("spec").list("drivers").len()), age(node, now)])
    },
    ..USUAL
};

const DRIVERS: Column =
    Column { kind: "integer", ..text_column("Drivers", "How many CSI drivers there are on the node.") };

/// The maximum length of a node ID, in bytes.
const MAX_NODE_ID: usize = 256;

/// AP-136.
fn default(node: &mut Map) {
    let Some(spec) = node.object_or_new("spec") else { return };
    spec.empty_to_null("drivers");
    spec.objects_mut("drivers").for_each(|driver| driver.empty_to_null("topologyKeys"));
}

fn validate(node: &Map) -> Errors {
    let mut errors = Errors::new();
    let mut names = BTreeSet::new();
    for (i, driver) in node.object("spec").objects("drivers").enumerate() {
        let field = format!("spec.drivers[{i}]");
        let (driver_name_, at_name) = (driver.text("name"), format!("{field}.name"));
        errors.extend(driver_name(&at_name, driver_name_));
        errors.extend(validate_node_id(&format!("{field}.nodeID"), driver.text("nodeID")));
        let count = driver.object("allocatable").number("count");
        if count < 0 {
            let detail = "must be greater than or equal to 0";
            errors.push(FieldError::invalid(format!("{field}.allocatable.count"), count.to_string(), detail));
        }
        errors.push_if(!names.insert(driver_name_), || FieldError::duplicate(at_name, quoted(driver_name_)));
        validate_topology_keys(&field, driver, &mut errors);
    }
    errors
}

fn validate_node_id(field: &str, id: &str) -> Option<FieldError> {
    match id.len() {
        0 => Some(FieldError::required(field, "")),
        1..=MAX_NODE_ID => None,
        _ => {
            Some(FieldError::invalid(field, quoted(id), format!("must be {MAX_NODE_ID} characters or less")))
        }
    }
}

/// The errors have the path of the driver, not of the key.
fn validate_topology_keys(field: &str, driver: &Map, errors: &mut Errors) {
    let mut keys = BTreeSet::new();
    for key in driver.texts("topologyKeys") {
        errors.push_if(key.is_empty(), || FieldError::required(field, ""));
        errors.push_if(!keys.insert(key), || FieldError::duplicate(field, quoted(key)));
        errors.extend(qualified_name(field, key));
    }
}

/// The fields of an existing driver are immutable, except for its number of volumes; drivers can be added and removed.
fn validate_update(node: &Map, old: &Map) -> Errors {
    let fixed = |driver: &Map| {
        let mut driver = driver.clone();
        driver.remove("allocatable");
        driver.empty_to_null("topologyKeys");
        driver
    };
    // The names of stored drivers are unique.
    let old_drivers: HashMap<&str, Map> =
        old.object("spec").objects("drivers").map(|driver| (driver.text("name"), fixed(driver))).collect();
    let mut errors = validate(node);
    for driver in node.object("spec").objects("drivers") {
        if let Some(old_driver) = old_drivers.get(driver.text("name")) {
            errors.extend(immutable("spec.drivers", &fixed(driver), old_driver));
        }
    }
    errors
}
