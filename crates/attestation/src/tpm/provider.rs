//! The attestor `tpm` (AT-83, AT-116).

use std::collections::BTreeSet;

use portcullis_pki::evidence::Phase;
use portcullis_pki::sha256;
use portcullis_pki::tpm::credential;
use portcullis_pki::tpm::evidence::TpmEvidence;
use portcullis_pki::tpm::{Name, PublicArea};

use super::policy::{Machine, PcrMode, Policy};
use super::steps::{self, Enrolled};
use crate::check::{Check, CheckResult, Refusal, Report, Run, failed};
use crate::device::Device;
use crate::exchange::Answered;
use crate::provider::{Case, Progress, Provider};
use crate::reason::Reason;
use crate::verified::{Offer, Verified};

/// See the module.
#[derive(Debug)]
pub struct TpmProvider {
    policy: Policy,
}

impl TpmProvider {
    /// An attestor with this policy.
    pub fn new(policy: Policy) -> Self {
        Self { policy }
    }

    fn enrol(&self, case: &Case<'_>, evidence: &TpmEvidence) -> Report<Progress> {
        let now = case.exchange.now;
        let Report { mut checks, outcome } = steps::enrol(evidence, &self.policy, &machine(case, None), now);
        let enrolled = match outcome {
            Ok(enrolled) => enrolled,
            Err(refusal) => return Report { checks, outcome: Err(refusal) },
        };
        let outcome = offer(case, &enrolled);
        let result = match &outcome {
            Ok(_) => CheckResult::Passed(String::new()),
            Err(refusal) => CheckResult::Failed(refusal.clone()),
        };
        checks.push(Check { rule: "AT-116", what: "a secret can be made for the TPM", result });
        Report { checks, outcome: outcome.map(Progress::Challenge) }
    }

    fn prove(&self, case: &Case<'_>, evidence: &TpmEvidence, id: &str) -> Report<Progress> {
        let now = case.exchange.now;
        let envelope = &case.claim.envelope;
        // The name of the attestation key, and the length of the secret, are part of the challenge.
        let key = |bytes: &[u8]| PublicArea::parse(bytes).ok();
        let keys = key(&evidence.ak_pub.0).zip(key(&evidence.ek_pub.0));
        let mut run = Run::default();
        let mut answered = None;
        run.step("AT-103", "the challenge is ours, for this node, and new", Some(&keys), |keys| {
            let Some((attestation, endorsement)) = keys else {
                return failed(Reason::TpmMalformed, "akPub, ekPub: not the public area of a key");
            };
            match case.exchange.verify(id, Some(attestation.name()), endorsement.name_algorithm()) {
                Ok(found) => {
                    answered = Some(found);
                    Ok(String::new())
                }
                Err(why) => failed(Reason::ChallengeInvalid, why),
            }
        });
        let Report { mut checks, outcome } = run.report(|| answered);
        let Answered { challenge, secret } = match outcome {
            Ok(answered) => answered,
            Err(refusal) => return Report { checks, outcome: Err(refusal) },
        };
        let challenge = steps::Challenge {
            nonce: &challenge.nonce,
            secret: &secret,
            csr_digest: &envelope.csr_digest,
            csr_public_key: case.public_key,
        };
        let known = machine(case, key(&evidence.ak_pub.0).as_ref().map(PublicArea::name));
        let proved = steps::prove(evidence, &challenge, &self.policy, &known, now);
        checks.extend(proved.checks);
        let verified = proved.outcome.map(|verified| {
            let model = verified.model.map(|model| {
                (MODEL.to_owned(), format!("{} {} {}", model.manufacturer, model.model, model.firmware))
            });
            let values = verified.pcrs.as_ref().map(|values| values.values().flatten().copied().collect());
            let pcrs = values.map(|values: Vec<u8>| {
                let result = match self.policy.pcrs.mode {
                    PcrMode::Enforce => "accepted",
                    PcrMode::None | PcrMode::Record => "recorded",
                };
                (PCRS.to_owned(), format!("{result} {}", Device(sha256(&values))))
            });
            Progress::Verified(Verified {
                key_class: verified.key_class,
                device: Device(verified.endorsement_key),
                attestation_key: Some(verified.attestation_key.to_string()),
                clock: Some(verified.clock),
                challenge: Some(id.to_owned()),
                is_one_time: false,
                attributes: model.into_iter().chain(pcrs).collect(),
            })
        });
        Report { checks, outcome: verified }
    }
}

/// The attributes of a TPM: its manufacturer, model and firmware; and whether the PCRs have accepted values, with the digest
/// of all of them (AT-8).
pub const MODEL: &str = "tpm";
/// See [`MODEL`].
pub const PCRS: &str = "pcrs";

impl Provider for TpmProvider {
    fn name(&self) -> &'static str {
        "tpm"
    }

    fn verify_client(&self, case: &Case<'_>) -> Report<Progress> {
        let envelope = &case.claim.envelope;
        let evidence = TpmEvidence::read(envelope.member.as_deref().unwrap_or("null"));
        let evidence = match evidence {
            Ok(evidence) => evidence,
            Err(why) => return malformed(Reason::TpmMalformed, "AT-119.1", why),
        };
        match (envelope.phase, &envelope.challenge_id) {
            (Phase::Enrol, _) => self.enrol(case, &evidence),
            (Phase::Prove, Some(id)) => self.prove(case, &evidence, id),
            _ => malformed(Reason::MalformedAttestation, "AT-101", "phase must be enrol or prove".to_owned()),
        }
    }
}

/// What is known about the machine.
///
/// DIVERGES: the clock is compared only with that of the same attestation key: the TPM adds a secret number of each key to
/// its counts (AT-119.15).
fn machine(case: &Case<'_>, attestation_key: Option<&Name>) -> Machine {
    let name = attestation_key.map(ToString::to_string);
    let record = case.record.filter(|record| name.is_some() && record.attestation_key == name);
    let digests = |keys: &BTreeSet<Device>| keys.iter().map(|key| key.0).collect();
    Machine {
        listed: digests(&case.machine.endorsement_keys),
        platform: case.machine.platform_key.map(|key| key.0),
        clock: record.and_then(|record| record.seen_clock()),
    }
}

/// The challenge for a TPM.
fn offer(case: &Case<'_>, enrolled: &Enrolled) -> Result<Offer, Refusal> {
    let key = &enrolled.endorsement_key;
    let name: &Name = &enrolled.attestation_key;
    let Answered { challenge, secret } = case.exchange.issue(Some(name), key.name_algorithm());
    let credential = credential::make(key, name, &secret).map_err(|error| Refusal {
        reason: Reason::EkTemplate,
        rule: "AT-116",
        detail: error.to_string(),
    })?;
    Ok(Offer {
        id: challenge.id,
        nonce: challenge.nonce,
        expires_at: challenge.expires_at,
        credential: Some(credential),
        device: Device(key.digest()),
    })
}

fn malformed(reason: Reason, rule: &'static str, detail: String) -> Report<Progress> {
    let refusal = Refusal { reason, rule, detail };
    let what = "the evidence is well-formed";
    let checks = vec![Check { rule, what, result: CheckResult::Failed(refusal.clone()) }];
    Report { checks, outcome: Err(refusal) }
}
