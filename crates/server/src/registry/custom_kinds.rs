//! Keeps the custom kinds of the table as the stored definitions say. Every server that shares a store does this for itself.
//!
//! Definitions are read, and their rules compiled, apart from the threads that serve requests. Changes that come together are
//! taken in together.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use kinds::Kinds;
use kinds::custom::{Definition, RuleCompiler};
use kinds::resources::definitions::{DEFINITIONS, fault};
use portcullis_store::{Entry, Event, List, Revision, Store as _, StoreError, Watch as _};

use super::backend::Backend;
use super::storage;
use crate::match_conditions;

/// The delay before definitions are listed again.
const PAUSE: Duration = Duration::from_millis(500);

/// How long to wait until a definition may be in force, and how long at most.
const TAKES_IN: Duration = Duration::from_millis(2);
const PATIENCE: Duration = Duration::from_secs(1);

/// Takes in all stored definitions. Returns the revision at which they were listed.
///
/// # Errors
/// The store failed.
pub(crate) async fn load(backend: &Backend, kinds: &Kinds) -> Result<Revision, StoreError> {
    let prefix = storage::prefix(&DEFINITIONS, "");
    let listing = backend.list(&List { prefix: prefix.as_str().into(), ..List::default() }).await?;
    let gone = kinds.custom().names().into_iter().map(|name| (name, None));
    let mut changes: BTreeMap<Box<str>, Option<Arc<Entry>>> = gone.collect();
    changes.extend(listing.entries.into_iter().map(|entry| (name_in(&entry.key), Some(entry))));
    take_in(backend, kinds, changes).await;
    kinds.custom().has_taken_in(listing.revision.0);
    Ok(listing.revision)
}

/// Follows the definitions, for ever.
pub(crate) async fn follow(backend: Arc<Backend>, kinds: Kinds) {
    loop {
        let Err(error) = watch(&backend, &kinds).await;
        tracing::info!(%error, "changes of definitions were missed: listing again");
        tokio::time::sleep(PAUSE).await;
    }
}

async fn watch(backend: &Backend, kinds: &Kinds) -> Result<Infallible, StoreError> {
    let from = load(backend, kinds).await?;
    let prefix = storage::prefix(&DEFINITIONS, "");
    let mut watch = backend.watch(&prefix, from).await?;
    loop {
        let events = watch.next().await?;
        let change = |event: &Event| (name_in(event.key()), event.entry.clone());
        take_in(backend, kinds, events.iter().map(change).collect()).await;
        if let Some(last) = events.last() {
            kinds.custom().has_taken_in(last.revision.0);
        }
    }
}

/// Waits until what is stored of the definition of a kind is in force. After a second it may still not be.
pub(crate) async fn settled(backend: &Backend, kinds: &Kinds, group: &str, plural: &str) {
    let key = storage::key(&DEFINITIONS, "", &format!("{plural}.{group}"));
    let is_behind = async || {
        let stored = backend.get(&key).await.ok().flatten();
        stored.is_some_and(|entry| entry.modified.0 > kinds.custom().taken_in())
    };
    let settled = async {
        while is_behind().await {
            tokio::time::sleep(TAKES_IN).await;
        }
    };
    if tokio::time::timeout(PATIENCE, settled).await.is_err() {
        tracing::warn!(group, plural, "the definition of a kind has changed, and is not in force yet");
    }
}

fn name_in(key: &str) -> Box<str> {
    storage::place(&DEFINITIONS, key).1.into()
}

/// Takes in definitions, and forgets those that are gone.
async fn take_in(backend: &Backend, kinds: &Kinds, changes: BTreeMap<Box<str>, Option<Arc<Entry>>>) {
    if changes.is_empty() {
        return;
    }
    let table = kinds.clone();
    let names: Vec<Box<str>> = changes.keys().cloned().collect();
    let known = |name: &str| kinds.custom().definition(name);
    let new: Vec<&str> = names.iter().map(AsRef::as_ref).filter(|name| known(name).is_none()).collect();
    let work = move || {
        let read = changes.into_iter().map(|(name, entry)| {
            let definition = entry.and_then(|entry| {
                let read = read(&table, &name, &entry, &match_conditions::RULES);
                read.inspect_err(|why| tracing::error!(name = &*name, why, "a definition is not served")).ok()
            });
            (name, definition)
        });
        let read: Vec<_> = read.collect();
        if let Err(error) = table.custom().change(read) {
            tracing::error!(%error, "a custom kind is not served");
        }
    };
    if let Err(error) = tokio::task::spawn_blocking(work).await {
        tracing::error!(%error, "definitions cannot be taken in");
    }
    for definition in new.into_iter().filter_map(known) {
        tell_unreadable(backend, &definition);
    }
}

/// ET-12: tells which values cannot be read that were there before anybody defined their kind.
fn tell_unreadable(backend: &Backend, definition: &Definition) {
    for (key, problem) in backend.unreadable_below(&prefix(definition)) {
        tracing::error!(
            key = &*key,
            error = problem,
            "a value in etcd cannot be read: it is not served and grants nothing"
        );
    }
}

/// The start of the keys of the objects of a definition.
fn prefix(definition: &Definition) -> String {
    format!("/{}/{}/", definition.group, definition.plural)
}

/// Reads a definition, and compiles its rules.
///
/// DIVERGES: kube-apiserver serves what it accepted once, also if it would refuse it today.
///
/// # Errors
/// Why it is not served: a sentence that begins with its name. Its objects are left alone.
pub(crate) fn read(
    kinds: &Kinds,
    name: &str,
    entry: &Entry,
    compiler: &dyn RuleCompiler,
) -> Result<Definition, String> {
    let object = storage::decode(&entry.value).map_err(|status| status.message().to_owned())?;
    if let Some(error) = fault(&object) {
        return Err(format!("is one that this server would refuse: {error}"));
    }
    let before = kinds.custom().definition(name);
    let read = Definition::read(&object, before.as_deref(), entry.modified.0, compiler);
    let definition = read.map_err(|errors| {
        let error = errors.first().map(ToString::to_string).unwrap_or_default();
        format!("has rules that cannot be compiled: {error}")
    })?;
    // Its objects would have the keys of others.
    match kinds.is_reserved(&definition.group, &definition.plural) {
        true => Err("describes a kind that this server has without it".to_owned()),
        false => Ok(definition),
    }
}
