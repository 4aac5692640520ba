//! The REST API over the table of kinds: one file per verb, the same for every kind.
//!
//! What is asked is a `Target`, read from the attributes that were authorized. Handlers take the [`Permit`] with it.

pub mod admission;
pub(crate) mod binding;
mod collection;
pub(crate) mod context;
mod create;
pub(crate) mod decode;
pub(crate) mod delete;
mod escalation;
mod eviction;
mod get;
mod list;
pub(crate) mod list_options;
pub(crate) mod meta;
mod namespaces;
pub(crate) mod options;
pub(crate) mod part;
mod patch;
mod refused;
mod render;
mod selection;
pub(crate) mod storage;
mod strategy;
pub mod system_namespaces;
pub(crate) mod target;
mod token_request;
mod update;
mod watch;

use std::time::{Duration, SystemTime};

use http::request::Parts;
use hyper::body::Incoming;
use kinds::Map;
use portcullis_kinds as kinds;
use portcullis_policy::request_info::RequestInfo;
use portcullis_store::{Entry, List, Listing, Revision, Store as _};

use self::admission::{Operation, Review};
use self::strategy::Strategy;
use self::target::Target;
use super::route::Action;
use super::{Asked, negotiate};
use crate::authz::Permit;
use crate::backend::Backend;
use crate::query::Query;
use crate::service::App;
use crate::status::{Answer, Status};

/// How long a read waits for a revision that has not been reached yet (AP-72).
const FRESHNESS: Duration = Duration::from_secs(3);

/// A request about objects that was allowed, with everything that answering it needs.
pub(crate) struct Call<'a> {
    pub(crate) app: &'a App,
    pub(crate) backend: &'a Backend,
    pub(crate) permit: Permit,
    pub(crate) target: Target<'a>,
    /// How the target is changed.
    pub(crate) strategy: Strategy,
    pub(crate) info: &'a RequestInfo,
    pub(crate) head: &'a Parts,
    pub(crate) query: Query,
}

impl<'a> Call<'a> {
    /// The same call about one object of a collection.
    fn about(mut self, namespace: &'a str, name: &'a str) -> Self {
        self.target.namespace = namespace;
        self.target.name = name;
        self
    }

    /// A write of this call, to be put before admission.
    fn review<'r>(
        &'r self,
        operation: Operation,
        name: &'r str,
        object: Option<&'r mut Map>,
        old: Option<&'r Map>,
    ) -> Review<'r> {
        Review {
            app: self.app,
            backend: self.backend,
            operation,
            user: self.permit.user(),
            resource: self.target.resource,
            subresource: self.target.subresource.map_or("", |subresource| subresource.name),
            namespace: self.target.namespace,
            name,
            object,
            old,
        }
    }

    /// The object's key.
    fn key(&self) -> Box<str> {
        storage::key(self.target.resource, self.target.namespace, self.target.name)
    }

    /// 404 for the object (AP-20).
    fn no_object(&self) -> Status {
        let resource = self.target.resource;
        Status::no_object(resource.group, resource.plural, self.target.name)
    }

    /// Waits until the store has come to a revision.
    ///
    /// # Errors
    /// 504 when it does not (AP-72).
    async fn wait_for(&self, revision: Option<Revision>) -> Result<(), Status> {
        let Some(asked) = revision else { return Ok(()) };
        let started = tokio::time::Instant::now();
        while self.backend.revision() < asked {
            if started.elapsed() >= FRESHNESS {
                return Err(Status::future(asked.0, self.backend.revision().0));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    async fn stored(&self, key: &str) -> Result<Option<std::sync::Arc<Entry>>, Status> {
        self.backend.get(key).await.map_err(|error| storage::failed(&error))
    }

    async fn listed(&self, list: &List) -> Result<Listing, Status> {
        self.backend.list(list).await.map_err(|error| storage::failed(&error))
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Answers a request about objects: what the target needs of its own, and then as for every kind.
///
/// # Errors
/// The answer is a failure.
pub(crate) async fn answer(
    (app, backend): (&App, &Backend),
    permit: Permit,
    asked: &Asked<'_>,
    target: Target<'_>,
    action: Action,
    head: &Parts,
    body: &mut Incoming,
) -> Result<Answer, Status> {
    let query = Query::parse(head.uri.query().unwrap_or_default());
    let of_objects = Strategy::of(&target);
    let has_objects = of_objects.is_some();
    let strategy = of_objects.unwrap_or_else(|| Strategy::of_kind(target.resource));
    let call = Call { app, backend, permit, target, strategy, info: asked.info, head, query };
    if has_objects && !std::ptr::eq(target.resource, &raw const binding::BINDINGS) {
        return objects(call, action, body).await;
    }
    // Subresources with documents of their own are not objects of the kind.
    negotiate::objects(&call.head.headers)?;
    match (target.resource.plural, target.subresource.map_or("", |subresource| subresource.name)) {
        ("bindings", _) | ("pods", "binding") => binding::answer(call, body).await,
        ("pods", "eviction") => eviction::answer(call, body).await,
        ("serviceaccounts", "token") => token_request::answer(call, body).await,
        _ => refused::answer(&call).await,
    }
}

/// Answers a request about objects of a kind.
///
/// # Errors
/// The answer is a failure.
async fn objects(call: Call<'_>, action: Action, body: &mut Incoming) -> Result<Answer, Status> {
    let accepted = match action {
        Action::Watch => negotiate::events(&call.head.headers)?,
        _ => negotiate::objects(&call.head.headers)?,
    };
    let view = render::View::new(&call, accepted)?;
    match action {
        Action::Create => create::answer(&call, &view, body).await,
        Action::Delete => delete::answer(&call, &view, body).await,
        Action::DeleteCollection => collection::answer(call, &view, body).await,
        Action::Get => get::answer(&call, &view).await,
        Action::List => list::answer(&call, &view).await,
        Action::Update => update::answer(&call, &view, body).await,
        Action::Watch => watch::answer(&call, &view).await,
        Action::Patch => patch::answer(&call, &view, body).await,
    }
}
