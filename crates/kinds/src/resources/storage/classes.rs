//! StorageClasses: parameters for the provisioning of volumes.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::quote::quoted;
use serde_json::Value;

use super::USUAL;
use crate::Map;
use crate::fields::{ErrorList, Errors, Members};
use crate::resource::{MetadataChecks, Resource};
use crate::resources::cells::{AGE, NAME, age, name, text_column};
use crate::resources::formats::{immutable, one_of, qualified_name};
use crate::schema::storage::STORAGE_CLASS;
use crate::schema::values;
use crate::table::{Column, Row};

/// The row of StorageClasses.
pub static STORAGE_CLASSES: Resource = Resource {
    kind: "StorageClass",
    plural: "storageclasses",
    schema: &STORAGE_CLASS,
    metadata_checks: MetadataChecks { alone: 0, as_update: 1, knows_finalizers: true },
    short_names: &["sc"],
    updates_unconditionally: true,
    default,
    validate_create: validate,
    validate_update,
    columns: COLUMNS,
    row,
    ..USUAL
};

const COLUMNS: &[Column] = &[
    NAME,
    text_column("Provisioner", "Who makes the volumes."),
    text_column("ReclaimPolicy", "What becomes of a volume that is released."),
    text_column("VolumeBindingMode", "When claims are bound."),
    text_column("AllowVolumeExpansion", "Whether claims may grow."),
    AGE,
];

/// The maximum number of parameters.
const MAX_PARAMETERS: usize = 512;
/// The maximum size of the parameters, in bytes.
const MAX_PARAMETERS_SIZE: usize = 256 * 1024;
/// How many errors say that a topology term repeats another one. Kubernetes reports each pair. An answer shows no more.
const MAX_REPEATED: usize = 1_000;

fn default(class: &mut Map) {
    class.default_text("reclaimPolicy", "Delete");
    class.default_text("volumeBindingMode", "Immediate");
}

fn validate(class: &Map) -> Errors {
    let mut errors = match class.text("provisioner") {
        "" => Errors::from([FieldError::required("provisioner", "")]),
        provisioner => qualified_name("provisioner", &provisioner.to_lowercase()),
    };
    validate_parameters(class.object("parameters"), &mut errors);
    errors.extend(one_of("reclaimPolicy", class.text("reclaimPolicy"), &["Delete", "Retain"]));
    let mode = class.text("volumeBindingMode");
    errors.extend(one_of("volumeBindingMode", mode, values::VOLUME_BINDING_MODES));
    validate_topologies(class, &mut errors);
    errors
}

pub(super) fn validate_parameters(parameters: &Map, errors: &mut Errors) {
    if parameters.len() > MAX_PARAMETERS {
        errors.push(FieldError::too_long("parameters", MAX_PARAMETERS));
        return;
    }
    if parameters.contains_key("") {
        errors.push(FieldError::invalid("parameters", quoted(""), "field can not be empty."));
    }
    let size: usize =
        parameters.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    errors.push_if(size > MAX_PARAMETERS_SIZE, || FieldError::too_long("parameters", MAX_PARAMETERS_SIZE));
}

/// The keys of a topology term, with their values.
type Topology<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

fn validate_topologies(class: &Map, errors: &mut Errors) {
    // The API server starts with as many empty terms as there are terms, so an empty term is a duplicate of each of
    // them.
    let mut seen = HashMap::from([(Topology::new(), class.list("allowedTopologies").len())]);
    let mut left = MAX_REPEATED;
    for (i, term) in class.objects("allowedTopologies").enumerate() {
        let field = format!("allowedTopologies[{i}].matchLabelExpressions");
        let mut topology = Topology::new();
        for (j, requirement) in term.objects("matchLabelExpressions").enumerate() {
            let field = format!("{field}[{j}]");
            validate_requirement(&field, requirement, errors);
            let key = requirement.text("key");
            if topology.insert(key, requirement.texts("values").collect()).is_some() {
                errors.push(FieldError::duplicate(format!("{field}.key"), quoted(key)));
            }
        }
        let equal = seen.entry(topology).or_default();
        let reported = left.min(*equal);
        errors.extend((0..reported).map(|_| FieldError::duplicate(&field, quoted(""))));
        left -= reported;
        *equal += 1;
    }
}

fn validate_requirement(field: &str, requirement: &Map, errors: &mut Errors) {
    if requirement.list("values").is_empty() {
        errors.push(FieldError::required(format!("{field}.values"), ""));
    }
    let mut seen = BTreeSet::new();
    for (i, value) in requirement.texts("values").enumerate() {
        if !seen.insert(value) {
            errors.push(FieldError::duplicate(format!("{field}.values[{i}]"), quoted(value)));
        }
    }
    errors.extend(qualified_name(&format!("{field}.key"), requirement.text("key")));
}

/// AP-133. Unchanged fields are not validated again.
fn validate_update(class: &Map, old: &Map) -> Errors {
    let same_text = |name| immutable(name, class.text(name), old.text(name));
    immutable("parameters", class.object("parameters"), old.object("parameters"))
        .into_iter()
        .chain(["provisioner", "reclaimPolicy", "volumeBindingMode"].into_iter().filter_map(same_text))
        .collect()
}

/// The annotations that mark the default class; the second is the old name.
const DEFAULT_ANNOTATIONS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

/// Returns whether this is the default class (section 12 of the conventions).
pub fn is_default(class: &Map) -> bool {
    let annotations = class.metadata().object("annotations");
    DEFAULT_ANNOTATIONS.into_iter().any(|name| annotations.text(name) == "true")
}

fn row(class: &Map, now: i64) -> Row {
    let shown_name = match is_default(class) {
        true => Value::from(format!("{} (default)", class.metadata().text("name"))),
        false => name(class),
    };
    Row::of(vec![
        shown_name,
        Value::from(class.text("provisioner")),
        Value::from(class.text("reclaimPolicy")),
        Value::from(class.text("volumeBindingMode")),
        Value::from(class.is_true("allowVolumeExpansion")),
        age(class, now),
    ])
}
