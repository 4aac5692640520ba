//! PriorityClasses: which pods come before others.

use portcullis_apimachinery::field_error::FieldError;
use serde_json::{Value, json};

use super::cells::{AGE, NAME, age, boolean_column, integer_column, name, text_column};
use super::formats::one_of;
use super::pods::admission::built_in_priority;
use crate::Map;
use crate::fields::{ErrorList, Errors, Members, begin_generation};
use crate::resource::{MetadataChecks, Resource};
use crate::schema::scheduling::PRIORITY_CLASS;
use crate::schema::values;
use crate::table::Row;

/// The row of PriorityClasses.
pub static PRIORITY_CLASSES: Resource = Resource {
    group: "scheduling.k8s.io",
    kind: "PriorityClass",
    plural: "priorityclasses",
    short_names: &["pc"],
    is_namespaced: false,
    schema: &PRIORITY_CLASS,
    metadata_checks: MetadataChecks { alone: 0, as_update: 1, knows_finalizers: true },
    creates_on_update: true,
    default: |class| class.default_text("preemptionPolicy", "PreemptLowerPriority"),
    prepare_create: begin_generation,
    validate_create: validate,
    validate_update,
    columns: &[
        NAME,
        integer_column("Value", "The priority of pods of the class."),
        boolean_column("Global-Default", "Whether pods without a class are of this one."),
        AGE,
        text_column("PreemptionPolicy", "Whether its pods evict pods of lower priority."),
    ],
    row: |class, now| {
        Row::of(vec![
            name(class),
            json!(class.number("value")),
            Value::from(class.is_true("globalDefault")),
            age(class, now),
            Value::from(class.text("preemptionPolicy")),
        ])
    },
    ..Resource::USUAL
};

/// The highest priority that a class may have that is not part of Kubernetes.
const HIGHEST: i64 = 1_000_000_000;
/// The prefix of the names of classes that are part of Kubernetes.
const SYSTEM: &str = "system-";

fn validate(class: &Map) -> Errors {
    let (name, value) = (class.metadata().text("name"), class.number("value"));
    let mut errors = Errors::new();
    if name.starts_with(SYSTEM) {
        let is_built_in = built_in_priority(name).is_some_and(|built_in| built_in.value == value);
        errors.push_if(!is_built_in || class.is_true("globalDefault"), || {
            let detail = "priority class names with 'system-' prefix are reserved for system use only. error: \
                 only the built-in system priority classes are allowed";
            FieldError::forbidden("metadata.name", detail)
        });
    } else if value > HIGHEST {
        let detail = format!("maximum allowed value of a user defined priority is {HIGHEST}");
        errors.push(FieldError::forbidden("value", detail));
    }
    if class.has("preemptionPolicy") {
        let policy = class.text("preemptionPolicy");
        errors.extend(one_of("preemptionPolicy", policy, values::PREEMPTION_POLICIES));
    }
    errors
}

fn validate_update(class: &Map, old: &Map) -> Errors {
    let mut errors = Errors::new();
    errors.push_if(class.number("value") != old.number("value"), || {
        FieldError::forbidden("value", "may not be changed in an update.")
    });
    errors.push_if(class.text("preemptionPolicy") != old.text("preemptionPolicy"), || {
        FieldError::invalid("preemptionPolicy", class.text("preemptionPolicy"), "field is immutable")
    });
    errors
}
