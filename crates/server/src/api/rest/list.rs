//! GET of a collection (AP-70 to AP-76).

use std::sync::Arc;

use portcullis_store::{Entry, List, Revision};

use super::list_options::{ListOptions, Token, revision};
use super::render::{ListMeta, View};
use super::{Call, storage};
use crate::status::{Answer, Status};

/// What is listed from the store at one time when not everything in it is selected.
const CHUNK: usize = 500;

/// The objects of a collection, all or a page of them.
pub(crate) async fn answer(call: &Call<'_>, view: &View) -> Result<Answer, Status> {
    let options = ListOptions::read(&call.query, &call.target, false)?;
    let page = page(call, &options).await?;
    view.list(&page.meta, &page.entries)
}

/// A page of a collection.
pub(crate) struct Page {
    /// What is selected of it.
    pub(crate) entries: Vec<Arc<Entry>>,
    /// What is said about it.
    pub(crate) meta: ListMeta,
}

/// Where the keys of a list begin.
pub(crate) fn prefix(call: &Call<'_>) -> String {
    storage::prefix(call.target.resource, call.target.namespace)
}

/// Reads one page.
///
/// # Errors
/// 400 for a bad token or revision, 410 for one that is no longer held, 504 for one that is not there yet.
pub(crate) async fn page(call: &Call<'_>, options: &ListOptions) -> Result<Page, Status> {
    let prefix = prefix(call);
    let mut after = None;
    let mut at: Option<Revision> = None;
    if options.token.is_empty() {
        let asked = revision(&options.resource_version)
            .map_err(|error| Status::bad_request(format!("resourceVersion: {error}")))?;
        call.wait_for(asked).await?;
        // A page of an old revision is of exactly that one, so that the next one can be too.
        if options.is_exact || options.limit > 0 && asked.is_some() {
            at = asked;
        }
    } else {
        if !matches!(options.resource_version.as_str(), "" | "0") {
            let message = "specifying resource version is not allowed when using continue";
            return Err(Status::bad_request(message));
        }
        let token = Token::read(&options.token)?;
        at = Some(token.revision());
        after = Some(token.key(&prefix));
    }

    let selection = &options.selection;
    let is_everything = selection.is_everything();
    let chunk = match options.limit {
        0 => 0,
        limit if is_everything => limit,
        limit => limit.max(CHUNK),
    };
    let mut found = Vec::new();
    loop {
        let list = List { prefix: prefix.as_str().into(), after: after.take(), limit: chunk, at };
        let listing = call.listed(&list).await?;
        let revision = listing.revision;
        at = Some(revision);
        let mut rest = listing.entries.into_iter();
        while let Some(entry) = rest.next() {
            after = Some(entry.key.clone());
            if selection.has(call.target.resource, &entry)? {
                found.push(entry);
            }
            if options.limit == 0 || found.len() < options.limit {
                continue;
            }
            let remaining = rest.len() + listing.remaining;
            if remaining == 0 {
                break;
            }
            let key = after.as_deref().unwrap_or_default();
            let meta = ListMeta {
                revision,
                token: Some(Token::after(revision, key, &prefix).text()),
                remaining: is_everything.then_some(remaining),
            };
            return Ok(Page { entries: found, meta });
        }
        if listing.remaining == 0 || after.is_none() {
            let meta = ListMeta { revision, token: None, remaining: None };
            return Ok(Page { entries: found, meta });
        }
    }
}
