//! From a request about objects to the handler of its verb or subresource.

use bytes::Bytes;
use http::StatusCode;
use http::header::WARNING;
use http::request::Parts;
use kinds::resource::{Action as Acting, Endpoint};
use policy::request_info::RequestInfo;
use portcullis_store::Store as _;

use super::request::{Charged, Request};
use super::{
    binding, create, delete, delete_collection, eviction, filtered_list, filtered_watch, get, list, patch,
    render, token_request, update, watch,
};
use crate::api::app::App;
use crate::api::route::Action;
use crate::audit::Trail;
use crate::authz::{PartialPermit, Permit};
use crate::http::negotiate::{self, Forms};
use crate::http::query::Query;
use crate::http::status::{Answer, Status};
use crate::http::warning;
use crate::registry::backend::Backend;
use crate::registry::freshness::{has_missed, missed};
use crate::registry::no_writes::NoWrites;
use crate::registry::request_scope::RequestScope;
use crate::registry::storage;
use crate::registry::target::Target;

/// Answers a request for objects: dispatches subresources with their own handlers, then handles all kinds alike.
///
/// # Errors
/// An error response.
pub(crate) async fn answer(
    (app, backend): (&App, &Backend),
    (permit, charged): (Permit, Charged),
    info: &RequestInfo,
    target: Target<'_>,
    action: Action,
    head: &Parts,
    body: Bytes,
) -> Result<Answer, Status> {
    let query = Query::parse(head.uri.query().unwrap_or_default());
    let endpoint = target.resource.endpoint(target.subresource);
    let update = match endpoint {
        Endpoint::Object(update) => update,
        Endpoint::Part(_) | Endpoint::Action(_) | Endpoint::Connect => target.resource.update(),
    };
    let part = match endpoint {
        Endpoint::Part(part) => Some(part),
        Endpoint::Object(_) | Endpoint::Action(_) | Endpoint::Connect => None,
    };
    let admission = app.gate(&permit, info);
    let custom = target.resource.custom;
    let definition = custom.map(storage::definition);
    let scope = RequestScope {
        backend,
        definition: definition.as_ref(),
        admission: &admission,
        user: permit.user(),
        target,
        part,
        update,
        kinds: app.kinds(),
        allocating: &app.allocating,
        service_ranges: &app.service_ranges,
    };
    let request = Request { app, charged, head, query, scope };
    let known = backend.revision();
    let outcome = once(&request, endpoint, action, body.clone()).await;
    let is_read = matches!(action, Action::Get | Action::List | Action::Watch);
    // What failed with another code may have been done, or cannot be done now: it must not be made again.
    let refused = outcome.as_ref().err().map(Status::code).filter(|code| !is_read && code.is_client_error());
    let must_repeat = match refused {
        None => false,
        Some(StatusCode::FORBIDDEN) => Box::pin(has_missed(backend, known)).await,
        Some(_) => Box::pin(missed(backend, known)).await?,
    };
    let outcome = match must_repeat {
        true => {
            let definition = custom.map(storage::definition);
            let scope = RequestScope { definition: definition.as_ref(), ..request.scope };
            once(&Request { scope, ..request }, endpoint, action, body).await
        }
        false => outcome,
    };
    if let Some(trail) = Trail::of(head) {
        admission.annotations().into_iter().for_each(|(key, value)| trail.annotate(key, value));
    }
    let served = target.served;
    let of_custom = served.custom.and_then(|custom| custom.warning());
    let of_kind = Some(served.deprecation).filter(|text| !text.is_empty()).map(str::to_owned);
    let deprecation = of_custom.or(of_kind).and_then(|text| warning::header(&text));
    let warnings = warning::headers(admission.warnings());
    if deprecation.is_none() && warnings.is_empty() {
        return outcome;
    }
    let mut answer = outcome.unwrap_or_else(Status::into_answer);
    let headers = answer.headers_mut();
    if let Some(first) = deprecation {
        let others: Vec<_> = headers.get_all(WARNING).iter().cloned().collect();
        headers.insert(WARNING, first);
        for other in others {
            headers.append(WARNING, other);
        }
    }
    for warning in warnings {
        headers.append(WARNING, warning);
    }
    Ok(answer)
}

/// Answers a request for the part of a collection that the caller may get (BC-40). Nothing can be written with its permit.
///
/// # Errors
/// An error response.
pub(crate) async fn answer_in_part(
    app: &App,
    (permit, charged): (PartialPermit, Charged),
    target: Target<'_>,
    action: Action,
    head: &Parts,
) -> Result<Answer, Status> {
    let user = permit.user().clone();
    let scope = RequestScope {
        backend: app.backend(),
        definition: None,
        admission: &NoWrites,
        user: &user,
        target,
        part: None,
        update: target.resource.update(),
        kinds: app.kinds(),
        allocating: &app.allocating,
        service_ranges: &app.service_ranges,
    };
    let query = Query::parse(head.uri.query().unwrap_or_default());
    let request = Request { app, charged, head, query, scope };
    let view = view(&request, action)?;
    match action {
        Action::List => Box::pin(filtered_list::answer(&request, &view, Box::new(permit))).await,
        Action::Watch => Box::pin(filtered_watch::answer(&request, &view, Box::new(permit))).await,
        // Only these two are authorized in part.
        _ => Err(Status::method_not_allowed()),
    }
}

/// Answers a request as this server sees the objects now.
///
/// # Errors
/// An error response. Nothing was changed then, except that some objects of a collection may have been deleted.
async fn once(
    request: &Request<'_>,
    endpoint: Endpoint,
    action: Action,
    body: Bytes,
) -> Result<Answer, Status> {
    if let Endpoint::Object(_) | Endpoint::Part(_) = endpoint {
        return objects(request, action, body).await;
    }
    // Subresources with documents of their own are negotiated separately.
    negotiate::objects(&request.head.headers, Forms::DOCUMENT)?;
    match endpoint {
        Endpoint::Action(Acting::Bind) => Box::pin(binding::answer(request, &body)).await,
        Endpoint::Action(Acting::Evict) => Box::pin(eviction::answer(request, &body)).await,
        Endpoint::Action(Acting::RequestToken) => Box::pin(token_request::answer(request, &body)).await,
        // Others have been answered, or are passed on (`api::connect`).
        Endpoint::Object(_) | Endpoint::Part(_) | Endpoint::Connect => Err(Status::not_found()),
    }
}

/// Answers a request for objects of a kind.
///
/// # Errors
/// An error response.
async fn objects(request: &Request<'_>, action: Action, body: Bytes) -> Result<Answer, Status> {
    let view = view(request, action)?;
    // All but the smallest on the heap, so that the future of a GET is small.
    match action {
        Action::Create => Box::pin(create::answer(request, &view, &body)).await,
        Action::Delete => Box::pin(delete::answer(request, &view, &body)).await,
        Action::DeleteCollection => Box::pin(delete_collection::answer(request, &view, &body)).await,
        Action::Get => get::answer(request, &view).await,
        Action::List => Box::pin(list::answer(request, &view)).await,
        Action::Update => Box::pin(update::answer(request, &view, &body)).await,
        Action::Watch => Box::pin(watch::answer(request, &view)).await,
        // It is passed on (`api::connect`).
        Action::Connect => Err(Status::not_found()),
        Action::Patch => Box::pin(patch::answer(request, &view, body)).await,
    }
}

/// The form in which the client wants the answer.
///
/// # Errors
/// 406 for a form that there is not, 400 for a parameter of it.
fn view(request: &Request<'_>, action: Action) -> Result<render::View, Status> {
    let target = &request.scope.target;
    let forms = Forms {
        has_protobuf: target.served.schema.has_protobuf(),
        has_table: target.subresource.is_none_or(|subresource| subresource.has_table()),
    };
    let accepted = match action {
        Action::Watch => negotiate::events(&request.head.headers, forms)?,
        _ => negotiate::objects(&request.head.headers, forms)?,
    };
    render::View::new(request, accepted)
}
