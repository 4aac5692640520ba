//! Evaluates one request: reads what the rules need, judges, and writes the decision (AT-71, AT-72, AT-82).

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use portcullis_attestation::exchange::RequestFacts;
use portcullis_attestation::judge::{Accepted, Decision, Subject};
use portcullis_attestation::machine::Machine;
use portcullis_attestation::record::Record;
use portcullis_attestation::{Reason, Refusal};
use portcullis_pki::evidence::Phase;
use portcullis_pki::{AttestedUsage, random_bytes};

use super::looked::{Looked, failed, issued, unavailable};
use super::metrics::Outcome;
use super::records::{RecordError, Versioned};
use super::report::Why;
use super::shared::{Settings, Shared};
use super::{keys, machines, report};
use crate::attestation::{CHALLENGE, OfferText, Parsed, Stored};
use crate::call::REQUESTS;
use crate::lease::Leadership;

/// How long a verification may take (AT-70).
const LONGEST: Duration = Duration::from_secs(10);
/// How often a request is judged in one evaluation: before the approval, before the certificate, and after conflicts.
const ROUNDS: u32 = 5;

/// What is read before a request is judged.
struct Facts {
    machine: Option<Machine>,
    record: Option<Versioned>,
}

/// Evaluates a request. One of each node at a time, from reading its record to the certificate.
pub(super) async fn look(
    shared: &Arc<Shared>,
    name: &str,
    earlier: Vec<RequestFacts>,
    is_superseded: bool,
    leadership: Option<&Leadership>,
) -> Looked {
    let mut parsed = match read(shared, name).await {
        Ok(Some(parsed)) if parsed.stored.provider().is_none() => return Looked::Over,
        Ok(Some(parsed)) => parsed,
        Ok(None) => return Looked::Over,
        Err(why) => return Looked::Failed(why),
    };
    let _turn = shared.node(parsed.node_name().unwrap_or_default()).lock().await;
    for round in 0..ROUNDS {
        let settings = shared.settings.load_full();
        let stored = &parsed.stored;
        if stored.is_decided() {
            return Looked::Over;
        }
        if leadership.is_some_and(|leadership| !leadership.holds()) {
            return Looked::Failed("the lease is lost".to_owned());
        }
        if parsed.phase == Some(Phase::Enrol) {
            match standing_offer(shared, stored, is_superseded) {
                Standing::None => {}
                Standing::Live(until) => return Looked::Challenged(until),
                Standing::Over(refusal) => {
                    return match report::refuse(&shared.workload, stored, Why::from(&refusal)).await {
                        Ok(()) => Looked::Over,
                        Err(error) => failed(&error),
                    };
                }
            }
        }
        // What was read lately is good enough for a first look, not for a certificate.
        let is_fresh = round > 0 || stored.has("Approved");
        let facts = match gather(shared, &settings, &parsed, is_fresh).await {
            Ok(facts) => facts,
            Err(refusal) => return refused(shared, &settings, &parsed, None, &refusal).await,
        };
        let judged = judge(shared, &settings, &parsed, &earlier, &facts).await;
        let decision = match judged {
            Ok(decision) => decision,
            Err(refusal) => {
                return refused(shared, &settings, &parsed, facts.machine.as_ref(), &refusal).await;
            }
        };
        let Some(machine) = &facts.machine else {
            return Looked::Failed("a request without a machine was not refused".to_owned());
        };
        let accepted = match decision {
            Decision::Challenge(offer) => {
                let until = offer.expires_at;
                return match report::offer(&shared.workload, stored, &offer, machine).await {
                    Ok(()) => {
                        count(shared, &settings, &parsed, Outcome::Challenged);
                        tracing::info!(
                            csr = stored.metadata.name,
                            node = machine.named.node_name,
                            "issued a challenge"
                        );
                        Looked::Challenged(until)
                    }
                    Err(error) => failed(&error),
                };
            }
            Decision::Issue(accepted) => accepted,
        };
        match remember(shared, &settings, &parsed, &facts, machine, &accepted).await {
            // Judged again, with what was written.
            Ok(Remembered::Now) if stored.has("Approved") => continue,
            Ok(Remembered::Now | Remembered::Before) => {}
            // Judged again, with the new record.
            Err(Unremembered::Changed) => continue,
            Err(Unremembered::Refused(refusal)) => {
                return refused(shared, &settings, &parsed, Some(machine), &refusal).await;
            }
        }
        if !stored.has("Approved") {
            let message = format!(
                "Portcullis verified the evidence of {} for node {} (key class {})",
                accepted.record.device, accepted.record.node_name, accepted.verified.key_class
            );
            // AT-82: the signer judges again, what is there after the approval.
            match report::approve(&shared.workload, stored, &message).await {
                Ok(approved) => {
                    let mut next = approved;
                    next.spec = stored.spec.clone();
                    parsed = match parse(next).await {
                        Ok(parsed) => parsed,
                        Err(why) => return Looked::Failed(why),
                    };
                    continue;
                }
                Err(error) => return failed(&error),
            }
        }
        return sign(shared, &settings, &parsed, machine, facts.record.as_ref(), &accepted).await;
    }
    Looked::Failed("the request or the identity record changes all the time".to_owned())
}

/// Reads a request and parses its evidence; none if it is gone.
async fn read(shared: &Shared, name: &str) -> Result<Option<Arc<Parsed>>, String> {
    let stored: Option<Stored> =
        shared.workload.find(&REQUESTS, name).await.map_err(|error| error.to_string())?;
    match stored {
        Some(stored) => parse(stored).await.map(Some),
        None => Ok(None),
    }
}

/// Parses the evidence of a request, on a thread of its own.
async fn parse(stored: Stored) -> Result<Arc<Parsed>, String> {
    let parsed = tokio::task::spawn_blocking(move || Arc::new(Parsed::new(stored))).await;
    parsed.map_err(|error| error.to_string())
}

/// The challenge that a request has already.
enum Standing {
    /// None, or one that the requester may have written: a new one is issued.
    None,
    Live(SystemTime),
    /// It was answered, or has expired.
    Over(Refusal),
}

fn standing_offer(shared: &Shared, stored: &Stored, is_superseded: bool) -> Standing {
    let superseded = |detail: &str| {
        Standing::Over(Refusal {
            reason: Reason::ChallengeSuperseded,
            rule: "AT-101",
            detail: detail.to_owned(),
        })
    };
    if is_superseded {
        return superseded("another request answered the challenge");
    }
    let until = shared.offered(&stored.metadata.uid);
    let text = stored.metadata.annotations.get(CHALLENGE);
    let text: Option<OfferText> = text.and_then(|text| serde_json::from_str(text).ok());
    match (until, text) {
        // Issued by this process.
        (Some(until), _) if shared.clock.now() < until => Standing::Live(until),
        (Some(_), _) => superseded("the challenge has expired"),
        // Issued by another process, if not by the requester; it still verifies after a new one is issued.
        (None, Some(text)) if !text.is_live(shared.clock.now()) => superseded("the challenge has expired"),
        (None, _) => Standing::None,
    }
}

/// Reads the machine and its record. What cannot be read refuses nothing for good (AT-154).
async fn gather(
    shared: &Shared,
    settings: &Settings,
    parsed: &Parsed,
    is_fresh: bool,
) -> Result<Facts, Refusal> {
    let provider = parsed.stored.provider().and_then(|name| settings.rules.providers.get(name));
    let csr = parsed.content.as_ref().ok().map(|content| &content.csr);
    let node_name = provider.zip(csr).and_then(|(provider, csr)| provider.machine_name(csr));
    let Some(node_name) = node_name else { return Ok(Facts { machine: None, record: None }) };
    let machine = machines::of_node(shared, settings, node_name, is_fresh).await.map_err(|error| {
        Refusal { reason: Reason::MachineNotFound, rule: "AT-62", detail: error.to_string() }
    })?;
    let record = match &machine {
        Some(machine) => shared.records.find(machine).await.map_err(|error| unavailable(&error))?,
        None => None,
    };
    Ok(Facts { machine, record })
}

/// Judges on a thread of its own, for a limited time. A verifier that panics or takes too long never approves (AT-71).
async fn judge(
    shared: &Arc<Shared>,
    settings: &Arc<Settings>,
    parsed: &Arc<Parsed>,
    earlier: &[RequestFacts],
    facts: &Facts,
) -> Result<Decision, Refusal> {
    let failed = |detail: String| Refusal { reason: Reason::ProviderFailed, rule: "AT-71", detail };
    let now = shared.clock.now();
    let keys = keys::load(&shared.management, &shared.namespace, now).await.map_err(failed)?;
    let nonce = random_bytes().map_err(|error| failed(error.to_string()))?;
    let began = shared.clock.running();
    let (settings, parsed, earlier) = (Arc::clone(settings), Arc::clone(parsed), earlier.to_vec());
    let provider = configured_provider(&settings, &parsed);
    let (machine, record) =
        (facts.machine.clone(), facts.record.as_ref().map(|versioned| versioned.record.clone()));
    let judging = tokio::task::spawn_blocking(move || {
        let subject = Subject {
            request: parsed.client_request(),
            uid: &parsed.stored.metadata.uid,
            created: parsed.created(),
            machine: machine.as_ref(),
            record: record.as_ref(),
            earlier: &earlier,
        };
        settings.rules.judge(&subject, &keys, nonce, now).outcome
    });
    let outcome = match tokio::time::timeout(LONGEST, judging).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(error)) => Err(failed(format!("the attestor failed: {error}"))),
        Err(_) => Err(failed(format!("the attestor took more than {} s", LONGEST.as_secs()))),
    };
    shared.metrics.took(&provider, shared.clock.running().saturating_sub(began));
    outcome
}

/// The identity is recorded.
enum Remembered {
    Now,
    Before,
}

/// The identity could not be recorded.
enum Unremembered {
    /// Another process changed the record: judge again.
    Changed,
    Refused(Refusal),
}

/// Claims the device and writes the record, before anything is approved (AT-72, AT-103, AT-151, AT-152).
async fn remember(
    shared: &Shared,
    settings: &Settings,
    parsed: &Parsed,
    facts: &Facts,
    machine: &Machine,
    accepted: &Accepted,
) -> Result<Remembered, Unremembered> {
    let unavailable = |error: RecordError| match &error {
        RecordError::Call(call) if call.is_conflict() || call.is_already_exists() => Unremembered::Changed,
        _ => Unremembered::Refused(unavailable(&error)),
    };
    let uid = &parsed.stored.metadata.uid;
    let is_recorded = |record: &Record| record.used.iter().any(|used| used.request_uid == *uid);
    if facts.record.as_ref().is_some_and(|versioned| is_recorded(&versioned.record)) {
        return Ok(Remembered::Before);
    }
    let device = accepted.verified.device;
    if let Some(holder) = shared.records.claim(device, machine).await.map_err(unavailable)? {
        let is_live = match holder.cluster == *shared.records.cluster() {
            true => machines::exists(shared, settings, &holder.machine_uid).await,
            false => shared.fleet.has(holder.cluster.as_deref(), &holder.machine_uid).await,
        };
        if is_live.map_err(|error| unavailable(error.into()))? {
            return Err(Unremembered::Refused(Refusal {
                reason: Reason::EkInUse,
                rule: "AT-152",
                detail: format!("{device} belongs to Machine {:?}", holder.machine_uid),
            }));
        }
        shared.records.take_over(device, machine, &holder).await.map_err(unavailable)?;
    }
    let written = shared.records.write(machine, facts.record.as_ref(), &accepted.record).await;
    written.map(|()| Remembered::Now).map_err(unavailable)
}

/// Signs the certificate of an approved request. The record has it before anybody else does (AT-88).
async fn sign(
    shared: &Shared,
    settings: &Settings,
    parsed: &Parsed,
    machine: &Machine,
    before: Option<&Versioned>,
    accepted: &Accepted,
) -> Looked {
    let stored = &parsed.stored;
    let Ok(content) = &parsed.content else { return Looked::Over };
    let (provider_id, oids) = (&accepted.record.provider_id, &settings.rules.allowed.provider_id_oids);
    let usage = AttestedUsage::Client { provider_id, oids };
    let longest = settings.config.longest(&accepted.record.provider);
    let certificate = issued(&shared.authority, stored, &content.csr, &usage, longest, shared.clock.now());
    let (certificate, details) = match certificate {
        Ok(certificate) => certificate,
        Err(why) => return Looked::Failed(why),
    };
    let mut record = before.map_or_else(|| accepted.record.clone(), |versioned| versioned.record.clone());
    record.certified(&stored.metadata.uid, details);
    if let Err(error) = shared.records.write(machine, before, &record).await {
        return Looked::Failed(error.to_string());
    }
    match report::issue(&shared.workload, stored, &certificate).await {
        Ok(()) => {
            let key_class = accepted.verified.key_class;
            shared.metrics.issued(&stored.spec.signer_name, key_class);
            count(shared, settings, parsed, Outcome::Issued);
            tracing::info!(
                csr = stored.metadata.name,
                node = accepted.record.node_name,
                device = %accepted.record.device,
                %key_class,
                evidence = %accepted.evidence,
                "issued a certificate"
            );
            Looked::Over
        }
        Err(error) => failed(&error),
    }
}

/// Refuses a request, for good or for now.
async fn refused(
    shared: &Shared,
    settings: &Settings,
    parsed: &Parsed,
    machine: Option<&Machine>,
    refusal: &Refusal,
) -> Looked {
    let stored = &parsed.stored;
    let (reason, rule, detail) = (refusal.reason, refusal.rule, &refusal.detail);
    let csr = &stored.metadata.name;
    if reason.is_transient() {
        count(shared, settings, parsed, Outcome::Waiting(reason.as_str()));
        return Looked::Waiting(format!("{reason}: {rule}: {detail}"));
    }
    let why = Why::from(refusal);
    if let Err(error) = report::refuse(&shared.workload, stored, why).await {
        return failed(&error);
    }
    tracing::warn!(csr, user = stored.spec.username, %reason, rule, detail, "refused a certificate request");
    count(shared, settings, parsed, Outcome::Refused(reason.as_str()));
    let now = shared.clock.now();
    report::tell(&shared.workload, &shared.management, stored, machine, why, now).await;
    Looked::Over
}

fn count(shared: &Shared, settings: &Settings, parsed: &Parsed, outcome: Outcome) {
    let phase = parsed.phase.map_or("none", Phase::as_str);
    shared.metrics.evaluated(&configured_provider(settings, parsed), phase, outcome);
}

/// The attestor of a request, if it is configured: callers choose no labels of metrics.
fn configured_provider(settings: &Settings, parsed: &Parsed) -> String {
    let provider = parsed.stored.provider().filter(|name| settings.rules.providers.contains_key(*name));
    provider.unwrap_or("other").to_owned()
}
