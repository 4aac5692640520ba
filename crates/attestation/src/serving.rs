//! Whether a request for a serving certificate comes from a machine that proved its identity (AT-174).
//!
//! DIVERGES: which certificate a node has is what the API server says about the requester. Where it says nothing (before
//! Kubernetes 1.32) no request is approved.

use std::time::SystemTime;

use portcullis_apimachinery::time::Instant;

use crate::check::{Report, Run, failed, require};
use crate::hex::hex;
use crate::reason::Reason;
use crate::record::{Issued, Record, State};
use crate::time::instant;

/// How API servers name a certificate that somebody authenticated with (AN-45).
const CREDENTIAL: &str = "X509SHA256=";

/// A request for a serving certificate, of a node that has a machine.
#[derive(Clone, Copy, Debug)]
pub struct ServingCase<'a> {
    /// The attestor whose signer the request is for; none for the signer of kubelets.
    pub signer: Option<&'a str>,
    /// What was recorded about the machine; none if it never proved its identity.
    pub record: Option<&'a Record>,
    /// The certificates that the requester authenticated with, as the API server reported them (`credential-id`).
    pub credentials: &'a [String],
    /// The time.
    pub now: SystemTime,
}

/// Checks that the machine has a live identity record of this attestor, and that the requester authenticated with a
/// certificate that was issued for it. The API server reports which one since Kubernetes 1.32; without that a request is
/// refused.
pub(crate) fn check(case: &ServingCase<'_>, provider: &str) -> Report<()> {
    let mut run = Run::default();
    run.step("AT-174", "the machine proved its identity", Some(case), |case| {
        let Some(record) = case.record else {
            return failed(Reason::NotAttested, "the machine has no identity record");
        };
        let is_active = record.state == State::Active;
        require(is_active, Reason::IdentityRevoked, "an administrator has revoked or reset the identity")?;
        let signer = case.signer.unwrap_or(provider);
        let detail = format!("the signer is that of {signer:?}, the record that of {:?}", record.provider);
        require(record.provider == provider && signer == provider, Reason::AttestorNotAuthorized, &detail)?;
        Ok(record.device.to_string())
    });
    let record = case.record.filter(|record| record.state == State::Active);
    run.step("AT-174", "the requester has a certificate of an attested machine", record.as_ref(), |record| {
        let now = instant(case.now);
        let is_live = |issued: &&Issued| is_live_credential(issued, case.credentials, now);
        match record.issued.iter().find(is_live) {
            Some(issued) => Ok(format!("the certificate of request {}", issued.request_uid)),
            None => failed(
                Reason::NotAttested,
                format!("the requester authenticated with {:?}", case.credentials),
            ),
        }
    });
    run.report(|| Some(()))
}

/// Whether a requester authenticated with this certificate, and it is valid.
fn is_live_credential(issued: &Issued, credentials: &[String], now: Instant) -> bool {
    let Some(certificate) = &issued.certificate else { return false };
    let digits = hex(&certificate.digest.0);
    let is_it = |credential: &String| credential.strip_prefix(CREDENTIAL) == Some(&digits);
    // One credential is one certificate: more are not of an API server.
    certificate.not_after > now && matches!(credentials, [only] if is_it(only))
}
