//! The schemas of custom kinds, out of their definitions, for the OpenAPI documents.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kinds::Map;
use kinds::resource::Resource;
use kinds::resources::definitions::DEFINITIONS;
use portcullis_store::{Entry, Store as _};
use serde_json::{Value, json};

use super::app::App;
use crate::http::status::Status;
use crate::registry::storage::{self, Stored};
use crate::registry::write;

/// How much the definitions in one document may take, in bytes.
///
/// DIVERGES: kinds beyond it are described as any object, because the document is held in memory.
const LONGEST: usize = 16 << 20;

/// A custom kind with its schema, as its definition has it.
pub(super) type Custom = (&'static Resource, Map);

/// The stored definitions of some custom kinds. Those that are deleted meanwhile are left out.
///
/// # Errors
/// The store failed.
pub(super) async fn definitions_of(app: &App, rows: &[&'static Resource]) -> Result<Vec<Arc<Entry>>, Status> {
    let names: BTreeSet<String> = rows.iter().map(|row| definition_of(row)).collect();
    let mut definitions = Vec::new();
    for name in names {
        let found = app.backend().get(&storage::key(&DEFINITIONS, "", &name)).await;
        definitions.extend(found.map_err(|error| storage::failed(&error))?);
    }
    Ok(definitions)
}

/// All stored definitions.
///
/// # Errors
/// The store failed.
pub(super) async fn definitions(app: &App) -> Result<Vec<Arc<Entry>>, Status> {
    write::all(app.backend(), &DEFINITIONS, "").await
}

/// Reads the schemas of custom kinds from their definitions. Slow: not for a thread that serves requests.
pub(super) fn read(rows: Vec<&'static Resource>, definitions: Vec<Arc<Entry>>) -> Vec<Custom> {
    let mut by_definition: BTreeMap<String, Vec<&'static Resource>> = BTreeMap::new();
    for row in rows {
        by_definition.entry(definition_of(row)).or_default().push(row);
    }
    let mut room = LONGEST;
    let mut custom = Vec::new();
    for entry in definitions {
        let Some(left) = room.checked_sub(entry.value.len()) else { continue };
        let Ok(stored) = Stored::read(&DEFINITIONS, entry) else { continue };
        let name = stored.object.get("metadata").and_then(|metadata| metadata.get("name"));
        let rows = name.and_then(Value::as_str).and_then(|name| by_definition.remove(name));
        let Some(rows) = rows else { continue };
        room = left;
        custom.extend(rows.into_iter().filter_map(|row| Some((row, schema(&stored.object, row.version)?))));
    }
    let any = Map::from_iter([("x-kubernetes-preserve-unknown-fields".to_owned(), json!(true))]);
    custom.extend(by_definition.into_values().flatten().map(|row| (row, any.clone())));
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
