//! The annotation in which `kubectl apply` without `--server-side` keeps the configuration that it applied last.
//! `kubectl apply --server-side` may change what it describes without a conflict, and keeps it up to date.

use serde_json::Value;

use crate::Map;
use crate::meta::metadata_mut;

use super::compare::Comparison;
use super::endpoint::{Endpoint, Versions};
use super::fields::{faults, fields};
use super::set::FieldSet;

/// The manager for which all this is done.
pub(super) const MANAGER: &str = "kubectl";

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The maximum size of all annotations of an object, in bytes.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// The fields that the annotation of an object describes as they are.
pub(super) fn allowed<V: Versions>(endpoint: &Endpoint<'_, V>, live: &Map) -> FieldSet {
    described(endpoint, live).unwrap_or_default()
}

fn described<V: Versions>(endpoint: &Endpoint<'_, V>, live: &Map) -> Option<FieldSet> {
    let text = annotation(live, ANNOTATION).filter(|text| !text.is_empty())?;
    let last: Map = serde_json::from_str(text).ok()?;
    if last.get("apiVersion").and_then(Value::as_str) != Some(endpoint.version) {
        return None;
    }
    let schema = endpoint.versions.schema(endpoint.version)?;
    if !faults(schema, &last).is_empty() {
        return None;
    }
    let mut described = fields(schema, &last);
    let Comparison { added, modified, removed } = Comparison::of(schema, &last, live);
    for changed in [&added, &modified, &removed] {
        described.subtract(changed);
    }
    Some(described)
}

/// Writes a configuration into the annotation, if the object has one. One that is too large is removed.
pub(super) fn renew(object: &mut Map, config: &Map) {
    if annotation(object, ANNOTATION).is_none_or(str::is_empty) {
        return;
    }
    let mut config = config.clone();
    if let Some(annotations) = metadata_mut(&mut config).and_then(|metadata| metadata.get_mut("annotations"))
        && let Some(annotations) = annotations.as_object_mut()
    {
        annotations.remove(ANNOTATION);
    }
    let text = format!("{}\n", Value::Object(config));
    let annotations = metadata_mut(object).and_then(|metadata| metadata.get_mut("annotations"));
    let Some(annotations) = annotations.and_then(Value::as_object_mut) else { return };
    annotations.insert(ANNOTATION.to_owned(), text.into());
    let size: usize = annotations
        .iter()
        .map(|(name, value)| name.len().saturating_add(value.as_str().map_or(0, str::len)))
        .fold(0, usize::saturating_add);
    if size > MAX_ANNOTATIONS {
        annotations.remove(ANNOTATION);
    }
}

/// The value of an annotation of an object.
fn annotation<'o>(object: &'o Map, name: &str) -> Option<&'o str> {
    object.get("metadata")?.get("annotations")?.get(name).and_then(Value::as_str)
}
