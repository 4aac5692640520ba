//! `/metrics`.

use http::header::{ACCEPT, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};

use portcullis_store::Store as _;

use super::app::App;
use crate::authz::Permit;
use crate::http::status::{Answer, Status, text};

/// Answers with all metrics.
pub(crate) fn answer(_permit: Permit, app: &App, head: &Parts) -> Result<Answer, Status> {
    if head.method != Method::GET {
        return Err(Status::method_not_allowed());
    }
    app.metrics().store.newest(app.backend().revision().0);
    let Ok(body) = app.metrics().render() else {
        return Ok(text(StatusCode::INTERNAL_SERVER_ERROR, "cannot write the metrics\n"));
    };
    Ok(exposed(head, body))
}

/// Returns metrics, in the text format or, on request, as OpenMetrics.
pub(super) fn exposed(head: &Parts, body: String) -> Answer {
    let mut answer = text(StatusCode::OK, body);
    let accept = head.headers.get(ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let media = if accept.contains("application/openmetrics-text") {
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    } else {
        "text/plain; version=0.0.4; charset=utf-8"
    };
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media));
    answer
}
