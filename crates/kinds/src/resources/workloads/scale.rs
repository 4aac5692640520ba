//! The scale of workloads: how many pods are wanted, how many there are, and which they are. A document of its own that
//! autoscalers read and write, whatever the kind.

use portcullis_apimachinery::field_error::FieldErrors;
use serde_json::{Value, json};

use crate::Map;
use crate::fields::Members;
use crate::resource::{Behaviour, Part, Resource, STATUS_VERBS, Subresource};
use crate::resources::cells::{AGE, NAME, age, integer_column, name};
use crate::resources::formats::not_negative;
use crate::resources::label_selectors::{labels_text, text};
use crate::schema::autoscaling::v1::SCALE;
use crate::table::Row;

/// The documents. They are not stored.
pub(crate) static SCALES: Resource = Resource {
    group: "autoscaling",
    kind: "Scale",
    plural: "scales",
    schema: &SCALE,
    validate_create: |scale| not_negative("spec", scale.object("spec"), &["replicas"]),
    columns: &[
        NAME,
        integer_column("Desired", "How many pods are wanted."),
        integer_column("Available", "How many pods there are."),
        AGE,
    ],
    row: |scale, now| {
        let count = |part: &str| json!(scale.object(part).number("replicas"));
        Row::of(vec![name(scale), count("spec"), count("status"), age(scale, now)])
    },
    ..Resource::USUAL
};

/// The scale of a kind with a label selector.
pub(super) const fn of_selector() -> Subresource {
    static PART: Part = Part {
        row: &SCALES,
        show: |object| show(object, text(object.object("spec").object("selector"))),
        put,
        custom: None,
    };
    scale(&PART)
}

/// The scale of a kind that selects pods by labels alone.
pub(super) const fn of_labels() -> Subresource {
    static PART: Part = Part {
        row: &SCALES,
        show: |object| show(object, labels_text(object.object("spec").object("selector"))),
        put,
        custom: None,
    };
    scale(&PART)
}

const fn scale(part: &'static Part) -> Subresource {
    Subresource {
        name: "scale",
        kind: "Scale",
        group: Some("autoscaling"),
        version: Some("v1"),
        verbs: STATUS_VERBS,
        behaviour: Behaviour::Part(part),
    }
}

/// The scale of an object.
fn show(object: &Map, selector: String) -> Map {
    let count = |part: &str| object.object(part).number("replicas");
    document(object, count("spec"), count("status"), selector)
}

/// A scale. It has the name of the object, its identity and its resourceVersion.
pub(crate) fn document(object: &Map, wanted: i64, there: i64, selector: String) -> Map {
    let mut metadata = Map::new();
    for member in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        metadata.copy(member, object.metadata());
    }
    let (mut spec, mut status) = (Map::new(), Map::new());
    if wanted != 0 {
        spec.insert("replicas".to_owned(), wanted.into());
    }
    status.insert("replicas".to_owned(), there.into());
    if !selector.is_empty() {
        status.insert("selector".to_owned(), selector.into());
    }
    let mut scale = Map::new();
    for (member, value) in [
        ("kind", Value::from(SCALES.kind)),
        ("apiVersion", Value::from(SCALES.api_version())),
        ("metadata", metadata.into()),
        ("spec", spec.into()),
        ("status", status.into()),
    ] {
        scale.insert(member.to_owned(), value);
    }
    scale
}

/// Sets how many pods are wanted.
fn put(object: &mut Map, scale: &Map) -> Result<(), FieldErrors> {
    let errors = (SCALES.validate_create)(scale);
    if !errors.is_empty() {
        return Err(errors);
    }
    if let Some(spec) = object.object_or_new("spec") {
        spec.insert("replicas".to_owned(), scale.object("spec").number("replicas").into());
    }
    Ok(())
}
