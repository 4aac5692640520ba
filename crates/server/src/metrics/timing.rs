//! Histograms of durations.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use portcullis_client::metrics::Family;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::{MetricType, TypedMetric};

/// The buckets of authentication and authorization in kube-apiserver: 1 ms, doubled fourteen times.
pub(crate) const ACCESS_SECONDS: &[f64] = &[
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384,
];

/// Histograms by labels.
pub(crate) type Durations<L> = Family<L, Timing, fn() -> Timing>;

/// A lock-free histogram of durations, in seconds.
#[derive(Clone, Debug)]
pub(crate) struct Timing(Arc<Buckets>);

#[derive(Debug)]
struct Buckets {
    bounds: &'static [f64],
    /// One count for each bound, and one above all of them.
    counts: Box<[AtomicU64]>,
    sum: Gauge<f64, AtomicU64>,
}

impl Timing {
    pub(crate) fn new(bounds: &'static [f64]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self(Arc::new(Buckets { bounds, counts, sum: Gauge::default() }))
    }

    pub(crate) fn observe(&self, elapsed: Duration) {
        self.observe_seconds(elapsed.as_secs_f64());
    }

    /// Like [`Self::observe`], for a time that may be negative because it has passed.
    pub(crate) fn observe_seconds(&self, seconds: f64) {
        let at = self.0.bounds.iter().position(|bound| seconds <= *bound).unwrap_or(self.0.bounds.len());
        if let Some(count) = self.0.counts.get(at) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.0.sum.inc_by(seconds);
    }
}

impl TypedMetric for Timing {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for Timing {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        let bounds = self.0.bounds.iter().copied().chain([f64::INFINITY]);
        let counts = self.0.counts.iter().map(|c| c.load(Ordering::Relaxed));
        let buckets: Vec<(f64, u64)> = bounds.zip(counts).collect();
        let count = buckets.iter().map(|(_, n)| n).sum();
        encoder.encode_histogram::<[(String, String); 0]>(self.0.sum.get(), count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}
