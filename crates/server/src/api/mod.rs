//! The API: one function from a request that was allowed to its answer.

pub mod discovery;
mod fields;
pub mod health;
mod metrics;
mod negotiate;
mod options;
mod protobuf;
pub mod reviews;
pub mod route;
mod version;

use http::request::Parts;
use hyper::body::Incoming;

use crate::authz::Permit;
use crate::service::App;
use crate::status::{Answer, Status, page_not_found};
use route::Route;

/// Answers a request that was allowed.
pub(crate) async fn answer(
    app: &App,
    permit: Permit,
    route: Route,
    path: &str,
    head: &Parts,
    body: &mut Incoming,
) -> Answer {
    let answer = match route {
        Route::Health(probe) => Ok(health::answer(permit, app, probe, path, head)),
        Route::Metrics => metrics::answer(permit, app, head),
        Route::PageNotFound => Ok(page_not_found()),
        Route::NotFound => Err(Status::not_found()),
        Route::Version => version::answer(permit, head),
        Route::Review { kind, version } => {
            reviews::answer(permit, app, kind, version, path, head, body).await
        }
        Route::Root | Route::Discovery(_) => discovery::answer(permit, app, route, head),
    };
    answer.unwrap_or_else(Status::into_answer)
}
