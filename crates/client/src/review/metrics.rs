//! The metrics of reviews (KA-76). Each call of the API server counts, including retries; cached responses do not.

use std::time::Duration;

use crate::metrics::{Counter, Family};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// The upper bounds of the buckets, in seconds (KA-76).
const SECONDS: [f64; 8] = [0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0];

/// The metrics of token and access reviews. Clones share the metrics.
#[derive(Clone, Debug, Default)]
pub struct ReviewMetrics {
    pub(super) token: Calls,
    pub(super) access: Calls,
}

/// The metrics of one kind of review.
#[derive(Clone, Debug)]
pub(super) struct Calls {
    count: Family<CodeLabels, Counter>,
    seconds: Family<CodeLabels, Histogram, fn() -> Histogram>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CodeLabels {
    code: String,
}

impl Default for Calls {
    fn default() -> Self {
        Self { count: Family::default(), seconds: Family::new_with_constructor(|| Histogram::new(SECONDS)) }
    }
}

impl Calls {
    /// Records a call with its status code, or without a response.
    pub(super) fn called(&self, code: Option<u16>, took: Duration) {
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        let labels = CodeLabels { code };
        self.count.get_or_create(&labels).inc();
        self.seconds.get_or_create(&labels).observe(took.as_secs_f64());
    }
}

impl ReviewMetrics {
    /// Registers the metrics under their public names (KA-76).
    pub fn register(&self, registry: &mut Registry) {
        for (calls, kind) in [(&self.token, "authn"), (&self.access, "authz")] {
            registry.register(
                format!("apiserver_delegated_{kind}_request_total"),
                "Reviews asked of the API server, by status code",
                calls.count.clone(),
            );
            registry.register(
                format!("apiserver_delegated_{kind}_request_duration_seconds"),
                "Duration of reviews by the API server, by status code",
                calls.seconds.clone(),
            );
        }
    }
}
