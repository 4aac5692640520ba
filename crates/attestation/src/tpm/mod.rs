//! Verifies the evidence of a TPM (AT-112, AT-117, AT-119.1 to AT-119.15).
//!
//! The first request of a node has its public keys; [`enrol`] checks what can be checked before the challenge. The second one
//! has the answer; [`prove`] checks everything.

mod evidence;
mod policy;
mod provider;
mod steps;

pub use policy::{Accepted, Machine, PcrMode, PcrPolicy, Policy, Trust};
pub use provider::{MODEL, PCRS, TpmProvider};
pub use steps::{Challenge, Enrolled, Verified, enrol, prove};
