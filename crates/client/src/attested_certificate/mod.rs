//! Obtains and renews the client certificate of a node that proves its machine (AT-10 to AT-38).
//!
//! [`Node::credential`] returns the certificate of the cache if it is usable, without the network and without the TPM.
//! Otherwise it asks for one: with evidence, in one or two requests. Every step is on disk before the next one begins, so a
//! process that is killed loses nothing, and asks for nothing twice.

pub mod attestor;
pub mod cache;
pub mod challenge;
pub mod error;
pub mod insecure;
pub mod key;
mod node;
mod obtain;
pub mod tpm;
pub mod validity;

pub use node::{Credential, Node, NodeEvent, Observer, Settings};
