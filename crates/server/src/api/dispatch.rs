//! From a request that was allowed to its handler.

use std::time::Instant;

use bytes::Bytes;
use http::request::Parts;
use kinds::resources::definitions::DEFINITIONS;
use policy::request_info::RequestInfo;
use portcullis_store::Store as _;
use tokio::time::{Instant as Deadline, timeout_at};

use super::app::App;
use super::large_work::{LARGE, LargeWork};
use super::rest::request::Charged;
use super::route::{Action, Route};
use super::{
    discovery, health, issuer, metrics, openapi, rest, reviews, self_review, slis, token_review, version,
};
use crate::authz::Access;
use crate::http::account::Account;
use crate::http::negotiate::{self, Form};
use crate::http::query::Query;
use crate::http::status::{Answer, Status, page_not_found};
use crate::registry::storage;
use crate::registry::target::Target;

/// The work for a byte of YAML, in bytes of JSON.
const YAML: usize = 16;

/// The authorized request.
pub(crate) struct Asked<'a> {
    pub(crate) route: Route,
    /// The target of the path, if its kind is stored.
    pub(crate) target: Option<Target<'a>>,
    pub(crate) info: &'a RequestInfo,
    /// The account that is charged.
    pub(crate) account: Account,
    /// When the answer must be there; none for a watch.
    pub(crate) deadline: Option<Deadline>,
}

/// Answers an authorized request.
///
/// # Errors
/// 504 if there is no answer before the deadline.
pub(crate) async fn answer(
    app: &App,
    access: Access,
    asked: Asked<'_>,
    head: &Parts,
    body: Bytes,
) -> Result<Answer, Status> {
    if let Err(status) = take_event(app, &access, &asked, head, body.len()) {
        return Ok(status.into_answer());
    }
    // Aliases of YAML stand for more than they are.
    let factor = if negotiate::form(&head.headers).is_ok_and(|form| form == Form::Yaml) { YAML } else { 1 };
    let size = body.len().saturating_mul(factor).saturating_add(stored_size(app, &asked).await);
    let (size, has_costly_parts) = match costs(&asked) {
        Costs::OfSize => (size, false),
        Costs::Always => (size.max(LARGE), false),
        Costs::InParts => (size, true),
    };
    let (account, deadline) = (asked.account, asked.deadline);
    let is_large = LargeWork::is_large(size);
    // On the heap: futures are moved whole, several times.
    let work = Box::pin(dispatch(app, access, asked, (head, is_large), body));
    match deadline {
        _ if !is_large && has_costly_parts => Ok(app.large_work.run_in_parts(account, work).await),
        _ if !is_large => Ok(work.await),
        None => Ok(Box::pin(app.large_work.run(account, size, work)).await),
        // Work that has a thread of its own is not dropped by its caller: the deadline must be its own.
        Some(deadline) => {
            let work = timeout_at(deadline, work);
            Box::pin(app.large_work.run(account, size, work)).await.map_err(|_| Status::late())
        }
    }
}

/// Which requests can take long.
enum Costs {
    /// Those about large objects.
    OfSize,
    /// Whatever the size: a definition is compiled.
    Always,
    /// The check of a custom object, whatever its size: by rules, by patterns, or by many alternatives. The rest, such as the
    /// wait for the disk, is that of an ordinary write.
    InParts,
}

fn costs(asked: &Asked<'_>) -> Costs {
    let (Route::Object { action, .. }, Some(target)) = (asked.route, &asked.target) else {
        return Costs::OfSize;
    };
    match target.resource.custom {
        _ if !matches!(action, Action::Create | Action::Update | Action::Patch) => Costs::OfSize,
        _ if *target.resource == DEFINITIONS => Costs::Always,
        Some(custom) if custom.is_costly() => Costs::InParts,
        _ => Costs::OfSize,
    }
}

/// Charges the write of an event.
///
/// # Errors
/// 429 if the caller, or everybody in the namespace, has written too many.
fn take_event(
    app: &App,
    access: &Access,
    asked: &Asked<'_>,
    head: &Parts,
    bytes: usize,
) -> Result<(), Status> {
    let (Route::Object { action, .. }, Some(target)) = (asked.route, &asked.target) else { return Ok(()) };
    let is_event =
        target.resource.plural == "events" && matches!(target.resource.group, "" | "events.k8s.io");
    match action {
        Action::Create | Action::Update | Action::Patch if is_event && !is_dry_run(head) => {
            app.event_quota.take(access.user(), target.namespace, bytes, Instant::now())
        }
        _ => Ok(()),
    }
}

/// Returns whether nothing will be stored. An invalid value of the parameter is refused later.
fn is_dry_run(head: &Parts) -> bool {
    Query::parse(head.uri.query().unwrap_or_default()).first("dryRun").is_some()
}

/// The size of the object that a request changes. In bytes.
async fn stored_size(app: &App, asked: &Asked<'_>) -> usize {
    let (Route::Object { action, .. }, Some(target)) = (asked.route, &asked.target) else { return 0 };
    if target.name.is_empty() || matches!(action, Action::Get | Action::Watch) {
        return 0;
    }
    let key = storage::key(target.resource, target.namespace, target.name);
    // A store that fails now fails again when the object is read.
    Box::pin(app.backend().get(&key)).await.ok().flatten().map_or(0, |entry| entry.value.len())
}

async fn dispatch(
    app: &App,
    access: Access,
    asked: Asked<'_>,
    (head, is_large): (&Parts, bool),
    body: Bytes,
) -> Answer {
    let charged = Charged { account: asked.account, is_large };
    let (route, path) = (asked.route, asked.info.path());
    let permit = match access {
        Access::Whole(permit) => permit,
        Access::Part(permit) => {
            let answer = match (route, asked.target) {
                (Route::Object { action, .. }, Some(target)) => {
                    rest::answer_in_part(app, (permit, charged), target, action, head).await
                }
                // Only collections of objects have parts.
                _ => Err(Status::not_found()),
            };
            return answer.unwrap_or_else(Status::into_answer);
        }
    };
    let answer = match (route, asked.target) {
        (Route::Object { action, .. }, Some(target)) => {
            rest::answer((app, app.backend()), (permit, charged), asked.info, target, action, head, body)
                .await
        }
        (Route::Health(probe), _) => {
            let query = head.uri.query().unwrap_or_default();
            let record = |name, is_success| app.metrics().health.checked(probe, name, is_success);
            Ok(health::answer(app.checks(), (probe, path, query), record))
        }
        (Route::Metrics, _) => metrics::answer(permit, app, head),
        (Route::Slis, _) => slis::answer(permit, app, head),
        (Route::PageNotFound, _) => Ok(page_not_found()),
        (Route::NotFound | Route::Object { .. }, _) => Err(Status::not_found()),
        (Route::MethodNotAllowed, _) => Err(Status::method_not_allowed()),
        (Route::Version, _) => version::answer(permit, head),
        (Route::Review { kind, version }, _) => {
            Box::pin(reviews::answer(permit, app, kind, version, asked.info, head, &body)).await
        }
        (Route::SelfReview, _) => Box::pin(self_review::answer(permit, app, asked.info, head, &body)).await,
        (Route::TokenReview, _) => Box::pin(token_review::answer(permit, app, asked.info, head, &body)).await,
        (Route::Root | Route::Discovery, _) => Box::pin(discovery::answer(permit, app, path, head)).await,
        (Route::Issuer(document), _) => issuer::answer(permit, app, document, head),
        (Route::OpenApi, _) => Box::pin(openapi::answer(permit, app, path, head)).await,
    };
    answer.unwrap_or_else(Status::into_answer)
}
