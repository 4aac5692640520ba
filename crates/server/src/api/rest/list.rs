//! GET of a collection.

use super::render::View;
use super::request::{Charged, Request};
use crate::http::status::{Answer, Status};
use crate::registry::list::{self, Page};
use crate::registry::list_options::ListOptions;

/// Returns the objects of a collection, or a page of them.
pub(crate) async fn answer(request: &Request<'_>, view: &View) -> Result<Answer, Status> {
    let options = ListOptions::read(&request.query, &request.scope.target, false)?;
    let page = list::page(&request.scope, &options).await?;
    render(request, view, &page).await
}

/// Renders a page. What is computed from many objects is computed in turn.
pub(super) async fn render(request: &Request<'_>, view: &View, page: &Page) -> Result<Answer, Status> {
    let Charged { account, is_large } = request.charged;
    let size = match view.is_as_stored() || is_large {
        true => 0,
        false => page.entries.iter().map(|entry| entry.value.len()).sum(),
    };
    let rendering = async { view.list(&page.meta, &page.entries, request.is_logged()) };
    request.app.large_work().run(account, size, rendering).await
}
