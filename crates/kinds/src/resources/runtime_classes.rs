//! RuntimeClasses: container runtimes of pods, with their overhead and scheduling.

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::quantity::Quantity;
use portcullis_apimachinery::quote::quoted;
use serde_json::Value;

use super::cells::{AGE, NAME, age, name, text_column};
use super::formats::{dns_label, immutable, qualified_name};
use super::resource_names::{
    is_counted, is_extended, is_huge_pages, is_native, is_of_containers, is_standard,
};
use super::scheduling::{validate_labels, validate_tolerations};
use crate::Map;
use crate::fields::{ErrorList, Errors, Members};
use crate::resource::{MetadataChecks, Resource};
use crate::schema::node::RUNTIME_CLASS;
use crate::table::Row;

/// The row of RuntimeClasses.
pub static RUNTIME_CLASSES: Resource = Resource {
    group: "node.k8s.io",
    kind: "RuntimeClass",
    plural: "runtimeclasses",
    schema: &RUNTIME_CLASS,
    metadata_checks: MetadataChecks { alone: 0, as_update: 1, knows_finalizers: false },
    is_namespaced: false,
    creates_on_update: true,
    updates_unconditionally: false,
    validate_create: validate,
    validate_update: |class, old| {
        immutable("handler", class.text("handler"), old.text("handler")).into_iter().collect()
    },
    columns: &[NAME, text_column("Handler", "What the container runtime calls it."), AGE],
    row: |class, now| Row::of(vec![name(class), Value::from(class.text("handler")), age(class, now)]),
    ..Resource::USUAL
};

fn validate(class: &Map) -> Errors {
    let mut errors = match class.text("handler") {
        "" => Errors::from([FieldError::required("handler", "")]),
        handler => dns_label("handler", handler),
    };
    if class.has("overhead") {
        validate_overhead(class.object("overhead").object("podFixed"), &mut errors);
    }
    let scheduling = class.object("scheduling");
    errors.extend(validate_labels("scheduling.nodeSelector", scheduling.object("nodeSelector")));
    errors.extend(validate_tolerations("scheduling.tolerations", scheduling));
    errors
}

/// The overhead is validated like the limits of a container, with the same field paths.
fn validate_overhead(resources: &Map, errors: &mut Errors) {
    for (resource, quantity) in resources {
        let field = format!("overhead.limits[{resource}]");
        let quantity = Quantity::parse(quantity.as_str().unwrap_or_default()).unwrap_or_default();
        let invalid = |detail| FieldError::invalid(&field, quoted(&quantity.to_string()), detail);
        errors.extend(container_resource(&field, resource));
        errors.push_if(quantity.is_negative(), || invalid("must be greater than or equal to 0"));
        errors.push_if(is_counted(resource) && !quantity.is_integer(), || invalid("must be an integer"));
        if !is_whole_pages(resource, &quantity) {
            errors.push(invalid("must be a multiple of the size of a huge page"));
        }
    }
    let has = |name: &str| resources.contains_key(name);
    if resources.keys().any(|name| is_huge_pages(name)) && !has("cpu") && !has("memory") {
        errors.push(FieldError::forbidden("overhead", "HugePages require cpu or memory"));
    }
}

/// Validates the name of a container resource. An unknown name without a domain breaks two rules.
fn container_resource(field: &str, resource: &str) -> Errors {
    let mut errors = qualified_name(field, resource);
    let invalid = |detail| FieldError::invalid(field, quoted(resource), detail);
    if resource.contains('/') {
        if !is_native(resource) && !is_extended(resource) {
            errors.push(invalid("doesn't follow extended resource name standard"));
        }
        return errors;
    }
    if errors.is_empty() && !is_standard(resource) {
        errors.push(invalid("must be a standard resource type or fully qualified"));
    }
    if !is_of_containers(resource) {
        errors.push(invalid("must be a standard resource for containers"));
    }
    errors
}

/// Returns whether the resource is not huge pages (`hugepages-2Mi`), or the amount is a whole number of pages.
fn is_whole_pages(resource: &str, quantity: &Quantity) -> bool {
    let Some(size) = resource.strip_prefix("hugepages-") else { return true };
    let size = Quantity::parse(size).unwrap_or_default().scaled(0);
    quantity.scaled(0).checked_rem(size) == Some(0)
}
