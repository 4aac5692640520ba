//! The metrics of the attestation controller (AT-190).

use std::time::Duration;

use portcullis_attestation::{KeyClass, Reason};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Seconds that a verification takes: from a tenth of a millisecond, doubled up to the limit of ten seconds.
const SECONDS: [f64; 18] = [
    0.0001, 0.0002, 0.0004, 0.0008, 0.0016, 0.0032, 0.0064, 0.0128, 0.0256, 0.0512, 0.1024, 0.2048, 0.4096,
    0.8192, 1.6384, 3.2768, 6.5536, 10.0,
];

/// The metrics of an attestation controller. Clones share the metrics.
#[derive(Clone, Debug)]
pub struct AttestMetrics {
    requests: Family<RequestLabels, Counter>,
    seconds: Family<ProviderLabels, Histogram, fn() -> Histogram>,
    mismatches: Counter,
    issued: Family<IssuedLabels, Counter>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    provider: String,
    phase: &'static str,
    result: &'static str,
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ProviderLabels {
    provider: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct IssuedLabels {
    signer: String,
    key_class: String,
}

impl Default for AttestMetrics {
    fn default() -> Self {
        Self {
            requests: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(SECONDS)),
            mismatches: Counter::default(),
            issued: Family::default(),
        }
    }
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Challenged,
    Approved,
    Issued,
    Refused(&'static str),
    Waiting(&'static str),
}

impl AttestMetrics {
    /// Registers the metrics under their public names.
    pub fn register(&self, registry: &mut Registry) {
        let requests = self.requests.clone();
        registry.register("attestation_requests", "Evaluations of requests with evidence", requests);
        registry.register("attestation_seconds", "Time of a verification", self.seconds.clone());
        let help = "Requests of a machine by another device than before";
        registry.register("attestation_tofu_mismatch", help, self.mismatches.clone());
        registry.register(
            "issued_certificates",
            "Certificates issued to attested nodes",
            self.issued.clone(),
        );
    }

    /// Counts an evaluation. The provider is one that is configured, so that a caller cannot choose labels.
    pub(super) fn evaluated(&self, provider: &str, phase: &'static str, outcome: Outcome) {
        let (result, reason) = match outcome {
            Outcome::Challenged => ("challenged", ""),
            Outcome::Approved => ("approved", ""),
            Outcome::Issued => ("issued", ""),
            Outcome::Refused(reason) => ("refused", reason),
            Outcome::Waiting(reason) => ("waiting", reason),
        };
        if outcome == Outcome::Refused(Reason::TofuMismatch.as_str()) {
            self.mismatches.inc();
        }
        let labels = RequestLabels { provider: provider.to_owned(), phase, result, reason };
        self.requests.get_or_create(&labels).inc();
    }

    /// Records how long a verification took.
    pub(super) fn took(&self, provider: &str, time: Duration) {
        let labels = ProviderLabels { provider: provider.to_owned() };
        self.seconds.get_or_create(&labels).observe(time.as_secs_f64());
    }

    /// Counts an issued certificate.
    pub(super) fn issued(&self, signer: &str, key_class: KeyClass) {
        let labels = IssuedLabels { signer: signer.to_owned(), key_class: key_class.to_string() };
        self.issued.get_or_create(&labels).inc();
    }
}
