//! The attestor `insecure`: no evidence at all (AT-83, AT-92).

use portcullis_pki::KeyPair;
use serde_json::Value;

use super::attestor::{Attestor, Question, Subject};
use super::error::AttestedError;
use super::key::NodeKey;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Insecure;

impl Attestor for Insecure {
    fn provider(&self) -> &'static str {
        "insecure"
    }

    fn has_challenge(&self) -> bool {
        false
    }

    fn new_key(&self) -> Result<NodeKey, AttestedError> {
        software_key()
    }

    fn enrol(&self, _: &NodeKey) -> Result<Option<Value>, AttestedError> {
        Ok(None)
    }

    fn prove(&self, _: &NodeKey, _: &Question, _: &Subject<'_>) -> Result<Value, AttestedError> {
        Err(AttestedError::Temporary("the controller asks for an answer that there is none for".to_owned()))
    }
}

/// A new key on P-256 (AT-37).
pub(super) fn software_key() -> Result<NodeKey, AttestedError> {
    KeyPair::generate().map(NodeKey::Software).map_err(|error| AttestedError::Temporary(error.to_string()))
}
