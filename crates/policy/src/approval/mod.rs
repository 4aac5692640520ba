//! Who may have which certificate: what each signer asks of a request, what is approved without being asked, and which
//! requests of machines are approved.
//!
//! Rules over plain values. Nothing here reads a certificate request, knows the time, or writes an approval.

pub mod machine;
pub mod recognizer;
pub mod signer;

pub use signer::{Asked, Signer};
