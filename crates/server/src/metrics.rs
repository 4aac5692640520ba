//! Counters and timings, under the names of kube-apiserver where it has one.
//!
//! What a caller can choose never becomes a label: routes, methods and codes come from closed sets. Counting takes
//! no lock on the paths that are taken most.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::{Method, StatusCode};
use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::Registry;

use crate::api::route::{Labels, Route};
use crate::authz::{Outcome, Verdict};
use crate::webhook::WebhookMetrics;

/// The buckets of `apiserver_request_duration_seconds`.
const REQUEST_SECONDS: &[f64] = &[
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    20.0, 30.0, 45.0, 60.0,
];
/// The buckets of `authorization_duration_seconds` (AC-121): 1 ms, doubled fourteen times.
const AUTHORIZATION_SECONDS: &[f64] = &[
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384,
];

type Durations<L> = Family<L, Timing, fn() -> Timing>;

/// All that is measured.
pub struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    durations: Durations<DurationLabels>,
    /// Of POST on each kind of review with answer 201, resolved once.
    reviews: [Hot; Route::REVIEWS.len()],
    authorization: [AuthorizationResult; 4],
    /// Connections that are open.
    pub connections: Gauge,
    /// Handshakes that failed.
    pub handshake_failures: Counter,
    /// Stored objects that decisions cannot go by, each time that one is met.
    pub refused_objects: Counter,
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
            connections,
            handshake_failures,
            refused_objects,
            webhooks,
        }
    }
}

impl Metrics {
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
struct Timing(Arc<Buckets>);

#[derive(Debug)]
struct Buckets {
    bounds: &'static [f64],
    /// One for each bound, and one for what is above all of them.
    counts: Box<[AtomicU64]>,
    nanoseconds: AtomicU64,
}

impl Timing {
    fn new(bounds: &'static [f64]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self(Arc::new(Buckets { bounds, counts, nanoseconds: AtomicU64::new(0) }))
    }

    fn observe(&self, elapsed: Duration) {
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
