//! Counters and timings, under the names of kube-apiserver where it has one.
//!
//! What a caller can choose never becomes a label: routes, methods and codes come from closed sets. Counting takes
//! no lock on the paths that are taken most.

mod features;
pub(crate) mod process;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::{Method, StatusCode};
use policy::chain::Mode;
use portcullis_policy as policy;
use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::Registry;

use crate::api::route::{Labels, Route};
use crate::audit::Level;
use crate::authn::{Caller, Unauthorized};
use crate::authz::{Outcome, Verdict};
use crate::webhook::WebhookMetrics;

pub use self::features::FeatureMetrics;

/// The buckets of `apiserver_request_duration_seconds`.
const REQUEST_SECONDS: &[f64] = &[
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    20.0, 30.0, 45.0, 60.0,
];
/// The buckets of `authorization_duration_seconds` (AC-121): 1 ms, doubled fourteen times.
const AUTHORIZATION_SECONDS: &[f64] = &[
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384,
];

/// The buckets of `node_authorizer_graph_actions_duration_seconds`: 0.1 ms, doubled eleven times.
const GRAPH_SECONDS: &[f64] =
    &[0.0001, 0.0002, 0.0004, 0.0008, 0.0016, 0.0032, 0.0064, 0.0128, 0.0256, 0.0512, 0.1024, 0.2048];

pub(crate) type Durations<L> = Family<L, Timing, fn() -> Timing>;

/// All that is measured.
pub struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    durations: Durations<DurationLabels>,
    /// Of POST on each kind of review with answer 201, resolved once.
    reviews: [Hot; Route::REVIEWS.len()],
    authorization: [AuthorizationResult; 4],
    authentication: [Counter; 3],
    /// Decisions of each mode.
    allowed: [OnceLock<Counter>; 6],
    denied: [OnceLock<Counter>; 6],
    users: Family<UserLabels, Counter>,
    terminations: Family<RequestLabels, Counter>,
    in_flight: Family<RequestKindLabels, Gauge>,
    watches: Family<DurationLabels, Gauge>,
    /// How long the graph took to take a change in.
    graph: Durations<OperationLabels>,
    objects: Family<ResourceLabels, Gauge>,
    /// The revision that decisions go by.
    pub(crate) graph_revision: Gauge,
    /// How many revisions the store is ahead of that.
    pub(crate) graph_lag: Gauge,
    audit_levels: Family<LevelLabels, Counter>,
    /// Events of the audit log.
    pub(crate) audit_events: Counter,
    /// Events of the audit log that were dropped or could not be written.
    pub audit_errors: Counter,
    /// Requests that were refused because their first event could not be written.
    pub(crate) audit_rejected: Counter,
    /// What nodes asked and the Node authorizer did not allow.
    pub(crate) node_denials: Counter,
    /// Connections that are open.
    pub connections: Gauge,
    /// Handshakes that failed.
    pub handshake_failures: Counter,
    /// Stored objects that decisions cannot go by, each time that one is met.
    pub refused_objects: Counter,
    /// Which feature gates are on.
    pub features: FeatureMetrics,
    /// Of authorization webhooks and their configuration.
    pub webhooks: WebhookMetrics,
}

struct Hot {
    route: Route,
    count: Counter,
    time: Timing,
}

struct AuthorizationResult {
    attempts: Counter,
    time: Timing,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    verb: &'static str,
    group: &'static str,
    version: &'static str,
    resource: &'static str,
    subresource: &'static str,
    scope: &'static str,
    component: &'static str,
    code: u16,
    dry_run: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DurationLabels {
    verb: &'static str,
    group: &'static str,
    version: &'static str,
    resource: &'static str,
    subresource: &'static str,
    scope: &'static str,
    component: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct UserLabels {
    username: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestKindLabels {
    request_kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabels {
    operation: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResourceLabels {
    resource: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LevelLabels {
    level: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PluginLabels {
    plugin: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let requests = Family::<RequestLabels, Counter>::default();
        let durations = Durations::new_with_constructor(|| Timing::new(REQUEST_SECONDS));
        let attempts = Family::<ResultLabels, Counter>::default();
        let authorization = Durations::new_with_constructor(|| Timing::new(AUTHORIZATION_SECONDS));
        let connections = Gauge::default();
        let handshake_failures = Counter::default();
        registry.register("apiserver_request", "Requests, by route and answer", requests.clone());
        registry.register(
            "apiserver_request_duration_seconds",
            "Time from the head of a request to its answer",
            durations.clone(),
        );
        registry.register("authorization_attempts", "Authorized requests, by result", attempts.clone());
        registry.register(
            "authorization_duration_seconds",
            "Time to decide, by result",
            authorization.clone(),
        );
        registry.register("portcullis_open_connections", "Connections that are open", connections.clone());
        registry.register(
            "portcullis_tls_handshake_failures",
            "Connections that ended in the TLS handshake",
            handshake_failures.clone(),
        );
        let refused_objects = Counter::default();
        registry.register(
            "portcullis_refused_objects",
            "Stored objects that decisions cannot go by",
            refused_objects.clone(),
        );
        let authentications = Family::<ResultLabels, Counter>::default();
        let users = Family::<UserLabels, Counter>::default();
        let terminations = Family::<RequestLabels, Counter>::default();
        let in_flight = Family::<RequestKindLabels, Gauge>::default();
        let watches = Family::<DurationLabels, Gauge>::default();
        let graph = Durations::new_with_constructor(|| Timing::new(GRAPH_SECONDS));
        let objects = Family::<ResourceLabels, Gauge>::default();
        let (graph_revision, graph_lag) = (Gauge::default(), Gauge::default());
        registry.register(
            "authentication_attempts",
            "Requests, by whether it was found out who asks",
            authentications.clone(),
        );
        registry.register(
            "authenticated_user_requests",
            "Requests of users who are known, by the few names that are told apart",
            users.clone(),
        );
        registry.register(
            "apiserver_request_terminations",
            "Requests refused or given up to protect the server",
            terminations.clone(),
        );
        registry.register(
            "apiserver_current_inflight_requests",
            "Requests under way, without watches",
            in_flight.clone(),
        );
        registry.register("apiserver_longrunning_requests", "Watches under way", watches.clone());
        registry.register(
            "node_authorizer_graph_actions_duration_seconds",
            "Time to take a change into the graph",
            graph.clone(),
        );
        registry.register("apiserver_storage_objects", "Stored objects, by resource", objects.clone());
        registry.register(
            "portcullis_graph_revision",
            "The revision that decisions go by",
            graph_revision.clone(),
        );
        registry.register(
            "portcullis_graph_lag_revisions",
            "How many revisions the store is ahead of the one that decisions go by",
            graph_lag.clone(),
        );
        registry.register_collector(Box::new(process::Process));
        let audit_levels = Family::<LevelLabels, Counter>::default();
        let audit_events = Counter::default();
        let audit_errors = Family::<PluginLabels, Counter>::default();
        let audit_rejected = Counter::default();
        let node_denials = Counter::default();
        registry.register("apiserver_audit_level", "Audited requests, by level", audit_levels.clone());
        registry.register("apiserver_audit_event", "Events of the audit log", audit_events.clone());
        registry.register(
            "apiserver_audit_error",
            "Events of the audit log that were dropped or could not be written",
            audit_errors.clone(),
        );
        registry.register(
            "apiserver_audit_requests_rejected",
            "Requests refused because their first audit event could not be written",
            audit_rejected.clone(),
        );
        registry.register(
            "portcullis_node_denials",
            "Requests of nodes that the Node authorizer did not allow",
            node_denials.clone(),
        );
        let features = FeatureMetrics::default();
        features.register(&mut registry);
        let webhooks = WebhookMetrics::default();
        webhooks.register(&mut registry);
        let result = |result| AuthorizationResult {
            attempts: attempts.get_or_create_owned(&ResultLabels { result }),
            time: authorization.get_or_create_owned(&ResultLabels { result }),
        };
        let reviews = Route::REVIEWS.map(|route| Hot {
            route,
            count: requests.get_or_create_owned(&request_labels(route, &Method::POST, StatusCode::CREATED)),
            time: durations.get_or_create_owned(&duration_labels(route, &Method::POST)),
        });
        Self {
            authorization: ["allowed", "error", "denied", "no-opinion"].map(result),
            registry,
            requests,
            durations,
            reviews,
            allowed: Default::default(),
            denied: Default::default(),
            authentication: ["success", "error", "failure"]
                .map(|result| authentications.get_or_create_owned(&ResultLabels { result })),
            users,
            terminations,
            in_flight,
            watches,
            graph,
            objects,
            graph_revision,
            graph_lag,
            audit_levels,
            audit_events,
            audit_errors: audit_errors.get_or_create_owned(&PluginLabels { plugin: "log" }),
            audit_rejected,
            node_denials,
            connections,
            handshake_failures,
            refused_objects,
            features,
            webhooks,
        }
    }
}

impl Metrics {
    /// Where figures of others are added, before they are served.
    pub fn registry_mut(&mut self) -> &mut Registry {
        &mut self.registry
    }

    /// Counts an answered request.
    pub(crate) fn answered(&self, route: Route, method: &Method, code: StatusCode, elapsed: Duration) {
        if code == StatusCode::CREATED
            && let Some(hot) = self.reviews.iter().find(|hot| hot.route == route)
        {
            hot.count.inc();
            hot.time.observe(elapsed);
            return;
        }
        self.requests.get_or_create(&request_labels(route, method, code)).inc();
        self.durations.get_or_create(&duration_labels(route, method)).observe(elapsed);
    }

    /// Counts a decision (AC-121).
    pub(crate) fn authorized(&self, outcome: &Outcome, elapsed: Duration) {
        let [allowed, error, denied, no_opinion] = &self.authorization;
        let result = match outcome {
            Outcome { verdict: Verdict::Allow, .. } => allowed,
            Outcome { error: Some(_), .. } => error,
            Outcome { verdict: Verdict::Deny, .. } => denied,
            Outcome { verdict: Verdict::NoOpinion, .. } => no_opinion,
        };
        result.attempts.inc();
        result.time.observe(elapsed);
    }

    /// Counts a decision by its authorizer (AC-120): who has no opinion decides nothing.
    pub(crate) fn decided(&self, outcome: &Outcome) {
        let decision = match outcome.verdict {
            Verdict::Allow => "allowed",
            Verdict::Deny => "denied",
            Verdict::NoOpinion => return,
        };
        if let Some(by) = outcome.by {
            // Looked up once: nothing is locked or copied for the next one.
            let counters = if decision == "allowed" { &self.allowed } else { &self.denied };
            let counter = || self.webhooks.decisions(by.name(), name_of(by), decision);
            match counters.get(by as usize) {
                Some(kept) => kept.get_or_init(counter).inc(),
                None => counter().inc(),
            };
        }
    }

    /// Counts whether it was found out who asks.
    pub(crate) fn authenticated(&self, result: &Result<Caller, Unauthorized>) {
        let [success, error, failure] = &self.authentication;
        match result {
            Ok(caller) => {
                success.inc();
                let username = told_apart(&caller.user().name);
                self.users.get_or_create(&UserLabels { username }).inc();
            }
            Err(cause) if cause.is_for_want_of_credentials() => drop(failure.inc()),
            Err(_) => drop(error.inc()),
        }
    }

    /// Counts a request that was refused or given up to protect the server.
    pub(crate) fn terminated(&self, route: Route, method: &Method, code: StatusCode) {
        self.terminations.get_or_create(&request_labels(route, method, code)).inc();
    }

    /// How many requests are under way that only read, and how many others.
    pub(crate) fn in_flight(&self) -> [Gauge; 2] {
        ["readOnly", "mutating"]
            .map(|request_kind| self.in_flight.get_or_create_owned(&RequestKindLabels { request_kind }))
    }

    /// How many watches of this route are under way.
    pub(crate) fn watches(&self, route: Route, method: &Method) -> Gauge {
        self.watches.get_or_create_owned(&duration_labels(route, method))
    }

    /// How many objects of this resource are stored. The resource is `pods` or `roles.rbac.authorization.k8s.io`.
    pub(crate) fn stored(&self, resource: String) -> Gauge {
        self.objects.get_or_create_owned(&ResourceLabels { resource })
    }

    /// How long changes of this kind took the graph.
    pub(crate) fn graph(&self, operation: &'static str) -> Timing {
        self.graph.get_or_create_owned(&OperationLabels { operation })
    }

    /// Counts a request that the audit policy was asked about.
    pub(crate) fn audited(&self, level: Level) {
        self.audit_levels.get_or_create(&LevelLabels { level: level.name() }).inc();
    }

    /// Everything as text.
    ///
    /// # Errors
    /// A metric that cannot be written.
    pub fn render(&self) -> Result<String, fmt::Error> {
        let mut out = String::new();
        text::encode(&mut out, &self.registry)?;
        Ok(out)
    }
}

/// The name of an authorizer that flags have put into the chain (AC-120).
fn name_of(mode: Mode) -> &'static str {
    match mode {
        Mode::Abac => "abac",
        Mode::AlwaysAllow => "alwaysallow",
        Mode::AlwaysDeny => "alwaysdeny",
        Mode::Node => "node",
        Mode::Rbac => "rbac",
        Mode::Webhook => "webhook",
    }
}

/// Users can choose their names: only those are told apart that kube-apiserver tells apart.
fn told_apart(name: &str) -> &'static str {
    match name {
        "admin" => "admin",
        "client" => "client",
        "kube_proxy" => "kube_proxy",
        "kubelet" => "kubelet",
        "system:serviceaccount:kube-system:default" => "system:serviceaccount:kube-system:default",
        name if name.contains('@') => "email_id",
        _ => "other",
    }
}

fn request_labels(route: Route, method: &Method, code: StatusCode) -> RequestLabels {
    let Labels { group, version, resource, subresource, scope } = route.labels();
    RequestLabels {
        verb: verb(route, method),
        group,
        version,
        resource,
        subresource,
        scope,
        component: "apiserver",
        code: code.as_u16(),
        dry_run: "",
    }
}

fn duration_labels(route: Route, method: &Method) -> DurationLabels {
    let Labels { group, version, resource, subresource, scope } = route.labels();
    DurationLabels {
        verb: verb(route, method),
        group,
        version,
        resource,
        subresource,
        scope,
        component: "apiserver",
    }
}

fn verb(route: Route, method: &Method) -> &'static str {
    if let Route::Object { action, .. } = route {
        return action.label();
    }
    match method.as_str() {
        "DELETE" => "DELETE",
        "GET" => "GET",
        "HEAD" => "HEAD",
        "OPTIONS" => "OPTIONS",
        "PATCH" => "PATCH",
        "POST" => "POST",
        "PUT" => "PUT",
        _ => "other",
    }
}

/// A histogram of durations without a lock.
#[derive(Clone, Debug)]
pub(crate) struct Timing(Arc<Buckets>);

#[derive(Debug)]
struct Buckets {
    bounds: &'static [f64],
    /// One for each bound, and one for what is above all of them.
    counts: Box<[AtomicU64]>,
    nanoseconds: AtomicU64,
}

impl Timing {
    pub(crate) fn new(bounds: &'static [f64]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self(Arc::new(Buckets { bounds, counts, nanoseconds: AtomicU64::new(0) }))
    }

    pub(crate) fn observe(&self, elapsed: Duration) {
        let seconds = elapsed.as_secs_f64();
        let at = self.0.bounds.iter().position(|bound| seconds <= *bound).unwrap_or(self.0.bounds.len());
        if let Some(count) = self.0.counts.get(at) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let nanoseconds = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        self.0.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }
}

impl TypedMetric for Timing {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for Timing {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        let bounds = self.0.bounds.iter().copied().chain([f64::MAX]);
        let counts = self.0.counts.iter().map(|c| c.load(Ordering::Relaxed));
        let buckets: Vec<(f64, u64)> = bounds.zip(counts).collect();
        let count = buckets.iter().map(|(_, n)| n).sum();
        let sum = Duration::from_nanos(self.0.nanoseconds.load(Ordering::Relaxed)).as_secs_f64();
        encoder.encode_histogram::<[(String, String); 0]>(sum, count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}
