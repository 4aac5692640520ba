//! Everything that is measured, under the names of kube-apiserver where it has one: requests here, and the parts of the
//! server with metrics of their own.

use std::fmt;
use std::time::Duration;

use http::StatusCode;
use http::request::Parts;
use portcullis_client::metrics::{Counter, Family, exposition};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::filter_lists::FilterMetrics;
use super::health_metrics::HealthMetrics;
use super::in_flight::Gauges;
use super::request_labels::{Label, RequestLabels, dry_run};
use super::route::Route;
use crate::admission::PodSecurityMetrics;
use crate::admission::policies::PolicyMetrics;
use crate::admission::webhook::AdmissionWebhookMetrics;
use crate::audit::AuditMetrics;
use crate::authn::{AuthenticationMetrics, ImpersonationMetrics};
use crate::authz::AuthorizationMetrics;
use crate::authz::metrics::webhook::WebhookMetrics;
use crate::authz::secret_alarm::AlarmMetrics;
use crate::http::listener::ConnectionMetrics;
use crate::metrics::{Durations, FeatureMetrics, ProcessMetrics, ReloadMetrics, Timing};
use crate::registry::metrics::StoreMetrics;

/// The buckets of `apiserver_request_duration_seconds`.
const REQUEST_SECONDS: &[f64] = &[
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    20.0, 30.0, 45.0, 60.0,
];
/// All metrics.
pub struct Metrics {
    registry: Registry,
    requests: Family<CountLabels, Counter>,
    durations: Durations<DurationLabels>,
    /// For POST on each kind of review with response 201, resolved once.
    reviews: [Hot; Route::REVIEWS.len()],
    terminations: Family<TerminationLabels, Counter>,
    in_flight: Family<RequestKindLabels, Gauge>,
    in_queue: Family<RequestKindLabels, Gauge>,
    watches: Family<RequestLabels, Gauge>,
    /// Those of connections.
    pub connections: ConnectionMetrics,
    /// Of who asks.
    pub authentication: AuthenticationMetrics,
    /// Of who asks in the name of somebody else.
    pub impersonation: ImpersonationMetrics,
    /// Of decisions.
    pub authorization: AuthorizationMetrics,
    /// Of the audit log.
    pub audit: AuditMetrics,
    /// Of what is stored.
    pub store: StoreMetrics,
    /// Of filtered lists.
    pub(crate) filtered: FilterMetrics,
    /// The feature gate metrics.
    pub features: FeatureMetrics,
    /// Of health checks.
    pub(super) health: HealthMetrics,
    /// The metrics of authorization webhooks and their configuration.
    pub webhooks: WebhookMetrics,
    /// Of admission webhooks.
    pub(super) admission_webhooks: AdmissionWebhookMetrics,
    /// Of ValidatingAdmissionPolicies.
    pub(super) admission_policies: PolicyMetrics,
    /// Of Pod Security Standards.
    pub(super) pod_security: PodSecurityMetrics,
    /// Of the encryption configuration.
    pub encryption: ReloadMetrics,
    /// Of the file of deny rules.
    pub deny_rules: ReloadMetrics,
    /// Of the alarm on the secrets that nodes ask for.
    pub secret_alarm: AlarmMetrics,
}

struct Hot {
    route: Route,
    count: Counter,
    time: Timing,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CountLabels {
    #[prometheus(flatten)]
    request: RequestLabels,
    code: u16,
    dry_run: Label,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DurationLabels {
    #[prometheus(flatten)]
    request: RequestLabels,
    dry_run: Label,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TerminationLabels {
    #[prometheus(flatten)]
    request: RequestLabels,
    code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestKindLabels {
    request_kind: &'static str,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let requests = Family::<CountLabels, Counter>::default();
        let durations = Durations::new_with_constructor(|| Timing::new(REQUEST_SECONDS));
        let connections = ConnectionMetrics::default();
        registry.register(
            "apiserver_request_total",
            "Requests, by what was asked for and the code of the answer",
            requests.clone(),
        );
        registry.register(
            "apiserver_request_duration_seconds",
            "Time until the answer, by what was asked for",
            durations.clone(),
        );
        connections.register(&mut registry, "portcullis", "open_connections");
        let terminations = Family::<TerminationLabels, Counter>::default();
        let in_flight = Family::<RequestKindLabels, Gauge>::default();
        let in_queue = Family::<RequestKindLabels, Gauge>::default();
        let watches = Family::<RequestLabels, Gauge>::default();
        registry.register(
            "apiserver_request_terminations_total",
            "Requests that were refused or ended to protect the server",
            terminations.clone(),
        );
        registry.register(
            "apiserver_current_inflight_requests",
            "Requests in progress, without watches",
            in_flight.clone(),
        );
        registry.register(
            "apiserver_current_inqueue_requests",
            "Requests that wait for their turn, without watches",
            in_queue.clone(),
        );
        registry.register("apiserver_longrunning_requests", "Watches under way", watches.clone());
        registry.register_collector(Box::new(ProcessMetrics));
        let features = FeatureMetrics::default();
        features.register(&mut registry);
        let webhooks = WebhookMetrics::default();
        webhooks.register(&mut registry);
        let encryption = ReloadMetrics::default();
        encryption.register(&mut registry, "encryption");
        let deny_rules = ReloadMetrics::default();
        deny_rules.register_deny_rules(&mut registry);
        let secret_alarm = AlarmMetrics::default();
        secret_alarm.register(&mut registry);
        let reviews = Route::REVIEWS.map(|route| {
            let request = RequestLabels::of_review(route);
            let code = StatusCode::CREATED.as_u16();
            Hot {
                route,
                count: requests.get_or_create_owned(&CountLabels { request, code, dry_run: Label("") }),
                time: durations.get_or_create_owned(&DurationLabels { request, dry_run: Label("") }),
            }
        });
        Self {
            authentication: AuthenticationMetrics::registered(&mut registry),
            impersonation: ImpersonationMetrics::registered(&mut registry),
            authorization: AuthorizationMetrics::registered(&mut registry),
            audit: AuditMetrics::registered(&mut registry),
            filtered: FilterMetrics::registered(&mut registry),
            store: StoreMetrics::registered(&mut registry),
            admission_webhooks: AdmissionWebhookMetrics::registered(&mut registry),
            admission_policies: PolicyMetrics::registered(&mut registry),
            pod_security: PodSecurityMetrics::registered(&mut registry),
            registry,
            requests,
            durations,
            reviews,
            terminations,
            in_flight,
            in_queue,
            watches,
            connections,
            features,
            health: HealthMetrics::default(),
            webhooks,
            encryption,
            deny_rules,
            secret_alarm,
        }
    }
}

impl Metrics {
    /// Returns the registry, to add other metrics before serving.
    pub fn registry_mut(&mut self) -> &mut Registry {
        &mut self.registry
    }

    /// Counts an answered request.
    pub(crate) fn answered(&self, route: Route, head: &Parts, code: StatusCode, elapsed: Duration) {
        let dry_run = dry_run(head);
        if code == StatusCode::CREATED
            && dry_run == Label("")
            && let Some(hot) = self.reviews.iter().find(|hot| hot.route == route)
        {
            hot.count.inc();
            hot.time.observe(elapsed);
            return;
        }
        let request = RequestLabels::of(route, head);
        self.requests.get_or_create(&CountLabels { request, code: code.as_u16(), dry_run }).inc();
        self.durations.get_or_create(&DurationLabels { request, dry_run }).observe(elapsed);
    }

    /// Counts a request that was refused or aborted to protect the server.
    pub(crate) fn terminated(&self, route: Route, head: &Parts, code: StatusCode) {
        let labels = TerminationLabels { request: RequestLabels::of(route, head), code: code.as_u16() };
        self.terminations.get_or_create(&labels).inc();
    }

    /// Returns the gauges of concurrent read-only and mutating requests.
    pub(crate) fn in_flight(&self) -> [Gauges; 2] {
        ["readOnly", "mutating"].map(|request_kind| {
            let labels = RequestKindLabels { request_kind };
            let working = self.in_flight.get_or_create_owned(&labels);
            Gauges { working, waiting: self.in_queue.get_or_create_owned(&labels) }
        })
    }

    /// Returns the gauge of open watches of this route.
    pub(crate) fn watches(&self, route: Route, head: &Parts) -> Gauge {
        self.watches.get_or_create_owned(&RequestLabels::of(route, head))
    }

    /// Renders all metrics as text.
    ///
    /// # Errors
    /// A metric cannot be rendered.
    pub fn render(&self) -> Result<String, fmt::Error> {
        exposition(&self.registry)
    }
}
