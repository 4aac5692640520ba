//! GET of one object.

use http::StatusCode;

use super::render::View;
use super::request::Request;
use crate::http::status::{Answer, Status};
use crate::registry::options::is_true;
use crate::registry::{part, storage};

/// Returns the object, at least as new as the requested revision (AP-72).
///
/// # Errors
/// 400 if the client asks for an export, which Kubernetes no longer has; 404; 504 for a revision that is not reached in
/// time.
pub(crate) async fn answer(request: &Request<'_>, view: &View) -> Result<Answer, Status> {
    if request.query.first("export").is_some_and(is_true) {
        let message = "the export parameter, deprecated since v1.14, is no longer supported";
        return Err(Status::bad_request(message));
    }
    let asked = request.query.first("resourceVersion").unwrap_or_default();
    request.scope.wait_for_read(asked, Status::unknown).await?;
    let entry = request.scope.stored(&request.scope.key()).await?.ok_or_else(|| request.scope.no_object())?;
    let bytes = storage::served(request.scope.target.resource, &entry.value)?;
    view.object(StatusCode::OK, &part::document(&request.scope, &bytes)?)
}
