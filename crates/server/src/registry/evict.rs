//! Evicts a pod: a deletion that budgets have a say in (AP-121).

use http::StatusCode;
use kinds::Map;
use kinds::resources::disruption_budgets::{self, Held, POD_DISRUPTION_BUDGETS};
use kinds::resources::pods;

use super::admission::Operation;
use super::meta::now;
use super::options::{DeleteOptions, WriteOptions};
use super::request_scope::RequestScope;
use super::storage::Stored;
use super::target::Target;
use super::{delete, meta, update, write};
use crate::http::status::{Cause, Details, Status};

/// Evicts the pod of the request.
///
/// # Errors
/// The eviction is not admitted or makes no sense, or the pod cannot be deleted.
pub(crate) async fn evict(
    scope: &RequestScope<'_>,
    mut eviction: Map,
    options: &WriteOptions,
) -> Result<(), Status> {
    let name = scope.target.name;
    scope.admit(Operation::Create, name, options, Some(&mut eviction), None).await?;
    let deletion = pods::check_eviction(&eviction, name).map_err(Status::bad_request)?;
    let mut deletion =
        deletion.map(|body| DeleteOptions::from_body(body, scope.kinds)).transpose()?.unwrap_or_default();
    deletion.is_dry_run |= options.is_dry_run;
    scope.validate(Operation::Create, name, options, Some(&mut eviction), None).await?;
    take_from_budget(scope, &deletion).await?;
    mark_and_delete(scope, deletion).await
}

/// Takes the eviction from what the budget of the pod allows, if it has one.
///
/// # Errors
/// The pod fails a precondition, the budget does not allow it, or there is more than one.
async fn take_from_budget(scope: &RequestScope<'_>, options: &DeleteOptions) -> Result<(), Status> {
    let Target { namespace, name, .. } = scope.target;
    let entry = scope.stored(&scope.key()).await?.ok_or_else(|| scope.no_object())?;
    let pod = Stored::read(scope.target.resource, entry)?.object;
    delete::check_preconditions(scope, options, &pod)?;
    let mut budgets = Vec::new();
    for entry in write::all(scope.backend, &POD_DISRUPTION_BUDGETS, namespace).await? {
        let budget = Stored::read(&POD_DISRUPTION_BUDGETS, entry)?.object;
        if disruption_budgets::protects(&budget, &pod) {
            budgets.push(meta::text(&budget, "name").to_owned());
        }
    }
    let budget = match budgets.as_slice() {
        [] => return Ok(()),
        [budget] => budget,
        _ => {
            let why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            return Err(Status::internal(why));
        }
    };
    let resource = &POD_DISRUPTION_BUDGETS;
    let target = Target { resource, served: resource, subresource: None, namespace, name: budget };
    let of_budget = RequestScope { target, part: None, ..*scope };
    let taken = update::change(&of_budget, options.is_dry_run, |object| {
        disruption_budgets::take(object, name, now()).map_err(|held| refused(budget, held))
    });
    match taken.await {
        // The budget was deleted meanwhile.
        Err(status) if status.code() == StatusCode::NOT_FOUND => Ok(()),
        taken => taken.map(drop),
    }
}

fn refused(budget: &str, held: Held) -> Status {
    match held {
        Held::ForNow { why, retry_after } => {
            let cause = Cause { reason: "DisruptionBudget".into(), message: why, field: String::new() };
            let details =
                Details { causes: vec![cause], retry_after_seconds: retry_after, ..Details::default() };
            let message = "Cannot evict pod as it would violate the pod's disruption budget.";
            Status::other(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message, Some(details))
        }
        Held::ByStatus(why) => {
            let details = Details::of(POD_DISRUPTION_BUDGETS.group, POD_DISRUPTION_BUDGETS.plural, budget);
            let message = format!("poddisruptionbudgets.policy {budget:?} is forbidden: {why}");
            Status::other(StatusCode::FORBIDDEN, "Forbidden", message, Some(details))
        }
    }
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
