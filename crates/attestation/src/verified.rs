//! What an attestor says about a request that it does not refuse.

use std::time::SystemTime;

use portcullis_pki::tpm::credential::Credential;

use crate::device::Device;
use crate::key_class::KeyClass;
use crate::seen_clock::SeenClock;

/// A challenge for a node (AT-101, AT-116).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The identifier.
    pub id: String,
    /// The nonce.
    pub nonce: [u8; 32],
    /// Until when it can be answered.
    pub expires_at: SystemTime,
    /// The secret for the TPM; none for other attestors.
    pub credential: Option<Credential>,
    /// What the machine will be recognized by.
    pub device: Device,
}

/// What the evidence proves (AT-70).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// How well the key is protected.
    pub key_class: KeyClass,
    /// What the machine is recognized by.
    pub device: Device,
    /// The name of the attestation key, for TPMs.
    pub attestation_key: Option<String>,
    /// The clock of the TPM.
    pub clock: Option<SeenClock>,
    /// The challenge that was answered.
    pub challenge: Option<String>,
    /// Whether the enrolment is used up: a one-time secret (AT-104).
    pub is_one_time: bool,
    /// What else was found, for reports: such as the manufacturer of the TPM.
    pub attributes: Vec<(String, String)>,
}
