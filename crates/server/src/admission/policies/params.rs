//! The objects with the parameters of a policy, of any kind that is served.
//!
//! DIVERGES: labels are looked for among so many objects, and select so many, of so many bytes, at most.

use std::sync::Arc;

use kinds::Map;
use kinds::resource::Resource;
use portcullis_apimachinery::selector::LabelRequirement;
use portcullis_store::{Entry, List, Store as _};
use tokio::task::spawn_blocking;

use super::policy::{ParamRef, Select};
use crate::admission::versions;
use crate::http::status::Status;
use crate::match_conditions::policies::ParamKind;
use crate::registry::admission::AdmissionAttributes;
use crate::registry::storage;

/// The most objects among which labels are looked for, and the most that they may select.
const MAX_OBJECTS: usize = 10_000;
const MAX_PARAMS: usize = 1_000;
/// The most bytes of the objects among which labels are looked for.
const MAX_BYTES: usize = 64 << 20;

/// The parameters for a write; none in the list stands for none at all. `namespace` is that of the write.
///
/// # Errors
/// The outer error is that of the store. The inner one says why the parameters cannot be found.
pub(super) async fn of(
    kind: &ParamKind,
    reference: &ParamRef,
    attributes: &AdmissionAttributes<'_>,
    namespace: &str,
) -> Result<Result<Vec<Map>, String>, Status> {
    let ParamKind { api_version, kind: name } = kind;
    let Some(row) = attributes.kinds.of_document(api_version, name) else {
        return Ok(Err(format!("paramKind kind `{api_version}, Kind={name}` not known")));
    };
    let namespace = match (row.is_namespaced, &*reference.namespace) {
        (false, "") => "",
        (false, _) => {
            let why = "paramRef.namespace must not be provided for a cluster-scoped `paramKind`";
            return Ok(Err(why.to_owned()));
        }
        (true, "") if namespace.is_empty() => {
            let why =
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources";
            return Ok(Err(why.to_owned()));
        }
        (true, "") => namespace,
        (true, named) => named,
    };
    let stored = row.current();
    let found = match &reference.select {
        Select::Name(name) => Ok(attributes.stored(stored, namespace, name).await?.into_iter().collect()),
        Select::Labels(labels) => selected(attributes, stored, namespace, labels).await?,
    };
    let found: Vec<Map> = match found {
        Ok(found) => found,
        Err(why) => return Ok(Err(why)),
    };
    if found.is_empty() && !reference.allows_none {
        let why = "no params found for policy binding with `Deny` parameterNotFoundAction";
        return Ok(Err(why.to_owned()));
    }
    Ok(Ok(found.into_iter().map(|object| versions::shown(object, stored, row)).collect()))
}

/// The objects with these labels.
async fn selected(
    attributes: &AdmissionAttributes<'_>,
    row: &'static Resource,
    namespace: &str,
    labels: &[LabelRequirement],
) -> Result<Result<Vec<Map>, String>, Status> {
    let prefix = storage::prefix(row, namespace).into();
    let list = List { prefix, limit: MAX_OBJECTS, ..List::default() };
    let listing = attributes.backend.list(&list).await.map_err(|error| storage::failed(&error))?;
    let bytes = listing.entries.iter().map(|entry| entry.value.len()).sum::<usize>();
    if listing.remaining > 0 || bytes > MAX_BYTES {
        return Ok(Err(format!(
            "params are selected among at most {MAX_OBJECTS} {} of {MAX_BYTES} bytes: name them",
            row.plural
        )));
    }
    let labels = labels.to_vec();
    let selecting = spawn_blocking(move || select(row, &listing.entries, &labels));
    selecting.await.map_err(Status::internal)?
}

fn select(
    row: &'static Resource,
    entries: &[Arc<Entry>],
    labels: &[LabelRequirement],
) -> Result<Result<Vec<Map>, String>, Status> {
    let mut found = Vec::new();
    for entry in entries {
        let object = storage::decode(&storage::served(row, &entry.value)?)?;
        if !kinds::meta::labels_match(labels, &object) {
            continue;
        }
        if found.len() == MAX_PARAMS {
            return Ok(Err(format!("more than {MAX_PARAMS} params are selected")));
        }
        found.push(object);
    }
    Ok(Ok(found))
}
