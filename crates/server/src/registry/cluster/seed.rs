//! Seeds an empty store with the objects of state files, which are decoded, defaulted and validated as if a client
//! wrote them.
//!
//! Unlike with a client's write, the status, UIDs and creation times in the files are kept, and admission is not
//! called. Objects of kinds that are not served are counted and skipped.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::thread::available_parallelism;

use kinds::resource::{Behaviour, Resource, Update};
use kinds::resources::core::namespaces::NAMESPACES;
use kinds::{Kinds, Map};
use portcullis_apimachinery::field_error::FieldErrors;
use portcullis_store::{Expect, List, Revision, Store as _, StoreError, Write};
use serde_json::{Value, json};

use crate::http::status::Status;
use crate::registry::backend::Backend;
use crate::registry::meta::{self, now};
use crate::registry::{decode, storage, write};
use crate::state::{self, Document, Fault, StateError};

/// The result of seeding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seeded {
    /// There are no files.
    NoFiles,
    /// The store already holds objects, so the files were not read.
    PassedOver,
    /// The objects of the files were stored.
    Done(Summary),
}

/// Counts of what was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The number of files.
    pub files: usize,
    /// The number of stored objects.
    pub objects: usize,
    /// The number of objects of kinds that are not served.
    pub ignored: usize,
    /// The number of unknown or duplicate fields.
    pub unknown_fields: usize,
    /// The namespaces that were created because objects are in them.
    pub namespaces: Vec<String>,
}

/// The files cannot be used for seeding. Nothing of them is stored.
#[derive(Debug, thiserror::Error)]
pub enum SeedError {
    /// An error in a file or an object in it.
    #[error(transparent)]
    File(#[from] StateError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An internal error.
    #[error("{0}")]
    Internal(String),
}

/// Stores the objects of the files if the store is empty; all of them or none. If the store limits commits, they are stored in
/// several, and an interrupted start leaves a part of them.
///
/// # Errors
/// See [`SeedError`].
pub(super) async fn seed(backend: &Backend, kinds: &Kinds, files: &[PathBuf]) -> Result<Seeded, SeedError> {
    if files.is_empty() {
        return Ok(Seeded::NoFiles);
    }
    let any = List { prefix: "/".into(), limit: 1, ..List::default() };
    if backend.revision() > Revision(0) && !backend.list(&any).await?.entries.is_empty() {
        return Ok(Seeded::PassedOver);
    }
    let mut seed = Seed::default();
    let threads = available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let count = state::read_documents(files, threads, &|document| read(kinds, document), &mut |read| {
        seed.take(read)
    })?;
    seed.summary.files = count;
    seed.add_namespaces().map_err(|status| SeedError::Internal(status.message().to_owned()))?;
    let most = backend.most_writes();
    let (mut rest, mut is_first) = (seed.writes, true);
    while !rest.is_empty() {
        let later = rest.split_off(rest.len().min(most));
        match backend.commit(rest).await {
            // Another server that shares the store was first.
            Err(StoreError::Conflict { .. }) if is_first && backend.is_shared() => {
                return Ok(Seeded::PassedOver);
            }
            outcome => drop(outcome?),
        }
        (rest, is_first) = (later, false);
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

/// The stored form of an object of the files, and where it is stored.
struct Read {
    resource: &'static Resource,
    namespace: String,
    name: String,
    key: Box<str>,
    value: portcullis_store::Value,
    /// The number of unknown or duplicate fields.
    unknown_fields: usize,
}

/// Converts an object of the files to its stored form. Returns `None` for one of a kind that is not served.
fn read(kinds: &Kinds, document: Document<'_>) -> Result<Option<Read>, Fault> {
    // The files may use API versions that are disabled.
    let Some(served) = kinds.of_document(document.api_version, document.kind) else { return Ok(None) };
    let resource = served.current();
    let decoded = kinds::decode::json(document.json.as_bytes(), served.schema)
        .map_err(|error| (String::new(), error.to_string()))?;
    let unknown_fields = decoded.problems.len();
    let mut object = decoded.object;
    object.insert("kind".to_owned(), served.kind.into());
    object.insert("apiVersion".to_owned(), served.api_version().into());
    let object = decode::current(object, served).map_err(|status| internal(&status))?;
    let (namespace, name) =
        (meta::text(&object, "namespace").to_owned(), meta::text(&object, "name").to_owned());
    check_place(resource, &namespace, &name)?;
    let key = storage::key(resource, &namespace, &name);
    let object = complete(resource, object)?;
    let value = storage::encode(resource, &object).map_err(|status| internal(&status))?;
    Ok(Some(Read { resource, namespace, name, key, value, unknown_fields }))
}

impl Seed {
    fn take(&mut self, read: Option<Read>) -> Result<(), Fault> {
        let Some(Read { resource, namespace, name, key, value, unknown_fields }) = read else {
            self.summary.ignored += 1;
            return Ok(());
        };
        self.summary.unknown_fields += unknown_fields;
        if !self.keys.insert(key.clone()) {
            return Err(("metadata.name".to_owned(), format!("{} {name} is given twice", resource.kind)));
        }
        if resource.is_namespaced {
            self.namespaces.insert(namespace);
        }
        self.writes.push(Write { key, expect: Expect::Absent, value: Some(value) });
        self.summary.objects += 1;
        Ok(())
    }

    /// Saved cluster states often lack the namespaces.
    fn add_namespaces(&mut self) -> Result<(), Status> {
        for name in std::mem::take(&mut self.namespaces) {
            let namespace = Map::from_iter([("metadata".to_owned(), json!({"name": name}))]);
            let write = write::create(&NAMESPACES, "", namespace, write::SERVER)?;
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

/// Takes out of an object the fields that no client can create it with, and says how they are added.
fn take_added(
    resource: &Resource,
    object: &mut Map,
) -> Vec<(&'static Update, &'static str, &'static str, Value)> {
    let added = resource.subresources().iter().filter_map(|below| {
        let Behaviour::Object(update) = below.behaviour else { return None };
        let (part, field) = update.adds?;
        let value = object.get_mut(part).and_then(Value::as_object_mut)?.remove(field)?;
        Some((update, part, field, value))
    });
    added.collect()
}

/// Converts an object to its stored form, as if it had been created and its subresources then written.
fn complete(resource: &'static Resource, mut object: Map) -> Result<Map, Fault> {
    decode::default(resource, &mut object);
    let (uid, made) =
        (meta::text(&object, "uid").to_owned(), meta::text(&object, "creationTimestamp").to_owned());
    let has_status = resource.subresources().iter().any(|below| matches!(below.behaviour, Behaviour::Status));
    let status = object.get("status").filter(|status| has_status && !status.is_null()).cloned();
    meta::unset(&mut object, "resourceVersion");
    let added = take_added(resource, &mut object);
    meta::identify(&mut object, now()).map_err(|status| internal(&status))?;
    for (field, value) in [("uid", uid), ("creationTimestamp", made)] {
        if !value.is_empty() {
            meta::set(&mut object, field, value);
        }
    }
    resource.prepare_new(&mut object);
    let mut errors = kinds::meta::validate(&object, resource);
    errors.extend(resource.validate_new(&object));
    refuse(errors)?;
    for (update, part, field, value) in added {
        let before = object.clone();
        if let Some(part) = object.get_mut(part).and_then(Value::as_object_mut) {
            part.insert(field.to_owned(), value);
        }
        (update.prepare)(&mut object, &before);
        refuse((update.validate)(&object, &before))?;
    }
    let Some(status) = status else { return Ok(object) };
    let mut with_status = object.clone();
    with_status.insert("status".to_owned(), status);
    (resource.prepare_status)(&mut with_status, &object);
    refuse((resource.validate_status)(&with_status, &object))?;
    Ok(with_status)
}

fn refuse(errors: FieldErrors) -> Result<(), Fault> {
    match errors.into_iter().next() {
        None => Ok(()),
        Some(error) => Err((error.field.clone(), error.message())),
    }
}
