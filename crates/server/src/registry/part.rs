//! Parts of objects that clients read and write as documents of another kind: the scale of a deployment. What is stored
//! is the object; requests for the object itself pass through unchanged.

use bytes::Bytes;
use kinds::Map;

use super::request_scope::RequestScope;
use super::target::Target;
use super::{meta, storage};
use crate::http::status::Status;

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
    let document = (part.show)(&storage::decode(bytes)?);
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
    let document = make(&(part.show)(old))?;
    let mut object = old.clone();
    (part.put)(&mut object, &document)
        .map_err(|errors| Status::invalid_object(part.row.group, part.row.kind, scope.target.name, errors))?;
    meta::set(&mut object, "resourceVersion", meta::text(&document, "resourceVersion"));
    Ok(object)
}
