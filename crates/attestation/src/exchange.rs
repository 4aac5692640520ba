//! The exchange of challenge and answer, across two requests of a node (AT-101 to AT-103).

use std::time::SystemTime;

use portcullis_pki::tpm::{HashAlgorithm, Name};

use crate::challenge::{Bound, Challenge, Keys, NONCE_BYTES};

/// How many earlier requests of a node are looked at.
const MOST_EARLIER: usize = 16;

/// A request, as far as a challenge is bound to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestFacts {
    /// `metadata.uid`.
    pub uid: String,
    /// `spec.username`.
    pub username: String,
    /// The common name that it asks for.
    pub common_name: String,
    /// The SHA-256 digest of its public key, a DER SubjectPublicKeyInfo.
    pub public_key: [u8; 32],
}

impl RequestFacts {
    fn bound<'a>(&'a self, attestation_key: Option<&'a Name>) -> Bound<'a> {
        Bound {
            request_uid: &self.uid,
            username: &self.username,
            common_name: &self.common_name,
            public_key: &self.public_key,
            attestation_key,
        }
    }
}

/// What is needed to issue a challenge, or to verify one.
#[derive(Clone, Copy, Debug)]
pub struct Exchange<'a> {
    /// The keys of the controller.
    pub keys: &'a Keys,
    /// Random bytes for a new challenge.
    pub nonce: [u8; NONCE_BYTES],
    /// The request that is judged.
    pub request: &'a RequestFacts,
    /// Earlier requests that its challenge may have been issued for.
    pub earlier: &'a [RequestFacts],
    /// The time.
    pub now: SystemTime,
}

/// A verified challenge with what it is bound to.
pub(crate) struct Answered {
    pub(crate) challenge: Challenge,
    pub(crate) secret: Vec<u8>,
}

impl Exchange<'_> {
    /// Issues a challenge for the request, and the secret that belongs to it.
    pub(crate) fn issue(&self, attestation_key: Option<&Name>, secret_of: HashAlgorithm) -> Answered {
        let bound = self.request.bound(attestation_key);
        let challenge = self.keys.issue(self.nonce, &bound, self.now);
        Answered { secret: challenge.secret(&bound, secret_of), challenge }
    }

    /// Verifies the challenge that the request answers: this controller issued it, for a request of the same user, common
    /// name and key, and it has not expired (AT-103).
    pub(crate) fn verify(
        &self,
        id: &str,
        attestation_key: Option<&Name>,
        secret_of: HashAlgorithm,
    ) -> Result<Answered, String> {
        let request = self.request;
        let is_before = |earlier: &&RequestFacts| {
            earlier.uid != request.uid
                && earlier.username == request.username
                && earlier.common_name == request.common_name
                && earlier.public_key == request.public_key
        };
        let mut why = "no earlier request has the same user, name and key".to_owned();
        for first in self.earlier.iter().filter(is_before).take(MOST_EARLIER) {
            let bound = first.bound(attestation_key);
            match self.keys.verify(id, &bound, self.now) {
                Ok(challenge) => {
                    return Ok(Answered { secret: challenge.secret(&bound, secret_of), challenge });
                }
                Err(error) => why = error.to_string(),
            }
        }
        Err(why)
    }
}
