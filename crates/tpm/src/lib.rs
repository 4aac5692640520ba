//! Talks to the TPM of a node, without C libraries (AT-110 to AT-125).
//!
//! A [`Tpm`] is an address. Each of its methods is one operation: it opens the device or socket, runs a few commands,
//! removes from the TPM what it loaded, and closes. So a raw device, which has room for three objects and lets one program
//! in at a time, is enough. Keys that a caller wants to keep are [`Wrapped`] blobs, which only the same TPM can load.
//!
//! [`Chip`] puts operations together for the two rounds of attestation (AT-116). What the bytes prove is for the verifier
//! to say: this crate verifies no signature and no certificate, computes no digest, and makes no key of its own.
//!
//! Commands are not encrypted on the way to the TPM. Somebody with a probe on the board's bus can read the recovered
//! secret of a credential and unsealed data.

mod about;
pub mod address;
pub mod answer;
mod attestor;
mod certificate;
mod command;
mod endorsement;
mod error;
mod keys;
mod nv;
mod operation;
pub mod pcr;
mod public;
mod response_code;
mod seal;
mod session;
mod signature;
mod software_key;
mod statements;
mod storage;
mod template;
mod transport;
mod wire;
mod wrapped;

pub use about::{Clock, Properties};
pub use address::Address;
pub use attestor::{AttestedKey, Challenge, Chip, Enrolment, Proof};
pub use certificate::split_certificates;
pub use endorsement::{EndorsementKey, EndorsementKind};
pub use error::TpmError;
pub use keys::{AttestationKey, AttestationParent, CreatedKey, Creation, KeyOptions};
pub use operation::Tpm;
pub use pcr::{PcrValues, Pcrs};
pub use response_code::ResponseCode;
pub use seal::MAX_SEALED_BYTES;
pub use signature::Signature;
pub use software_key::SoftwareKey;
pub use statements::{Quote, Statement};
pub use wire::Malformed;
pub use wrapped::Wrapped;
