//! What is measured about state files.

use std::time::{Duration, SystemTime};

use policy::engine::Engine;
use portcullis_policy as policy;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::Summary;

/// Loads of the state files, and what they brought.
#[derive(Clone, Debug, Default)]
pub struct StateMetrics {
    loads: Family<Outcome, Counter>,
    last_success: Gauge,
    duration: Gauge<f64, std::sync::atomic::AtomicU64>,
    objects: Family<OfKind, Gauge>,
    nodes: Gauge,
    vertices: Gauge,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    status: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfKind {
    kind: String,
}

impl StateMetrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        for status in ["success", "failure"] {
            drop(self.loads.get_or_create_owned(&Outcome { status }));
        }
        registry.register(
            "portcullis_state_loads",
            "Loads of the state files, by status",
            self.loads.clone(),
        );
        registry.register(
            "portcullis_state_last_success_timestamp_seconds",
            "When the state in force was loaded, in Unix time",
            self.last_success.clone(),
        );
        registry.register_with_unit(
            "portcullis_state_load_duration",
            "How long it took to load the state in force",
            Unit::Seconds,
            self.duration.clone(),
        );
        registry.register(
            "portcullis_state_objects",
            "Objects of the state in force, by kind",
            self.objects.clone(),
        );
        registry.register("portcullis_graph_nodes", "Nodes that something is bound to", self.nodes.clone());
        registry.register(
            "portcullis_graph_vertices",
            "Objects in reach of some node, and those that would be",
            self.vertices.clone(),
        );
    }

    /// Notes that a state is in force from now on.
    pub fn loaded(&self, engine: &Engine, summary: &Summary, took: Duration) {
        self.loads.get_or_create(&Outcome { status: "success" }).inc();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.last_success.set(i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
        self.duration.set(took.as_secs_f64());
        self.objects.clear();
        for (kind, count) in &summary.objects {
            let count = i64::try_from(*count).unwrap_or(i64::MAX);
            self.objects.get_or_create(&OfKind { kind: kind.to_string() }).set(count);
        }
        let size = engine.graph().size();
        self.nodes.set(i64::try_from(size.nodes).unwrap_or(i64::MAX));
        self.vertices.set(i64::try_from(size.vertices).unwrap_or(i64::MAX));
    }

    /// Notes that the files could not be used; the old state stays in force.
    pub fn refused(&self) {
        self.loads.get_or_create(&Outcome { status: "failure" }).inc();
    }
}
