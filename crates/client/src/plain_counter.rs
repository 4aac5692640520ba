//! Counters without the suffix `_total`.

use std::fmt;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::{MetricType, TypedMetric};

/// A counter with exactly the name that it is registered with. A few counters of Kubernetes are older than the rule that
/// the names of counters end in `_total`. Clones share the count.
#[derive(Clone, Debug, Default)]
pub struct PlainCounter(Counter);

impl PlainCounter {
    /// Adds one.
    pub fn inc(&self) {
        self.0.inc();
    }
}

impl TypedMetric for PlainCounter {
    const TYPE: MetricType = MetricType::Counter;
}

impl EncodeMetric for PlainCounter {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        // The encoder of counters adds the suffix; that of gauges writes the same line without it.
        encoder.encode_gauge(&self.0.get())
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}
