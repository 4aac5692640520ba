//! The metrics of a configuration file that is reloaded, under the names of kube-apiserver where it has them (AC-123, ET-50).

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::SystemTime;

use portcullis_client::metrics::{Counter, Family};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReloadLabels {
    status: &'static str,
    apiserver_id_hash: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ConfigLabels {
    apiserver_id_hash: String,
    hash: String,
}

/// See the module. Clones share the metrics.
#[derive(Clone, Debug)]
pub struct ReloadMetrics {
    /// The hash of the name of the server.
    server: Arc<str>,
    reloads: Family<ReloadLabels, Counter>,
    last: Family<ReloadLabels, Gauge<f64, AtomicU64>>,
    config: Family<ConfigLabels, Gauge>,
}

impl Default for ReloadMetrics {
    fn default() -> Self {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Self {
            server: sha256_text(&pki::sha256(host.trim().as_bytes())).into(),
            reloads: Family::default(),
            last: Family::default(),
            config: Family::default(),
        }
    }
}

impl ReloadMetrics {
    /// Registers the metrics of a configuration: `authentication`, `authorization`, or `encryption`.
    pub(crate) fn register(&self, registry: &mut Registry, configuration: &str) {
        self.register_as(
            registry,
            &format!("apiserver_{configuration}_config_controller"),
            &format!("{configuration} configuration"),
        );
    }

    /// Registers the metrics of deny rules, which Kubernetes does not have.
    pub(crate) fn register_deny_rules(&self, registry: &mut Registry) {
        self.register_as(registry, "portcullis_deny_rules", "deny rules");
    }

    fn register_as(&self, registry: &mut Registry, prefix: &str, what: &str) {
        let name = |name: &str| format!("{prefix}_{name}");
        registry.register(
            name("automatic_reloads_total"),
            format!("Reloads of the {what}, by status"),
            self.reloads.clone(),
        );
        registry.register(
            name("automatic_reload_last_timestamp_seconds"),
            format!("Time of the last reload of the {what}, in seconds since 1970, by status"),
            self.last.clone(),
        );
        registry.register(
            name("last_config_info"),
            format!("1 for the {what} in force, by the hash of its file"),
            self.config.clone(),
        );
    }

    /// Records that a configuration was loaded or refused.
    pub(crate) fn reloaded(&self, is_success: bool, now: SystemTime) {
        let status = if is_success { "success" } else { "failure" };
        let labels = ReloadLabels { status, apiserver_id_hash: self.server.to_string() };
        let seconds = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        // The time first: whoever reads that there was a reload also reads when.
        self.last.get_or_create(&labels).set(seconds);
        self.reloads.get_or_create(&labels).inc();
    }

    /// Records the file in force, by the SHA-256 of its contents.
    pub(crate) fn in_force(&self, file: &[u8; 32]) {
        self.config.clear();
        let labels = ConfigLabels { apiserver_id_hash: self.server.to_string(), hash: sha256_text(file) };
        self.config.get_or_create(&labels).set(1);
    }
}

/// A hash as it is shown in labels.
pub(crate) fn sha256_text(hash: &[u8; 32]) -> String {
    let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}
