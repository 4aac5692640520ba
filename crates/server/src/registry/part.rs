//! Parts of objects that clients read and write as documents of another kind: the scale of a deployment. What is stored
//! is the object; requests for the object itself pass through unchanged.

use bytes::Bytes;
use http::StatusCode;
use kinds::Map;
use serde_json::Value;

use super::request_scope::RequestScope;
use super::target::Target;
use super::{meta, storage};
use crate::http::status::{Cause, Details, Status};

impl RequestScope<'_> {
    /// The same request as one for the documents that the client reads and writes.
    pub(crate) fn documents(&self) -> RequestScope<'_> {
        match self.part {
            Some(part) => RequestScope {
                target: Target { resource: part.row, served: part.row, ..self.target },
                ..*self
            },
            None => *self,
        }
    }
}

/// The document for the client, from the bytes of the object.
///
/// # Errors
/// The bytes are not an object.
pub(crate) fn document(scope: &RequestScope<'_>, bytes: &Bytes) -> Result<Bytes, Status> {
    let Some(part) = scope.part else { return Ok(bytes.clone()) };
    let document = part.document(&storage::decode(bytes)?).map_err(without_part)?;
    storage::unstored(part.row, &document, meta::revision(&document)?)
}

/// The new object: `make` makes a new document of the present one. A resourceVersion in the document is a precondition
/// for the object.
///
/// # Errors
/// `make` fails, or something is wrong with the document.
pub(crate) fn put(
    scope: &RequestScope<'_>,
    old: &Map,
    make: impl Fn(&Map) -> Result<Map, Status>,
) -> Result<Map, Status> {
    let Some(part) = scope.part else { return make(old) };
    // One that cannot be shown can be written all the same.
    let before = part.document(old).or_else(|why| part.custom.map(|_| part_of(old)).ok_or(why));
    let document = make(&before.map_err(without_part)?)?;
    let mut object = old.clone();
    part.write(&mut object, &document)
        .map_err(|errors| Status::invalid_object(part.row.group, part.row.kind, scope.target.name, errors))?;
    // A custom kind wants a precondition; a part that has none is written to what was read.
    let revision = match meta::text(&document, "resourceVersion") {
        "" if part.custom.is_some() => meta::text(old, "resourceVersion"),
        given => given,
    };
    meta::set(&mut object, "resourceVersion", revision);
    Ok(object)
}

/// The object does not have what the part shows.
fn without_part(why: String) -> Status {
    let cause = Cause { reason: "".into(), message: why.clone(), field: String::new() };
    let details = Details { causes: vec![cause], ..Details::default() };
    let message = format!("Internal error occurred: {why}");
    Status::other(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message, Some(details))
}

/// A part of which nothing is known but whose it is.
fn part_of(object: &Map) -> Map {
    let metadata = meta::of(object);
    let known = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];
    let kept = known.iter().filter_map(|name| Some(((*name).to_owned(), metadata.get(*name)?.clone())));
    Map::from_iter([("metadata".to_owned(), Value::Object(kept.collect()))])
}
