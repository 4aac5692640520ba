//! Approval rules for certificate requests: the requirements of each signer, the requests that are approved
//! automatically, and the machine approver.
//!
//! Pure rules over plain values. This module never parses a certificate request, reads the clock, or writes an
//! approval.

pub mod machine;
pub mod recognizer;
pub mod signer;

pub use signer::{Asked, Signer};
