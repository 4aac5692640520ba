//! Challenges that a controller issues without remembering them (AT-102, AT-103, AT-116).
//!
//! The identifier of a challenge contains its nonce, its expiry and an authentication code over these and over the request
//! that it was issued for. Any replica that has the keys can verify it; a restart loses nothing. That a challenge is used
//! only once is for the caller to ensure.

use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use portcullis_pki::hmac_sha256;
use portcullis_pki::tpm::{HashAlgorithm, Name};
use subtle::ConstantTimeEq;

/// How long a challenge can be answered.
pub const LIFETIME: Duration = Duration::from_secs(5 * 60);
/// The length of a nonce, in bytes.
pub const NONCE_BYTES: usize = 32;

const VERSION: u8 = 1;
/// A version, an expiry, a nonce and a code.
const ID_BYTES: usize = 1 + 8 + NONCE_BYTES + 32;

/// The keys of a controller: the current one, and the one before it.
#[derive(Clone)]
pub struct Keys {
    /// Issues challenges.
    pub current: [u8; 32],
    /// Still verifies challenges.
    pub previous: Option<[u8; 32]>,
}

impl std::fmt::Debug for Keys {
    /// Never shows the keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys(..)")
    }
}

/// What a challenge is bound to: the first request of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound<'a> {
    /// The UID of the request.
    pub request_uid: &'a str,
    /// The user who made it.
    pub username: &'a str,
    /// The common name that it asks for.
    pub common_name: &'a str,
    /// The SHA-256 digest of its public key.
    pub public_key: &'a [u8; 32],
    /// The attestation key of the TPM; none for other providers.
    pub attestation_key: Option<&'a Name>,
}

/// A challenge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// The identifier, which the answer repeats.
    pub id: String,
    /// The nonce.
    pub nonce: [u8; NONCE_BYTES],
    /// Until when it can be answered. Whole seconds.
    pub expires_at: SystemTime,
    /// The key that it was issued with.
    key: [u8; 32],
}

/// A challenge that is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChallengeError {
    /// The identifier is not one of a challenge.
    #[error("the challenge is malformed")]
    Malformed,
    /// It is not a challenge of this controller for this request.
    #[error("the challenge was not issued for this request")]
    Forged,
    /// It has expired.
    #[error("the challenge has expired")]
    Expired,
}

impl Keys {
    /// Issues a challenge for a request. The nonce must be random.
    pub fn issue(&self, nonce: [u8; NONCE_BYTES], bound: &Bound<'_>, now: SystemTime) -> Challenge {
        let expiry = seconds(now).saturating_add(LIFETIME.as_secs());
        let code = code(&self.current, expiry, &nonce, bound);
        let id = [&[VERSION][..], &expiry.to_be_bytes(), &nonce, &code].concat();
        Challenge { id: URL_SAFE_NO_PAD.encode(id), nonce, expires_at: instant(expiry), key: self.current }
    }

    /// Verifies that this controller issued a challenge for a request, and that it can still be answered.
    ///
    /// # Errors
    /// See [`ChallengeError`].
    pub fn verify(&self, id: &str, bound: &Bound<'_>, now: SystemTime) -> Result<Challenge, ChallengeError> {
        // A longer identifier is not even decoded.
        let bytes: Option<[u8; ID_BYTES]> =
            (id.len() < 2 * ID_BYTES).then(|| URL_SAFE_NO_PAD.decode(id).ok()?.try_into().ok()).flatten();
        let bytes = bytes.ok_or(ChallengeError::Malformed)?;
        let malformed = ChallengeError::Malformed;
        let (version, rest) = bytes.split_first().ok_or(malformed)?;
        let (expiry, rest) = rest.split_first_chunk().ok_or(malformed)?;
        let (nonce, found) = rest.split_first_chunk().ok_or(malformed)?;
        if *version != VERSION {
            return Err(malformed);
        }
        let expiry = u64::from_be_bytes(*expiry);
        let issued_with = |key: &&[u8; 32]| bool::from(code(key, expiry, nonce, bound).ct_eq(found));
        let key = [Some(&self.current), self.previous.as_ref()].into_iter().flatten().find(issued_with);
        let key = key.ok_or(ChallengeError::Forged)?;
        let expires_at = instant(expiry);
        if now >= expires_at {
            return Err(ChallengeError::Expired);
        }
        Ok(Challenge { id: id.to_owned(), nonce: *nonce, expires_at, key: *key })
    }
}

impl Challenge {
    /// The secret that only the TPM can open, as long as a digest of the endorsement key's name algorithm (AT-116).
    pub fn secret(&self, bound: &Bound<'_>, algorithm: HashAlgorithm) -> Vec<u8> {
        let fields = fields("secret", seconds(self.expires_at), &self.nonce, bound);
        let mut secret = HashAlgorithm::Sha512.hmac(&self.key, &[&fields]);
        secret.truncate(algorithm.digest_bytes());
        secret
    }
}

fn code(key: &[u8; 32], expiry: u64, nonce: &[u8; NONCE_BYTES], bound: &Bound<'_>) -> [u8; 32] {
    hmac_sha256(key, &[&fields("challenge", expiry, nonce, bound)])
}

/// All fields, each with its length in front: no two lists of fields have the same bytes.
fn fields(purpose: &str, expiry: u64, nonce: &[u8; NONCE_BYTES], bound: &Bound<'_>) -> Vec<u8> {
    let parts: [&[u8]; 8] = [
        purpose.as_bytes(),
        &expiry.to_be_bytes(),
        nonce,
        bound.request_uid.as_bytes(),
        bound.username.as_bytes(),
        bound.common_name.as_bytes(),
        bound.public_key,
        bound.attestation_key.map_or(&[], Name::as_bytes),
    ];
    parts.into_iter().flat_map(|part| [&(part.len() as u64).to_be_bytes()[..], part].concat()).collect()
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The time of a number of seconds. One that the system cannot represent is long past.
fn instant(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).unwrap_or(SystemTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: Keys = Keys { current: [1; 32], previous: Some([2; 32]) };
    const BOUND: Bound<'static> = Bound {
        request_uid: "u1",
        username: "system:bootstrap:abcdef",
        common_name: "system:node:n1",
        public_key: &[7; 32],
        attestation_key: None,
    };

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn a_challenge_is_accepted_for_its_request_until_it_expires_at_102() {
        let issued = KEYS.issue([3; 32], &BOUND, at(1_000));
        assert_eq!(issued.expires_at, at(1_300));
        assert_eq!(KEYS.verify(&issued.id, &BOUND, at(1_299)), Ok(issued.clone()));
        assert_eq!(KEYS.verify(&issued.id, &BOUND, at(1_300)), Err(ChallengeError::Expired));
        // Another replica has the keys in another order, after a rotation.
        let rotated = Keys { current: [9; 32], previous: Some(KEYS.current) };
        assert_eq!(rotated.verify(&issued.id, &BOUND, at(1_000)), Ok(issued.clone()));
        let gone = Keys { current: [8; 32], previous: Some([9; 32]) };
        assert_eq!(gone.verify(&issued.id, &BOUND, at(1_000)), Err(ChallengeError::Forged));
    }

    #[test]
    fn a_challenge_for_anything_else_is_refused_at_102_at_103() {
        let issued = KEYS.issue([3; 32], &BOUND, at(1_000));
        for other in [
            Bound { request_uid: "u2", ..BOUND },
            Bound { username: "system:node:n1", ..BOUND },
            Bound { common_name: "system:node:n2", ..BOUND },
            Bound { public_key: &[8; 32], ..BOUND },
            // The same characters, cut elsewhere.
            Bound { request_uid: "u1s", username: "ystem:bootstrap:abcdef", ..BOUND },
        ] {
            assert_eq!(KEYS.verify(&issued.id, &other, at(1_000)), Err(ChallengeError::Forged), "{other:?}");
        }
        let bytes = URL_SAFE_NO_PAD.decode(&issued.id).unwrap();
        for position in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[position] ^= 1;
            let id = URL_SAFE_NO_PAD.encode(changed);
            let expected = if position == 0 { ChallengeError::Malformed } else { ChallengeError::Forged };
            assert_eq!(KEYS.verify(&id, &BOUND, at(1_000)), Err(expected), "byte {position}");
        }
        for id in ["", "x", &"A".repeat(1_000_000), issued.id.get(1..).unwrap(), &format!("{}A", issued.id)] {
            assert_eq!(KEYS.verify(id, &BOUND, at(1_000)), Err(ChallengeError::Malformed));
        }
    }

    #[test]
    fn a_secret_is_that_of_its_challenge_and_as_long_as_a_digest_at_116() {
        let issued = KEYS.issue([3; 32], &BOUND, at(1_000));
        let verified = KEYS.verify(&issued.id, &BOUND, at(1_001)).unwrap();
        for (algorithm, length) in [(HashAlgorithm::Sha256, 32), (HashAlgorithm::Sha384, 48)] {
            let secret = issued.secret(&BOUND, algorithm);
            assert_eq!((secret.len(), &secret), (length, &verified.secret(&BOUND, algorithm)));
            let other = Bound { common_name: "system:node:n2", ..BOUND };
            assert_ne!(secret, issued.secret(&other, algorithm));
            assert_ne!(secret, KEYS.issue([4; 32], &BOUND, at(1_000)).secret(&BOUND, algorithm));
            // Who sees the identifier does not know the secret.
            let shown = URL_SAFE_NO_PAD.decode(&issued.id).unwrap();
            assert!(!shown.windows(8).any(|part| secret.starts_with(part)));
        }
    }
}
