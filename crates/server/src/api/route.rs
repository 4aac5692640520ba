//! The routes of the server. One function parses a path. Tests use the table of all paths to call every route as every
//! kind of caller.

use kinds::resource::Resource;
use policy::review::{REVIEW_GROUP, ReviewKind, ReviewVersion};

use super::documents::Documents;

/// The group of the reviews of who asks.
pub(crate) const AUTHENTICATION_GROUP: &str = "authentication.k8s.io";
pub(crate) const SELF_REVIEWS: &str = "selfsubjectreviews";
pub(crate) const TOKEN_REVIEWS: &str = "tokenreviews";

/// The route of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Route {
    /// A discovery document (AP-100).
    Discovery,
    /// A health endpoint, or one check of it.
    Health(Probe),
    /// The kind exists, but does not support the method (AP-2).
    MethodNotAllowed,
    /// `/metrics`
    Metrics,
    /// `/metrics/slis`
    Slis,
    /// Not found, below a served API group (AP-1).
    NotFound,
    /// The documents of the service account issuer.
    Issuer(IssuerDocument),
    /// `/openapi/v2`, `/openapi/v3` and the paths below it.
    OpenApi,
    /// An object, a collection, or a subresource.
    Object {
        /// The kind.
        row: Row,
        /// The subresource, or empty.
        subresource: &'static str,
        /// The action.
        action: Action,
        /// How many objects it concerns, for metrics.
        scope: Scope,
    },
    /// Not found, anywhere else (AP-1).
    PageNotFound,
    /// A review (WH-70).
    Review {
        /// The kind of the review.
        kind: Kind,
        /// The version of the review.
        version: Version,
    },
    /// `/`
    Root,
    /// `selfsubjectreviews` (WH-110).
    SelfReview,
    /// `tokenreviews` (WH-100).
    TokenReview,
    /// `/version`
    Version,
}

/// A document about who issues service-account tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IssuerDocument {
    /// `/.well-known/openid-configuration`
    Configuration,
    /// `/openid/v1/jwks`
    Keys,
}

/// A kind, as the version of the path has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Row(pub &'static Resource);

/// The action on objects, one for each authorized verb but those of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A connection to a kubelet, a pod or a service, by any verb.
    Connect,
    /// `create`
    Create,
    /// `delete`
    Delete,
    /// `deletecollection`
    DeleteCollection,
    /// `get`
    Get,
    /// `list`
    List,
    /// `patch`
    Patch,
    /// `update`
    Update,
    /// `watch`
    Watch,
}

impl Action {
    /// Returns the verb in lists of verbs.
    pub fn verb(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Create => "create",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Get => "get",
            Self::List => "list",
            Self::Patch => "patch",
            Self::Update => "update",
            Self::Watch => "watch",
        }
    }

    /// Returns the verb for metrics.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Connect => "CONNECT",
            Self::Create => "POST",
            Self::Delete => "DELETE",
            Self::DeleteCollection => "DELETECOLLECTION",
            Self::Get => "GET",
            Self::List => "LIST",
            Self::Patch => "PATCH",
            Self::Update => "PUT",
            Self::Watch => "WATCH",
        }
    }
}

/// The scope of a request, as kube-apiserver labels it in metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// A collection of a kind without namespaces, or of all namespaces.
    Cluster,
    /// A collection in a namespace.
    Namespace,
    /// One object.
    Resource,
}

impl Scope {
    /// Returns the scope for metrics.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Namespace => "namespace",
            Self::Resource => "resource",
        }
    }
}

/// A health endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Probe {
    /// `/healthz`
    Healthz,
    /// `/livez`
    Livez,
    /// `/readyz`
    Readyz,
}

impl Probe {
    /// Returns the name, without the slash.
    pub fn name(self) -> &'static str {
        self.path().trim_start_matches('/')
    }

    /// Returns the path.
    pub fn path(self) -> &'static str {
        match self {
            Self::Healthz => "/healthz",
            Self::Livez => "/livez",
            Self::Readyz => "/readyz",
        }
    }

    /// The endpoint of a path, also of one check below it.
    pub(super) fn of(path: &str) -> Option<Self> {
        let is_at = |probe: &Self| {
            path.strip_prefix(probe.path()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        [Self::Healthz, Self::Livez, Self::Readyz].into_iter().find(is_at)
    }
}

/// The supported kinds of reviews.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `localsubjectaccessreviews`
    Local,
    /// `selfsubjectaccessreviews`
    SelfAccess,
    /// `selfsubjectrulesreviews`
    SelfRules,
    /// `subjectaccessreviews`
    Subject,
}

impl Kind {
    /// All kinds, by resource name.
    pub const ALL: [Self; 4] = [Self::Local, Self::SelfAccess, Self::SelfRules, Self::Subject];

    /// Returns the resource name (plural).
    pub fn resource(self) -> &'static str {
        match self {
            Self::Local => "localsubjectaccessreviews",
            Self::SelfAccess => "selfsubjectaccessreviews",
            Self::SelfRules => "selfsubjectrulesreviews",
            Self::Subject => "subjectaccessreviews",
        }
    }

    /// Returns the kind of the documents.
    pub fn review(self) -> ReviewKind {
        match self {
            Self::Local => ReviewKind::LocalSubjectAccessReview,
            Self::SelfAccess => ReviewKind::SelfSubjectAccessReview,
            Self::SelfRules => ReviewKind::SelfSubjectRulesReview,
            Self::Subject => ReviewKind::SubjectAccessReview,
        }
    }

    /// Returns whether the resource is namespaced.
    pub fn is_namespaced(self) -> bool {
        self == Self::Local
    }
}

/// The supported versions of reviews.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// `v1`
    V1,
    /// `v1beta1`, if enabled (WH-121).
    V1beta1,
}

impl Version {
    /// Returns the version of the documents.
    pub fn review(self) -> ReviewVersion {
        match self {
            Self::V1 => ReviewVersion::V1,
            Self::V1beta1 => ReviewVersion::V1beta1,
        }
    }

    fn of(text: &str) -> Option<Self> {
        match text {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1beta1),
            _ => None,
        }
    }
}

impl Route {
    /// Returns whether requests go on after their answers have begun, and need no turn: watches and connections.
    pub(crate) fn is_long_running(self) -> bool {
        matches!(self, Self::Object { action: Action::Watch | Action::Connect, .. })
    }

    /// Returns whether requests are passed on to another server.
    pub(crate) fn is_connection(self) -> bool {
        matches!(self, Self::Object { action: Action::Connect, .. })
    }

    /// The reviews in version `v1`.
    pub(crate) const REVIEWS: [Self; 4] = [
        Self::Review { kind: Kind::Local, version: Version::V1 },
        Self::Review { kind: Kind::SelfAccess, version: Version::V1 },
        Self::Review { kind: Kind::SelfRules, version: Version::V1 },
        Self::Review { kind: Kind::Subject, version: Version::V1 },
    ];

    /// Returns the route of a decoded path. The method does not matter: handlers check it (AP-2).
    pub fn of(path: &str, documents: &Documents) -> Self {
        if !path.starts_with('/') {
            return Self::PageNotFound;
        }
        // A trailing slash is accepted only where AP-4 says so.
        let (stem, slash) = path.strip_suffix('/').map_or((path, false), |stem| (stem, true));
        let mut segments = stem.split('/');
        segments.next();
        match segments.next() {
            None => Self::Root,
            Some("api" | "apis") if documents.has(stem) => Self::Discovery,
            // Kubernetes' router passes over further slashes, but not behind `/apis` alone.
            Some("api" | "apis") if stem != "/apis/" && documents.has(stem.trim_end_matches('/')) => {
                Self::Discovery
            }
            Some("api") => Self::NotFound,
            Some("apis") => Self::of_group(stem, segments, documents),
            Some("healthz") if !slash => Self::of_probe(Probe::Healthz, segments),
            Some("livez") if !slash => Self::of_probe(Probe::Livez, segments),
            Some("readyz") if !slash => Self::of_probe(Probe::Readyz, segments),
            Some("metrics") if !slash => match (segments.next(), segments.next()) {
                (None, _) => Self::Metrics,
                (Some("slis"), None) => Self::Slis,
                _ => Self::PageNotFound,
            },
            Some("openapi") if !slash => match (segments.next(), segments.next()) {
                (Some("v2"), None) | (Some("v3"), _) => Self::OpenApi,
                _ => Self::PageNotFound,
            },
            Some(".well-known") if path == "/.well-known/openid-configuration" => {
                Self::Issuer(IssuerDocument::Configuration)
            }
            Some("openid") if path == "/openid/v1/jwks" => Self::Issuer(IssuerDocument::Keys),
            Some("version") if segments.next().is_none() => Self::Version,
            Some(_) => Self::PageNotFound,
        }
    }

    /// Returns the route of a path below a group that is not an object (AP-1). The segments are those after `/apis`.
    fn of_group<'a>(
        path: &'a str,
        mut segments: impl Iterator<Item = &'a str>,
        documents: &Documents,
    ) -> Self {
        let has = |length: usize| path.get(..length).is_some_and(|start| documents.has(start));
        let group = segments.next().unwrap_or_default();
        let length = "/apis/".len() + group.len();
        if !has(length) {
            return Self::PageNotFound;
        }
        let version = segments.next().unwrap_or_default();
        // What custom kinds do not have is no page, as in Kubernetes.
        if documents.is_custom(group) {
            let rest: Vec<&str> = segments.take(8).collect();
            let (plural, below) = match rest.as_slice() {
                ["namespaces", _, plural, below @ ..] | [plural, below @ ..] => (*plural, below),
                [] => return Self::PageNotFound,
            };
            let is_known = documents.kinds().find(group, version, plural).is_some();
            return if is_known && below.len() > 1 { Self::NotFound } else { Self::PageNotFound };
        }
        if !has(length + "/".len() + version.len()) {
            return Self::NotFound;
        }
        let (resource, is_namespaced) = match segments.next() {
            None => return Self::NotFound,
            Some("namespaces") => match (segments.next(), segments.next()) {
                (Some(namespace), Some(resource)) if !namespace.is_empty() => (resource, true),
                _ => return Self::NotFound,
            },
            Some(resource) => (resource, false),
        };
        // WH-84: only the collection, and only in its own scope.
        if segments.next().is_some() {
            return Self::NotFound;
        }
        if (group, resource, is_namespaced) == (AUTHENTICATION_GROUP, SELF_REVIEWS, false) {
            return Self::SelfReview;
        }
        if (group, resource, is_namespaced) == (AUTHENTICATION_GROUP, TOKEN_REVIEWS, false) {
            return Self::TokenReview;
        }
        let is_asked = |kind: &Kind| kind.resource() == resource && kind.is_namespaced() == is_namespaced;
        match (Kind::ALL.into_iter().find(is_asked), Version::of(version)) {
            (Some(kind), Some(version)) if group == REVIEW_GROUP => Self::Review { kind, version },
            _ => Self::NotFound,
        }
    }

    fn of_probe<'a>(probe: Probe, mut segments: impl Iterator<Item = &'a str>) -> Self {
        match (segments.next(), segments.next()) {
            (_, None) => Self::Health(probe),
            _ => Self::PageNotFound,
        }
    }

    /// Returns every served path apart from objects, at least one for each route.
    pub fn paths(documents: &Documents) -> Vec<String> {
        let mut paths: Vec<String> = [
            "/",
            "/.well-known/openid-configuration",
            "/metrics",
            "/metrics/slis",
            "/openapi/v2",
            "/openapi/v3",
            "/openid/v1/jwks",
            "/version",
        ]
        .map(str::to_owned)
        .into();
        for probe in [Probe::Healthz, Probe::Livez, Probe::Readyz] {
            paths.push(format!("/{}", probe.name()));
            paths.push(format!("/{}/ping", probe.name()));
        }
        paths.extend(documents.paths().map(str::to_owned));
        paths.push(format!("/apis/{}/v1/{SELF_REVIEWS}", AUTHENTICATION_GROUP));
        paths.push(format!("/apis/{}/v1/{TOKEN_REVIEWS}", AUTHENTICATION_GROUP));
        for version in ["v1", "v1beta1"] {
            let version = format!("/apis/{REVIEW_GROUP}/{version}");
            for kind in Kind::ALL.into_iter().filter(|_| documents.has(&version)) {
                let scope = if kind.is_namespaced() { "namespaces/default/" } else { "" };
                paths.push(format!("{version}/{scope}{}", kind.resource()));
            }
        }
        paths
    }
}

#[cfg(test)]
mod tests {
    use kinds::Kinds;

    use super::*;
    use crate::registry::runtime_config::RuntimeConfig;

    #[test]
    fn only_whole_paths_lead_anywhere_ap_1_ap_4_wh_84() {
        let documents = Documents::new(&Kinds::built_in(), RuntimeConfig::default());
        let of = |path: &str| Route::of(path, &documents);
        let subject = Route::Review { kind: Kind::Subject, version: Version::V1 };
        let local = Route::Review { kind: Kind::Local, version: Version::V1 };
        let base = "/apis/authorization.k8s.io/v1";
        for (path, route) in [
            ("/", Route::Root),
            ("//", Route::PageNotFound),
            ("", Route::PageNotFound),
            ("*", Route::PageNotFound),
            ("//api", Route::PageNotFound),
            ("/api/", Route::Discovery),
            ("/api//", Route::Discovery),
            ("/api/v1/", Route::Discovery),
            ("/api/v1/pods", Route::NotFound),
            ("/api/v2", Route::NotFound),
            ("/api/v1/widgets", Route::NotFound),
            ("/apis/", Route::Discovery),
            ("/apis/rbac.authorization.k8s.io/v1", Route::Discovery),
            ("/apis/rbac.authorization.k8s.io/v1beta1", Route::NotFound),
            ("/apis/rbac.authorization.k8s.io/v1/subjectaccessreviews", Route::NotFound),
            ("/apis/authentication.k8s.io/v1/selfsubjectreviews", Route::SelfReview),
            ("/apis/authentication.k8s.io/v1/namespaces/a/selfsubjectreviews", Route::NotFound),
            ("/apis/authentication.k8s.io/v1/tokenreviews", Route::TokenReview),
            ("/apis/authentication.k8s.io/v1/tokenreviews/x", Route::NotFound),
            ("/apis/authentication.k8s.io/v1/namespaces/a/tokenreviews", Route::NotFound),
            ("/openapi/v2", Route::OpenApi),
            ("/openapi/v2/x", Route::PageNotFound),
            ("/openapi/v3", Route::OpenApi),
            ("/openapi/v3/api/v1", Route::OpenApi),
            ("/openapi", Route::PageNotFound),
            ("/api/v1//", Route::Discovery),
            ("/apis//", Route::PageNotFound),
            ("/apis/authorization.k8s.io/v1///", Route::Discovery),
            ("/apis/nope", Route::PageNotFound),
            ("/apis/nope/v1/x", Route::PageNotFound),
            ("/apis/authorization.k8s.io/v1beta1", Route::NotFound),
            ("/apis/authorization.k8s.io/", Route::Discovery),
            ("/livez/", Route::PageNotFound),
            ("/livez/ping", Route::Health(Probe::Livez)),
            ("/livez/ping/x", Route::PageNotFound),
            ("/livezx", Route::PageNotFound),
            ("/version/", Route::Version),
            ("/metrics", Route::Metrics),
            ("/metrics/", Route::PageNotFound),
            ("/metrics/slis", Route::Slis),
            ("/metrics/slis/", Route::PageNotFound),
            ("/metrics/slis/x", Route::PageNotFound),
            ("/metrics/x", Route::PageNotFound),
        ] {
            assert_eq!(of(path), route, "{path}");
        }
        for (rest, route) in [
            ("/subjectaccessreviews", subject),
            ("/subjectaccessreviews/", subject),
            ("/subjectaccessreviews//", Route::NotFound),
            ("/subjectaccessreviews/x", Route::NotFound),
            ("//subjectaccessreviews", Route::NotFound),
            ("/SubjectAccessReviews", Route::NotFound),
            ("/watch/subjectaccessreviews", Route::NotFound),
            ("/namespaces/a/subjectaccessreviews", Route::NotFound),
            ("/localsubjectaccessreviews", Route::NotFound),
            ("/namespaces/a/localsubjectaccessreviews", local),
            ("/namespaces//localsubjectaccessreviews", Route::NotFound),
            ("/namespaces/a/localsubjectaccessreviews/x", Route::NotFound),
            ("/namespaces/a", Route::NotFound),
        ] {
            assert_eq!(of(&format!("{base}{rest}")), route, "{rest}");
        }
    }

    #[test]
    fn every_path_leads_somewhere_and_is_named_once() {
        let runtime = RuntimeConfig {
            authorization_v1beta1: true,
            rbac_v1alpha1: true,
            rbac_v1beta1: true,
            ..RuntimeConfig::default()
        };
        let documents = Documents::new(&Kinds::built_in(), runtime);
        let mut paths = Route::paths(&documents);
        for path in &paths {
            assert!(!matches!(Route::of(path, &documents), Route::NotFound | Route::PageNotFound), "{path}");
        }
        let count = paths.len();
        paths.sort();
        paths.dedup();
        assert_eq!(paths.len(), count);
    }
}
