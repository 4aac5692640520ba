//! GET of the part of a collection that the caller may get (BC-40).

use portcullis_store::StoreError;

use super::request::Request;
use super::{list, render::View, scanning};
use crate::api::filter_lists::HEADER;
use crate::http::status::{Answer, Status};
use crate::registry::filtered::{Filtered, ScanError, Visibility};
use crate::registry::list::begin;
use crate::registry::list_options::ListOptions;

/// How often a list is made again because rights have changed meanwhile.
const TRIES: usize = 5;

/// Returns what the caller may get of a collection, or a page of it. A caller who may get nothing gets an empty list.
///
/// # Errors
/// As for a whole list. 410 also for a page, or an exact revision, after a change of rights; 503 if rights never stop changing.
pub(crate) async fn answer(
    request: &Request<'_>,
    view: &View,
    visibility: Box<dyn Visibility>,
) -> Result<Answer, Status> {
    let app = request.app;
    let options = ListOptions::read(&request.query, &request.scope.target, false)?;
    let selection = options.selection.clone();
    let target = &request.scope.target;
    let filtered = Filtered::new(app.backend(), &app.right_changes, visibility, target, selection);
    app.metrics().filtered.lists.inc();
    for _ in 0..TRIES {
        let start = begin(&request.scope, &options).await?;
        // Whoever goes on at a revision must find the rights of then.
        let expired = || match &start.instead {
            Some(token) => Status::expired_token(token.text()),
            None => Status::expired(
                "what the caller may get has changed since this resourceVersion: list without one".to_owned(),
            ),
        };
        if start.at.is_some_and(|at| !filtered.continues(at)) {
            return Err(expired());
        }
        let scanned = async {
            let mut scan = match start.at {
                Some(at) => filtered.look_at(at, start.after.clone(), options.limit).await?,
                None => filtered.look(start.after.clone(), options.limit).await?,
            };
            scanning::complete(app.large_work(), request.charged.account, &filtered, &mut scan).await?;
            Ok(scan)
        };
        let scan = scanned.await.map_err(|error| match (error, &start.instead) {
            (ScanError::Store(StoreError::Compacted { .. }), Some(_)) => expired(),
            (error, _) => error.into(),
        })?;
        match scan.page(&filtered) {
            Some(page) => {
                let mut answer = list::render(request, view, &page).await?;
                answer.headers_mut().insert(HEADER, http::HeaderValue::from_static("true"));
                return Ok(answer);
            }
            None if start.at.is_some() => return Err(expired()),
            // Otherwise the whole list is of no use, and can be made anew.
            None if filtered.is_replaced() => break,
            None => {}
        }
    }
    Err(Status::try_again("what the caller may get changes too often for a list; try again"))
}
