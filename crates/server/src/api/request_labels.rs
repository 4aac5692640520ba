//! The labels of requests in metrics, as kube-apiserver has them.
//!
//! Every value is one of a closed set: methods that nobody knows are `other`, and what leads nowhere has no name.
//!
//! DIVERGES: every answer is counted, also to requests that are refused before a handler, and to those for other paths
//! than objects and health checks. Kubernetes counts only what its handlers of these answer.

use std::hash::{Hash, Hasher};

use http::header::CONTENT_TYPE;
use http::request::Parts;
use policy::review::REVIEW_GROUP;
use prometheus_client::encoding::EncodeLabelSet;

use super::route::{AUTHENTICATION_GROUP, Action, Route, Row, SELF_REVIEWS, Scope, TOKEN_REVIEWS};
use crate::http::query::Query;

/// The media type of patches that kube-apiserver counts as APPLY.
const APPLY: &[u8] = b"application/apply-patch+yaml";

/// The labels that all metrics of requests have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct RequestLabels {
    verb: &'static str,
    group: &'static str,
    version: &'static str,
    resource: &'static str,
    subresource: &'static str,
    scope: &'static str,
    component: &'static str,
}

impl Hash for RequestLabels {
    /// Hashes what differs most, because this is done for each request.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.verb.hash(state);
        self.resource.hash(state);
    }
}

/// What a route names.
struct Named {
    group: &'static str,
    version: &'static str,
    resource: &'static str,
    subresource: &'static str,
    scope: &'static str,
}

impl RequestLabels {
    /// Returns the labels of a request.
    pub(super) fn of(route: Route, head: &Parts) -> Self {
        let Named { group, version, resource, subresource, scope } = named(route);
        let verb = verb(route, head);
        // Kubernetes names its component for objects only.
        let component = if resource.is_empty() { "" } else { "apiserver" };
        Self { verb, group, version, resource, subresource, scope, component }
    }

    /// Returns the labels of a review that is posted.
    pub(super) fn of_review(route: Route) -> Self {
        let Named { group, version, resource, subresource, scope } = named(route);
        Self { verb: "POST", group, version, resource, subresource, scope, component: "apiserver" }
    }
}

/// Returns what a dry run is counted as: `All`, `invalid` for values that Kubernetes does not know, or empty.
pub(super) fn dry_run(head: &Parts) -> &'static str {
    // Most requests have no such parameter, and need not be parsed for it.
    let query =
        head.uri.query().filter(|query| query.contains("dryRun")).map(Query::parse).unwrap_or_default();
    match query.first("dryRun") {
        None => "",
        Some(_) if query.values("dryRun").all(|value| value == "All") => "All",
        Some(_) => "invalid",
    }
}

fn verb(route: Route, head: &Parts) -> &'static str {
    match route {
        Route::Object { action: Action::Patch, .. } => {
            let is_apply = head.headers.get(CONTENT_TYPE).is_some_and(|media| media.as_bytes() == APPLY);
            return if is_apply { "APPLY" } else { "PATCH" };
        }
        Route::Object { action, .. } => return action.label(),
        _ => {}
    }
    match head.method.as_str() {
        "CONNECT" => "CONNECT",
        "DELETE" => "DELETE",
        "GET" | "HEAD" => "GET",
        "PATCH" => "PATCH",
        "POST" => "POST",
        "PUT" => "PUT",
        _ => "other",
    }
}

fn named(route: Route) -> Named {
    let path = |subresource| Named { group: "", version: "", resource: "", subresource, scope: "" };
    let posted = |group, version, resource| {
        let scope = Scope::Resource.label();
        Named { group, version, resource, subresource: "", scope }
    };
    match route {
        Route::Discovery | Route::Root => path("/apis"),
        Route::Health(probe) => path(probe.path()),
        Route::Issuer(_) => path("/openid"),
        Route::Metrics => path("/metrics"),
        Route::MethodNotAllowed | Route::NotFound | Route::PageNotFound => path(""),
        Route::OpenApi => path("/openapi"),
        Route::Slis => path("/metrics/slis"),
        Route::Version => path("/version"),
        Route::SelfReview => posted(AUTHENTICATION_GROUP, "v1", SELF_REVIEWS),
        Route::TokenReview => posted(AUTHENTICATION_GROUP, "v1", TOKEN_REVIEWS),
        Route::Review { kind, version } => posted(REVIEW_GROUP, version.review().as_str(), kind.resource()),
        Route::Object { row: Row(resource), subresource, scope, .. } => Named {
            group: resource.group,
            version: resource.version,
            resource: resource.plural,
            subresource,
            scope: scope.label(),
        },
    }
}
