//! The namespaces that every cluster has. They are made when the server starts, and not again when somebody removes
//! the one that can be removed.

use kinds::Map;
use kinds::resources::core::namespaces::NAMESPACES;
use portcullis_kinds as kinds;
use portcullis_store::{Expect, Store as _, StoreError, Write};
use serde_json::Value;

use super::{meta, now, storage};
use crate::backend::Backend;
use crate::status::Status;

const NAMES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Makes those of the namespaces that are not there.
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
