//! What the attestation controller and the nodes both read: certificate requests with evidence, and the annotations on them
//! (AT-50, AT-101, AT-160).

mod annotation;
mod requests;

pub(crate) use annotation::ENDORSEMENT_KEY;
pub use annotation::{CHALLENGE, OfferText, SUPPORTED_VERSIONS};
pub use requests::{Condition, Kind, Metadata, Parsed, Spec, Status, Stored};
