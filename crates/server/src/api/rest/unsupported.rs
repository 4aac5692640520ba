//! Subresources that need a connection to kubelets, which this server does not have.

use http::StatusCode;

use crate::http::status::{Answer, Details, Status};
use crate::registry::request_scope::RequestScope;

/// Refuses a request for such a subresource.
///
/// DIVERGES: kube-apiserver connects to the kubelet of the pod's node (KA-84, KA-85, NR-112), after a second question for
/// `create` (AC-140, KA-83); this server does not know kubelets, and says so. What went wrong with such connections cannot go
/// wrong here (NC-6, NC-7, NC-15, NC-16).
///
/// # Errors
/// Always: 404 if the object does not exist, 501 otherwise.
pub(crate) async fn answer(scope: &RequestScope<'_>) -> Result<Answer, Status> {
    let resource = scope.target.resource;
    if scope.stored(&scope.key()).await?.is_none() {
        return Err(scope.no_object());
    }
    let subresource = scope.target.subresource.map_or("", |subresource| subresource.name);
    let message = format!("{}/{subresource} is not implemented by this server", resource.plural);
    let details = Details::of(resource.group, resource.plural, scope.target.name);
    Err(Status::other(StatusCode::NOT_IMPLEMENTED, "NotImplemented", message, Some(details)))
}
