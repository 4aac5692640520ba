//! NamespaceLifecycle: nothing is made in a namespace that is not there or is going, and some namespaces stay (AP-35).

use kinds::resources::core::namespaces::{NAMESPACES, TERMINATING, UNDELETABLE};
use portcullis_kinds as kinds;
use portcullis_store::Store as _;

use super::{Operation, Plugin, Review, Verdict};
use crate::api::rest::storage;
use crate::status::{Cause, Status};

/// See the module.
pub(super) struct NamespaceLifecycle;

impl Plugin for NamespaceLifecycle {
    fn name(&self) -> &'static str {
        "NamespaceLifecycle"
    }

    fn handles(&self, review: &Review<'_>) -> bool {
        match review.operation {
            Operation::Delete => review.is_of("", "namespaces"),
            Operation::Create | Operation::Update => !review.namespace.is_empty(),
            Operation::Connect => false,
        }
    }

    fn admit<'r>(&'r self, review: &'r mut Review<'_>) -> Verdict<'r> {
        Box::pin(async move {
            if review.operation == Operation::Delete {
                return match UNDELETABLE.contains(&review.name) {
                    true => Err(review.forbidden("this namespace may not be deleted", Vec::new())),
                    false => Ok(()),
                };
            }
            let namespace = review.namespace;
            let key = storage::key(&NAMESPACES, "", namespace);
            let found = review.backend.get(&key).await.map_err(|error| storage::failed(&error))?;
            let entry = found.ok_or_else(|| Status::no_object("", "namespaces", namespace))?;
            if review.operation != Operation::Create {
                return Ok(());
            }
            let stored = storage::decode(&entry.value)?;
            let phase = stored.get("status").and_then(|status| status.get("phase"));
            if phase.and_then(|phase| phase.as_str()) != Some(TERMINATING) {
                return Ok(());
            }
            let cause = Cause {
                reason: "NamespaceTerminating",
                message: format!("namespace {namespace} is being terminated"),
                field: "metadata.namespace".to_owned(),
            };
            let why = format!(
                "unable to create new content in namespace {namespace} because it is being terminated"
            );
            Err(review.forbidden(&why, vec![cause]))
        })
    }
}
