//! The answer of a node without a TPM to a challenge: a signature by its enrolled key, or a code by its one-time secret
//! (AT-100, AT-104).
//!
//! DIVERGES: the code is by the digest of the secret. The controller has the digest alone.

use portcullis_pki::{hmac_sha256, sha256, verify_signature};
use subtle::ConstantTimeEq;

use crate::challenge::NONCE_BYTES;

/// How a machine was enrolled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Enrolled {
    /// Its public key, a DER SubjectPublicKeyInfo: P-256, P-384 or Ed25519.
    PublicKey(Vec<u8>),
    /// The SHA-256 digest of a secret that it can use once. Who has the digest can answer, so it is as secret as the secret.
    Secret([u8; 32]),
}

/// What an answer is about.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The nonce of the challenge.
    pub nonce: &'a [u8; NONCE_BYTES],
    /// The digest of the certificate request (AT-53).
    pub csr_digest: &'a [u8; 32],
    /// The name of the node.
    pub node_name: &'a str,
    /// The provider ID of the machine.
    pub provider_id: &'a str,
}

impl Question<'_> {
    /// The bytes that the answer signs.
    pub fn message(&self) -> Vec<u8> {
        [
            b"kubelet-authenticator challenge v1\0",
            &self.nonce[..],
            self.csr_digest,
            self.node_name.as_bytes(),
            &[0],
            self.provider_id.as_bytes(),
        ]
        .concat()
    }

    /// The answer of a machine that has this one-time secret.
    pub fn answer_with_secret(&self, secret: &[u8]) -> [u8; 32] {
        hmac_sha256(&sha256(secret), &[&self.message()])
    }

    /// Returns whether an answer is that of the enrolled machine.
    pub fn is_answered_by(&self, enrolled: &Enrolled, answer: &[u8]) -> bool {
        match enrolled {
            Enrolled::PublicKey(key) => verify_signature(key, &self.message(), answer),
            Enrolled::Secret(digest) => hmac_sha256(digest, &[&self.message()]).ct_eq(answer).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use portcullis_testkit::scratch::Scratch;
    use portcullis_testkit::tool::{openssl, run};

    use super::*;

    const QUESTION: Question<'static> =
        Question { nonce: &[1; 32], csr_digest: &[2; 32], node_name: "n1", provider_id: "p://1" };

    fn others() -> [Question<'static>; 5] {
        [
            Question { nonce: &[9; 32], ..QUESTION },
            Question { csr_digest: &[9; 32], ..QUESTION },
            Question { node_name: "n2", ..QUESTION },
            Question { provider_id: "p://2", ..QUESTION },
            Question { node_name: "n", provider_id: "1\0p://1", ..QUESTION },
        ]
    }

    #[test]
    fn a_signature_by_openssl_answers_its_question_and_no_other_at_104() {
        let folder = Scratch::new();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let message = folder.write("message", QUESTION.message());
        let message = message.display().to_string();
        for (kind, make, sign) in [
            ("P-256", "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256", "dgst -sha256 -sign"),
            ("P-384", "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-384", "dgst -sha384 -sign"),
            ("Ed25519", "genpkey -algorithm ed25519", ""),
        ] {
            openssl(folder.path(), &format!("{make} -out key.pem"));
            openssl(folder.path(), "pkey -in key.pem -pubout -out public.pem");
            match sign {
                "" => openssl(
                    folder.path(),
                    &format!("pkeyutl -sign -inkey key.pem -rawin -in {message} -out answer.bin"),
                ),
                sign => openssl(folder.path(), &format!("{sign} key.pem -out answer.bin {message}")),
            };
            let hex = |file: &str| run("od", ["-An", "-v", "-tx1", file]);
            let bytes = |file: &str| -> Vec<u8> {
                hex(file).split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
            };
            let pem = bytes(&path("public.pem"));
            let enrolled = Enrolled::PublicKey(portcullis_pki::pem::first(&pem).unwrap().der);
            let answer = bytes(&path("answer.bin"));
            assert!(QUESTION.is_answered_by(&enrolled, &answer), "{kind}");
            assert!(others().iter().all(|other| !other.is_answered_by(&enrolled, &answer)), "{kind}");
            assert!(!QUESTION.is_answered_by(&enrolled, &[]), "{kind}");
            assert!(!QUESTION.is_answered_by(&Enrolled::PublicKey(vec![]), &answer), "{kind}");
        }
    }

    #[test]
    fn a_one_time_secret_answers_its_question_and_no_other_at_104() {
        let enrolled = Enrolled::Secret(sha256(b"one-time secret"));
        let answer = QUESTION.answer_with_secret(b"one-time secret");
        assert!(QUESTION.is_answered_by(&enrolled, &answer));
        assert!(others().iter().all(|other| !other.is_answered_by(&enrolled, &answer)));
        for wrong in [&QUESTION.answer_with_secret(b"another")[..], &answer[..31], &[]] {
            assert!(!QUESTION.is_answered_by(&enrolled, wrong));
        }
    }
}
