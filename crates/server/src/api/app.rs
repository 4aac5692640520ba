//! Everything that is needed to answer requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kinds::Kinds;
use tokio::sync::{Mutex, watch};

use super::check::Check;
use super::documents::Documents;
use super::in_flight::InFlight;
use super::server_metrics::Metrics;
use crate::admission::AdmissionPlugins;
use crate::audit::Audit;
use crate::authn::Authentication;
use crate::authn::impersonation::Remembered;
use crate::authz::Authorization;
use crate::http::limits::Limits;
use crate::registry::backend::Backend;
use crate::registry::runtime_config::RuntimeConfig;

/// Everything that is needed to answer requests. Shared by all connections.
pub struct App {
    pub(super) admission: AdmissionPlugins,
    /// Held while an object gets what all objects of its kind share, until it is stored.
    pub(super) allocating: Mutex<()>,
    pub(super) authentication: Arc<Authentication>,
    pub(super) authorization: Arc<Authorization>,
    pub(super) backend: Option<Arc<Backend>>,
    pub(super) checks: Vec<Check>,
    pub(super) documents: Documents,
    pub(super) in_flight: InFlight,
    pub(super) is_shutting_down: Arc<AtomicBool>,
    pub(super) impersonators: Remembered,
    pub(super) limits: Limits,
    pub(super) audit: Option<Audit>,
    pub(super) metrics: Metrics,
    pub(super) runtime: RuntimeConfig,
    pub(super) stopping: watch::Sender<bool>,
}

impl App {
    /// Creates an application with this authentication and authorization.
    pub fn new(
        authentication: impl Into<Arc<Authentication>>,
        authorization: impl Into<Arc<Authorization>>,
        runtime: RuntimeConfig,
        limits: Limits,
    ) -> Self {
        let metrics = Metrics::default();
        let is_shutting_down = Arc::<AtomicBool>::default();
        Self {
            admission: AdmissionPlugins::default(),
            allocating: Mutex::default(),
            authentication: authentication.into(),
            authorization: authorization.into(),
            backend: None,
            checks: vec![Check::ping(), Check::shutdown(Arc::clone(&is_shutting_down))],
            documents: Documents::new(&Kinds::built_in(), runtime),
            in_flight: in_flight(&limits, &metrics),
            is_shutting_down,
            impersonators: Remembered::default(),
            limits,
            audit: None,
            metrics,
            runtime,
            stopping: watch::Sender::new(false),
        }
    }

    /// The same application with these kinds instead of the built-in ones.
    #[must_use]
    pub fn with_kinds(mut self, kinds: &Kinds) -> Self {
        self.documents = Documents::new(kinds, self.runtime);
        self
    }

    /// Sets the storage backend. Without one, only requests that need no storage are served.
    #[must_use]
    pub fn with_backend(mut self, backend: impl Into<Arc<Backend>>) -> Self {
        self.backend = Some(backend.into());
        self
    }

    /// Sets the metrics.
    #[must_use]
    pub fn with_metrics(mut self, metrics: Metrics) -> Self {
        self.in_flight = in_flight(&self.limits, &metrics);
        self.metrics = metrics;
        self
    }

    /// Sets the admission plugins.
    #[must_use]
    pub fn with_admission(mut self, plugins: AdmissionPlugins) -> Self {
        self.admission = plugins;
        self
    }

    /// The enabled admission plugins.
    pub fn admission(&self) -> AdmissionPlugins {
        self.admission
    }

    /// Enables the audit log.
    #[must_use]
    pub fn with_audit(mut self, audit: Audit) -> Self {
        self.audit = Some(audit);
        self
    }

    /// Adds a health check.
    #[must_use]
    pub fn with_check(mut self, check: Check) -> Self {
        // The shutdown check is last, as in kube-apiserver.
        self.checks.insert(self.checks.len().saturating_sub(1), check);
        self
    }

    /// The user who makes the request.
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

    /// The kinds that are served.
    pub(crate) fn kinds(&self) -> &Kinds {
        self.documents.kinds()
    }

    /// Returns the storage backend, if any.
    pub fn backend(&self) -> Option<&Backend> {
        self.backend.as_deref()
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

    pub(crate) fn documents(&self) -> &Documents {
        &self.documents
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }
}

fn in_flight(limits: &Limits, metrics: &Metrics) -> InFlight {
    InFlight::new((limits.read_only_in_flight, limits.mutating_in_flight), metrics.in_flight())
}
