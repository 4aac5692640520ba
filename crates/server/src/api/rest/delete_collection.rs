//! DELETE of a collection.

use super::render::View;
use super::request::Request;
use super::{delete, list};
use crate::http::status::{Answer, Status};
use crate::registry::delete_collection::delete_collection;
use crate::registry::list_options::ListOptions;
use crate::registry::options::{self, read_error_option};

/// Deletes what is selected of a collection, and answers with what was there.
pub(crate) async fn answer(request: &Request<'_>, view: &View, bytes: &[u8]) -> Result<Answer, Status> {
    view.allow(true)?;
    let selected = ListOptions::read(&request.query, &request.scope.target, false)?;
    let options = delete::options(request, bytes)?;
    if options.ignores_read_error {
        let why = "is not allowed with DELETECOLLECTION, try again after removing the option";
        options::refuse("DeleteOptions", [read_error_option(why)].into_iter().collect())?;
    }
    let page = delete_collection(&request.scope, &selected, &options).await?;
    list::render(request, view, &page).await
}
