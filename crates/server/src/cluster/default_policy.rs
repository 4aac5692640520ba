//! The default RBAC policy, written where it is missing (RB-100 to RB-109). What to write is said by
//! `portcullis_policy::rbac::reconcile`.

use kinds::resource::Resource;
use kinds::resources::rbac::{CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES};
use policy::features::FeatureGates;
use policy::objects::Kind;
use policy::rbac::reconcile::{Action, Change, plan};
use portcullis_kinds as kinds;
use portcullis_policy as policy;
use portcullis_store::Write;

use super::write;
use crate::api::rest::storage::Stored;
use crate::backend::Backend;
use crate::status::Status;

/// How often all is tried again when others write at the same time (RB-101).
const ATTEMPTS: usize = 30;

static KINDS: [(Kind, &Resource); 4] = [
    (Kind::ClusterRole, &CLUSTER_ROLES),
    (Kind::ClusterRoleBinding, &CLUSTER_ROLE_BINDINGS),
    (Kind::Role, &ROLES),
    (Kind::RoleBinding, &ROLE_BINDINGS),
];

/// Writes what is missing. All of it at once, so that nobody sees half a policy.
///
/// # Errors
/// The store failed, or others went on writing.
pub async fn reconcile(backend: &Backend, gates: FeatureGates) -> Result<(), Status> {
    for _ in 0..ATTEMPTS {
        let stored = stored(backend).await?;
        let plan = plan(gates, stored.iter().map(|(kind, stored)| (*kind, &stored.object)))
            .map_err(Status::internal)?;
        plan.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        // RB-105: a binding to another role goes before it comes again.
        let (mut before, mut writes) = (Vec::new(), Vec::new());
        for change in &plan.changes {
            let found = stored.iter().find(|(kind, stored)| is_of(change, *kind, stored));
            let (gone, made) = write_of(change, found.map(|(_, stored)| stored))?;
            before.extend(gone);
            writes.push(made);
        }
        if write::commit(backend, before).await? && write::commit(backend, writes).await? {
            tracing::info!(changes = plan.changes.len(), "default RBAC policy in place");
            return Ok(());
        }
    }
    Err(Status::internal("roles and bindings went on changing"))
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

/// What has to go first, and what is to be written.
fn write_of(change: &Change, stored: Option<&Stored>) -> Result<(Option<Write>, Write), Status> {
    let resource = KINDS.iter().find(|(kind, _)| *kind == change.kind).map(|(_, resource)| *resource);
    let resource = resource.ok_or_else(|| Status::internal("the default policy holds roles and bindings"))?;
    let object = change.object.clone();
    match (change.action, stored) {
        (Action::Update, Some(stored)) => Ok((None, write::replace(resource, &stored.entry, object)?)),
        (Action::Recreate, Some(stored)) => {
            let made = write::create(resource, &change.namespace, object)?;
            Ok((Some(write::remove(&stored.entry)), made))
        }
        _ => Ok((None, write::create(resource, &change.namespace, object)?)),
    }
}
