//! Creates and completes the default RBAC policy at startup (RB-100 to RB-109). `portcullis_policy::rbac::reconcile`
//! says what to write.

use kinds::resource::Resource;
use kinds::resources::rbac::{CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES};
use policy::features::FeatureGates;
use policy::objects::Kind;
use policy::rbac::reconcile::{Action, Change, plan};
use portcullis_store::Write;

use crate::http::status::Status;
use crate::registry::backend::Backend;
use crate::registry::storage::Stored;
use crate::registry::write;

/// The number of attempts after conflicting writes (RB-101).
const ATTEMPTS: usize = 30;

static KINDS: [(Kind, &Resource); 4] = [
    (Kind::ClusterRole, &CLUSTER_ROLES),
    (Kind::ClusterRoleBinding, &CLUSTER_ROLE_BINDINGS),
    (Kind::Role, &ROLES),
    (Kind::RoleBinding, &ROLE_BINDINGS),
];

/// Writes the missing parts of the policy. They are written in one commit, so that nobody sees half a policy, or in few if
/// commits are limited.
///
/// # Errors
/// The store failed, or there were too many conflicts.
pub async fn reconcile(backend: &Backend, gates: FeatureGates) -> Result<(), Status> {
    for _ in 0..ATTEMPTS {
        let stored = stored(backend).await?;
        let plan = plan(gates, stored.iter().map(|(kind, stored)| (*kind, &stored.object)))
            .map_err(Status::internal)?;
        plan.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        // RB-105: a binding to another role is deleted before it is created again.
        let (mut before, mut writes) = (Vec::new(), Vec::new());
        for change in &plan.changes {
            let found = stored.iter().find(|(kind, stored)| is_of(change, *kind, stored));
            let (gone, made) = write_of(change, found.map(|(_, stored)| stored))?;
            before.extend(gone);
            writes.push(made);
        }
        if write::commit_in_parts(backend, before).await? && write::commit_in_parts(backend, writes).await? {
            tracing::info!(changes = plan.changes.len(), "default RBAC policy in place");
            return Ok(());
        }
    }
    Err(Status::internal("too many conflicts while writing roles and bindings"))
}

async fn stored(backend: &Backend) -> Result<Vec<(Kind, Stored)>, Status> {
    let mut stored = Vec::new();
    for (kind, resource) in KINDS {
        for entry in write::all(backend, resource, "").await? {
            stored.push((kind, Stored::read(resource, entry)?));
        }
    }
    Ok(stored)
}

fn is_of(change: &Change, kind: Kind, stored: &Stored) -> bool {
    let text = |field| kinds::meta::text(&stored.object, field);
    kind == change.kind && text("name") == change.name && text("namespace") == change.namespace
}

/// Returns the write that must come first, if any, and the write itself.
fn write_of(change: &Change, stored: Option<&Stored>) -> Result<(Option<Write>, Write), Status> {
    let resource = KINDS.iter().find(|(kind, _)| *kind == change.kind).map(|(_, resource)| *resource);
    let resource = resource.ok_or_else(|| Status::internal("the default policy holds roles and bindings"))?;
    let object = change.object.clone();
    match (change.action, stored) {
        (Action::Update, Some(stored)) => {
            Ok((None, write::replace(resource, &stored.entry, object, write::SERVER)?))
        }
        (Action::Recreate, Some(stored)) => {
            let made = write::create(resource, &change.namespace, object, write::SERVER)?;
            Ok((Some(write::remove(&stored.entry)), made))
        }
        _ => Ok((None, write::create(resource, &change.namespace, object, write::SERVER)?)),
    }
}
