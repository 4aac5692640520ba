//! A number in a gauge that is taken back in any case.

use prometheus_client::metrics::gauge::Gauge;

/// One in a gauge, until this is dropped.
pub(crate) struct Counted(Gauge);

impl Counted {
    /// Adds one.
    pub(crate) fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}
