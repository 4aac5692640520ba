//! DELETE of a collection (AP-56).

use hyper::body::Incoming;

use super::list_options::ListOptions;
use super::render::{ListMeta, View};
use super::{Call, delete, list, storage};
use crate::status::{Answer, Status};

/// Deletes what is selected of a collection, one object after the other, and answers with what was there.
pub(crate) async fn answer(call: Call<'_>, view: &View, body: &mut Incoming) -> Result<Answer, Status> {
    view.allow(true)?;
    let list = ListOptions::read(&call.query, &call.target, false)?;
    let options = delete::options(&call, body).await?;
    let page = list::page(&call, &list).await?;
    let resource = call.target.resource;
    let mut call = call;
    for entry in &page.entries {
        let (namespace, name) = storage::place(resource, &entry.key);
        call = call.about(namespace, name);
        match delete::delete(&call, &options).await {
            Ok(_) => {}
            // Somebody else was faster.
            Err(status) if status.code() == http::StatusCode::NOT_FOUND => {}
            Err(status) => return Err(status),
        }
    }
    let meta =
        ListMeta { revision: page.meta.revision, token: page.meta.token, remaining: page.meta.remaining };
    view.list(&meta, &page.entries)
}
