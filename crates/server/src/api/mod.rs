//! The API: one function from a request that was allowed to its answer.

pub mod discovery;
mod finish;
pub mod health;
pub mod issuer;
mod metrics;
mod negotiate;
mod openapi;
mod posted;
pub(crate) mod pretty;
pub mod rest;
pub mod reviews;
pub mod route;
mod self_review;
mod token_review;
mod version;

use http::request::Parts;
use hyper::body::Incoming;
use portcullis_policy as policy;

use crate::authz::Permit;
use crate::service::App;
use crate::status::{Answer, Status, page_not_found};
use rest::target::Target;
use route::Route;

pub(crate) use finish::finish;

/// What is asked, as it was authorized.
pub(crate) struct Asked<'a> {
    pub(crate) route: Route,
    /// What the path is about, if that is a kind that is stored.
    pub(crate) target: Option<Target<'a>>,
    pub(crate) info: &'a policy::request_info::RequestInfo,
}

/// Answers a request that was allowed.
pub(crate) async fn answer(
    app: &App,
    permit: Permit,
    asked: Asked<'_>,
    head: &Parts,
    body: &mut Incoming,
) -> Answer {
    let (route, path) = (asked.route, asked.info.path());
    let answer = match (route, asked.target, app.backend()) {
        (Route::Object { action, .. }, Some(target), Some(backend)) => {
            rest::answer((app, backend), permit, &asked, target, action, head, body).await
        }
        (Route::Health(probe), ..) => Ok(health::answer(permit, app, probe, path, head)),
        (Route::Metrics, ..) => metrics::answer(permit, app, head),
        (Route::PageNotFound, ..) => Ok(page_not_found()),
        (Route::NotFound | Route::Object { .. }, ..) => Err(Status::not_found()),
        (Route::MethodNotAllowed, ..) => Err(Status::method_not_allowed()),
        (Route::Version, ..) => version::answer(permit, head),
        (Route::Review { kind, version }, ..) => {
            reviews::answer(permit, app, kind, version, path, head, body).await
        }
        (Route::SelfReview, ..) => self_review::answer(permit, app, head, body).await,
        (Route::TokenReview, ..) => token_review::answer(permit, app, head, body).await,
        (Route::Root | Route::Discovery, ..) => discovery::answer(permit, app, path, head),
        (Route::Issuer(document), ..) => issuer::answer(permit, app, document, head),
        (Route::OpenApi, ..) => openapi::answer(permit, app, path, head),
    };
    answer.unwrap_or_else(Status::into_answer)
}
