//! The discovery endpoints (AP-100 to AP-105).

use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};
use kinds::discovery::AGGREGATED;

use super::app::App;
use super::route::Route;
use crate::authz::Permit;
use crate::http::negotiate::{self, Forms};
use crate::http::status::{Answer, Status, json_bytes};

/// Answers with a discovery document. GET only (AP-100).
pub(crate) async fn answer(_permit: Permit, app: &App, path: &str, head: &Parts) -> Result<Answer, Status> {
    if head.method != Method::GET {
        return Err(Status::method_not_allowed());
    }
    let documents = app.documents();
    let stem = path.trim_end_matches('/');
    if stem.is_empty() {
        negotiate::document(&head.headers, Forms::DOCUMENT)?;
        return Ok(json_bytes(StatusCode::OK, documents.root(|| Route::paths(&documents)).clone()));
    }
    let discovered = documents.discovered().await?;
    if let Some(aggregated) = discovered.aggregated.get(stem)
        && negotiate::discovery(&head.headers)?
    {
        let mut answer = json_bytes(StatusCode::OK, aggregated.clone());
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(AGGREGATED));
        return Ok(answer);
    }
    negotiate::document(&head.headers, Forms::DOCUMENT)?;
    let document = discovered.plain.get(stem).ok_or_else(Status::not_found)?;
    Ok(json_bytes(StatusCode::OK, document.clone()))
}
