//! From a request that was allowed to its handler.

use http::request::Parts;
use hyper::body::Incoming;
use policy::request_info::RequestInfo;

use super::app::App;
use super::route::Route;
use super::{
    discovery, health, issuer, metrics, openapi, rest, reviews, self_review, slis, token_review, version,
};
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
    let answer = match (route, asked.target) {
        (Route::Object { action, .. }, Some(target)) => {
            rest::answer((app, app.backend()), permit, asked.info, target, action, head, body).await
        }
        (Route::Health(probe), _) => Ok(health::answer(permit, app, probe, path, head)),
        (Route::Metrics, _) => metrics::answer(permit, app, head),
        (Route::Slis, _) => slis::answer(permit, app, head),
        (Route::PageNotFound, _) => Ok(page_not_found()),
        (Route::NotFound | Route::Object { .. }, _) => Err(Status::not_found()),
        (Route::MethodNotAllowed, _) => Err(Status::method_not_allowed()),
        (Route::Version, _) => version::answer(permit, head),
        (Route::Review { kind, version }, _) => {
            reviews::answer(permit, app, kind, version, asked.info, head, body).await
        }
        (Route::SelfReview, _) => self_review::answer(permit, app, asked.info, head, body).await,
        (Route::TokenReview, _) => token_review::answer(permit, app, asked.info, head, body).await,
        (Route::Root | Route::Discovery, _) => discovery::answer(permit, app, path, head),
        (Route::Issuer(document), _) => issuer::answer(permit, app, document, head),
        (Route::OpenApi, _) => openapi::answer(permit, app, path, head),
    };
    answer.unwrap_or_else(Status::into_answer)
}
