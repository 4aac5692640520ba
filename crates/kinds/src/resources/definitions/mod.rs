//! CustomResourceDefinitions: the kind, its defaults, and its status. What becomes of a definition is in
//! [`crate::custom`].

mod beta;
mod defaults;
mod names;
mod openapi;
mod paths;
pub mod status;
mod structural;
mod validation;
mod versions;

use serde_json::{Value, json};

use super::cells::{NAME, name};
use crate::Map;
use crate::decode;
use crate::fields::{Errors, Members, begin_generation, raise_generation};
use crate::resource::{Dependents, ExpressionsAbout, MetadataChecks, OnRequest, Resource, Subresource};
use crate::schema::apiextensions::{
    CUSTOM_RESOURCE_DEFINITION, CUSTOM_RESOURCE_DEFINITION_STATUS, JSON_SCHEMA_PROPS,
};
use crate::table::{Column, Row};
use portcullis_apimachinery::names::NameRule;

pub use beta::{V1BETA1, from_v1beta1};
pub use status::CLEANUP;
pub use validation::{Approval, fault, validate, validate_with};

/// The hooks of writes. The server validates definitions apart from the threads that serve requests, because their rules
/// are compiled.
const CHECKED: OnRequest = OnRequest {
    about: ExpressionsAbout::Definitions,
    validate: Some(|_, _, context| context.compile_errors.clone()),
    ..OnRequest::NOTHING
};

/// The row of CustomResourceDefinitions.
pub static DEFINITIONS: Resource = Resource {
    group: "apiextensions.k8s.io",
    kind: "CustomResourceDefinition",
    plural: "customresourcedefinitions",
    short_names: &["crd", "crds"],
    categories: &["api-extensions"],
    is_namespaced: false,
    subresources: &[Subresource::status("CustomResourceDefinition")],
    schema: &CUSTOM_RESOURCE_DEFINITION,
    names: NameRule::Subdomain,
    metadata_checks: MetadataChecks { alone: 0, as_update: 0, knows_finalizers: true },
    updates_unconditionally: false,
    deletes_to_object: true,
    default,
    prepare_create,
    validate_create: |definition| validate(definition, None),
    on_create: CHECKED,
    prepare_update,
    validate_update: |definition, old| validate(definition, Some(old)),
    on_update: CHECKED,
    prepare_status: |definition, old| {
        definition.copy("spec", old);
        default_stored_versions(definition);
    },
    validate_status: |definition, _| {
        let mut errors = Errors::new();
        names::check(
            definition.object("status").object("acceptedNames"),
            "status.acceptedNames",
            &mut errors,
        );
        errors
    },
    dependents: Dependents::None,
    delete: |definition, _, now| status::begin_deletion(definition, now),
    columns: &[NAME, CREATED],
    row: |definition, _| {
        let created = definition.metadata().get("creationTimestamp").cloned().unwrap_or_default();
        Row::of(vec![name(definition), created])
    },
    ..Resource::USUAL
};

/// When the definition was created. Such tables have no rows at all rather than an empty list of them (AP-90).
const CREATED: Column = Column {
    name: "Created At",
    kind: "date",
    format: "",
    description: "When the definition was created.",
    priority: 0,
};

fn default(definition: &mut Map) {
    if let Some(spec) = definition.object_mut("spec") {
        if let Some(names) = spec.object_mut("names") {
            let kind = names.text("kind").to_owned();
            names.default_text("singular", &kind.to_lowercase());
            if !kind.is_empty() {
                names.default_text("listKind", &format!("{kind}List"));
            }
            if names.text("singular").is_empty() {
                names.remove("singular");
            }
        }
        spec.default_value("conversion", json!({"strategy": "None"}));
        for version in spec.objects_mut("versions") {
            let schema = version.object_mut("schema").and_then(|schema| schema.object_mut("openAPIV3Schema"));
            if let Some(schema) = schema {
                normalize(schema);
            }
        }
    }
    default_stored_versions(definition);
}

/// The first version in which objects are stored.
fn storage_version(definition: &Map) -> Option<String> {
    let mut versions = definition.object("spec").objects("versions");
    let storage = versions.find(|version| version.is_true("storage"));
    storage.map(|version| version.text("name").to_owned())
}

/// Objects are stored in the version that the definition names, if nothing is known of earlier ones.
fn default_stored_versions(definition: &mut Map) {
    let storage = storage_version(definition);
    let Some(status) = definition.object_mut("status") else { return };
    if let Some(storage) = storage.filter(|_| status.list("storedVersions").is_empty()) {
        status.insert("storedVersions".to_owned(), json!([storage]));
    }
}

/// Decodes those parts of a schema that are a schema or something else, and writes numbers as Go does.
fn normalize(props: &mut Map) {
    for name in ["items", "additionalProperties", "additionalItems"] {
        if let Some(value) = props.get_mut(name) {
            normalize_value(value);
        }
    }
    for name in ["maximum", "minimum", "multipleOf"] {
        let whole = props.get(name).and_then(Value::as_f64).filter(|number| {
            number.trunc() == *number && number.abs() < 9e15 && props.get(name).is_some_and(Value::is_f64)
        });
        if let Some(whole) = whole.and_then(|number| format!("{number:.0}").parse::<i64>().ok()) {
            props.insert(name.to_owned(), whole.into());
        }
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        props.objects_mut(name).for_each(normalize);
    }
    if let Some(not) = props.object_mut("not") {
        normalize(not);
    }
    for name in ["properties", "patternProperties", "definitions"] {
        let members = props.object_mut(name).into_iter().flat_map(Map::values_mut);
        members.filter_map(Value::as_object_mut).for_each(normalize);
    }
    let dependencies = props.object_mut("dependencies").into_iter().flat_map(Map::values_mut);
    dependencies.for_each(normalize_value);
}

fn normalize_value(value: &mut Value) {
    match value {
        Value::Object(_) => {
            let decoded = decode::value(std::mem::take(value), &JSON_SCHEMA_PROPS);
            let mut props = decoded.map(|decoded| decoded.object).unwrap_or_default();
            normalize(&mut props);
            *value = Value::Object(props);
        }
        Value::Array(entries) => entries.iter_mut().for_each(normalize_value),
        _ => {}
    }
}

fn prepare_create(definition: &mut Map) {
    super::status::reset(definition, &CUSTOM_RESOURCE_DEFINITION_STATUS);
    begin_generation(definition);
    default_stored_versions(definition);
}

fn prepare_update(definition: &mut Map, old: &Map) {
    definition.copy("status", old);
    let has_changed = definition.get("spec") != old.get("spec");
    raise_generation(definition, old, has_changed);
    let storage = storage_version(definition);
    if let (Some(storage), Some(status)) = (storage, definition.object_mut("status"))
        && !status.texts("storedVersions").any(|stored| stored == storage)
    {
        status.push_to("storedVersions", storage.into());
    }
}
