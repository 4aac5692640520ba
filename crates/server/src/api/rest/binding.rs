//! `pods/binding`, and the older `bindings` (AP-120).

use http::StatusCode;
use kinds::schema::core::BINDING;
use serde_json::json;

use super::request::Request;
use crate::http::negotiate;
use crate::http::status::{Answer, Status, json};
use crate::registry::bind::bind;
use crate::registry::decode::{self, Expected};
use crate::registry::meta;
use crate::registry::options::{self, WriteKind};

/// Binds the pod that the body names, or the pod of the path.
pub(crate) async fn answer(request: &Request<'_>, bytes: &[u8]) -> Result<Answer, Status> {
    let form = negotiate::form(&request.head.headers)?;
    let options = options::write(&request.query, WriteKind::Create)?;
    let expected = Expected { kind: BINDING.name, api_version: "v1", shape: &BINDING, custom: None };
    let mut binding = decode::document(bytes, form, expected, options.validation)?.object;
    meta::place(&mut binding, &request.scope.target)?;
    request.note(|| binding.clone().into());
    bind(&request.scope, binding, &options).await?;
    Ok(created())
}

/// Returns the response to a binding: status 201, although no object was created.
pub(crate) fn created() -> Answer {
    let code = StatusCode::CREATED;
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "code": code.as_u16()});
    json(code, &status)
}
