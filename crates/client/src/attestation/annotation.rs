//! The annotations of a request: the challenge for its node, and the supported versions (AT-101, AT-160).

use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use portcullis_attestation::Offer;
use portcullis_attestation::time::instant;
use serde::{Deserialize, Serialize};

/// The challenge.
pub const CHALLENGE: &str = "portcullis.dev/challenge";
/// The versions of evidence that the controller reads, separated by commas.
pub const SUPPORTED_VERSIONS: &str = "portcullis.dev/supported-attestation-versions";
/// The endorsement key of the machine as the platform reports it (AT-95). For people and other controllers: it is never
/// read.
pub(crate) const ENDORSEMENT_KEY: &str = "cluster-x-k8s-io/tpm-endorsement-key";

/// The value of the annotation with the challenge. Binary values are base64.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OfferText {
    /// The identifier, which the answer repeats.
    #[serde(rename = "challengeID")]
    pub challenge_id: String,
    /// The nonce.
    pub nonce: String,
    /// Until when it can be answered, such as `2026-01-02T03:04:05Z`.
    pub expires_at: String,
    /// For TPMs: a TPM2B_ID_OBJECT.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential_blob: Option<String>,
    /// For TPMs: a TPM2B_ENCRYPTED_SECRET.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encrypted_secret: Option<String>,
}

impl OfferText {
    /// The text of a challenge.
    pub(crate) fn new(offer: &Offer) -> Self {
        let credential = offer.credential.as_ref();
        Self {
            challenge_id: offer.id.clone(),
            nonce: STANDARD.encode(offer.nonce),
            expires_at: instant(offer.expires_at).to_string(),
            credential_blob: credential.map(|credential| STANDARD.encode(&credential.blob)),
            encrypted_secret: credential.map(|credential| STANDARD.encode(&credential.encrypted_secret)),
        }
    }

    /// Whether it can still be answered.
    pub(crate) fn is_live(&self, now: SystemTime) -> bool {
        portcullis_apimachinery::time::Instant::parse(&self.expires_at)
            .is_ok_and(|until| until > instant(now))
    }
}
