//! Everything that is needed to answer requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use kinds::Kinds;
use kinds::resources::core::services::ServiceRanges;
use policy::request_info::RequestInfo;
use tokio::sync::{Mutex, watch};

use super::check::Check;
use super::connections::Connections;
use super::documents::Documents;
use super::event_cache::EventCache;
use super::event_quota::EventQuota;
use super::filter_lists::FilterLists;
use super::in_flight::InFlight;
use super::large_work::LargeWork;
use super::server_metrics::Metrics;
use crate::admission::policies::Policies;
use crate::admission::webhook::Webhooks;
use crate::admission::{AdmissionConfiguration, AdmissionPlugins, AdmissionState, Gate};
use crate::audit::Audit;
use crate::authn::Authentication;
use crate::authn::impersonation::Remembered;
use crate::authz::{Authorization, Permit};
use crate::http::budget::Budget;
use crate::http::limits::Limits;
use crate::proxy::kubelets::Kubelets;
use crate::registry::backend::Backend;
use crate::registry::reservation::QuotaTurns;
use crate::registry::right_changes::RightChanges;
use crate::registry::runtime_config::RuntimeConfig;

/// Everything that is needed to answer requests. Shared by all connections.
pub struct App {
    admission: AdmissionState,
    /// Held while an object gets what all objects of its kind share, until it is stored.
    pub(super) allocating: Mutex<()>,
    pub(super) authentication: Arc<Authentication>,
    pub(super) authorization: Arc<Authorization>,
    pub(super) backend: Arc<Backend>,
    pub(super) checks: Vec<Check>,
    pub(super) connections: Arc<Connections>,
    documents: ArcSwap<Documents>,
    kinds: Kinds,
    /// Events of watches that were encoded a short time ago.
    event_cache: Arc<EventCache>,
    pub(super) event_quota: EventQuota,
    pub(super) filter_lists: FilterLists,
    /// The bytes that are held for each caller.
    pub(super) held: Arc<Budget>,
    pub(super) in_flight: InFlight,
    pub(super) large_work: Arc<LargeWork>,
    pub(super) is_shutting_down: Arc<AtomicBool>,
    pub(super) impersonators: Remembered,
    /// The connections to kubelets.
    pub(super) kubelets: Arc<Kubelets>,
    pub(super) limits: Limits,
    pub(super) audit: Option<Audit>,
    pub(super) metrics: Metrics,
    pub(super) right_changes: Arc<RightChanges>,
    pub(super) service_ranges: ServiceRanges,
    pub(super) stopping: watch::Sender<bool>,
    /// The open watches of each account.
    pub(super) watches: Arc<Budget>,
}

/// The parts of an [`App`].
pub struct AppConfig {
    /// The enabled admission plugins.
    pub admission: AdmissionPlugins,
    /// The configurations of admission plugins.
    pub admission_configuration: AdmissionConfiguration,
    /// The audit log, if any.
    pub audit: Option<Audit>,
    /// Authenticates requests.
    pub authentication: Arc<Authentication>,
    /// Authorizes requests.
    pub authorization: Arc<Authorization>,
    /// The stored objects.
    pub backend: Arc<Backend>,
    /// Health checks beside those of every server.
    pub checks: Vec<Check>,
    /// The bytes that are held for each caller.
    pub(crate) held: Arc<Budget>,
    /// How long events live; zero for ever.
    pub event_ttl: Duration,
    /// The callers that get filtered lists.
    pub filter_lists: FilterLists,
    /// The kinds that are served.
    pub kinds: Kinds,
    /// The connections to kubelets.
    pub(crate) kubelets: Arc<Kubelets>,
    /// The resource limits.
    pub limits: Limits,
    /// The metrics.
    pub metrics: Metrics,
    /// Shared with the controller of ResourceQuotas.
    pub(crate) quota_turns: Arc<QuotaTurns>,
    /// Tells watches to check their rights again.
    pub(crate) right_changes: Arc<RightChanges>,
    /// The optional API versions that are enabled.
    pub runtime: RuntimeConfig,
    /// Where services get their addresses and node ports from.
    pub service_ranges: ServiceRanges,
}

impl App {
    /// Creates an application.
    pub fn new(config: AppConfig) -> Self {
        let is_shutting_down = Arc::<AtomicBool>::default();
        // The shutdown check is last, as in kube-apiserver.
        let mut checks = vec![Check::ping()];
        checks.extend(config.checks);
        checks.push(Check::shutdown(Arc::clone(&is_shutting_down)));
        let admission = AdmissionState {
            plugins: config.admission,
            configuration: config.admission_configuration,
            webhooks: Webhooks::new(config.metrics.admission_webhooks.clone()),
            policies: Policies::new(config.metrics.admission_policies.clone()),
            pod_security: config.metrics.pod_security.clone(),
            quota_turns: config.quota_turns,
        };
        let documents = Documents::new(&config.kinds, config.runtime);
        let limits = (config.limits.read_only_in_flight, config.limits.mutating_in_flight);
        Self {
            admission,
            allocating: Mutex::default(),
            authentication: config.authentication,
            authorization: config.authorization,
            backend: config.backend,
            checks,
            connections: Arc::new(Connections::new(config.limits)),
            kinds: documents.kinds().clone(),
            documents: ArcSwap::from_pointee(documents),
            event_cache: Arc::default(),
            event_quota: EventQuota::new(config.event_ttl),
            filter_lists: config.filter_lists,
            held: config.held,
            in_flight: InFlight::new(limits, config.metrics.in_flight()),
            large_work: Arc::default(),
            is_shutting_down,
            impersonators: Remembered::default(),
            kubelets: config.kubelets,
            limits: config.limits,
            audit: config.audit,
            metrics: config.metrics,
            right_changes: config.right_changes,
            service_ranges: config.service_ranges,
            stopping: watch::Sender::new(false),
            watches: Budget::new(config.limits.watches),
        }
    }

    /// Works on large objects.
    pub(crate) fn large_work(&self) -> &LargeWork {
        &self.large_work
    }

    /// Returns the checks of the writes of a request that was allowed.
    pub(crate) fn gate<'a>(&'a self, permit: &'a Permit, info: &'a RequestInfo) -> Gate<'a> {
        let settings = (&*self.authorization, self.authentication.bootstrap());
        Gate::new(&self.admission, settings, permit, info)
    }

    /// The authentication of requests.
    pub fn authentication(&self) -> &Arc<Authentication> {
        &self.authentication
    }

    /// Returns the authorization.
    pub fn authorization(&self) -> &Arc<Authorization> {
        &self.authorization
    }

    /// Returns the metrics.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Events of watches that were encoded a short time ago.
    pub(crate) fn event_cache(&self) -> &Arc<EventCache> {
        &self.event_cache
    }

    /// The kinds that are served.
    pub(crate) fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// The stored objects.
    pub fn backend(&self) -> &Arc<Backend> {
        &self.backend
    }

    /// Makes `/readyz` fail, so that no new clients are sent here. All requests are still served.
    pub fn begin_shutdown(&self) {
        self.is_shutting_down.store(true, Ordering::Relaxed);
    }

    /// Ends responses that would otherwise continue indefinitely. All others may finish.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
    }

    pub(crate) fn stopping(&self) -> watch::Receiver<bool> {
        self.stopping.subscribe()
    }

    pub(crate) fn checks(&self) -> &[Check] {
        &self.checks
    }

    /// The documents that say what is served, as it is now.
    pub(crate) fn documents(&self) -> Arc<Documents> {
        let documents = self.documents.load_full();
        let Some(renewed) = documents.renewed().map(Arc::new) else { return documents };
        self.documents.store(Arc::clone(&renewed));
        renewed
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }
}
