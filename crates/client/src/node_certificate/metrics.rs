//! The metrics of a node's certificates, under the names of a kubelet (CS-141).

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use crate::metrics::Counter;
use portcullis_pki::Pair;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// How long a serving certificate was in use. In seconds: a minute, hours, days, and up to four years.
const ROTATION_SECONDS: [f64; 10] = [
    60.0,
    3600.0,
    14_400.0,
    86_400.0,
    604_800.0,
    2_592_000.0,
    7_776_000.0,
    15_552_000.0,
    31_104_000.0,
    124_416_000.0,
];

/// The metrics of both certificates. Clones share the metrics.
#[derive(Clone, Debug)]
pub struct CertificateMetrics {
    pub(super) client: Certificate,
    pub(super) serving: Certificate,
    rotation: Histogram,
}

/// The metrics of one certificate.
#[derive(Clone, Debug, Default)]
pub(super) struct Certificate {
    validity: Arc<Mutex<Option<Validity>>>,
    errors: Counter,
}

/// When the current certificate is valid.
#[derive(Clone, Copy, Debug)]
struct Validity {
    not_before: SystemTime,
    not_after: SystemTime,
}

impl Certificate {
    /// Records the certificate that is in use, and returns since when the previous one was valid.
    pub(super) fn is_now(&self, pair: &Pair) -> Option<SystemTime> {
        let new = Validity { not_before: pair.not_before(), not_after: pair.not_after() };
        let mut validity = self.validity.lock().unwrap_or_else(PoisonError::into_inner);
        validity.replace(new).map(|old| old.not_before)
    }

    /// Counts an attempt to get a certificate that failed.
    pub(super) fn failed(&self) {
        self.errors.inc();
    }

    /// Returns the time until the certificate expires: negative afterwards, infinite without one. In whole seconds.
    fn ttl(&self, now: SystemTime) -> f64 {
        let validity = *self.validity.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Validity { not_after, .. }) = validity else { return f64::INFINITY };
        let seconds = match not_after.duration_since(now) {
            Ok(left) => left.as_secs_f64(),
            Err(passed) => -passed.duration().as_secs_f64(),
        };
        seconds.trunc()
    }
}

impl Default for CertificateMetrics {
    fn default() -> Self {
        Self {
            client: Certificate::default(),
            serving: Certificate::default(),
            rotation: Histogram::new(ROTATION_SECONDS),
        }
    }
}

impl CertificateMetrics {
    /// Records the serving certificate that is in use, and how long the previous one lived.
    pub(super) fn serving_is_now(&self, pair: &Pair, now: SystemTime) {
        let since = self.serving.is_now(pair);
        if let Some(lived) = since.and_then(|since| now.duration_since(since).ok()) {
            self.rotation.observe(lived.as_secs_f64());
        }
    }

    /// Returns whether there is a client certificate that is valid at this time.
    pub fn has_client_certificate(&self, now: SystemTime) -> bool {
        let ttl = self.client.ttl(now);
        ttl.is_finite() && ttl > 0.0
    }

    /// Registers the metrics under their public names, with the values of this time.
    pub fn register(&self, registry: &mut Registry, now: SystemTime) {
        let ttl = |certificate: &Certificate| {
            let gauge = Gauge::<f64, AtomicU64>::default();
            gauge.set(certificate.ttl(now));
            gauge
        };
        registry.register(
            "kubelet_certificate_manager_client_ttl_seconds",
            "Seconds until the client certificate expires, negative after that, +Inf without a valid one",
            ttl(&self.client),
        );
        registry.register(
            "kubelet_certificate_manager_server_ttl_seconds",
            "Seconds until the serving certificate expires, negative after that, +Inf without a valid one",
            ttl(&self.serving),
        );
        registry.register(
            "kubelet_certificate_manager_client_expiration_renew_errors",
            "Failed attempts to renew the client certificate",
            self.client.errors.clone(),
        );
        registry.register(
            "kubelet_server_expiration_renew_errors",
            "Failed attempts to renew the serving certificate",
            self.serving.errors.clone(),
        );
        registry.register(
            "kubelet_certificate_manager_server_rotation_seconds",
            "Age of serving certificates when they were replaced",
            self.rotation.clone(),
        );
    }
}
