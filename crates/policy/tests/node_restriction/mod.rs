//! NodeRestriction against what Kubernetes 1.36 answered, against the vectors of its rules, and against arbitrary
//! input.
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that cannot be set up must stop at once and say where"
)]

mod certificate_requests;
mod claims;
mod events;
mod nodes;
mod pod_certificates;
mod pods;
mod properties;
mod published;
mod replay;
mod review;
mod support;
mod tokens;
