//! What evaluations of both kinds of requests have in common: how they end, and how a certificate is signed.

use std::time::{Duration, SystemTime};

use portcullis_attestation::record::Certificate;
use portcullis_attestation::time::instant;
use portcullis_attestation::{Device, Reason, Refusal};
use portcullis_pki::{AttestedUsage, CertificateAuthority, Csr, IssuedCertificate, pem};

use super::records::RecordError;
use crate::attestation::Stored;
use crate::call::CallError;

/// What to do with a request next.
#[derive(Debug)]
pub(super) enum Looked {
    /// Nothing, unless it changes.
    Over,
    /// It waits for this; look again after a while.
    Waiting(String),
    /// It has a challenge, which expires then.
    Challenged(SystemTime),
    /// Something failed; look again after a while.
    Failed(String),
}

/// Nothing is decided without the record (AT-154).
pub(super) fn unavailable(error: &RecordError) -> Refusal {
    Refusal { reason: Reason::RecordUnavailable, rule: "AT-154", detail: error.to_string() }
}

/// Signs a certificate. Returns it in PEM, with what identifies it.
pub(super) fn issued(
    authority: &CertificateAuthority,
    stored: &Stored,
    csr: &Csr,
    usage: &AttestedUsage<'_>,
    longest: Duration,
    now: SystemTime,
) -> Result<(String, Certificate), String> {
    let lifetime = stored.spec.expiration_seconds.map(Duration::from_secs);
    let der = authority
        .issue_attested(csr, usage, lifetime, longest, now)
        .map_err(|error| format!("cannot sign the certificate: {error}"))?;
    let text = pem::encode("CERTIFICATE", &der);
    let read = IssuedCertificate::from_pem(text.as_bytes())?;
    let details = Certificate {
        serial: read.serial().to_owned(),
        digest: Device(read.digest()),
        not_after: instant(read.not_after()),
    };
    Ok((text, details))
}

/// A write failed. A request that was changed in between comes again as an event, and one that is gone does not.
pub(super) fn failed(error: &CallError) -> Looked {
    match error.is_not_found() || error.is_conflict() {
        true => Looked::Over,
        false => Looked::Failed(error.to_string()),
    }
}
