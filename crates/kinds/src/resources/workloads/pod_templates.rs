//! PodTemplates: templates of pods as objects of their own.

use serde_json::Value;

use super::APPS;
use super::templates::{container_cells, validate};
use crate::Map;
use crate::fields::{Members, begin_generation, raise_generation};
use crate::resource::Resource;
use crate::resources::cells::{NAME, name, text_column};
use crate::resources::label_selectors::{cell, labels_text};
use crate::resources::pods::{default_template, same_value};
use crate::schema::core::POD_TEMPLATE;
use crate::table::Row;

/// The row of PodTemplates.
pub static POD_TEMPLATES: Resource = Resource {
    group: "",
    kind: "PodTemplate",
    plural: "podtemplates",
    schema: &POD_TEMPLATE,
    creates_on_update: true,
    deletes_to_object: true,
    default: |object| {
        if let Some(template) = object.object_or_new("template") {
            default_template(template);
        }
    },
    prepare_create: begin_generation,
    validate_create: |object| validate("template", object.object("template"), None),
    prepare_update: |object, old| {
        let has_changed = !same_value(object.get("template"), old.get("template"));
        raise_generation(object, old, has_changed);
    },
    validate_update: |object, old| {
        validate("template", object.object("template"), Some(old.object("template")))
    },
    columns: &[
        NAME,
        text_column("Containers", "The containers of a pod."),
        text_column("Images", "The images of the containers."),
        text_column("Pod Labels", "The labels of a pod."),
    ],
    row: |object, _| row(object),
    ..APPS
};

fn row(object: &Map) -> Row {
    let template = object.object("template");
    let [containers, images] = container_cells(template);
    let labels: Value = cell(labels_text(template.metadata().object("labels")));
    Row::of(vec![name(object), containers, images, labels])
}
