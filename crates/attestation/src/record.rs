//! What is remembered about the identity of a machine (AT-88, AT-91, AT-150 to AT-157).

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use portcullis_apimachinery::time::Instant;
use portcullis_pki::evidence::Envelope;
use serde::{Deserialize, Serialize};

use crate::check::{Run, failed, require};
use crate::device::Device;
use crate::key_class::KeyClass;
use crate::reason::Reason;
use crate::seen_clock::SeenClock;
use crate::time::{distance, instant, system_time};
use crate::verified::Verified;

/// How far the clock of a node may differ from that of the API server (AT-156).
const CLOCK_DIFFERENCE: Duration = Duration::from_secs(5 * 60);
/// How long used evidence is remembered: twice as long as evidence is accepted (AT-156).
const REMEMBERED: Duration = Duration::from_secs(2 * 2 * 5 * 60);
/// How many certificates a machine gets in that time. More than a node that is reinstalled again and again needs.
const MOST_USED: usize = 32;
/// How many issued certificates are kept (AT-88).
const MOST_ISSUED: usize = 20;

/// Whether the identity is accepted (AT-150, AT-153).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// It is.
    Active,
    /// No more certificates, until it is reset (AT-157).
    Revoked,
    /// The next device that proves the identity is pinned again.
    Reset,
}

/// The identity record of one Machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The UID of the Machine.
    pub machine_uid: String,
    /// The name of its node.
    pub node_name: String,
    /// The attestor.
    pub provider: String,
    /// The provider ID that the node presented.
    #[serde(rename = "providerID")]
    pub provider_id: String,
    /// What the machine is recognized by.
    pub device: Device,
    /// The name of the attestation key of its TPM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attestation_key: Option<String>,
    /// How well its key is protected.
    #[serde(with = "as_text")]
    pub key_class: KeyClass,
    /// When it first proved its identity.
    #[serde(with = "as_text")]
    pub first_seen: Instant,
    /// When it last did.
    #[serde(with = "as_text")]
    pub last_seen: Instant,
    /// The clock of its TPM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<Clock>,
    /// What else was found, such as the manufacturer of the TPM and the result of the PCR policy (AT-8).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
    /// Whether it is accepted.
    pub state: State,
    /// Who changed the state, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_note: Option<String>,
    /// Whether the one-time secret of its enrolment is used up.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_secret_used: bool,
    /// The evidence that was accepted lately.
    #[serde(default)]
    pub used: Vec<Used>,
    /// The certificates that were issued, the newest last.
    #[serde(default)]
    pub issued: Vec<Issued>,
}

/// The clock of a TPM (AT-119.15).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Clock {
    /// How often the TPM had been reset.
    pub reset_count: u32,
    /// How often it had been restarted since.
    pub restart_count: u32,
    /// When this number of resets was first seen.
    #[serde(with = "as_text")]
    pub since: Instant,
}

/// Accepted evidence (AT-103, AT-156).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Used {
    /// The UID of the request that it came with.
    pub request_uid: String,
    /// The digest of the evidence.
    pub evidence: Device,
    /// The challenge that it answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub challenge: Option<String>,
    /// Until when it is remembered.
    #[serde(with = "as_text")]
    pub until: Instant,
}

/// An issued certificate (AT-88).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Issued {
    /// The UID of the request.
    pub request_uid: String,
    /// The digest of its public key.
    pub public_key: Device,
    /// The digest of the evidence.
    pub evidence: Device,
    /// How well the key is protected.
    #[serde(with = "as_text")]
    pub key_class: KeyClass,
    /// When it was decided to issue the certificate.
    #[serde(with = "as_text")]
    pub at: Instant,
    /// The certificate; none if it was decided to issue one, and none was signed yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<Certificate>,
}

/// What identifies a certificate (AT-88).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Certificate {
    /// The serial number in hexadecimal digits.
    pub serial: String,
    /// The digest of the whole certificate.
    pub digest: Device,
    /// When it stops being valid.
    #[serde(with = "as_text")]
    pub not_after: Instant,
}

/// A request whose evidence is verified, before its history is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Presented<'a> {
    /// The UID of the Machine.
    pub machine_uid: &'a str,
    /// The UID of the request.
    pub request_uid: &'a str,
    /// The digest of the public key in the request.
    pub public_key: Device,
    /// The digest of the evidence.
    pub evidence: Device,
    /// The envelope of the evidence.
    pub envelope: &'a Envelope,
    /// When the request was created.
    pub created: SystemTime,
    /// The time.
    pub now: SystemTime,
}

impl Record {
    /// What to record about a machine that proved its identity: a new record, or the earlier one with this request.
    pub fn after(before: Option<&Self>, presented: &Presented<'_>, verified: &Verified) -> Self {
        let now = instant(presented.now);
        let before = before.filter(|record| record.state == State::Active);
        let mut record = before.cloned().unwrap_or_else(|| Self {
            machine_uid: presented.machine_uid.to_owned(),
            node_name: presented.envelope.node_name.clone(),
            provider: presented.envelope.provider.clone(),
            provider_id: presented.envelope.provider_id.clone(),
            device: verified.device,
            attestation_key: None,
            key_class: verified.key_class,
            first_seen: now,
            last_seen: now,
            clock: None,
            attributes: BTreeMap::new(),
            state: State::Active,
            state_note: None,
            is_secret_used: false,
            used: Vec::new(),
            issued: Vec::new(),
        });
        record.provider_id.clone_from(&presented.envelope.provider_id);
        record.attestation_key.clone_from(&verified.attestation_key);
        record.key_class = verified.key_class;
        record.last_seen = now;
        record.clock = verified.clock.map(Clock::from);
        record.attributes = verified.attributes.iter().cloned().collect();
        record.is_secret_used |= verified.is_one_time;
        record.used.retain(|used| used.until > now && used.request_uid != presented.request_uid);
        record.used.push(Used {
            request_uid: presented.request_uid.to_owned(),
            evidence: presented.evidence,
            challenge: verified.challenge.clone(),
            until: instant(presented.now.checked_add(REMEMBERED).unwrap_or(presented.now)),
        });
        if !record.issued.iter().any(|issued| issued.request_uid == presented.request_uid) {
            record.issued.push(Issued {
                request_uid: presented.request_uid.to_owned(),
                public_key: presented.public_key,
                evidence: presented.evidence,
                key_class: verified.key_class,
                at: now,
                certificate: None,
            });
        }
        let surplus = record.issued.len().saturating_sub(MOST_ISSUED);
        record.issued.drain(..surplus);
        record
    }

    /// The clock of the TPM, as it was seen last.
    pub fn seen_clock(&self) -> Option<SeenClock> {
        let clock = self.clock?;
        Some(SeenClock {
            reset_count: clock.reset_count,
            restart_count: clock.restart_count,
            since: system_time(clock.since),
        })
    }

    /// Adds the certificate that is issued to a request.
    pub fn certified(&mut self, request_uid: &str, certificate: Certificate) {
        if let Some(issued) = self.issued.iter_mut().find(|issued| issued.request_uid == request_uid) {
            issued.certificate = Some(certificate);
        }
    }

    /// Whether a certificate was issued for this key.
    pub fn has_issued(&self, public_key: Device) -> bool {
        self.issued.iter().any(|issued| issued.public_key == public_key)
    }
}

impl From<SeenClock> for Clock {
    fn from(seen: SeenClock) -> Self {
        let SeenClock { reset_count, restart_count, since } = seen;
        Self { reset_count, restart_count, since: instant(since) }
    }
}

/// Compares a device that proves to be a machine with what is recorded about it. Also before a challenge is issued.
pub(crate) fn check_device(run: &mut Run, record: Option<&Record>, device: Device, provider: &str) {
    run.step("AT-153", "the identity is not revoked", Some(&record), |record| {
        let is_revoked = record.is_some_and(|record| record.state == State::Revoked);
        require(!is_revoked, Reason::IdentityRevoked, "an administrator has revoked the identity")?;
        Ok(String::new())
    });
    run.step("AT-151", "it is the device of the first time", Some(&record), |record| match record {
        None => Ok("first time".to_owned()),
        Some(record) if record.state == State::Reset => Ok("first time after a reset".to_owned()),
        Some(record) => {
            let detail = format!("{provider} {device}; first seen: {} {}", record.provider, record.device);
            require(record.device == device && record.provider == provider, Reason::TofuMismatch, &detail)?;
            Ok(String::new())
        }
    });
}

/// Compares a request with the earlier ones of its machine.
pub(crate) fn check_history(
    run: &mut Run,
    record: Option<&Record>,
    presented: &Presented<'_>,
    challenge: Option<&str>,
) {
    let now = instant(presented.now);
    let live = || record.into_iter().flat_map(|record| &record.used).filter(|used| used.until > now);
    run.step("AT-156", "the evidence was not used before", Some(&()), |()| {
        let is_same = |used: &Used| {
            used.evidence == presented.evidence
                || challenge.is_some_and(|id| used.challenge.as_deref() == Some(id))
        };
        let is_used = live().any(|used| used.request_uid != presented.request_uid && is_same(used));
        require(!is_used, Reason::EvidenceReplayed, "another request had the same evidence or challenge")?;
        let count = live().filter(|used| used.request_uid != presented.request_uid).count();
        let detail = format!("the machine got {count} certificates in the last minutes");
        require(count < MOST_USED, Reason::TooManyCertificates, &detail)?;
        Ok(presented.evidence.to_string())
    });
}

/// Compares when the evidence was made with when the request was.
pub(crate) fn check_age(run: &mut Run, envelope: Option<&Envelope>, created: SystemTime) {
    run.step("AT-156", "the evidence is as old as the request", envelope, |envelope| {
        let age = distance(system_time(envelope.created_at), created);
        if age <= CLOCK_DIFFERENCE {
            return Ok(String::new());
        }
        let detail = format!("the evidence was made {} s before or after the request", age.as_secs());
        failed(Reason::EvidenceStale, detail)
    });
}

/// Values that are written as text.
mod as_text {
    use std::borrow::Cow;
    use std::fmt::Display;

    use portcullis_apimachinery::time::Instant;
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::key_class::KeyClass;

    /// A value that can be read from its text.
    pub(super) trait Parse: Sized {
        fn parse(text: &str) -> Option<Self>;
    }

    impl Parse for Instant {
        fn parse(text: &str) -> Option<Self> {
            Self::parse(text).ok()
        }
    }

    impl Parse for KeyClass {
        fn parse(text: &str) -> Option<Self> {
            Self::named(text)
        }
    }

    pub(super) fn serialize<S: Serializer>(value: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>, T: Parse>(deserializer: D) -> Result<T, D::Error> {
        let text = Cow::<'_, str>::deserialize(deserializer)?;
        T::parse(&text).ok_or_else(|| serde::de::Error::custom(format!("{text:?} is not such a value")))
    }
}
