//! A request about objects over HTTP, as its handler sees it.

use bytes::Bytes;
use http::request::Parts;
use hyper::body::Incoming;
use serde_json::Value;

use crate::api::app::App;
use crate::audit::Trail;
use crate::http::query::Query;
use crate::http::request_body;
use crate::http::status::Status;
use crate::registry::request_scope::RequestScope;

/// An authorized request for objects, with everything that is needed to answer it.
pub(crate) struct Request<'a> {
    pub(crate) app: &'a App,
    pub(crate) head: &'a Parts,
    pub(crate) query: Query,
    /// The authorized request.
    pub(crate) scope: RequestScope<'a>,
}

impl Request<'_> {
    /// Reads the body.
    ///
    /// # Errors
    /// See [`request_body::read`].
    pub(crate) async fn body(&self, body: &mut Incoming) -> Result<Bytes, Status> {
        request_body::read(self.head, body, self.app.limits()).await
    }

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
