//! Certificate requests: approved when their requester may have them, signed when they are approved, deleted when nobody
//! needs them any more.

mod approving;
mod cleaning;
mod signing;
mod view;

pub(super) use approving::Approving;
pub(super) use cleaning::Cleaning;
pub(super) use signing::Signing;

use portcullis_store::Event;

/// Where requests are stored.
const PREFIX: &str = "/certificates.k8s.io/certificatesigningrequests/";

/// The name of a request that was made or changed.
fn changed(event: &Event) -> Option<String> {
    Some(event.entry.as_ref()?.key.strip_prefix(PREFIX)?.to_owned())
}
