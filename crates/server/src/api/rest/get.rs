//! GET of one object.

use http::StatusCode;

use super::list_options::revision;
use super::render::View;
use super::{Call, storage};
use crate::status::{Answer, Status};

/// The object: any revision of it that is not older than the one that is asked for (AP-72).
pub(crate) async fn answer(call: &Call<'_>, view: &View) -> Result<Answer, Status> {
    let asked = call.query.first("resourceVersion").unwrap_or_default();
    call.wait_for(revision(asked).map_err(Status::unknown)?).await?;
    let entry = call.stored(&call.key()).await?.ok_or_else(|| call.no_object())?;
    view.object(StatusCode::OK, &storage::served(call.target.resource, &entry.value)?)
}
