//! The attestor `challenge`: an enrolled key or a one-time secret (AT-96, AT-104).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use portcullis_attestation::answer;
use portcullis_pki::KeyPair;
use serde_json::{Value, json};

use super::attestor::{Attestor, Question, Subject};
use super::error::AttestedError;
use super::insecure::software_key;
use super::key::NodeKey;

/// How the machine was enrolled.
pub enum Enrolment {
    /// By the public part of this key.
    Key(KeyPair),
    /// By the digest of this secret.
    Secret(Vec<u8>),
}

/// See the module.
pub struct ChallengeResponse {
    /// How the machine was enrolled.
    pub enrolment: Enrolment,
}

impl Attestor for ChallengeResponse {
    fn provider(&self) -> &'static str {
        "challenge"
    }

    fn has_challenge(&self) -> bool {
        true
    }

    fn new_key(&self) -> Result<NodeKey, AttestedError> {
        software_key()
    }

    fn enrol(&self, _: &NodeKey) -> Result<Option<Value>, AttestedError> {
        Ok(None)
    }

    fn prove(&self, _: &NodeKey, question: &Question, subject: &Subject<'_>) -> Result<Value, AttestedError> {
        let asked = answer::Question {
            nonce: &question.nonce,
            csr_digest: subject.csr_digest,
            node_name: subject.node_name,
            provider_id: subject.provider_id,
        };
        let answer = match &self.enrolment {
            Enrolment::Secret(secret) => asked.answer_with_secret(secret).to_vec(),
            Enrolment::Key(key) => key
                .sign(&asked.message())
                .map_err(|error| AttestedError::Temporary(format!("the enrolled key: {error}")))?,
        };
        Ok(json!({"answer": STANDARD.encode(answer)}))
    }
}
