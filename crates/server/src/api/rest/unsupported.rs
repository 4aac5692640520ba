//! Subresources that need a connection to kubelets, which this server does not have.

use http::{Method, StatusCode};

use super::request::Request;
use crate::http::status::{Answer, Details, Status};

/// The subresources that run something in a pod, or reach it. A GET, as of a WebSocket, needs `create` as a POST does.
const RUNNING: &[&str] = &["attach", "exec", "portforward"];

/// Refuses a request for such a subresource. Whoever may not make the connection learns no more than that (AC-140, KA-83).
///
/// DIVERGES: kube-apiserver connects to the kubelet of the pod's node (KA-84, KA-85, NR-112); this server does not know
/// kubelets, and says so. What went wrong with such connections cannot go wrong here (NC-6, NC-7, NC-15, NC-16).
///
/// # Errors
/// Always: 403 without permission to `create`, 404 if the object does not exist, 501 otherwise.
pub(crate) async fn answer(request: &Request<'_>) -> Result<Answer, Status> {
    let scope = &request.scope;
    let resource = scope.target.resource;
    let is_running = scope.target.subresource.is_some_and(|subresource| RUNNING.contains(&subresource.name));
    if is_running && request.head.method != Method::POST {
        scope.admission.allow_also("create").await?;
    }
    if scope.stored(&scope.key()).await?.is_none() {
        return Err(scope.no_object());
    }
    let subresource = scope.target.subresource.map_or("", |subresource| subresource.name);
    let message = format!("{}/{subresource} is not implemented by this server", resource.plural);
    let details = Details::of(resource.group, resource.plural, scope.target.name);
    Err(Status::other(StatusCode::NOT_IMPLEMENTED, "NotImplemented", message, Some(details)))
}
