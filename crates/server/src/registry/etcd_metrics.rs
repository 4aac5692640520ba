//! The metrics of requests to etcd, under the names of kube-apiserver.

use std::time::Duration;

use portcullis_client::metrics::{Counter, Family};
use portcullis_store::etcd::{GroupResource, RequestObserver};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::metrics::{Durations, Timing};

/// The buckets of `etcd_request_duration_seconds` in kube-apiserver.
const SECONDS: &[f64] = &[
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    20.0, 30.0, 45.0, 60.0,
];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    operation: &'static str,
    /// As `resource` empty for what is about no resource.
    group: &'static str,
    resource: &'static str,
}

/// See the module.
#[derive(Clone)]
pub(crate) struct EtcdMetrics {
    durations: Durations<Labels>,
    requests: Family<Labels, Counter>,
    errors: Family<Labels, Counter>,
    /// The values that cannot be read (ET-12).
    pub(crate) undecodable: Gauge,
}

impl Default for EtcdMetrics {
    fn default() -> Self {
        Self {
            durations: Durations::new_with_constructor(|| Timing::new(SECONDS)),
            requests: Family::default(),
            errors: Family::default(),
            undecodable: Gauge::default(),
        }
    }
}

impl EtcdMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "etcd_request_duration_seconds",
            "Time of requests to etcd with all attempts, by operation and resource",
            self.durations.clone(),
        );
        registry.register(
            "etcd_requests_total",
            "Requests to etcd, by operation and resource",
            self.requests.clone(),
        );
        registry.register(
            "etcd_request_errors_total",
            "Requests to etcd that failed, by operation and resource",
            self.errors.clone(),
        );
        registry.register(
            "portcullis_store_undecodable_objects",
            "Values in etcd that cannot be read, which are not served and grant nothing",
            self.undecodable.clone(),
        );
    }
}

impl RequestObserver for EtcdMetrics {
    fn request(
        &self,
        operation: &'static str,
        (group, resource): GroupResource,
        took: Duration,
        is_success: bool,
    ) {
        let labels = Labels { operation, group, resource };
        self.durations.get_or_create(&labels).observe(took);
        self.requests.get_or_create(&labels).inc();
        if !is_success {
            self.errors.get_or_create(&labels).inc();
        }
    }
}
