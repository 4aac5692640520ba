//! DeviceClasses, which claims request by name.

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::quote::quoted;

use super::USUAL;
use super::configuration::{MAX_CONFIG, validate_settings};
use super::lists::validate_list;
use super::selectors::{Faults, NO_FAULTS, of_class, validate_selectors};
use crate::Map;
use crate::fields::{Errors, Members, begin_generation, raise_generation};
use crate::resource::{OnRequest, Resource};
use crate::resources::cells::{AGE, NAME, age, name};
use crate::resources::resource_names::is_extended;
use crate::schema::resource::claim::DEVICE_CLASS;
use crate::table::Row;

/// The row of DeviceClasses.
pub static DEVICE_CLASSES: Resource = Resource {
    kind: "DeviceClass",
    plural: "deviceclasses",
    schema: &DEVICE_CLASS,
    is_namespaced: false,
    prepare_create: begin_generation,
    validate_create: |class| validate(class, None, &NO_FAULTS),
    on_create: ON_REQUEST,
    prepare_update: |class, old| {
        let has_changed = class.object("spec") != old.object("spec");
        raise_generation(class, old, has_changed);
    },
    validate_update: |class, old| validate(class, Some(old), &NO_FAULTS),
    on_update: ON_REQUEST,
    columns: &[NAME, AGE],
    row: |class, now| Row::of(vec![name(class), age(class, now)]),
    ..USUAL
};

/// Expressions that the class has already are not compiled again.
const ON_REQUEST: OnRequest = OnRequest {
    expressions: |class, old| {
        let old = old.map(of_class).unwrap_or_default();
        of_class(class).difference(&old).copied().collect()
    },
    validate: Some(|class, old, context| validate(class, old, context.expression_faults)),
    ..OnRequest::NOTHING
};

/// Unchanged configuration is validated with the rules for stored values.
fn validate(class: &Map, old: Option<&Map>, faults: &Faults) -> Errors {
    let spec = class.object("spec");
    let is_stored = old.is_some_and(|old| old.object("spec").list("config") == spec.list("config"));
    let mut errors = validate_selectors("spec.selectors", spec, faults);
    errors.extend(validate_list("spec.config", spec.objects("config"), MAX_CONFIG, |field, config| {
        validate_settings(field, config, is_stored)
    }));
    let resource = spec.text("extendedResourceName");
    if spec.has("extendedResourceName") && !is_extended(resource) {
        let detail = "must be a valid extended resource name";
        errors.push(FieldError::invalid("spec.extendedResourceName", quoted(resource), detail));
    }
    errors
}
