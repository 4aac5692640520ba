//! A request about objects over HTTP, as its handler sees it.

use http::request::Parts;
use serde_json::Value;

use crate::api::app::App;
use crate::audit::Trail;
use crate::http::account::Account;
use crate::http::query::Query;
use crate::registry::request_scope::RequestScope;

/// The account that is charged for a request.
#[derive(Clone, Copy)]
pub(crate) struct Charged {
    pub(crate) account: Account,
    /// Whether the request is done as large work already.
    pub(crate) is_large: bool,
}

/// An authorized request for objects, with everything that is needed to answer it.
pub(crate) struct Request<'a> {
    pub(crate) app: &'a App,
    pub(crate) charged: Charged,
    pub(crate) head: &'a Parts,
    pub(crate) query: Query,
    /// The authorized request.
    pub(crate) scope: RequestScope<'a>,
}

impl Request<'_> {
    /// Returns whether the audit log includes the response.
    pub(crate) fn is_logged(&self) -> bool {
        Trail::of(self.head).is_some_and(Trail::wants_response)
    }

    /// Notes the decoded body for the audit log.
    pub(crate) fn note(&self, object: impl FnOnce() -> Value) {
        if let Some(trail) = Trail::of(self.head) {
            trail.request_object(object);
        }
    }
}
