//! What a node does to prove its machine, for each attestor.

use portcullis_attestation::challenge::NONCE_BYTES;
use portcullis_tpm::Tpm;
use serde_json::Value;

use super::error::AttestedError;
use super::key::NodeKey;

/// A challenge, as the controller wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The nonce.
    pub nonce: [u8; NONCE_BYTES],
    /// For TPMs: a TPM2B_ID_OBJECT.
    pub credential_blob: Vec<u8>,
    /// For TPMs: a TPM2B_ENCRYPTED_SECRET.
    pub encrypted_secret: Vec<u8>,
}

/// The request that the answer belongs to.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The SHA-256 digest of the request in DER.
    pub csr_digest: &'a [u8; 32],
    /// The name of the node.
    pub node_name: &'a str,
    /// The provider ID of the machine.
    pub provider_id: &'a str,
}

/// One kind of evidence, on the node. Its calls may take seconds, and block the thread.
pub trait Attestor: Send + Sync {
    /// The name, as in evidence and signers.
    fn provider(&self) -> &'static str;

    /// Whether the controller asks for an answer to a challenge.
    fn has_challenge(&self) -> bool;

    /// The TPM with the keys, for keys that are in one.
    fn tpm(&self) -> Option<&Tpm> {
        None
    }

    /// Makes a new key.
    ///
    /// # Errors
    /// The TPM or the system's randomness fails.
    fn new_key(&self) -> Result<NodeKey, AttestedError>;

    /// The evidence of the first request; none if there is nothing to say.
    ///
    /// # Errors
    /// The TPM fails.
    fn enrol(&self, key: &NodeKey) -> Result<Option<Value>, AttestedError>;

    /// The evidence of the second request.
    ///
    /// # Errors
    /// The TPM fails, or the challenge is for another one.
    fn prove(
        &self,
        key: &NodeKey,
        question: &Question,
        subject: &Subject<'_>,
    ) -> Result<Value, AttestedError>;
}
