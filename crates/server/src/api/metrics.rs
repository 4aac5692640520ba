//! `/metrics`.

use http::header::CONTENT_TYPE;
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
    Ok(exposed(body))
}

/// Returns metrics in the text format, whatever is accepted, as kube-apiserver does.
pub(super) fn exposed(body: String) -> Answer {
    let mut answer = text(StatusCode::OK, body);
    answer
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(portcullis_client::metrics::CONTENT_TYPE));
    answer
}
