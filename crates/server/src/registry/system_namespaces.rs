//! The system namespaces. They are created when the server starts, and not created again when the one that can be
//! deleted is deleted.

use kinds::Map;
use kinds::resources::core::namespaces::NAMESPACES;
use portcullis_store::{Expect, Store as _, StoreError, Write};
use serde_json::Value;

use super::backend::Backend;
use super::meta::{self, now};
use super::storage;
use crate::http::status::Status;

const NAMES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Creates the missing system namespaces.
///
/// # Errors
/// The store cannot be read or written.
pub async fn ensure(backend: &Backend) -> Result<(), Status> {
    for name in NAMES {
        let mut namespace = Map::new();
        meta::set(&mut namespace, "name", name);
        namespace.insert("spec".to_owned(), Value::Object(Map::new()));
        (NAMESPACES.default)(&mut namespace);
        meta::identify(&mut namespace, now())?;
        (NAMESPACES.prepare_create)(&mut namespace);
        let value = Some(storage::encode(&NAMESPACES, &namespace)?);
        let key = storage::key(&NAMESPACES, "", name);
        match backend.commit(vec![Write { key, expect: Expect::Absent, value }]).await {
            Ok(_) | Err(StoreError::Conflict { .. }) => {}
            Err(error) => return Err(storage::failed(&error)),
        }
    }
    Ok(())
}
