//! The schemas of custom kinds, out of their definitions, for the OpenAPI documents.

use std::collections::BTreeMap;
use std::sync::Arc;

use kinds::resource::Resource;
use kinds::resources::definitions::DEFINITIONS;
use kinds::{Kinds, Map};
use portcullis_store::Entry;
use serde_json::{Value, json};

use super::app::App;
use crate::http::status::Status;
use crate::registry::storage::Stored;
use crate::registry::write;

/// How much definitions may take in the document of all kinds, in bytes.
///
/// DIVERGES: kinds beyond it are described as any object, because the document is held in memory.
const LONGEST: usize = 16 << 20;

/// A custom kind with its schema, as its definition has it.
pub(super) type Custom = (&'static Resource, Map);

/// The custom kinds of a group and version.
///
/// # Errors
/// The store failed.
pub(super) async fn of_version(app: &App, at: (&str, &str)) -> Result<Vec<Custom>, Status> {
    let mut kinds = Vec::new();
    for row in app.kinds().custom().rows().into_iter().filter(|row| (row.group, row.version) == at) {
        let found = write::find(app.backend(), &DEFINITIONS, "", &definition_of(row)).await?;
        kinds.extend(found.map(|stored| (row, schema(&stored.object, row.version).unwrap_or_default())));
    }
    Ok(kinds)
}

/// The definitions, as they are stored.
///
/// # Errors
/// The store failed.
pub(super) async fn definitions(app: &App) -> Result<Vec<Arc<Entry>>, Status> {
    write::all(app.backend(), &DEFINITIONS, "").await
}

/// All custom kinds, out of their definitions. Reading them takes long.
pub(super) fn all(kinds: &Kinds, definitions: Vec<Arc<Entry>>) -> Vec<Custom> {
    let mut rows: BTreeMap<String, Vec<&'static Resource>> = BTreeMap::new();
    for row in kinds.custom().rows() {
        rows.entry(definition_of(row)).or_default().push(row);
    }
    let mut room = LONGEST;
    let mut custom = Vec::new();
    for entry in definitions {
        let Some(left) = room.checked_sub(entry.value.len()) else { continue };
        let Ok(stored) = Stored::read(&DEFINITIONS, entry) else { continue };
        let name = stored.object.get("metadata").and_then(|metadata| metadata.get("name"));
        let Some(rows) = name.and_then(Value::as_str).and_then(|name| rows.remove(name)) else { continue };
        room = left;
        custom.extend(rows.into_iter().filter_map(|row| Some((row, schema(&stored.object, row.version)?))));
    }
    let any = Map::from_iter([("x-kubernetes-preserve-unknown-fields".to_owned(), json!(true))]);
    custom.extend(rows.into_values().flatten().map(|row| (row, any.clone())));
    custom
}

/// The name of the definition of a custom kind.
pub(super) fn definition_of(row: &Resource) -> String {
    format!("{}.{}", row.plural, row.group)
}

/// The schema of a version.
fn schema(definition: &Map, version: &str) -> Option<Map> {
    let mut versions = definition.get("spec")?.get("versions")?.as_array()?.iter();
    let version = versions.find(|known| known.get("name").and_then(Value::as_str) == Some(version))?;
    version.get("schema")?.get("openAPIV3Schema")?.as_object().cloned()
}
