//! Renders an object for the client: the whole object, its metadata, or a table row (AP-18, AP-90 to AP-93).

use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use kinds::Map;
use kinds::resource::Resource;
use portcullis_apimachinery::quote::quoted;
use portcullis_store::Entry;
use serde_json::{Value, json};

use super::items::Items;
use super::request::Request;
use crate::api::form::{Form, Include};
use crate::http::negotiate::{self, Accepted, PROTOBUF, Syntax};
use crate::http::status::{Answer, Status, json, json_bytes};
use crate::registry::list::ListMeta;
use crate::registry::meta::{self, now};
use crate::registry::target::Target;
use crate::registry::{decode, storage};

/// The form in which a client gets objects of a kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    resource: &'static Resource,
    /// The kind in the version of the path.
    served: &'static Resource,
    accepted: Accepted,
    include: Include,
}

impl View {
    /// Creates the view that a client asks for.
    ///
    /// # Errors
    /// 400 for an unknown `includeObject`.
    pub(crate) fn new(request: &Request<'_>, accepted: Accepted) -> Result<Self, Status> {
        let include = match request.query.first("includeObject").unwrap_or_default() {
            _ if accepted.view != negotiate::View::Table => Include::Metadata,
            "" | "Metadata" => Include::Metadata,
            "None" => Include::None,
            "Object" => Include::Object,
            other => {
                let message = format!("unrecognized includeObject value: {}", quoted(other));
                return Err(Status::bad_request(message));
            }
        };
        let Target { resource, served, .. } = request.scope.documents().target;
        Ok(Self { resource, served, accepted, include })
    }

    /// 406 if the view is not available for this response (AP-18).
    ///
    /// # Errors
    /// The client asked for the view of a list for a single object, or vice versa.
    pub(crate) fn allow(&self, is_list: bool) -> Result<(), Status> {
        match self.accepted.view {
            negotiate::View::Partial if is_list => Err(Status::not_acceptable(
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, application/json",
            )),
            negotiate::View::PartialList if !is_list => Err(Status::not_acceptable(
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, application/json",
            )),
            _ => Ok(()),
        }
    }

    /// Returns whether this is the requested view.
    pub(crate) fn is(&self, view: negotiate::View) -> bool {
        self.accepted.view == view
    }

    /// Returns whether objects are sent in protobuf.
    pub(crate) fn is_protobuf(&self) -> bool {
        self.accepted.syntax == Syntax::Protobuf
    }

    /// The form of the documents of this view; none for custom kinds, whose definitions change.
    pub(super) fn form(&self, has_columns: bool) -> Option<Form> {
        if self.resource.custom.is_some() || self.served.custom.is_some() {
            return None;
        }
        let is_table = self.is(negotiate::View::Table);
        Some(Form {
            kinds: [self.resource, self.served].map(|kind| std::ptr::from_ref(kind).addr()),
            accepted: self.accepted,
            include: self.include,
            has_columns: has_columns && is_table,
            at: if is_table { now() } else { 0 },
        })
    }

    /// Renders a bookmark: an object with only some metadata (AP-84, AP-85).
    pub(crate) fn bookmark(&self, metadata: Value) -> Result<Bytes, Status> {
        let document = match self.accepted.view {
            negotiate::View::Whole => {
                let mut empty = decode::empty(self.resource);
                empty.insert("kind".to_owned(), json!(self.resource.kind));
                empty.insert("apiVersion".to_owned(), json!(self.served.api_version()));
                empty.insert("metadata".to_owned(), metadata);
                Value::Object(empty)
            }
            negotiate::View::Partial | negotiate::View::PartialList => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": self.meta_version(), "metadata": metadata})
            }
            negotiate::View::Table => {
                let list = json!({"resourceVersion": metadata.get("resourceVersion")});
                let object = json!({"kind": "PartialObjectMetadata", "apiVersion": self.meta_version(),
                    "metadata": metadata});
                self.table(list, vec![json!({"cells": [], "object": object})], false)
            }
        };
        written(&document)
    }

    fn meta_version(&self) -> &'static str {
        if self.accepted.is_beta { "meta.k8s.io/v1beta1" } else { "meta.k8s.io/v1" }
    }

    /// Renders one object from its stored bytes.
    pub(crate) fn object(&self, code: StatusCode, bytes: &Bytes) -> Result<Answer, Status> {
        self.allow(false)?;
        Ok(json_bytes(code, self.document(bytes, true)?))
    }

    /// Renders one object as a document. `has_columns`: a table begins with its columns.
    pub(crate) fn document(&self, bytes: &Bytes, has_columns: bool) -> Result<Bytes, Status> {
        let document = match self.accepted.view {
            negotiate::View::Whole => return self.whole(bytes),
            negotiate::View::Partial | negotiate::View::PartialList => self.partial(storage::decode(bytes)?),
            negotiate::View::Table => {
                let object = storage::decode(bytes)?;
                let version = object.get("metadata").and_then(|m| m.get("resourceVersion")).cloned();
                let rows = vec![self.row(object)];
                self.table(json!({"resourceVersion": version}), rows, has_columns)
            }
        };
        written(&document)
    }

    /// Converts the bytes of an object to the version of the path.
    fn whole(&self, bytes: &Bytes) -> Result<Bytes, Status> {
        if self.served.version == self.resource.version {
            return Ok(bytes.clone());
        }
        let object = decode::shown(storage::decode(bytes)?, self.served);
        storage::unstored(self.served, &object, meta::revision(&object)?)
    }

    /// Returns whether objects are shown in the bytes that are stored.
    pub(crate) fn is_as_stored(&self) -> bool {
        // A custom object may have to be read as its definition is today.
        let is_changed = self.resource.custom.is_some();
        matches!(self.accepted.view, negotiate::View::Whole) && !self.is_protobuf() && !is_changed
    }

    /// Renders a list. `is_logged`: the audit log includes the response, which is read in JSON.
    ///
    /// # Errors
    /// 406 for a view that lists do not have; an entry is not an object.
    pub(crate) fn list(
        &self,
        meta: &ListMeta,
        entries: &[Arc<Entry>],
        is_logged: bool,
    ) -> Result<Answer, Status> {
        self.allow(true)?;
        let served = entries.iter().map(|entry| storage::served(self.resource, &entry.value));
        let served = served.collect::<Result<Vec<Bytes>, _>>()?;
        let objects = served.iter().map(|bytes| storage::decode(bytes));
        let document = match self.accepted.view {
            negotiate::View::Whole => {
                let whole =
                    served.iter().map(|bytes| self.whole(bytes)).collect::<Result<Vec<Bytes>, _>>()?;
                let list = Items { kind: self.served, meta: meta.value(), objects: whole };
                let mut answer = json_bytes(StatusCode::OK, Bytes::new());
                if self.is_protobuf() && list.is_long() && !is_logged {
                    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(PROTOBUF));
                    *answer.body_mut() = list.protobuf()?;
                } else {
                    *answer.body_mut() = list.json();
                }
                return Ok(answer);
            }
            negotiate::View::Partial | negotiate::View::PartialList => {
                let items = objects.map(|o| o.map(|object| self.partial(object)));
                let items = items.collect::<Result<Vec<Value>, _>>()?;
                json!({
                    "kind": "PartialObjectMetadataList",
                    "apiVersion": self.meta_version(),
                    "metadata": meta.value(),
                    // AP-93
                    "items": if items.is_empty() { Value::Null } else { Value::Array(items) },
                })
            }
            negotiate::View::Table => {
                let rows = objects.map(|o| o.map(|object| self.row(object))).collect::<Result<_, _>>()?;
                self.table(meta.value(), rows, true)
            }
        };
        Ok(json(StatusCode::OK, &document))
    }

    fn partial(&self, mut object: Map) -> Value {
        json!({
            "kind": "PartialObjectMetadata",
            "apiVersion": self.meta_version(),
            "metadata": object.remove("metadata").unwrap_or_default(),
        })
    }

    fn table(&self, meta: Value, rows: Vec<Value>, has_columns: bool) -> Value {
        let columns = self.resource.columns.iter().filter(|_| has_columns);
        let columns = columns.map(|column| {
            json!({
                "name": column.name,
                "type": column.kind,
                "format": column.format,
                "description": column.description,
                "priority": column.priority,
            })
        });
        let columns: Vec<Value> = match self.served.custom.filter(|_| has_columns) {
            Some(custom) => custom.columns(),
            None => columns.collect(),
        };
        // AP-90: kinds without columns of their own have no `rows` at all, rather than an empty list.
        let is_plain = self.resource.columns.iter().any(|column| column.name == "Created At");
        json!({
            "kind": "Table",
            "apiVersion": self.meta_version(),
            "metadata": meta,
            "columnDefinitions": if has_columns { Value::Array(columns) } else { Value::Null },
            "rows": if rows.is_empty() && is_plain { Value::Null } else { Value::Array(rows) },
        })
    }

    fn row(&self, object: Map) -> Value {
        let row = match self.served.custom {
            Some(custom) => custom.row(&object, now()),
            None => (self.resource.row)(&object, now()),
        };
        let object = match self.include {
            Include::Metadata => self.partial(object),
            Include::None => Value::Null,
            Include::Object => Value::Object(decode::shown(object, self.served)),
        };
        match row.completed {
            None => json!({"cells": row.cells, "object": object}),
            Some(reason) => {
                let completed = json!({"type": "Completed", "status": "True", "reason": reason,
                    "message": "The pod has completed."});
                json!({"cells": row.cells, "conditions": [completed], "object": object})
            }
        }
    }
}

fn written(document: &Value) -> Result<Bytes, Status> {
    serde_json::to_vec(document).map(Bytes::from).map_err(Status::internal)
}
