//! Reads a collection, all of it or a page (AP-70 to AP-76).

use std::sync::Arc;

use portcullis_store::{Entry, List, Revision, Store as _, StoreError};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::list_options::{ListOptions, Token};
use super::request_scope::RequestScope;
use super::{freshness, storage};
use crate::http::status::Status;

/// The number of objects read from the store at a time when a selector filters them.
const CHUNK: usize = 500;

/// A page of a collection.
pub(crate) struct Page {
    /// The selected objects.
    pub(crate) entries: Vec<Arc<Entry>>,
    /// The metadata of the list.
    pub(crate) meta: ListMeta,
}

/// Returns the key prefix of a list.
pub(crate) fn prefix(scope: &RequestScope<'_>) -> String {
    storage::prefix(scope.target.resource, scope.target.namespace)
}

/// Where a page begins.
pub(crate) struct Start {
    /// The revision of the list; none for the newest.
    pub(crate) at: Option<Revision>,
    /// Only keys after this one.
    pub(crate) after: Option<Box<str>>,
    /// What continues the list if the revision of its token is no longer there (ET-23).
    pub(crate) instead: Option<Token>,
}

/// Reads where a page begins, and waits until that can be read.
///
/// # Errors
/// 400 for an invalid token or revision, 504 for a revision that is not reached in time.
pub(crate) async fn begin(scope: &RequestScope<'_>, options: &ListOptions) -> Result<Start, Status> {
    if options.token.is_empty() {
        let invalid = |error| Status::bad_request(format!("resourceVersion: {error}"));
        let asked = scope.wait_for_read(&options.resource_version, invalid).await?;
        // A page of an old revision must be exact, so that the next page can use the same revision.
        let is_exact = options.is_exact || options.limit > 0 && asked.is_some();
        return Ok(Start { at: asked.filter(|_| is_exact), after: None, instead: None });
    }
    if !matches!(options.resource_version.as_str(), "" | "0") {
        let message = "specifying resource version is not allowed when using continue";
        return Err(Status::bad_request(message));
    }
    let token = Token::read(&options.token)?;
    let (at, after) = (token.revision(), Some(token.key(&prefix(scope))));
    if at.is_none() {
        freshness::fresh(scope.backend).await?;
    }
    Ok(Start { at, after, instead: at.map(|_| token.at_newest()) })
}

/// Reads one page.
///
/// # Errors
/// As [`begin`]; 410 for a compacted revision (with a token that goes on at the newest one, if the revision is that of a token).
pub(crate) async fn page(scope: &RequestScope<'_>, options: &ListOptions) -> Result<Page, Status> {
    let prefix = prefix(scope);
    let Start { mut at, mut after, instead } = begin(scope, options).await?;
    let selection = &options.selection;
    let is_everything = selection.is_everything();
    let chunk = match options.limit {
        0 => 0,
        limit if is_everything => limit,
        limit => limit.max(CHUNK),
    };
    let mut found = Vec::new();
    loop {
        let part = selection.part(scope.target.resource).map(Into::into);
        let list = List { prefix: prefix.as_str().into(), part, after: after.take(), limit: chunk, at };
        let listing = scope.backend.list(&list).await.map_err(|error| match (&error, &instead) {
            (StoreError::Compacted { .. }, Some(token)) => Status::expired_token(token.text()),
            _ => storage::failed(&error),
        })?;
        let revision = listing.revision;
        at = Some(revision);
        let mut rest = listing.entries.into_iter();
        while let Some(entry) = rest.next() {
            after = Some(entry.key.clone());
            if selection.has(scope.target.resource, &entry)? {
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

/// The metadata of a list.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ListMeta {
    /// The revision of the list.
    #[serde(rename = "resourceVersion", serialize_with = "as_text")]
    pub(crate) revision: Revision,
    /// The continue token; none on the last page.
    #[serde(rename = "continue", skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<String>,
    /// The number of remaining objects, if known.
    #[serde(rename = "remainingItemCount", skip_serializing_if = "Option::is_none")]
    pub(crate) remaining: Option<usize>,
}

fn as_text<S: Serializer>(revision: &Revision, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&revision.0)
}

impl ListMeta {
    /// As documents have it.
    pub(crate) fn value(&self) -> Value {
        json!(self)
    }
}
