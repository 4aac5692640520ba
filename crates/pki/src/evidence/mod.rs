//! The evidence that a node adds to its certificate request: what proves its machine (AT-40 to AT-54).
//!
//! A request with evidence is three PEM blocks: the PKCS#10 request, the name of the provider, and the evidence. API servers
//! and the signers of Kubernetes read only the first one, so the signature of the request does not cover the evidence.
//! Evidence therefore contains the digest of the request ([`AttestedRequest::digest`]), and each provider signs it (AT-53).
//!
//! This module reads and writes. Whether evidence proves anything is decided elsewhere.

mod blocks;
mod envelope;
mod provider_id;

pub use blocks::{
    AttestedRequest, Evidence, EvidenceError, Labels, MAX_PEM_BYTES, is_provider_name, read, write,
};
pub use envelope::{Envelope, EnvelopeError, Phase, VERSION};
pub use provider_id::{MAX_PROVIDER_ID_BYTES, ProviderIdError, ProviderIdOids};
