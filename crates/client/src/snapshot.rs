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
use portcullis_policy::audit::inputs::{Form, Input};
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
pub(crate) const AGENT: &str = concat!("portcullis/", env!("CARGO_PKG_VERSION"), " (audit)");
const JSON: &str = "application/json";
/// Metadata is enough of some kinds.
pub(crate) const METADATA: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
/// Of others nothing but metadata is accepted: a server that cannot give it alone gives nothing (AU-17).
const METADATA_ALONE: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// The objects of one kind.
#[derive(Debug)]
pub struct Listed {
    /// The kind.
    pub kind: Kind,
    /// The objects in JSON, some of them as their metadata alone; or why there is no list.
    pub objects: Result<Vec<Bytes>, CallError>,
}

/// A list at one revision.
#[derive(Debug, PartialEq, Eq)]
pub struct List<T> {
    /// The version of the API that was asked; none if the server lacks the API, and there are no objects.
    pub version: Option<&'static str>,
    /// The `resourceVersion` of the list.
    pub revision: String,
    /// What became of its objects.
    pub objects: Vec<T>,
}

/// Reads all objects of these kinds, in the order of the kinds. A kind whose API the server may lack, and does, has no objects.
pub async fn read(connection: &Connection, kinds: impl IntoIterator<Item = Kind>) -> Vec<Listed> {
    let lists = kinds.into_iter().map(|kind| async move {
        let Some(wanted) = Wanted::of(kind) else { return Listed { kind, objects: Ok(Vec::new()) } };
        let list = list(connection, &wanted, &|_, json| json).await;
        Listed { kind, objects: list.map(|list| list.objects) }
    });
    stream::iter(lists).buffered(AT_A_TIME).collect().await
}

/// Reads all objects of these inputs of the audit, in their order. `each` makes of every object what is to be kept of it, as soon as
/// its page is there; it gets the version of the API and the object in JSON.
pub async fn read_inputs<'i, T>(
    connection: &Connection,
    inputs: impl IntoIterator<Item = &'i Input>,
    each: impl Fn(&'i Input, &'static str, Bytes) -> T,
) -> Vec<(&'i Input, Result<List<T>, CallError>)> {
    let each = &each;
    let lists = inputs.into_iter().map(|input| async move {
        let wanted = Wanted::of_input(input);
        (input, list(connection, &wanted, &|version, json| each(input, version, json)).await)
    });
    stream::iter(lists).buffered(AT_A_TIME).collect().await
}

/// Reads what is at a path, in JSON.
///
/// # Errors
/// See [`CallError`].
pub async fn read_path(connection: &Connection, path: &str) -> Result<String, CallError> {
    page(connection, path, JSON).await
}

/// A list that is wanted.
struct Wanted {
    /// The resource in each version that is read, the newest first.
    versions: Vec<Resource>,
    accept: &'static str,
    /// Whether the server may lack the API.
    is_optional: bool,
}

impl Wanted {
    fn of(kind: Kind) -> Option<Self> {
        let place = Place::of(kind)?;
        let accept = if place.metadata_only { METADATA } else { JSON };
        Some(Self { versions: place.resources(), accept, is_optional: is_optional(kind) })
    }

    fn of_input(input: &Input) -> Self {
        let Input { group, versions, resource, form, is_optional, .. } = *input;
        let versions = versions.iter().map(|version| Resource::new(group, version, resource)).collect();
        let accept = match form {
            Form::Whole => JSON,
            Form::Metadata => METADATA_ALONE,
        };
        Self { versions, accept, is_optional }
    }
}

/// Makes of an object in JSON what is to be kept of it. It also gets the version of the API.
type Each<'e, T> = dyn Fn(&'static str, Bytes) -> T + 'e;

async fn list<T>(connection: &Connection, wanted: &Wanted, each: &Each<'_, T>) -> Result<List<T>, CallError> {
    for resource in &wanted.versions {
        match anew(connection, resource, wanted.accept, each).await {
            Err(error) if error.is_not_found() && wanted.is_optional => {}
            listed => return listed,
        }
    }
    Ok(List { version: None, revision: String::new(), objects: Vec::new() })
}

/// Reads a list, and starts anew where its continue token has expired: pages of two lists do not make one.
async fn anew<T>(
    connection: &Connection,
    resource: &Resource,
    accept: &str,
    each: &Each<'_, T>,
) -> Result<List<T>, CallError> {
    let mut expired = 0;
    loop {
        match pages(connection, resource, accept, each).await {
            Err(error) if error.code() == Some(410) && expired < MOST_FAILURES => expired += 1,
            listed => return listed,
        }
    }
}

async fn pages<T>(
    connection: &Connection,
    resource: &Resource,
    accept: &str,
    each: &Each<'_, T>,
) -> Result<List<T>, CallError> {
    let mut list = List { version: Some(resource.version), revision: String::new(), objects: Vec::new() };
    let mut token = String::new();
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
        let items = page.items.unwrap_or_default().into_iter();
        list.objects.extend(items.map(|item| each(resource.version, text.slice_ref(item.get().as_bytes()))));
        list.revision = page.metadata.resource_version;
        token = page.metadata.next;
        if token.is_empty() {
            return Ok(list);
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
