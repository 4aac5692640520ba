//! ControllerRevisions: earlier templates of stateful sets and daemon sets.

use portcullis_apimachinery::field_error::FieldError;
use serde_json::{Value, json};

use super::APPS;
use crate::Map;
use crate::fields::{ErrorList, Errors, Members};
use crate::resource::Resource;
use crate::resources::cells::{AGE, NAME, age, integer_column, name, text_column};
use crate::resources::formats::immutable;
use crate::schema::apps::CONTROLLER_REVISION;
use crate::table::{NONE, Row};

/// The row of ControllerRevisions.
pub static CONTROLLER_REVISIONS: Resource = Resource {
    kind: "ControllerRevision",
    plural: "controllerrevisions",
    schema: &CONTROLLER_REVISION,
    validate_create: validate,
    validate_update: |revision, old| {
        let mut errors = validate(revision);
        errors.extend(immutable("data", revision.get("data"), old.get("data")));
        errors
    },
    columns: &[
        NAME,
        text_column("Controller", "What the revision is of."),
        integer_column("Revision", "The number of the revision."),
        AGE,
    ],
    row: |revision, now| {
        Row::of(vec![
            name(revision),
            controller(revision),
            json!(revision.number("revision")),
            age(revision, now),
        ])
    },
    ..APPS
};

fn validate(revision: &Map) -> Errors {
    let mut errors = Errors::new();
    let number = revision.number("revision");
    errors.push_if(number < 0, || {
        FieldError::invalid("revision", number.to_string(), "must be greater than or equal to 0")
    });
    errors.push_if(!revision.has("data"), || FieldError::required("data", "data is mandatory"));
    errors
}

/// The owner that controls the revision: `statefulset.apps/web`.
fn controller(revision: &Map) -> Value {
    let owner = revision.metadata().objects("ownerReferences").find(|owner| owner.is_true("controller"));
    Value::from(owner.map_or_else(
        || NONE.to_owned(),
        |owner| {
            let kind = owner.text("kind").to_ascii_lowercase();
            let kind = match owner.text("apiVersion").split_once('/') {
                Some((group, _)) => format!("{kind}.{group}"),
                None => kind,
            };
            format!("{kind}/{}", owner.text("name"))
        },
    ))
}
