//! Judges a request: the core checks, the attestor, and the history of the machine, in this order (AT-72).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use portcullis_pki::sha256;

use crate::challenge::{Keys, NONCE_BYTES};
use crate::check::{Check, CheckResult, Refusal, Report, Run};
use crate::device::Device;
use crate::exchange::{Exchange, RequestFacts};
use crate::machine::Machine;
use crate::provider::{Case, Progress, Provider};
use crate::reason::Reason;
use crate::record::{self, Presented, Record};
use crate::request::{self, Allowed, ClientRequest};
use crate::verified::{Offer, Verified};

/// What a cluster asks of its nodes.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// What the core checks allow.
    pub allowed: Allowed,
    /// The attestors, by their names.
    pub providers: BTreeMap<String, Arc<dyn Provider>>,
}

/// A request, with everything that is known about its machine.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The request.
    pub request: ClientRequest<'a>,
    /// Its UID.
    pub uid: &'a str,
    /// When it was created.
    pub created: SystemTime,
    /// The machine of the node that it names; none if there is none.
    pub machine: Option<&'a Machine>,
    /// What was recorded about the machine; none at the first time.
    pub record: Option<&'a Record>,
    /// Earlier requests that may have asked for the challenge that this one answers, the newest first.
    pub earlier: &'a [RequestFacts],
}

/// The decision on a request that is not refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The node must answer a challenge.
    Challenge(Offer),
    /// A certificate may be issued, once this is recorded.
    Issue(Box<Accepted>),
}

/// A machine that proved its identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// What was verified.
    pub verified: Verified,
    /// The digest of the evidence.
    pub evidence: Device,
    /// The record to write before the certificate is issued.
    pub record: Record,
}

impl Rules {
    /// Judges a request. The nonce must be random: it becomes that of a new challenge.
    pub fn judge(
        &self,
        subject: &Subject<'_>,
        keys: &Keys,
        nonce: [u8; NONCE_BYTES],
        now: SystemTime,
    ) -> Report<Decision> {
        let machine = subject.machine;
        let core = request::check(&subject.request, &self.allowed, machine.map(|machine| &machine.named));
        let mut checks = core.checks;
        let (claim, content, machine) = match (core.outcome, subject.request.content, machine) {
            (Ok(claim), Ok(content), Some(machine)) => (claim, content, machine),
            (Err(refusal), ..) => return Report { checks, outcome: Err(refusal) },
            // The core checks pass neither without a machine nor without content.
            _ => return Report { checks, outcome: Err(not_evaluated()) },
        };
        let mut age = Run::default();
        record::check_age(&mut age, Some(&claim.envelope), subject.created);
        let age = age.report(|| Some(()));
        checks.extend(age.checks);
        if let Err(refusal) = age.outcome {
            return Report { checks, outcome: Err(refusal) };
        }
        let public_key = sha256(content.csr.public_key_der());
        let own = RequestFacts {
            uid: subject.uid.to_owned(),
            username: subject.request.username.to_owned(),
            common_name: format!("system:node:{}", claim.node_name),
            public_key,
        };
        let exchange = Exchange { keys, nonce, request: &own, earlier: subject.earlier, now };
        let case = Case {
            claim: &claim,
            public_key: content.csr.public_key_der(),
            machine,
            record: subject.record,
            exchange: &exchange,
        };
        let provider = self.providers.get(&claim.envelope.provider);
        let Some(provider) = provider else {
            let refusal = Refusal {
                reason: Reason::AttestorNotAuthorized,
                rule: "AT-60",
                detail: format!("the attestor {:?} is not configured", claim.envelope.provider),
            };
            checks.push(Check {
                rule: "AT-60",
                what: "the attestor is configured",
                result: CheckResult::Failed(refusal.clone()),
            });
            return Report { checks, outcome: Err(refusal) };
        };
        let attested = provider.verify_client(&case);
        checks.extend(attested.checks);
        let progress = match attested.outcome {
            Ok(progress) => progress,
            Err(refusal) => return Report { checks, outcome: Err(refusal) },
        };
        let evidence = content.evidence.as_ref().map(|evidence| sha256(&evidence.data)).unwrap_or_default();
        let presented = Presented {
            machine_uid: &machine.uid,
            request_uid: subject.uid,
            public_key: Device(public_key),
            evidence: Device(evidence),
            envelope: &claim.envelope,
            created: subject.created,
            now,
        };
        let mut history = Run::default();
        let decision = match progress {
            Progress::Challenge(offer) => {
                record::check_device(&mut history, subject.record, offer.device, &claim.envelope.provider);
                Decision::Challenge(offer)
            }
            Progress::Verified(verified) => {
                record::check_device(&mut history, subject.record, verified.device, &claim.envelope.provider);
                let challenge = verified.challenge.as_deref();
                record::check_history(&mut history, subject.record, &presented, challenge);
                Decision::Issue(Box::new(Accepted {
                    evidence: presented.evidence,
                    record: Record::after(subject.record, &presented, &verified),
                    verified,
                }))
            }
        };
        let history = history.report(|| Some(decision));
        checks.extend(history.checks);
        Report { checks, outcome: history.outcome }
    }
}

fn not_evaluated() -> Refusal {
    let detail = "a check could not be evaluated".to_owned();
    Refusal { reason: Reason::NotEvaluated, rule: "AT-70", detail }
}
