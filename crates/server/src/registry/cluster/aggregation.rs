//! Writes the rules of aggregated ClusterRoles (RB-79).
//!
//! Decisions do not depend on this controller: the engine aggregates as soon as a role is stored. The rules that the
//! controller wrote are recorded under a key that no API shows. When nothing feeds a role any more, only those rules
//! are removed.

use std::collections::BTreeMap;
use std::sync::Arc;

use kinds::resources::rbac::CLUSTER_ROLES;
use policy::objects::rbac::{PolicyRule, Role};
use policy::rbac::aggregation::{aggregate, aggregated_rules};
use portcullis_store::{Entry, Expect, List, Store as _, Value, Write};

use crate::http::status::Status;
use crate::registry::backend::Backend;
use crate::registry::storage::{self, Stored};
use crate::registry::write;

/// The first two parts of the keys of the records of rules that this controller wrote.
pub(crate) const AGGREGATED: (&str, &str) = ("portcullis", "aggregated");
const ATTEMPTS: usize = 10;

/// The key of the record of a role; with an empty name the prefix of all of them.
fn record_key(role: &str) -> Box<str> {
    let (group, collection) = AGGREGATED;
    format!("/{group}/{collection}/{role}").into()
}

/// Writes the rules of all aggregated roles.
///
/// # Errors
/// The store failed, a role cannot be decoded, or there were too many conflicts.
pub(crate) async fn settle(backend: &Backend) -> Result<(), Status> {
    for _ in 0..ATTEMPTS {
        let writes = due(backend).await?;
        if write::commit_in_parts(backend, writes).await? {
            return Ok(());
        }
    }
    Err(Status::internal("too many conflicts while writing ClusterRoles"))
}

/// Returns the writes that are needed.
async fn due(backend: &Backend) -> Result<Vec<Write>, Status> {
    let mut stored: BTreeMap<String, Stored> = BTreeMap::new();
    let mut roles: Vec<Role> = Vec::new();
    for entry in write::all(backend, &CLUSTER_ROLES, "").await? {
        match Stored::read(&CLUSTER_ROLES, Arc::clone(&entry)).and_then(|s| Ok((read(&s.bytes)?, s))) {
            Ok((role, object)) => {
                roles.push(role);
                stored.insert(name(&entry), object);
            }
            Err(status) => {
                tracing::error!(
                    key = &*entry.key,
                    error = status.message(),
                    "is aggregated into no other role"
                )
            }
        }
    }
    let list = List { prefix: record_key(""), ..List::default() };
    let records = backend.list(&list).await.map_err(|error| storage::failed(&error))?.entries;
    let records: BTreeMap<String, Arc<Entry>> =
        records.into_iter().map(|entry| (name(&entry), entry)).collect();

    for (role, error) in aggregate(&mut roles) {
        tracing::warn!(role, %error, "an aggregated ClusterRole keeps its rules: a selector is invalid");
    }
    let mut writes = Vec::new();
    for role in &roles {
        let Ok(Some(rules)) = aggregated_rules(role, &roles) else { continue };
        let Some(stored) = stored.get(&role.metadata.name) else { continue };
        let record = records.get(&role.metadata.name);
        writes.extend(writes_of(stored, &rules, record.map(Arc::as_ref))?);
    }
    // The records of deleted roles.
    writes.extend(
        records.iter().filter(|(name, _)| !stored.contains_key(*name)).map(|(_, e)| write::remove(e)),
    );
    Ok(writes)
}

/// Returns the writes that give a role these rules.
fn writes_of(stored: &Stored, rules: &[PolicyRule], record: Option<&Entry>) -> Result<Vec<Write>, Status> {
    let written: Vec<PolicyRule> = read::<Role>(&stored.bytes)?.rules;
    if written == rules {
        return Ok(Vec::new());
    }
    let key = record_key(&name(&stored.entry));
    let expect = record.map_or(Expect::Absent, |record| Expect::Modified(record.modified));
    let mut object = stored.object.clone();
    if rules.is_empty() {
        let Some(record) = record else { return Ok(Vec::new()) };
        if read::<Vec<PolicyRule>>(&record.value)? != written {
            return Ok(Vec::new());
        }
        object.remove("rules");
        return Ok(vec![
            write::replace(&CLUSTER_ROLES, &stored.entry, object, write::SERVER)?,
            write::remove(record),
        ]);
    }
    let rules = serde_json::to_value(rules).map_err(Status::internal)?;
    let bytes = rules.to_string().into();
    object.insert("rules".to_owned(), rules);
    let remembered = Write { key, expect, value: Some(Value { bytes, revision_at: None, relies_on: None }) };
    Ok(vec![write::replace(&CLUSTER_ROLES, &stored.entry, object, write::SERVER)?, remembered])
}

/// Returns the last part of a key.
fn name(entry: &Entry) -> String {
    entry.key.rsplit('/').next().unwrap_or_default().to_owned()
}

fn read<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, Status> {
    serde_json::from_slice(bytes).map_err(Status::internal)
}
