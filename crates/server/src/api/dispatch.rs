//! From a request that was allowed to its handler.

use http::request::Parts;
use hyper::body::Incoming;
use policy::request_info::RequestInfo;

use super::app::App;
use super::route::Route;
use super::{discovery, health, issuer, metrics, openapi, rest, reviews, self_review, token_review, version};
use crate::authz::Permit;
use crate::http::status::{Answer, Status, page_not_found};
use crate::registry::target::Target;

/// The authorized request.
pub(crate) struct Asked<'a> {
    pub(crate) route: Route,
    /// The target of the path, if its kind is stored.
    pub(crate) target: Option<Target<'a>>,
    pub(crate) info: &'a RequestInfo,
}

/// Answers an authorized request.
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
            rest::answer((app, backend), permit, asked.info, target, action, head, body).await
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
