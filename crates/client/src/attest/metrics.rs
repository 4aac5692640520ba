//! The metrics of the attestation controller (AT-190).

use std::collections::BTreeMap;
use std::time::Duration;

use crate::metrics::{Counter, Family};
use portcullis_apimachinery::time::Instant;
use portcullis_attestation::KeyClass::{self, K0, K1, K2, K3};
use portcullis_attestation::Reason;
use portcullis_attestation::record::{Record, State};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::gauge::Gauge;
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
    nodes: Family<NodeLabels, Gauge>,
    expiry: Family<ClusterLabels, Gauge>,
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

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct NodeLabels {
    cluster: String,
    provider: String,
    key_class: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ClusterLabels {
    cluster: String,
}

impl Default for AttestMetrics {
    fn default() -> Self {
        Self {
            requests: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(SECONDS)),
            mismatches: Counter::default(),
            issued: Family::default(),
            nodes: Family::default(),
            expiry: Family::default(),
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
        registry.register(
            "attestation_requests_total",
            "Evaluations of certificate requests with evidence, by what became of them",
            requests,
        );
        registry.register(
            "attestation_seconds",
            "Time to verify evidence, with reading the keys",
            self.seconds.clone(),
        );
        let help = "Certificate requests of a machine by another device than before";
        registry.register("attestation_tofu_mismatch_total", help, self.mismatches.clone());
        registry.register(
            "issued_certificates_total",
            "Certificates issued to attested nodes",
            self.issued.clone(),
        );
        registry.register("attested_nodes", "Machines with an active identity record", self.nodes.clone());
        let help = "Seconds until the first of the nodes' latest certificates expires";
        registry.register("certificate_expiry_seconds", help, self.expiry.clone());
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

    /// Sets what the records of a cluster say.
    pub(super) fn recorded<'a>(
        &self,
        cluster: Option<&str>,
        records: impl Iterator<Item = &'a Record>,
        now: Instant,
    ) {
        let cluster = cluster.unwrap_or_default().to_owned();
        let mut counts: BTreeMap<NodeLabels, i64> = BTreeMap::new();
        // Those that are no more are zero.
        for (provider, class) in [("tpm", K1), ("tpm", K2), ("tpm", K3), ("challenge", K0), ("insecure", K0)]
        {
            let (provider, key_class) = (provider.to_owned(), class.to_string());
            counts.insert(NodeLabels { cluster: cluster.clone(), provider, key_class }, 0);
        }
        let mut first: Option<i64> = None;
        for record in records.filter(|record| record.state == State::Active) {
            let labels = NodeLabels {
                cluster: cluster.clone(),
                provider: record.provider.clone(),
                key_class: record.key_class.to_string(),
            };
            let count = counts.entry(labels).or_default();
            *count = count.saturating_add(1);
            let latest = record.issued.iter().rev().find_map(|issued| issued.certificate.as_ref());
            if let Some(latest) = latest {
                let left = latest.not_after.seconds.saturating_sub(now.seconds).max(0);
                first = Some(first.map_or(left, |first| first.min(left)));
            }
        }
        for (labels, count) in counts {
            self.nodes.get_or_create(&labels).set(count);
        }
        self.expiry.get_or_create(&ClusterLabels { cluster }).set(first.unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The record of a machine whose certificate expires then.
    fn record(provider: &str, class: &str, state: &str, not_after: &str) -> Record {
        let digest = format!("sha256:{}", "00".repeat(32));
        serde_json::from_value(json!({
            "machineUid": "m", "nodeName": "n", "provider": provider, "providerID": "p", "device": digest,
            "keyClass": class, "firstSeen": "2026-01-01T00:00:00Z", "lastSeen": "2026-01-01T00:00:00Z",
            "state": state,
            "issued": [{"requestUid": "u", "publicKey": digest, "evidence": digest, "keyClass": class,
                "at": "2026-01-01T00:00:00Z",
                "certificate": {"serial": "01", "digest": digest, "notAfter": not_after}}],
        }))
        .unwrap()
    }

    #[test]
    fn active_records_are_counted_and_the_first_expiry_is_told_at_190() {
        let metrics = AttestMetrics::default();
        let now = Instant::parse("2026-01-01T00:00:00Z").unwrap();
        let text = |records: &[Record]| {
            metrics.recorded(Some("prod"), records.iter(), now);
            let mut registry = Registry::default();
            metrics.register(&mut registry);
            crate::metrics::exposition(&registry).unwrap()
        };
        let one = record("tpm", "K2", "Active", "2026-01-01T02:00:00Z");
        let two = record("tpm", "K2", "Active", "2026-01-01T01:00:00Z");
        let revoked = record("challenge", "K0", "Revoked", "2026-01-01T00:30:00Z");
        let found = text(&[one, two, revoked]);
        for line in [
            "attested_nodes{cluster=\"prod\",provider=\"tpm\",key_class=\"K2\"} 2\n",
            "attested_nodes{cluster=\"prod\",provider=\"challenge\",key_class=\"K0\"} 0\n",
            "certificate_expiry_seconds{cluster=\"prod\"} 3600\n",
        ] {
            assert!(found.contains(line), "{line}: {found}");
        }
        // Machines that are gone are not counted any more.
        assert!(text(&[]).contains("provider=\"tpm\",key_class=\"K2\"} 0\n"));
    }
}
