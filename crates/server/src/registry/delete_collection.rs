//! Deletes what is selected of a collection (AP-56).

use http::StatusCode;

use super::list::{self, Page};
use super::list_options::ListOptions;
use super::options::DeleteOptions;
use super::request_scope::RequestScope;
use super::{delete, storage};
use crate::http::status::Status;

/// Deletes what is selected of a collection, one object after the other, and returns what was there.
///
/// # Errors
/// The collection cannot be listed, or one of the objects cannot be deleted.
pub(crate) async fn delete_collection(
    scope: &RequestScope<'_>,
    list: &ListOptions,
    options: &DeleteOptions,
) -> Result<Page, Status> {
    let page = list::page(scope, list).await?;
    for entry in &page.entries {
        let (namespace, name) = storage::place(scope.target.resource, &entry.key);
        match delete::delete_of_collection(&scope.about(namespace, name), options).await {
            Ok(_) => {}
            // A conflicting write, or what admission did not find without a name (NR-13).
            Err(status) if status.code() == StatusCode::NOT_FOUND => {}
            Err(status) => return Err(status),
        }
    }
    Ok(page)
}
