//! `/metrics/slis`: the service level indicators, which are the results of the health checks.

use http::request::Parts;
use http::{Method, StatusCode};

use super::app::App;
use crate::authz::Permit;
use crate::http::status::{Answer, Status, text};

/// Answers GET with the metrics of health checks, and DELETE by beginning anew.
pub(crate) fn answer(_permit: Permit, app: &App, head: &Parts) -> Result<Answer, Status> {
    let health = &app.metrics().health;
    if head.method == Method::DELETE {
        health.reset();
        return Ok(text(StatusCode::OK, "metrics reset\n"));
    }
    if head.method != Method::GET {
        return Err(Status::method_not_allowed());
    }
    let Ok(body) = health.render() else {
        return Ok(text(StatusCode::INTERNAL_SERVER_ERROR, "cannot write the metrics\n"));
    };
    Ok(super::metrics::exposed(body))
}
