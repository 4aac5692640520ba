//! A write as admission sees it.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::objects::strict;
use crate::request::User;

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// Make it.
    Create,
    /// Update: PUT, PATCH, and apply to an existing object.
    Update,
    /// Delete, also of each object of a deleted collection.
    Delete,
    /// Connect: exec, attach, port-forward, proxy.
    Connect,
}

/// A write as admission sees it (NR-4, NR-7, NR-10). Missing parts are empty strings.
///
/// Objects have `apiVersion` and `kind`; an object without them is refused (NR-113).
#[derive(Clone, Copy, Debug)]
pub struct AdmissionRequest<'a> {
    /// The requested operation.
    pub operation: Operation,
    /// The API group of the resource; empty for the core group.
    pub group: &'a str,
    /// The resource, plural.
    pub resource: &'a str,
    /// The subresource.
    pub subresource: &'a str,
    /// The namespace.
    pub namespace: &'a str,
    /// The name as determined by the endpoint, never taken from the body (NR-10).
    pub name: &'a str,
    /// The user who makes the request.
    pub user: &'a User,
    /// The submitted object.
    pub object: Option<AdmissionObject<'a>>,
    /// The object as stored, unchanged (NC-5): of an update or a delete.
    pub old_object: Option<AdmissionObject<'a>>,
}

/// An object of a request.
#[derive(Clone, Copy, Debug)]
pub enum AdmissionObject<'a> {
    /// The JSON text of the object.
    Json(&'a str),
    /// The object as a server has decoded it.
    Decoded(&'a Map<String, Value>),
}

impl<'a> AdmissionObject<'a> {
    /// Reads the fields of a type.
    pub(super) fn read<T: Deserialize<'a>>(self) -> Result<T, serde_json::Error> {
        match self {
            Self::Json(text) => strict::from_str(text),
            Self::Decoded(object) => strict::from_map(object),
        }
    }
}
