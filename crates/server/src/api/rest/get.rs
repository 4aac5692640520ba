//! GET of one object.

use http::StatusCode;

use super::render::View;
use super::request::Request;
use crate::http::status::{Answer, Status};
use crate::registry::list_options::revision;
use crate::registry::storage;

/// Returns the object, at least as new as the requested revision (AP-72).
pub(crate) async fn answer(request: &Request<'_>, view: &View) -> Result<Answer, Status> {
    let asked = request.query.first("resourceVersion").unwrap_or_default();
    request.scope.wait_for(revision(asked).map_err(Status::unknown)?).await?;
    let entry = request.scope.stored(&request.scope.key()).await?.ok_or_else(|| request.scope.no_object())?;
    view.object(StatusCode::OK, &storage::served(request.scope.target.resource, &entry.value)?)
}
