//! DELETE of one object.

use http::StatusCode;
use kinds::Map;
use kinds::schema::meta::DELETE_OPTIONS;
use serde_json::{Value, json};

use super::render::View;
use super::request::Request;
use crate::http::negotiate;
use crate::http::status::{Answer, Details, Status, json};
use crate::registry::delete::{self, Outcome};
use crate::registry::options::DeleteOptions;
use crate::registry::{decode, meta, storage};

/// Deletes an object.
pub(crate) async fn answer(request: &Request<'_>, view: &View, bytes: &[u8]) -> Result<Answer, Status> {
    view.allow(false)?;
    let options = options(request, bytes)?;
    let resource = request.scope.target.resource;
    if options.ignores_read_error {
        delete::remove_unreadable(&request.scope, &options).await?;
        return Ok(success(request, String::new()));
    }
    match delete::delete(&request.scope, &options).await? {
        Outcome::Stays(bytes) => {
            // As in Kubernetes, only clients that use the deprecated `orphanDependents` get this code.
            let code = match options.orphan_dependents {
                Some(false) => StatusCode::ACCEPTED,
                _ => StatusCode::OK,
            };
            view.object(code, &bytes)
        }
        Outcome::Gone(bytes) if resource.deletes_to_object => view.object(StatusCode::OK, &bytes),
        Outcome::Gone(bytes) => {
            let last = storage::decode(&bytes)?;
            Ok(success(request, meta::text(&last, "uid").to_owned()))
        }
    }
}

/// The answer for an object that is gone.
fn success(request: &Request<'_>, uid: String) -> Answer {
    let target = &request.scope.target;
    let details = Details { uid, ..Details::of(target.resource.group, target.resource.plural, target.name) };
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": details});
    json(StatusCode::OK, &status)
}

/// Reads the options from the body, or from the query if there is no body (AP-51).
///
/// # Errors
/// 400 for options that cannot be read, 415 for a media type that is not read, 422 for options that contradict each
/// other.
pub(crate) fn options(request: &Request<'_>, bytes: &[u8]) -> Result<DeleteOptions, Status> {
    if bytes.is_empty() {
        return DeleteOptions::from_query(&request.query);
    }
    let form = negotiate::form(&request.head.headers)?;
    let body = decode::value(bytes, form, &DELETE_OPTIONS)?;
    request.note(|| body.clone());
    match body {
        Value::Object(body) => DeleteOptions::from_body(&body, request.scope.kinds),
        Value::Null => DeleteOptions::from_body(&Map::new(), request.scope.kinds),
        _ => Err(Status::bad_request("the body is no DeleteOptions")),
    }
}
