//! Counts the certificates that were issued for requests with a wanted duration, as kube-apiserver does.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use memchr::memmem;
use pki::pem;
use pki::shown::Shown;
use portcullis_client::metrics::{Counter, Family};
use portcullis_store::{Entry, Event};
use prometheus_client::registry::Registry;
use serde::Deserialize;

/// The key prefix of CertificateSigningRequests.
const PREFIX: &str = "/certificates.k8s.io/certificatesigningrequests/";
/// The signers that are counted by name. Others are `other`, because anybody can invent names.
const SIGNERS: [&str; 4] = [
    "kubernetes.io/kube-apiserver-client",
    "kubernetes.io/kube-apiserver-client-kubelet",
    "kubernetes.io/kubelet-serving",
    "kubernetes.io/legacy-unknown",
];
/// Signers date certificates back by so much.
const BACKDATING: Duration = Duration::from_secs(5 * 60);

/// The label `signerName` and its value.
type SignerLabel = [(&'static str, &'static str); 1];

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct IssuedMetrics {
    requested: Family<SignerLabel, Counter>,
    honored: Family<SignerLabel, Counter>,
}

impl IssuedMetrics {
    /// Shows the metrics in a registry.
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "apiserver_certificates_registry_csr_requested_duration_total",
            "Certificates that were issued for requests with a duration, by signer",
            self.requested.clone(),
        );
        registry.register(
            "apiserver_certificates_registry_csr_honored_duration_total",
            "Certificates that were issued with the requested duration, by signer",
            self.honored.clone(),
        );
    }

    /// Counts the certificate that a change adds to a request, if it adds one.
    pub(crate) fn note(&self, event: &Event) {
        if !event.key().starts_with(PREFIX) {
            return;
        }
        let (Some(old), Some(new)) = (&event.previous, &event.entry) else { return };
        // Most changes add none, and need not be read.
        if has_certificate(old) || !has_certificate(new) {
            return;
        }
        let Ok(request) = serde_json::from_slice::<Request>(&new.value) else { return };
        let Some(seconds) = request.spec.expiration_seconds else { return };
        let signer = SIGNERS.into_iter().find(|signer| *signer == request.spec.signer_name);
        let labels = [("signerName", signer.unwrap_or("other"))];
        self.requested.get_or_create_owned(&labels).inc();
        let wanted = Duration::from_secs(u64::from(seconds));
        if lifetime(&request.status.certificate).is_some_and(|got| is_honored(wanted, got)) {
            self.honored.get_or_create_owned(&labels).inc();
        }
    }
}

#[derive(Deserialize)]
struct Request {
    spec: Spec,
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    signer_name: String,
    expiration_seconds: Option<u32>,
}

#[derive(Deserialize)]
struct Status {
    certificate: String,
}

fn has_certificate(request: &Entry) -> bool {
    memmem::find(&request.value, b"\"certificate\":\"").is_some()
}

/// The lifetime of the first of these certificates: PEM in base64.
fn lifetime(certificate: &str) -> Option<Duration> {
    let der = pem::first(&STANDARD.decode(certificate).ok()?)?.der;
    let shown = Shown::read(&der).ok()?;
    shown.not_after.duration_since(shown.not_before).ok()
}

/// Returns whether a certificate lives about as long as was wanted: as kube-apiserver judges it.
fn is_honored(wanted: Duration, got: Duration) -> bool {
    wanted.abs_diff(got) < BACKDATING + wanted / 20
}
