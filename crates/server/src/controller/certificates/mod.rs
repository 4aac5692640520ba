//! The controllers of CertificateSigningRequests: approving, signing and cleaning up.

mod approving;
mod cleaning;
mod signing;
mod view;

pub(super) use approving::Approving;
pub(super) use cleaning::Cleaning;
pub(super) use signing::Signing;

use portcullis_store::Event;

/// The key prefix of requests.
const PREFIX: &str = "/certificates.k8s.io/certificatesigningrequests/";

/// Returns the name of a created or changed request.
fn changed(event: &Event) -> Option<String> {
    Some(event.entry.as_ref()?.key.strip_prefix(PREFIX)?.to_owned())
}
