//! The attestor `challenge`: the machine answers with its enrolled key or one-time secret (AT-96, AT-100 to AT-104).
//!
//! DIVERGES: a machine with a one-time secret cannot renew its certificate, because nothing is left to prove it with.
//! Enroll a key for machines that renew.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use portcullis_pki::evidence::Phase;
use portcullis_pki::sha256;
use portcullis_pki::tpm::HashAlgorithm;
use serde::{Deserialize, Serialize};

use crate::answer::{Enrolled, Question};
use crate::check::{Report, Run, failed, require};
use crate::device::Device;
use crate::key_class::KeyClass;
use crate::provider::{Case, Progress, Provider};
use crate::reason::Reason;
use crate::verified::{Offer, Verified};

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct EnrolledKey;

/// The member of the envelope in the second request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerMember {
    /// The signature or code, in base64.
    pub answer: String,
}

impl Provider for EnrolledKey {
    fn name(&self) -> &'static str {
        "challenge"
    }

    fn verify_client(&self, case: &Case<'_>) -> Report<Progress> {
        let mut run = Run::default();
        let envelope = &case.claim.envelope;
        let enrolled = case.machine.enrolled.as_ref();
        run.step("AT-100", "the machine is enrolled", Some(&enrolled), |enrolled| match enrolled {
            Some(Enrolled::PublicKey(_)) => Ok("a key".to_owned()),
            Some(Enrolled::Secret(_)) => Ok("a one-time secret".to_owned()),
            None => failed(Reason::NotEnrolled, "the machine has no enrolled key or secret"),
        });
        run.step("AT-104", "the enrolment is not used up", enrolled, |enrolled| {
            if !matches!(enrolled, Enrolled::Secret(_)) {
                return Ok(String::new());
            }
            let detail = "a machine with a one-time secret does not renew its certificate: enroll a key";
            require(!case.claim.is_renewal, Reason::RotationNotSupported, detail)?;
            let key = Device(sha256(case.public_key));
            // The same key again: the node has lost the answer.
            let is_used = case.record.is_some_and(|record| record.is_secret_used && !record.has_issued(key));
            require(!is_used, Reason::EnrolmentUsed, "the one-time secret of the machine was used")?;
            Ok(String::new())
        });
        let device = enrolled.map(|enrolled| match enrolled {
            Enrolled::PublicKey(key) => Device(sha256(key)),
            Enrolled::Secret(digest) => Device(sha256(digest)),
        });
        if envelope.phase == Phase::Enrol {
            return run.report(|| {
                let issued = case.exchange.issue(None, HashAlgorithm::Sha256).challenge;
                Some(Progress::Challenge(Offer {
                    id: issued.id,
                    nonce: issued.nonce,
                    expires_at: issued.expires_at,
                    credential: None,
                    device: device?,
                }))
            });
        }
        let mut challenge = None;
        run.step("AT-103", "the challenge is ours, for this node, and new", enrolled, |_| {
            let Some(id) = &envelope.challenge_id else {
                return failed(Reason::MalformedAttestation, "phase must be enrol or prove");
            };
            match case.exchange.verify(id, None, HashAlgorithm::Sha256) {
                Ok(answered) => {
                    challenge = Some(answered.challenge);
                    Ok(String::new())
                }
                Err(why) => failed(Reason::ChallengeInvalid, why),
            }
        });
        let with = challenge.as_ref().zip(enrolled);
        run.step("AT-104", "the answer is that of the machine", with.as_ref(), |(challenge, enrolled)| {
            let member: Option<AnswerMember> =
                envelope.member.as_deref().and_then(|member| serde_json::from_str(member).ok());
            let answer = member.and_then(|member| STANDARD.decode(member.answer).ok());
            let Some(answer) = answer else {
                return failed(Reason::MalformedAttestation, "challenge.answer must be base64");
            };
            let question = Question {
                nonce: &challenge.nonce,
                csr_digest: &envelope.csr_digest,
                node_name: &envelope.node_name,
                provider_id: &envelope.provider_id,
            };
            let is_answered = question.is_answered_by(enrolled, &answer);
            require(is_answered, Reason::AnswerInvalid, "the answer is not by the enrolled key or secret")?;
            Ok(String::new())
        });
        run.report(|| {
            Some(Progress::Verified(Verified {
                key_class: KeyClass::K0,
                device: device?,
                attestation_key: None,
                clock: None,
                challenge: envelope.challenge_id.clone(),
                is_one_time: matches!(enrolled, Some(Enrolled::Secret(_))),
                attributes: Vec::new(),
            }))
        })
    }
}
