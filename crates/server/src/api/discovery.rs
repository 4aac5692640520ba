//! What is served, for clients that ask before they use it (AP-100 to AP-102). Every document is written once.

use bytes::Bytes;
use http::request::Parts;
use http::{Method, StatusCode};
use policy::review::REVIEW_GROUP;
use portcullis_policy as policy;
use serde_json::{Value, json};

use super::negotiate;
use super::route::{Document, Kind, Route, Version};
use crate::authz::Permit;
use crate::config::RuntimeConfig;
use crate::service::App;
use crate::status::{Answer, Status, json_bytes};

/// The documents, written.
pub struct Documents {
    root: Bytes,
    api: Bytes,
    api_v1: Bytes,
    apis: Bytes,
    group: Bytes,
    v1: Bytes,
    v1beta1: Bytes,
}

impl Documents {
    /// The documents of a server with these versions switched on.
    pub fn new(runtime: RuntimeConfig) -> Self {
        let write = |value: Value| Bytes::from(value.to_string());
        let versions: Vec<Value> =
            [Some(Version::V1), runtime.authorization_v1beta1.then_some(Version::V1beta1)]
                .into_iter()
                .flatten()
                .map(|v| json!({"groupVersion": v.review().api_version(), "version": v.review().as_str()}))
                .collect();
        let group = json!({
            "name": REVIEW_GROUP,
            "versions": versions,
            "preferredVersion": versions.first(),
        });
        let mut standalone = json!({"kind": "APIGroup", "apiVersion": "v1"});
        if let (Some(document), Some(fields)) = (standalone.as_object_mut(), group.as_object()) {
            document.extend(fields.clone());
        }
        Self {
            root: write(json!({"paths": Route::paths(runtime)})),
            api: write(json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})),
            api_v1: write(
                json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "v1", "resources": []}),
            ),
            apis: write(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [group]})),
            group: write(standalone),
            v1: write(resources(Version::V1)),
            v1beta1: write(resources(Version::V1beta1)),
        }
    }
}

fn resources(version: Version) -> Value {
    let resources: Vec<Value> = Kind::ALL
        .into_iter()
        .map(|kind| {
            json!({
                "name": kind.resource(),
                "singularName": kind.resource().trim_end_matches('s'),
                "namespaced": kind.is_namespaced(),
                "kind": kind.review().as_str(),
                "verbs": ["create"],
            })
        })
        .collect();
    json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": version.review().api_version(),
        "resources": resources,
    })
}

/// A discovery document. GET only (AP-100).
pub(crate) fn answer(_permit: Permit, app: &App, route: Route, head: &Parts) -> Result<Answer, Status> {
    if head.method != Method::GET {
        return Err(Status::method_not_allowed());
    }
    negotiate::document(&head.headers)?;
    let documents = app.documents();
    let document = match route {
        Route::Discovery(Document::Api) => &documents.api,
        Route::Discovery(Document::ApiV1) => &documents.api_v1,
        Route::Discovery(Document::Apis) => &documents.apis,
        Route::Discovery(Document::Group) => &documents.group,
        Route::Discovery(Document::Resources(Version::V1)) => &documents.v1,
        Route::Discovery(Document::Resources(Version::V1beta1)) => &documents.v1beta1,
        Route::Root => &documents.root,
        _ => return Err(Status::not_found()),
    };
    Ok(json_bytes(StatusCode::OK, document.clone()))
}
