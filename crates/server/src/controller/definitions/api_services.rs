//! The APIServices of groups and versions that have custom kinds.

use std::collections::BTreeSet;

use kinds::Map;
use kinds::custom::CustomKinds;
use kinds::resources::api_services::API_SERVICES;
use serde_json::{Value, json};

use crate::http::status::Status;
use crate::registry::backend::Backend;
use crate::registry::storage::Stored;
use crate::registry::{meta, write};

/// The label of those that are kept here.
const MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

/// Makes the APIServices of the versions of a group, and removes those of versions that are not served.
pub(super) async fn keep(backend: &Backend, kinds: &CustomKinds, group: &str) -> Result<(), Status> {
    let rows = kinds.rows().into_iter().filter(|row| row.group == group);
    let mut wanted: BTreeSet<String> = rows.map(|row| row.version.to_owned()).collect();
    let mut writes = Vec::new();
    for entry in write::all(backend, &API_SERVICES, "").await? {
        let Ok(stored) = Stored::read(&API_SERVICES, entry) else { continue };
        let spec = stored.object.get("spec");
        let text =
            |name: &str| spec.and_then(|spec| spec.get(name)).and_then(Value::as_str).unwrap_or_default();
        if text("group") != group {
            continue;
        }
        let labels = meta::of(&stored.object).get("labels");
        let is_managed = labels.and_then(|labels| labels.get(MANAGED)).is_some();
        // One that an administrator made stays.
        if !wanted.remove(text("version")) && is_managed {
            writes.push(write::remove(&stored.entry));
        }
    }
    for version in wanted {
        let mut service = Map::new();
        meta::set(&mut service, "name", format!("{version}.{group}"));
        meta::set(&mut service, "labels", json!({MANAGED: "true"}));
        let spec =
            json!({"group": group, "version": version, "groupPriorityMinimum": 1000, "versionPriority": 100});
        service.insert("spec".to_owned(), spec);
        writes.push(write::create(&API_SERVICES, "", service, write::SERVER)?);
    }
    write::commit_each(backend, writes).await?;
    Ok(())
}
