//! Subresources that need what this server has not: a way to kubelets.

use http::StatusCode;

use super::Call;
use crate::status::{Answer, Details, Status};

/// Refuses a request for a subresource of an object.
///
/// DIVERGES: kube-apiserver connects to the kubelet of the pod's node; this server does not know kubelets, and says so.
///
/// # Errors
/// Always: 404 if there is no such object, else 501.
pub(crate) async fn answer(call: &Call<'_>) -> Result<Answer, Status> {
    let resource = call.target.resource;
    if call.stored(&call.key()).await?.is_none() {
        return Err(call.no_object());
    }
    let subresource = call.target.subresource.map_or("", |subresource| subresource.name);
    let message = format!("{}/{subresource} is not implemented by this server", resource.plural);
    let details = Details::of(resource.group, resource.plural, call.target.name);
    Err(Status::other(StatusCode::NOT_IMPLEMENTED, "NotImplemented", message, Some(details)))
}
