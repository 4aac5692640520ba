//! Evicts a pod: a deletion that budgets have a say in (AP-121). There are no budgets here.

use kinds::Map;
use kinds::resources::pods;

use super::admission::Operation;
use super::meta::now;
use super::options::DeleteOptions;
use super::request_scope::RequestScope;
use super::{delete, update};
use crate::http::status::Status;

/// Evicts the pod of the request.
///
/// # Errors
/// The eviction is not admitted or makes no sense, or the pod cannot be deleted.
pub(crate) async fn evict(
    scope: &RequestScope<'_>,
    mut eviction: Map,
    is_dry_run: bool,
) -> Result<(), Status> {
    let name = scope.target.name;
    scope.admit(Operation::Create, name, Some(&mut eviction), None).await?;
    let deletion = pods::check_eviction(&eviction, name).map_err(Status::bad_request)?;
    let mut deletion =
        deletion.map(|body| DeleteOptions::from_body(body, scope.kinds)).transpose()?.unwrap_or_default();
    deletion.is_dry_run |= is_dry_run;
    scope.validate(Operation::Create, name, Some(&mut eviction), None).await?;
    mark_and_delete(scope, deletion).await
}

/// Records the reason in the pod's status, and deletes the pod.
async fn mark_and_delete(scope: &RequestScope<'_>, mut options: DeleteOptions) -> Result<(), Status> {
    if !options.is_dry_run {
        let revision = update::change(scope, false, |pod| {
            delete::check_preconditions(scope, &options, pod)?;
            pods::mark_evicted(pod, now());
            Ok(())
        })
        .await?;
        // The precondition now refers to the pod that was just written.
        if options.resource_version.is_some() {
            options.resource_version = Some(revision.0.to_string());
        }
    }
    delete::delete_admitted(scope, &options).await?;
    Ok(())
}
