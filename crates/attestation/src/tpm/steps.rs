//! The checks of AT-119.1 to AT-119.15, in order.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use portcullis_pki::tpm::endorsement::ChipModel;
use portcullis_pki::tpm::evidence::{Purpose, TpmEvidence, qualifying_data};
use portcullis_pki::tpm::{Body, HashAlgorithm, Name, PublicArea, Statement};
use subtle::ConstantTimeEq;

use super::evidence::{self, Keys, SignedStatement, Statements};
use super::policy::{Machine, PcrMode, Policy, Trust};
use crate::check::{Check, CheckResult, Ending, Finding, Report, Run, failed, require};
use crate::hex::{hex, unhex};
use crate::key_class::KeyClass;
use crate::reason::Reason;
use crate::seen_clock::SeenClock;

/// How long after a reset a TPM may say that its clock is not safe.
const UNSAFE_CLOCK: Duration = Duration::from_secs(10 * 60);

/// What the answer must be about.
#[derive(Clone, Copy, Debug)]
pub struct Challenge<'a> {
    /// The nonce of the challenge.
    pub nonce: &'a [u8],
    /// The secret that only the TPM could open.
    pub secret: &'a [u8],
    /// The digest of the certificate request (AT-53).
    pub csr_digest: &'a [u8; 32],
    /// The key in the certificate request, a DER SubjectPublicKeyInfo.
    pub csr_public_key: &'a [u8],
}

/// The keys of a node that asks for a challenge: what a secret for its TPM is made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enrolled {
    /// The endorsement key.
    pub endorsement_key: PublicArea,
    /// The name of the attestation key.
    pub attestation_key: Name,
}

/// What the evidence proves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// How well the key is protected.
    pub key_class: KeyClass,
    /// The digest of the endorsement key.
    pub endorsement_key: [u8; 32],
    /// The name of the attestation key.
    pub attestation_key: Name,
    /// What the manufacturer says about the TPM; none without a certificate that is trusted.
    pub model: Option<ChipModel>,
    /// The values of the PCRs; none without a quote.
    pub pcrs: Option<BTreeMap<u32, Vec<u8>>>,
    /// The clock, to be remembered.
    pub clock: SeenClock,
}

/// Checks the first request of a node: what can be checked before the challenge.
pub fn enrol(
    evidence: &TpmEvidence,
    policy: &Policy,
    machine: &Machine,
    now: SystemTime,
) -> Report<Enrolled> {
    let mut run = Run::default();
    let keys = malformed(&mut run, Keys::parse(evidence));
    check_keys(&mut run, evidence, keys.as_ref(), policy, machine, now);
    run.report(|| {
        keys.map(|keys| Enrolled {
            attestation_key: keys.attestation.name().clone(),
            endorsement_key: keys.endorsement,
        })
    })
}

/// Checks the second request of a node: everything.
pub fn prove(
    evidence: &TpmEvidence,
    challenge: &Challenge<'_>,
    policy: &Policy,
    machine: &Machine,
    now: SystemTime,
) -> Report<Verified> {
    let mut run = Run::default();
    let parsed = Keys::parse(evidence).and_then(|keys| Ok((keys, Statements::parse(evidence)?)));
    let parsed = malformed(&mut run, parsed);
    let model = check_keys(&mut run, evidence, parsed.as_ref().map(|(keys, _)| keys), policy, machine, now);
    let with = parsed.as_ref();
    run.step("AT-119.8", "the TPM opened the secret", with, |_| activated(evidence, challenge));
    run.step("AT-119.9", "the attestation key signed the statements", with, |(keys, statements)| {
        signed(keys, statements, challenge)
    });
    run.step("AT-119.10", "the key of the request is the certified one", with, |(keys, statements)| {
        bound(keys, statements, challenge)
    });
    run.step("AT-119.11", "the key is protected well enough", with, |(keys, _)| protected(&keys.own, policy));
    run.step("AT-119.12", "the key is bound to PCRs", with, |(keys, _)| bound_to_pcrs(&keys.own, policy));
    run.step("AT-119.13", "the TPM created the key", with, |(keys, statements)| {
        created(keys, statements, policy)
    });
    let mut pcrs = None;
    run.step("AT-119.14", "the PCRs have accepted values", with, |(_, statements)| {
        quoted(evidence, statements.quote.as_ref(), policy).map(|(values, detail)| {
            pcrs = values;
            detail
        })
    });
    run.step("AT-119.15", "the clock of the TPM did not go back", with, |(_, statements)| {
        clock(&statements.certify.statement, machine.clock, now)
    });
    run.report(|| {
        let (keys, statements) = parsed?;
        Some(Verified {
            key_class: class(&keys.own, policy)?,
            endorsement_key: keys.endorsement.digest(),
            attestation_key: keys.attestation.name().clone(),
            model,
            pcrs,
            clock: seen(&statements.certify.statement, machine.clock, now),
        })
    })
}

/// AT-119.1.
fn malformed<T>(run: &mut Run, parsed: Result<T, String>) -> Option<T> {
    let (result, parsed) = match parsed {
        Ok(parsed) => (Ok(String::new()), Some(parsed)),
        Err(why) => (failed(Reason::TpmMalformed, why), None),
    };
    run.step("AT-119.1", "the structures of the TPM are well-formed", Some(&()), |()| result);
    parsed
}

/// AT-119.2 to AT-119.7, of both requests. Returns what the manufacturer says, if its word is needed and good.
fn check_keys(
    run: &mut Run,
    evidence: &TpmEvidence,
    keys: Option<&Keys>,
    policy: &Policy,
    machine: &Machine,
    now: SystemTime,
) -> Option<ChipModel> {
    let roots = policy.trust.roots();
    let certificate = match (roots, evidence::certificate(evidence)) {
        // A certificate that nobody asks for proves nothing, and may be anything.
        (None, _) => Err(Ending::NotRequired),
        (Some(_), None) => {
            failed(Reason::EkCertInvalid, "the node sent no certificate of its endorsement key")
        }
        (Some(roots), Some(Ok(certificate))) => Ok((roots, certificate)),
        (Some(_), Some(Err(why))) => failed(Reason::EkCertInvalid, why),
    };
    let with_keys = keys;
    let mut model = None;
    let certified = match certificate {
        Ok(certified) => Some(certified),
        Err(ending) => {
            run.step("AT-119.2", CERTIFICATE, with_keys, |_| Err(ending));
            let left = match roots {
                Some(_) => CheckResult::NotEvaluated,
                None => CheckResult::NotRequired,
            };
            for (rule, what) in [("AT-119.3", CHAIN), ("AT-119.4", SAME_KEY)] {
                run.checks.push(Check { rule, what, result: left.clone() });
            }
            None
        }
    };
    if let Some((roots, certificate)) = certified {
        run.step("AT-119.2", CERTIFICATE, with_keys, |keys| {
            match certificate.check(keys.endorsement.key(), now) {
                Ok(found) => {
                    let detail = format!("{} {} {}", found.manufacturer, found.model, found.firmware);
                    model = Some(found);
                    Ok(detail)
                }
                Err(why) => failed(Reason::EkCertInvalid, why),
            }
        });
        run.step("AT-119.3", CHAIN, with_keys, |keys| {
            match certificate.verify_chain(roots, &keys.chain, now) {
                Ok(()) => Ok(String::new()),
                Err(why) => failed(Reason::EkChainUntrusted, why),
            }
        });
        run.step("AT-119.4", SAME_KEY, with_keys, |keys| {
            let detail = "the certificate is for another key";
            require(certificate.is_for(&keys.endorsement), Reason::EkMismatch, detail)?;
            Ok(String::new())
        });
    }
    run.step("AT-119.5", "the endorsement key is one", with_keys, |keys| endorsement(&keys.endorsement));
    run.step("AT-119.6", "the endorsement key is that of the machine", with_keys, |keys| {
        of_machine(&keys.endorsement, policy, machine)
    });
    run.step("AT-119.7", "the attestation key is one", with_keys, |keys| attestation(&keys.attestation));
    model
}

const CERTIFICATE: &str = "the certificate is one of an endorsement key";
const CHAIN: &str = "a trusted authority certified the endorsement key";
const SAME_KEY: &str = "the certificate is for this endorsement key";

/// AT-119.5.
fn endorsement(key: &PublicArea) -> Finding {
    let has = key.attributes();
    let is_fixed = has.is_fixed_tpm() && has.is_fixed_parent() && has.is_generated();
    let detail = "the endorsement key must be a restricted decryption key that cannot leave its TPM";
    let is_one = is_fixed && has.is_restricted() && has.is_decrypting() && !has.is_signing();
    require(is_one, Reason::EkTemplate, detail)?;
    Ok(String::new())
}

/// AT-119.6.
fn of_machine(key: &PublicArea, policy: &Policy, machine: &Machine) -> Finding {
    let digest = key.digest();
    let shown = format!("sha256:{}", hex(&digest));
    let is_listed = machine.listed.contains(&digest);
    let is_reported = machine.platform == Some(digest);
    let is_allowed = match policy.trust {
        // The certificate does not say whose TPM it is: if anything is known about the machine, that decides.
        Trust::Certificate(_) => {
            let is_nothing_known = machine.listed.is_empty() && machine.platform.is_none();
            is_nothing_known || is_listed || is_reported
        }
        Trust::Digest | Trust::CertificateAndDigest(_) => is_listed,
        Trust::Platform => is_reported,
    };
    require(
        is_allowed,
        Reason::EkNotForMachine,
        &format!("the endorsement key {shown} is not one of the machine"),
    )?;
    Ok(shown)
}

/// AT-119.7.
fn attestation(key: &PublicArea) -> Finding {
    let has = key.attributes();
    let is_fixed = has.is_fixed_tpm() && has.is_fixed_parent() && has.is_generated();
    let is_one = is_fixed && has.is_restricted() && has.is_signing() && !has.is_decrypting();
    let detail = "the attestation key must be a restricted signing key that cannot leave its TPM";
    require(is_one, Reason::AkTemplate, detail)?;
    require(
        key.scheme().is_some(),
        Reason::AkTemplate,
        "the attestation key must have one signature scheme",
    )?;
    Ok(key.name().to_string())
}

/// AT-119.8.
fn activated(evidence: &TpmEvidence, challenge: &Challenge<'_>) -> Finding {
    let Some(activated) = &evidence.activated else {
        return failed(Reason::ActivationFailed, "the secret of the challenge is missing");
    };
    let is_same = bool::from(activated.0.ct_eq(challenge.secret)) && !challenge.secret.is_empty();
    require(is_same, Reason::ActivationFailed, "the secret is not that of the challenge")?;
    Ok(String::new())
}

/// AT-119.9.
fn signed(keys: &Keys, statements: &Statements, challenge: &Challenge<'_>) -> Finding {
    let all = [
        (Purpose::Certify, Some(&statements.certify)),
        (Purpose::Creation, statements.creation.as_ref().map(|(_, signed)| signed)),
        (Purpose::Quote, statements.quote.as_ref()),
    ];
    let signer = &statements.certify.statement.qualified_signer;
    require(!signer.is_empty(), Reason::AttestInvalid, "the certification names no signer")?;
    for (purpose, signed) in all.into_iter().filter_map(|(purpose, signed)| Some((purpose, signed?))) {
        let wrong = |what: &str| format!("{purpose:?}: {what}");
        let statement = &signed.statement;
        let is_type = matches!(
            (purpose, &statement.body),
            (Purpose::Certify, Body::Certify { .. })
                | (Purpose::Creation, Body::Creation { .. })
                | (Purpose::Quote, Body::Quote { .. })
        );
        require(is_type, Reason::AttestInvalid, &wrong("a statement of another type"))?;
        let is_signed = signed.signature.is_by(&keys.attestation, &signed.signed);
        require(is_signed, Reason::AttestInvalid, &wrong("the attestation key did not sign it"))?;
        let expected = qualifying_data(purpose, challenge.nonce, challenge.csr_digest);
        let detail = wrong("it is for another challenge or another request");
        require(statement.extra_data == expected, Reason::AttestInvalid, &detail)?;
        require(statement.qualified_signer == *signer, Reason::AttestInvalid, &wrong("another signer"))?;
    }
    Ok(String::new())
}

/// AT-119.10. Both links are needed.
fn bound(keys: &Keys, statements: &Statements, challenge: &Challenge<'_>) -> Finding {
    let is_of_request = keys.own.public_key_der() == challenge.csr_public_key;
    require(is_of_request, Reason::KeyNotBound, "keyPub is not the key in the certificate request")?;
    let is_certified = matches!(&statements.certify.statement.body,
        Body::Certify { name } if *name == keys.own.name().as_bytes());
    require(is_certified, Reason::KeyNotBound, "the TPM certified another key")?;
    Ok(keys.own.name().to_string())
}

/// The class of a key (AT-114, AT-117); none for a key that no kubelet has.
fn class(key: &PublicArea, policy: &Policy) -> Option<KeyClass> {
    let has = key.attributes();
    if !has.is_signing() || has.is_restricted() || has.is_decrypting() {
        return None;
    }
    let is_fixed = has.is_fixed_tpm() && has.is_fixed_parent() && has.is_generated();
    Some(match is_fixed {
        true if is_bound_to_pcrs(key, policy) => KeyClass::K3,
        true => KeyClass::K2,
        false => KeyClass::K1,
    })
}

fn is_bound_to_pcrs(key: &PublicArea, policy: &Policy) -> bool {
    let has_policy = !policy.key_policy.is_empty() && key.policy() == policy.key_policy;
    has_policy && !key.attributes().is_user_with_auth()
}

/// AT-119.11. Whether a key of class K3 is bound to the PCRs is for AT-119.12.
fn protected(key: &PublicArea, policy: &Policy) -> Finding {
    let Some(class) = class(key, policy) else {
        return failed(Reason::KeyClassTooLow, "the key must be a signing key that is not restricted");
    };
    let needed = policy.minimum.min(KeyClass::K2);
    require(
        class >= needed,
        Reason::KeyClassTooLow,
        &format!("the key is of class {class}, {needed} is needed"),
    )?;
    Ok(class.to_string())
}

/// AT-119.12.
fn bound_to_pcrs(key: &PublicArea, policy: &Policy) -> Finding {
    if policy.minimum < KeyClass::K3 {
        return Err(Ending::NotRequired);
    }
    let detail = "the key must have the expected PCR policy, and no other way of being used";
    require(is_bound_to_pcrs(key, policy), Reason::KeyPolicy, detail)?;
    Ok(String::new())
}

/// AT-119.13.
///
/// DIVERGES: the data that the caller had included at the creation is not compared with the challenge: the key exists before
/// the challenge does.
fn created(keys: &Keys, statements: &Statements, policy: &Policy) -> Finding {
    let Some((data, signed)) = &statements.creation else {
        return match policy.requires_creation {
            true => failed(Reason::CreationInvalid, "the statement that the TPM created the key is missing"),
            false => Err(Ending::NotRequired),
        };
    };
    let Body::Creation { name, hash } = &signed.statement.body else {
        return failed(Reason::CreationInvalid, "a statement of another type");
    };
    let own = &keys.own;
    require(*name == own.name().as_bytes(), Reason::CreationInvalid, "it is about another key")?;
    let is_same = *hash == data.hash(own.name_algorithm());
    require(is_same, Reason::CreationInvalid, "it is about other creation data")?;
    Ok(String::new())
}

/// The values of PCRs; none without a quote.
type Pcrs = Option<BTreeMap<u32, Vec<u8>>>;

/// AT-119.14.
fn quoted(
    evidence: &TpmEvidence,
    signed: Option<&SignedStatement>,
    policy: &Policy,
) -> Result<(Pcrs, String), Ending> {
    let pcrs = &policy.pcrs;
    let reason = Reason::PcrPolicy;
    let (Some(quote), Some(signed)) = (&evidence.quote, signed) else {
        return match pcrs.mode {
            PcrMode::None => Err(Ending::NotRequired),
            PcrMode::Record | PcrMode::Enforce => failed(reason, "the quote is missing"),
        };
    };
    let Body::Quote { selections, digest } = &signed.statement.body else {
        return failed(reason, "a statement of another type");
    };
    let [selection] = &**selections else { return failed(reason, "the quote must be of one bank") };
    require(selection.bank == Some(HashAlgorithm::Sha256), reason, "the quote must be of the SHA-256 bank")?;
    let is_selection = pcrs.mode == PcrMode::None || selection.indexes.iter().eq(&pcrs.selection);
    require(is_selection, reason, "the quote is of other PCRs than the policy's")?;
    let named = quote.pcrs.get("sha256");
    let values: Option<BTreeMap<u32, Vec<u8>>> = selection
        .indexes
        .iter()
        .map(|index| Some((*index, unhex(named?.get(index)?).filter(|value| value.len() == 32)?)))
        .collect();
    let Some(values) = values else { return failed(reason, "a value of a quoted PCR is missing") };
    let composite: Vec<&[u8]> = values.values().map(Vec::as_slice).collect();
    let composite = HashAlgorithm::Sha256.digest(&composite);
    require(composite == *digest, reason, "the values are not those that were quoted")?;
    if pcrs.mode == PcrMode::Enforce {
        let accepted = &pcrs.accepted;
        let is_each = |(index, value): (&u32, &Vec<u8>)| {
            accepted.values.get(index).is_some_and(|accepted| accepted.contains(value))
        };
        let is_accepted =
            accepted.composites.contains(&composite) || (!values.is_empty() && values.iter().all(is_each));
        let refused: Vec<String> =
            values.iter().filter(|value| !is_each(*value)).map(|(index, _)| index.to_string()).collect();
        let detail = format!("PCRs {} do not have accepted values", refused.join(", "));
        require(is_accepted, reason, &detail)?;
    }
    Ok((Some(values), hex(&composite)))
}

/// AT-119.15.
fn clock(statement: &Statement, before: Option<SeenClock>, now: SystemTime) -> Finding {
    let clock = statement.clock;
    let counts = (clock.reset_count, clock.restart_count);
    let shown = format!("{} resets, {} restarts", counts.0, counts.1);
    let Some(before) = before else { return Ok(shown) };
    let is_later = match ahead(before.reset_count, counts.0) {
        0 => ahead(before.restart_count, counts.1) >= 0,
        resets => resets > 0,
    };
    let detail = format!("{shown}; before, there were {} and {}", before.reset_count, before.restart_count);
    require(is_later, Reason::TpmClock, &detail)?;
    let is_recent = ahead(before.reset_count, clock.reset_count) > 0
        || now.duration_since(before.since).unwrap_or_default() <= UNSAFE_CLOCK;
    let detail = "the clock of the TPM is not safe, long after its last reset";
    require(clock.is_safe || is_recent, Reason::TpmClock, detail)?;
    Ok(shown)
}

/// How much further a count is than before. A TPM adds a secret number of the attestation key to its counts, so they may
/// begin again at zero.
fn ahead(before: u32, now: u32) -> i32 {
    now.wrapping_sub(before).cast_signed()
}

/// The clock to remember.
fn seen(statement: &Statement, before: Option<SeenClock>, now: SystemTime) -> SeenClock {
    let (reset_count, restart_count) = (statement.clock.reset_count, statement.clock.restart_count);
    let since = before.filter(|before| before.reset_count == reset_count).map_or(now, |before| before.since);
    SeenClock { reset_count, restart_count, since }
}
