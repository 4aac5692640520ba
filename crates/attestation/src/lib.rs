//! Decides whether the evidence in a certificate request proves the identity of a machine (AT-60 to AT-157).
//!
//! All inputs are plain values, the time included. A decision is a [`Report`]: the ordered list of all checks, and either
//! what was verified or the first refusal, with its reason and rule number. This crate never talks to a server or a TPM, and
//! never reads a file or the clock. Cryptography is that of `portcullis-pki`.
//!
//! A check that cannot be evaluated never verifies anything. All readers are fuzzed (AT-195).

pub mod answer;
pub mod challenge;
mod check;
pub mod config;
mod device;
pub mod enrolled;
pub mod exchange;
pub mod hex;
pub mod insecure;
pub mod inventory;
pub mod judge;
mod key_class;
pub mod machine;
#[cfg(any(test, feature = "null-attestor"))]
pub mod null;
pub mod provider;
mod reason;
pub mod record;
pub mod request;
mod seen_clock;
pub mod serving;
pub mod signers;
pub mod time;
pub mod token_lifetime;
pub mod tpm;
mod verified;

pub use check::{Check, CheckResult, Refusal, Report};
pub use device::Device;
pub use key_class::KeyClass;
pub use reason::Reason;
pub use seen_clock::SeenClock;
pub use verified::{Offer, Verified};
