//! The metrics of the store and of the graph that follows it.

use portcullis_client::metrics::{Counter, Family};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::etcd_metrics::EtcdMetrics;
use super::issued_metrics::IssuedMetrics;
use super::store_size::SizeMetrics;
use crate::metrics::{Durations, Timing};

/// The buckets of `node_authorizer_graph_actions_duration_seconds` (NA-72): 0.1 ms, doubled eleven times.
const GRAPH_SECONDS: &[f64] =
    &[0.0001, 0.0002, 0.0004, 0.0008, 0.0016, 0.0032, 0.0064, 0.0128, 0.0256, 0.0512, 0.1024, 0.2048];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabels {
    operation: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResourceLabels {
    resource: String,
}

/// See the module.
pub struct StoreMetrics {
    /// The durations of graph updates.
    graph: Durations<OperationLabels>,
    objects: Family<ResourceLabels, Gauge>,
    /// The revision that decisions are based on.
    pub(super) graph_revision: Gauge,
    /// The number of revisions that the engine is behind the store.
    graph_lag: Gauge,
    /// The number of times that the engine could not apply a stored object.
    pub refused_objects: Counter,
    /// The certificates that were issued.
    pub(super) issued: IssuedMetrics,
    /// The requests to etcd.
    pub(crate) etcd: EtcdMetrics,
    /// The size of the store.
    pub(crate) size: SizeMetrics,
}

impl StoreMetrics {
    /// Metrics that this registry shows.
    pub fn registered(registry: &mut Registry) -> Self {
        let metrics = Self {
            graph: Durations::new_with_constructor(|| Timing::new(GRAPH_SECONDS)),
            objects: Family::default(),
            graph_revision: Gauge::default(),
            graph_lag: Gauge::default(),
            refused_objects: Counter::default(),
            issued: IssuedMetrics::default(),
            etcd: EtcdMetrics::default(),
            size: SizeMetrics::default(),
        };
        metrics.issued.register(registry);
        metrics.etcd.register(registry);
        metrics.size.register(registry);
        registry.register(
            "portcullis_refused_objects_total",
            "Stored objects that the authorization engine could not apply",
            metrics.refused_objects.clone(),
        );
        registry.register(
            "node_authorizer_graph_actions_duration_seconds",
            "Time to apply a change to the graph",
            metrics.graph.clone(),
        );
        registry.register(
            "apiserver_storage_objects",
            "Stored objects, by resource",
            metrics.objects.clone(),
        );
        registry.register(
            "portcullis_graph_revision",
            "The revision that decisions are based on",
            metrics.graph_revision.clone(),
        );
        registry.register(
            "portcullis_graph_lag_revisions",
            "How many revisions the store is ahead of the one that decisions go by",
            metrics.graph_lag.clone(),
        );
        metrics
    }

    /// Returns the gauge of stored objects of a resource. The resource is `pods` or `roles.rbac.authorization.k8s.io`.
    pub(super) fn stored(&self, resource: String) -> Gauge {
        self.objects.get_or_create_owned(&ResourceLabels { resource })
    }

    /// Returns the histogram for graph changes of this kind.
    pub(super) fn graph(&self, operation: &'static str) -> Timing {
        self.graph.get_or_create_owned(&OperationLabels { operation })
    }

    /// Shows how far decisions are behind the newest revision of the store.
    pub(crate) fn newest(&self, revision: u64) {
        let newest = i64::try_from(revision).unwrap_or(i64::MAX);
        self.graph_lag.set(newest.saturating_sub(self.graph_revision.get()).max(0));
    }
}
