//! VolumeAttributesClasses: attributes of volumes that may change while they are used.

use portcullis_apimachinery::field_error::FieldError;
use serde_json::Value;

use super::USUAL;
use super::classes::validate_parameters;
use crate::Map;
use crate::fields::{ErrorList, Errors, Members};
use crate::resource::{MetadataChecks, Resource};
use crate::resources::cells::{AGE, NAME, age, name, text_column};
use crate::resources::formats::{immutable, qualified_name};
use crate::schema::storage::VOLUME_ATTRIBUTES_CLASS;
use crate::table::Row;

/// The row of VolumeAttributesClasses.
pub static VOLUME_ATTRIBUTES_CLASSES: Resource = Resource {
    kind: "VolumeAttributesClass",
    plural: "volumeattributesclasses",
    short_names: &["vac"],
    schema: &VOLUME_ATTRIBUTES_CLASS,
    metadata_checks: MetadataChecks { alone: 0, as_update: 1, knows_finalizers: true },
    updates_unconditionally: true,
    validate_create: validate,
    validate_update: |class, old| {
        let driver = immutable("driverName", class.text("driverName"), old.text("driverName"));
        let parameters = immutable("parameters", class.object("parameters"), old.object("parameters"));
        driver.into_iter().chain(parameters).collect()
    },
    columns: &[NAME, text_column("DriverName", "The driver of the volumes."), AGE],
    row: |class, now| Row::of(vec![name(class), Value::from(class.text("driverName")), age(class, now)]),
    ..USUAL
};

fn validate(class: &Map) -> Errors {
    let mut errors = match class.text("driverName") {
        "" => Errors::from([FieldError::required("driverName", "")]),
        driver => qualified_name("driverName", &driver.to_lowercase()),
    };
    let parameters = class.object("parameters");
    errors.push_if(parameters.is_empty(), || {
        FieldError::required("parameters", "must contain at least one key/value pair")
    });
    validate_parameters(parameters, &mut errors);
    errors
}
