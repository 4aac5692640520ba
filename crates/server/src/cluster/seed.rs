//! What an empty store begins with: the objects of files, read, completed and checked as if a client wrote them.
//!
//! Unlike a client, files also say what a cluster had found out: the status of objects, their uids and when they were
//! made are kept. Nothing is asked of admission. Kinds that are not served are counted and passed over.

use std::collections::BTreeSet;
use std::path::PathBuf;

use kinds::Map;
use kinds::resource::Resource;
use kinds::resources::core::namespaces::NAMESPACES;
use kinds::resources::pods::{self, PODS};
use portcullis_kinds as kinds;
use portcullis_policy::field_error::FieldError;
use portcullis_store::{Expect, List, Revision, Store as _, StoreError, Write};
use serde_json::{Value, json};

use super::write;
use crate::api::rest::{decode, meta, now, storage};
use crate::backend::Backend;
use crate::config::RuntimeConfig;
use crate::state::{self, Document, Fault, StateError};
use crate::status::Status;

/// What became of the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seeded {
    /// There are none.
    NoFiles,
    /// The store holds objects already: the files were not read.
    PassedOver,
    /// The store holds what they say.
    Done(Summary),
}

/// What was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// How many files.
    pub files: usize,
    /// How many objects were stored.
    pub objects: usize,
    /// How many objects are of kinds that are not served.
    pub ignored: usize,
    /// How many fields are not known, or were given twice.
    pub unknown_fields: usize,
    /// The namespaces that were made because objects are in them.
    pub namespaces: Vec<String>,
}

/// Files that an empty store cannot begin with. Nothing of them is stored.
#[derive(Debug, thiserror::Error)]
pub enum SeedError {
    /// A file or an object in it.
    #[error(transparent)]
    File(#[from] StateError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Something else failed on our side.
    #[error("{0}")]
    Internal(String),
}

/// Puts the objects of the files into the store if it is empty; all of them or none.
///
/// # Errors
/// See [`SeedError`].
pub(super) async fn seed(backend: &Backend, files: &[PathBuf]) -> Result<Seeded, SeedError> {
    if files.is_empty() {
        return Ok(Seeded::NoFiles);
    }
    let any = List { prefix: "/".into(), limit: 1, ..List::default() };
    if backend.revision() > Revision(0) && !backend.list(&any).await?.entries.is_empty() {
        return Ok(Seeded::PassedOver);
    }
    let mut seed = Seed::default();
    let count = state::documents(files, &mut |document| seed.take(document))?;
    seed.summary.files = count;
    seed.add_namespaces().map_err(|status| SeedError::Internal(status.message().to_owned()))?;
    if !seed.writes.is_empty() {
        backend.commit(seed.writes).await?;
    }
    Ok(Seeded::Done(seed.summary))
}

#[derive(Default)]
struct Seed {
    writes: Vec<Write>,
    /// The keys of the writes.
    keys: BTreeSet<Box<str>>,
    /// The namespaces that objects are in.
    namespaces: BTreeSet<String>,
    summary: Summary,
}

impl Seed {
    fn take(&mut self, document: Document<'_>) -> Result<(), Fault> {
        // Files may be older than any switch.
        let all = RuntimeConfig { authorization_v1beta1: true, rbac_v1alpha1: true, rbac_v1beta1: true };
        let is_meant =
            |kind: &&Resource| kind.kind == document.kind && kind.api_version() == document.api_version;
        let Some(served) = all.resources().find(is_meant) else {
            self.summary.ignored += 1;
            return Ok(());
        };
        let resource = kinds::resources::find(served.group, served.plural).unwrap_or(served);
        let decoded = kinds::decode::json(document.json.as_bytes(), decode::shape(served))
            .map_err(|error| (String::new(), error.to_string()))?;
        self.summary.unknown_fields += decoded.problems.len();
        let mut object = decoded.object;
        object.insert("kind".to_owned(), served.kind.into());
        object.insert("apiVersion".to_owned(), served.api_version().into());
        let object = decode::current(object, resource).map_err(|status| internal(&status))?;
        let (namespace, name) =
            (meta::text(&object, "namespace").to_owned(), meta::text(&object, "name").to_owned());
        check_place(resource, &namespace, &name)?;
        let key = storage::key(resource, &namespace, &name);
        if !self.keys.insert(key.clone()) {
            return Err(("metadata.name".to_owned(), format!("{} {name} is given twice", resource.kind)));
        }
        if resource.is_namespaced {
            self.namespaces.insert(namespace);
        }
        let object = complete(resource, object)?;
        let value = storage::encode(resource, &object).map_err(|status| internal(&status))?;
        self.writes.push(Write { key, expect: Expect::Absent, value: Some(value) });
        self.summary.objects += 1;
        Ok(())
    }

    /// Namespaces are often left out of what is saved of a cluster.
    fn add_namespaces(&mut self) -> Result<(), Status> {
        for name in std::mem::take(&mut self.namespaces) {
            let namespace = Map::from_iter([("metadata".to_owned(), json!({"name": name}))]);
            let write = write::create(&NAMESPACES, "", namespace)?;
            if self.keys.insert(write.key.clone()) {
                self.writes.push(write);
                self.summary.namespaces.push(name);
            }
        }
        Ok(())
    }
}

fn internal(status: &Status) -> Fault {
    (String::new(), status.message().to_owned())
}

fn check_place(resource: &Resource, namespace: &str, name: &str) -> Result<(), Fault> {
    let kind = resource.kind;
    let fault = |field: &str, reason: String| Err((format!("metadata.{field}"), reason));
    match (resource.is_namespaced, namespace.is_empty()) {
        _ if name.is_empty() => fault("name", format!("is missing: every {kind} has a name")),
        (true, true) => fault(
            "namespace",
            format!("is missing: a {kind} lives in a namespace, and kubectl get prints it"),
        ),
        (false, false) => fault("namespace", format!("a {kind} lives in no namespace: remove the field")),
        _ => Ok(()),
    }
}

/// What objects have that no client can create them with.
const EPHEMERAL: &str = "ephemeralContainers";

/// An object as it is stored: as if it had been created, and then what its subresources are for written.
fn complete(resource: &'static Resource, mut object: Map) -> Result<Map, Fault> {
    crate::api::rest::context::default(resource, &mut object);
    let (uid, made) =
        (meta::text(&object, "uid").to_owned(), meta::text(&object, "creationTimestamp").to_owned());
    let said = object.clone();
    meta::unset(&mut object, "resourceVersion");
    let is_pod = std::ptr::eq(resource, &raw const PODS);
    let ephemeral = match object.get_mut("spec").and_then(Value::as_object_mut) {
        Some(spec) if is_pod => spec.remove(EPHEMERAL),
        _ => None,
    };
    meta::identify(&mut object, now()).map_err(|status| internal(&status))?;
    for (field, value) in [("uid", uid), ("creationTimestamp", made)] {
        if !value.is_empty() {
            meta::set(&mut object, field, value);
        }
    }
    (resource.prepare_create)(&mut object);
    let mut errors = kinds::meta::validate(&object, resource);
    errors.extend((resource.validate_create)(&object));
    refuse(errors)?;
    if let Some(containers) = ephemeral {
        let before = object.clone();
        if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
            spec.insert(EPHEMERAL.to_owned(), containers);
        }
        pods::prepare_ephemeral_containers(&mut object, &before);
        refuse(pods::validate_ephemeral_containers(&object, &before))?;
    }
    let has_status = resource.subresources.iter().any(|below| below.name == "status");
    let Some(status) = said.get("status").filter(|status| has_status && !status.is_null()) else {
        return Ok(object);
    };
    let mut with_status = object.clone();
    with_status.insert("status".to_owned(), status.clone());
    (resource.prepare_status)(&mut with_status, &object);
    refuse((resource.validate_status)(&with_status, &object))?;
    Ok(with_status)
}

fn refuse(errors: Vec<FieldError>) -> Result<(), Fault> {
    match errors.into_iter().next() {
        None => Ok(()),
        Some(error) => Err((error.field.clone(), error.message())),
    }
}
