//! The metrics of all commands in the text format of Prometheus, which is what kube-apiserver answers as well.
//!
//! The library of metrics writes OpenMetrics, in which the names of counters have a suffix that their declarations lack. A
//! reader of the text format would find neither type nor help of such a counter.

use std::fmt;
use std::hash::Hash;
use std::ops::Deref;

use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder, text};
use prometheus_client::metrics::counter;
use prometheus_client::metrics::family::{self, MetricConstructor};
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::Registry;

/// The `Content-Type` of [`exposition`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Writes all metrics of a registry in the text format.
///
/// # Errors
/// A metric cannot be written.
pub fn exposition(registry: &Registry) -> Result<String, fmt::Error> {
    let mut text = String::new();
    text::encode_registry(&mut text, registry)?;
    Ok(text)
}

/// A counter with exactly the name that it is registered with. That of a new counter ends in `_total`; a few of Kubernetes
/// are older than this rule. Clones share the count.
#[derive(Clone, Debug, Default)]
pub struct Counter(counter::Counter);

impl Deref for Counter {
    type Target = counter::Counter;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl TypedMetric for Counter {
    const TYPE: MetricType = MetricType::Counter;
}

impl EncodeMetric for Counter {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        // The encoder of counters adds a suffix; that of gauges writes the same line without it.
        encoder.encode_gauge(&self.0.get())
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

/// Metrics of one name by their labels. Name, type and help are shown from the start, also before the first labels: who
/// writes a query or an alert sees that the metric exists. Clones share the metrics.
#[derive(Debug)]
pub struct Family<L, M, C = fn() -> M>(family::Family<L, M, C>);

impl<L: Clone + Hash + Eq, M, C> Family<L, M, C> {
    /// Creates a family whose metrics are made by this function.
    pub fn new_with_constructor(constructor: C) -> Self {
        Self(family::Family::new_with_constructor(constructor))
    }
}

impl<L: Clone + Hash + Eq, M: Default> Default for Family<L, M> {
    fn default() -> Self {
        Self(family::Family::default())
    }
}

impl<L, M, C: Clone> Clone for Family<L, M, C> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<L, M, C> Deref for Family<L, M, C> {
    type Target = family::Family<L, M, C>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<L, M: TypedMetric, C> TypedMetric for Family<L, M, C> {
    const TYPE: MetricType = M::TYPE;
}

impl<L, M, C> EncodeMetric for Family<L, M, C>
where
    L: Clone + Hash + Eq + EncodeLabelSet,
    M: EncodeMetric + TypedMetric,
    C: MetricConstructor<M>,
{
    fn encode(&self, encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        self.0.encode(encoder)
    }

    fn metric_type(&self) -> MetricType {
        M::TYPE
    }

    fn is_empty(&self) -> bool {
        false
    }
}
