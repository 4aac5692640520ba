//! The envelope of evidence: what all providers have in common, and the evidence of one provider (AT-54).

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use portcullis_apimachinery::json;
use portcullis_apimachinery::time::Instant;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::blocks::is_provider_name;

/// The version of evidence that is written and read (AT-43, AT-160).
pub const VERSION: u32 = 1;

/// The most members of an envelope: those below, and the provider's.
const MAX_MEMBERS: usize = 9;

/// What a request is for (AT-101).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The only request of a provider without a challenge.
    Single,
    /// The first request: asks for a challenge.
    Enrol,
    /// The second request: has the answer to the challenge.
    Prove,
}

impl Phase {
    /// The name in the envelope.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Enrol => "enrol",
            Self::Prove => "prove",
        }
    }

    fn named(name: &str) -> Option<Self> {
        [Self::Single, Self::Enrol, Self::Prove].into_iter().find(|phase| phase.as_str() == name)
    }
}

/// The envelope. Nothing in it is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The provider of the evidence.
    pub provider: String,
    /// What the request is for.
    pub phase: Phase,
    /// When the evidence was made, by the node's clock.
    pub created_at: Instant,
    /// The name of the node.
    pub node_name: String,
    /// The provider ID of the machine.
    pub provider_id: String,
    /// The digest of the request that it belongs to (AT-53).
    pub csr_digest: [u8; 32],
    /// The challenge that it answers; only in phase `prove`.
    pub challenge_id: Option<String>,
    /// The evidence of the provider, a JSON value; none if there is no such member.
    pub member: Option<String>,
}

/// An envelope that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// It is malformed (`MalformedAttestation`).
    #[error("the evidence is malformed: {0}")]
    Malformed(String),
    /// It has a version that is not known (`UnsupportedAttestationVersion`, AT-160).
    #[error("the evidence has version {0}, not {VERSION}")]
    Version(u64),
}

impl Envelope {
    /// Reads an envelope. Strict: no key twice, no unknown member, and every member of its phase.
    ///
    /// # Errors
    /// See [`EnvelopeError`].
    pub fn read(data: &[u8]) -> Result<Self, EnvelopeError> {
        let malformed = |why: String| EnvelopeError::Malformed(why);
        let text = json::check_bytes(data).map_err(|error| malformed(error.to_string()))?;
        let members: BTreeMap<String, Box<RawValue>> =
            serde_json::from_str(text).map_err(|_| malformed("it must be a JSON object".to_owned()))?;
        let mut members = Members { members };
        // An unknown version may have other members.
        let version = members.take("v").and_then(|raw| raw.get().parse::<u64>().ok());
        match version.ok_or_else(|| malformed("v must be an integer".to_owned()))? {
            version if version == u64::from(VERSION) => {}
            other => return Err(EnvelopeError::Version(other)),
        }
        if members.members.len() > MAX_MEMBERS {
            return Err(malformed("it has too many members".to_owned()));
        }
        let provider = members.text("provider")?;
        if !is_provider_name(&provider) {
            return Err(malformed("provider is not the name of a provider".to_owned()));
        }
        let phase = Phase::named(&members.text("phase")?)
            .ok_or_else(|| malformed("phase must be single, enrol or prove".to_owned()))?;
        let created_at = Instant::parse(&members.text("createdAt")?)
            .map_err(|_| malformed("createdAt must be a time such as 2026-01-02T03:04:05Z".to_owned()))?;
        let digest = STANDARD.decode(members.text("csrDigest")?).ok();
        let csr_digest = digest
            .and_then(|digest| digest.try_into().ok())
            .ok_or_else(|| malformed("csrDigest must be 32 bytes in base64".to_owned()))?;
        let (node_name, provider_id) = (members.text("nodeName")?, members.text("providerID")?);
        let challenge_id = match phase {
            Phase::Prove => Some(members.text("challengeID")?),
            Phase::Single | Phase::Enrol => None,
        };
        let member = members.take(&provider).map(|raw| raw.get().to_owned());
        match members.members.keys().next() {
            None => {}
            Some(name) => return Err(malformed(format!("unknown member {name:?}"))),
        }
        Ok(Self { provider, phase, created_at, node_name, provider_id, csr_digest, challenge_id, member })
    }

    /// Writes the envelope, with this evidence of the provider.
    pub fn write(&self, member: Option<Value>) -> Vec<u8> {
        let mut object = Map::new();
        let mut put = |name: &str, value: Value| object.insert(name.to_owned(), value);
        put("v", VERSION.into());
        put("provider", self.provider.as_str().into());
        put("phase", self.phase.as_str().into());
        put("createdAt", self.created_at.to_string().into());
        put("nodeName", self.node_name.as_str().into());
        put("providerID", self.provider_id.as_str().into());
        put("csrDigest", STANDARD.encode(self.csr_digest).into());
        if let Some(id) = &self.challenge_id {
            put("challengeID", id.as_str().into());
        }
        if let Some(member) = member {
            put(&self.provider, member);
        }
        Value::Object(object).to_string().into_bytes()
    }
}

/// The members that were not taken yet.
struct Members {
    members: BTreeMap<String, Box<RawValue>>,
}

impl Members {
    fn take(&mut self, name: &str) -> Option<Box<RawValue>> {
        self.members.remove(name)
    }

    fn text(&mut self, name: &str) -> Result<String, EnvelopeError> {
        let raw = self.take(name);
        let text = raw.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
        text.ok_or_else(|| EnvelopeError::Malformed(format!("{name} must be a string")))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn good() -> Value {
        json!({"v": 1, "provider": "challenge", "phase": "prove", "createdAt": "2026-01-02T03:04:05Z",
            "nodeName": "n", "providerID": "p://1", "csrDigest": STANDARD.encode([7; 32]), "challengeID": "c",
            "challenge": {"unknown": true}})
    }

    fn read(value: &Value) -> Result<Envelope, EnvelopeError> {
        Envelope::read(value.to_string().as_bytes())
    }

    #[test]
    fn what_is_written_is_read_at_54() {
        let envelope = read(&good()).unwrap();
        assert_eq!(envelope.phase, Phase::Prove);
        assert_eq!(envelope.member.as_deref(), Some(r#"{"unknown":true}"#));
        let written = envelope.write(Some(json!({"unknown": true})));
        assert_eq!(Envelope::read(&written), Ok(envelope));
    }

    #[test]
    fn each_member_is_needed_and_no_other_is_allowed_at_54() {
        for name in good().as_object().unwrap().keys().filter(|name| *name != "challenge") {
            let mut without = good();
            without.as_object_mut().unwrap().remove(name);
            assert!(matches!(read(&without), Err(EnvelopeError::Malformed(_))), "{name}");
            let mut wrong = good();
            wrong[name] = json!([]);
            assert!(matches!(read(&wrong), Err(EnvelopeError::Malformed(_))), "{name}");
        }
        for (name, value) in [
            ("other", json!(1)),
            ("tpm", json!({})),
            ("phase", json!("proof")),
            ("phase", json!("enrol")),
            ("createdAt", json!("yesterday")),
            ("csrDigest", json!(STANDARD.encode([7; 31]))),
            ("provider", json!("Challenge")),
            ("v", json!("1")),
            ("v", json!(1.0)),
        ] {
            let mut wrong = good();
            wrong[name] = value.clone();
            assert!(matches!(read(&wrong), Err(EnvelopeError::Malformed(_))), "{name} {value}");
        }
        let twice = good().to_string().replacen('{', r#"{"v":1,"#, 1);
        assert!(matches!(Envelope::read(twice.as_bytes()), Err(EnvelopeError::Malformed(_))));
        for text in ["", "[]", "null", "{", "\u{feff}{}"] {
            assert!(matches!(Envelope::read(text.as_bytes()), Err(EnvelopeError::Malformed(_))), "{text}");
        }
    }

    #[test]
    fn another_version_is_told_apart_from_malformed_evidence_at_160() {
        let mut other = good();
        other["v"] = json!(2);
        other["new"] = json!(true);
        assert_eq!(read(&other), Err(EnvelopeError::Version(2)));
    }
}
