//! The labels of requests in metrics, as kube-apiserver has them.
//!
//! Every value is one of a closed set: methods that nobody knows are `other`, and what leads nowhere has no name.
//!
//! DIVERGES: every answer is counted, also to requests that are refused before a handler, and to those for other paths
//! than objects and health checks. Kubernetes counts only what its handlers of these answer.

use std::fmt;
use std::hash::{Hash, Hasher};

use http::header::CONTENT_TYPE;
use http::request::Parts;
use policy::review::REVIEW_GROUP;
use portcullis_apimachinery::text::is_same;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};

use super::route::{AUTHENTICATION_GROUP, Action, Route, Row, SELF_REVIEWS, Scope, TOKEN_REVIEWS};
use crate::http::query::Query;

/// The media type of patches that kube-apiserver counts as APPLY.
const APPLY: &[u8] = b"application/apply-patch+yaml";

/// The value of a label. Many are empty, and are compared for each request.
#[derive(Clone, Copy, Debug, Eq)]
pub(super) struct Label(pub(super) &'static str);

impl PartialEq for Label {
    fn eq(&self, other: &Self) -> bool {
        is_same(self.0, other.0)
    }
}

impl Hash for Label {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl EncodeLabelValue for Label {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        self.0.encode(encoder)
    }
}

/// The labels that all metrics of requests have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct RequestLabels {
    verb: Label,
    group: Label,
    version: Label,
    resource: Label,
    subresource: Label,
    scope: Label,
    component: Label,
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
        Self::with(verb(route, head), named(route))
    }

    /// Returns the labels of a review that is posted.
    pub(super) fn of_review(route: Route) -> Self {
        Self::with("POST", named(route))
    }

    fn with(verb: &'static str, named: Named) -> Self {
        let Named { group, version, resource, subresource, scope } = named;
        // Kubernetes names its component for objects only.
        let component = if resource.is_empty() { "" } else { "apiserver" };
        let [verb, group, version, resource, subresource, scope, component] =
            [verb, group, version, resource, subresource, scope, component].map(Label);
        Self { verb, group, version, resource, subresource, scope, component }
    }
}

/// Returns what a dry run is counted as: `All`, `invalid` for values that Kubernetes does not know, or empty.
pub(super) fn dry_run(head: &Parts) -> Label {
    // Most requests have no such parameter, and need not be parsed for it.
    let query =
        head.uri.query().filter(|query| query.contains("dryRun")).map(Query::parse).unwrap_or_default();
    match query.first("dryRun") {
        None => Label(""),
        Some(_) if query.values("dryRun").all(|value| value == "All") => Label("All"),
        Some(_) => Label("invalid"),
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
