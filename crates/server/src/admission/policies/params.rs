//! The objects with the parameters of a policy, of any kind that is served. They are decoded one at a time, when the policy is
//! evaluated.
//!
//! DIVERGES: labels are looked for among so many objects, of so many bytes, and select so many, at most.

use std::sync::Arc;

use kinds::Map;
use kinds::resource::Resource;
use portcullis_apimachinery::selector::LabelRequirement;
use portcullis_store::{Entry, List, Store as _};

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

/// See the module.
pub(super) struct Params {
    /// The kind in the version of the policy.
    row: &'static Resource,
    entries: Vec<Arc<Entry>>,
    /// The labels of those that are meant.
    labels: Vec<LabelRequirement>,
    allows_none: bool,
}

impl Params {
    /// The parameters for a write in a namespace.
    ///
    /// # Errors
    /// The outer error is that of the store. The inner one says why the parameters cannot be found.
    pub(super) async fn of(
        kind: &ParamKind,
        reference: &ParamRef,
        attributes: &AdmissionAttributes<'_>,
        namespace: &str,
    ) -> Result<Result<Self, String>, Status> {
        let (row, namespace) = match place(kind, reference, attributes, namespace) {
            Ok(place) => place,
            Err(why) => return Ok(Err(why)),
        };
        let stored = row.current();
        let backend = attributes.backend;
        let (entries, labels) = match &reference.select {
            Select::Name(name) => {
                let key = storage::key(stored, namespace, name);
                let found = backend.get(&key).await.map_err(|error| storage::failed(&error))?;
                (found.into_iter().collect(), Vec::new())
            }
            Select::Labels(labels) => {
                let prefix = storage::prefix(stored, namespace).into();
                let list = List { prefix, limit: MAX_OBJECTS, ..List::default() };
                let listing = backend.list(&list).await.map_err(|error| storage::failed(&error))?;
                let bytes = listing.entries.iter().map(|entry| entry.value.len()).sum::<usize>();
                if listing.remaining > 0 || bytes > MAX_BYTES {
                    return Ok(Err(format!(
                        "params are selected among at most {MAX_OBJECTS} {} of {MAX_BYTES} bytes: name them",
                        row.plural
                    )));
                }
                (listing.entries, labels.clone())
            }
        };
        Ok(Ok(Self { row, entries, labels, allows_none: reference.allows_none }))
    }

    /// Calls a function for each. Takes time.
    ///
    /// # Errors
    /// There are none, or too many, or one cannot be read.
    pub(super) fn each<T>(&self, mut judge: impl FnMut(&Map) -> T) -> Result<Vec<T>, String> {
        let mut judged = Vec::new();
        for entry in &self.entries {
            let params = self.read(entry).map_err(|status| status.message().to_owned())?;
            if !self.labels.is_empty() && !kinds::meta::labels_match(&self.labels, &params) {
                continue;
            }
            if judged.len() == MAX_PARAMS {
                return Err(format!("more than {MAX_PARAMS} params are selected"));
            }
            judged.push(judge(&params));
        }
        if judged.is_empty() && !self.allows_none {
            return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
        }
        Ok(judged)
    }

    fn read(&self, entry: &Entry) -> Result<Map, Status> {
        let stored = self.row.current();
        let object = storage::decode(&storage::served(stored, &entry.value)?)?;
        Ok(versions::shown(object, stored, self.row))
    }
}

/// The kind and the namespace of the parameters; no namespace for those in none.
fn place<'n>(
    kind: &ParamKind,
    reference: &'n ParamRef,
    attributes: &AdmissionAttributes<'_>,
    namespace: &'n str,
) -> Result<(&'static Resource, &'n str), String> {
    let ParamKind { api_version, kind } = kind;
    let row = attributes.kinds.of_document(api_version, kind);
    let row = row.ok_or_else(|| format!("paramKind kind `{api_version}, Kind={kind}` not known"))?;
    match (row.is_namespaced, &*reference.namespace) {
        (false, "") => Ok((row, "")),
        (false, _) => {
            Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned())
        }
        (true, "") if namespace.is_empty() => {
            let why =
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources";
            Err(why.to_owned())
        }
        (true, "") => Ok((row, namespace)),
        (true, named) => Ok((row, named)),
    }
}
