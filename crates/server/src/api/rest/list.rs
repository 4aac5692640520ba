//! GET of a collection.

use super::render::View;
use super::request::Request;
use crate::http::status::{Answer, Status};
use crate::registry::list;
use crate::registry::list_options::ListOptions;

/// Returns the objects of a collection, or a page of them.
pub(crate) async fn answer(request: &Request<'_>, view: &View) -> Result<Answer, Status> {
    let options = ListOptions::read(&request.query, &request.scope.target, false)?;
    let page = list::page(&request.scope, &options).await?;
    view.list(&page.meta, &page.entries, request.is_logged()).await
}
