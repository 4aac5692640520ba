//! Reads all objects of some kinds from an API server once, for commands that look at a cluster (AU-17).
//!
//! Lists are read in pages, and a few kinds at a time. What passes is tried again, and a list whose continue token has expired
//! starts anew. Nothing is written, and nothing is asked only to find out whether it is allowed (AU-10). Objects are passed on as
//! the text that the server sent.

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream;
use http::Request;
use http::header::{ACCEPT, USER_AGENT};
use portcullis_policy::objects::Kind;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::sleep;

use crate::call::{CallError, Resource, query_value, without_content};
use crate::connect::Connection;
use crate::feed::kinds::{Place, is_optional};
use crate::random::fraction;
use crate::watched::delay;

/// The number of objects in a page (AU-17).
const PAGE: usize = 500;
/// How many kinds are read at a time (AU-17).
const AT_A_TIME: usize = 4;
/// How often a request is made again that failed for the moment, and a list that has expired.
const MOST_FAILURES: u32 = 5;
/// Says whose requests these are in the audit log of the server (AU-17).
const AGENT: &str = concat!("portcullis/", env!("CARGO_PKG_VERSION"), " (audit)");
/// Metadata is enough of some kinds.
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// The objects of one kind.
#[derive(Debug)]
pub struct Listed {
    /// The kind.
    pub kind: Kind,
    /// The objects in JSON, some of them as their metadata alone; or why there is no list.
    pub objects: Result<Vec<Bytes>, CallError>,
}

/// Reads all objects of these kinds, in the order of the kinds. A kind whose API the server may lack, and does, has no objects.
pub async fn read(connection: &Connection, kinds: impl IntoIterator<Item = Kind>) -> Vec<Listed> {
    let lists =
        kinds.into_iter().map(|kind| async move { Listed { kind, objects: list(connection, kind).await } });
    stream::iter(lists).buffered(AT_A_TIME).collect().await
}

async fn list(connection: &Connection, kind: Kind) -> Result<Vec<Bytes>, CallError> {
    let Some(place) = Place::of(kind) else { return Ok(Vec::new()) };
    let accept = if place.metadata_only { METADATA } else { "application/json" };
    let mut absent = 0;
    loop {
        match anew(connection, &place.resource(absent), accept).await {
            Err(error) if error.is_not_found() && is_optional(kind) => {
                absent += 1;
                if place.is_absent(absent) {
                    return Ok(Vec::new());
                }
            }
            listed => return listed,
        }
    }
}

/// Reads a list, and starts anew where its continue token has expired: pages of two lists do not make one.
async fn anew(connection: &Connection, resource: &Resource, accept: &str) -> Result<Vec<Bytes>, CallError> {
    let mut expired = 0;
    loop {
        match pages(connection, resource, accept).await {
            Err(error) if error.code() == Some(410) && expired < MOST_FAILURES => expired += 1,
            listed => return listed,
        }
    }
}

async fn pages(connection: &Connection, resource: &Resource, accept: &str) -> Result<Vec<Bytes>, CallError> {
    let (mut objects, mut token) = (Vec::new(), String::new());
    loop {
        let next =
            if token.is_empty() { String::new() } else { format!("&continue={}", query_value(&token)) };
        let path = format!("{}?limit={PAGE}{next}", resource.path());
        let text = Bytes::from(page(connection, &path, accept).await?);
        let page: Page<'_> = serde_json::from_slice(&text)
            .map_err(|error| CallError::Answer { path: path.clone(), why: without_content(&error) })?;
        // Without a revision it is no list, and would seem to be an empty one.
        if page.metadata.resource_version.is_empty() {
            return Err(CallError::Answer { path, why: "it has no resourceVersion".to_owned() });
        }
        let items = page.items.unwrap_or_default();
        objects.extend(items.into_iter().map(|item| text.slice_ref(item.get().as_bytes())));
        token = page.metadata.next;
        if token.is_empty() {
            return Ok(objects);
        }
    }
}

/// Reads a page. A server that has too much to do, or fails for the moment, is asked again.
async fn page(connection: &Connection, path: &str, accept: &str) -> Result<String, CallError> {
    let mut failures = 0;
    loop {
        let request = Request::get(path).header(ACCEPT, accept).header(USER_AGENT, AGENT);
        match connection.send(request, path, None).await {
            Err(error) if is_passing(&error) && failures < MOST_FAILURES => {
                sleep(delay(failures, fraction())).await;
                failures += 1;
            }
            answer => return answer,
        }
    }
}

fn is_passing(error: &CallError) -> bool {
    error.code().is_some_and(|code| code == 429 || (500..600).contains(&code))
}

#[derive(Deserialize)]
struct Page<'a> {
    metadata: ListMeta,
    /// `null` where an old server has no items.
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ListMeta {
    resource_version: String,
    #[serde(rename = "continue")]
    next: String,
}
