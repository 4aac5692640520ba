//! Evidence of nodes: requests with evidence, structures of TPMs, certificates of endorsement keys (AT-195).

use std::time::SystemTime;

use portcullis_attestation::tpm::{Challenge, Machine, PcrPolicy, Policy, Trust, enrol, prove};
use portcullis_attestation::{Check, CheckResult, KeyClass};
use portcullis_pki::evidence::{self, Envelope, Labels, ProviderIdOids};
use portcullis_pki::tpm::endorsement::EndorsementCertificate;
use portcullis_pki::tpm::evidence::TpmEvidence;
use portcullis_pki::tpm::{CreationData, KeyType, PublicArea, Signature, Statement};

pub(crate) const REQUEST: &[&str] = &[
    "-----BEGIN CERTIFICATE REQUEST-----\n",
    "-----END CERTIFICATE REQUEST-----\n",
    "-----BEGIN KUBELET AUTHENTICATOR ATTESTATION PROVIDER-----\n",
    "-----END KUBELET AUTHENTICATOR ATTESTATION PROVIDER-----\n",
    "-----BEGIN KUBELET AUTHENTICATOR ATTESTATION DATA-----\n",
    "-----END KUBELET AUTHENTICATOR ATTESTATION DATA-----\n",
    "-----BEGIN ATTESTATION DATA-----\n",
];
pub(crate) const ENVELOPE: &[&str] = &[
    "\"v\":1",
    "\"provider\":\"tpm\"",
    "\"phase\":\"prove\"",
    "\"createdAt\"",
    "\"nodeName\"",
    "\"providerID\"",
    "\"csrDigest\"",
    "\"challengeID\"",
    "\"tpm\":{",
    "\"ekPub\":\"",
    "\"quote\":{\"pcrs\":{\"sha256\":{\"7\":\"",
];
pub(crate) const STRUCTURE: &[&str] =
    &["\u{0}\u{23}", "\u{0}\u{1}", "\u{0}\u{b}", "\u{0}\u{18}", "\u{0}\u{10}"];

/// What is read can be written, and is read again.
pub(crate) fn request(input: &[u8]) -> bool {
    let Ok(read) = evidence::read(input, Labels::Compatible) else { return false };
    let _ = ProviderIdOids::default().read(read.csr.extensions());
    // The signers of Kubernetes read the same request.
    let first = portcullis_pki::Csr::from_pem(input).map(|csr| csr.public_key_der().to_vec());
    assert_eq!(first.as_deref(), Ok(read.csr.public_key_der()), "one request for all readers");
    read.evidence.is_some()
}

/// What is read is written, and read again.
pub(crate) fn envelope(input: &[u8]) -> bool {
    let Ok(envelope) = Envelope::read(input) else { return false };
    let member = envelope.member.as_deref();
    if let Some(evidence) = member.and_then(|member| TpmEvidence::read(member).ok()) {
        judge(&evidence);
        let text = serde_json::to_string(&evidence).unwrap_or_default();
        assert_eq!(TpmEvidence::read(&text), Ok(evidence), "evidence that is written is read");
    }
    let value = member.and_then(|member| serde_json::from_str(member).ok());
    let again = Envelope::read(&envelope.write(value));
    assert_eq!(again.map(|again| again.node_name), Ok(envelope.node_name), "what is written is read");
    true
}

/// Nothing is verified while a check has failed, and the checks of each request are always the same.
fn judge(evidence: &TpmEvidence) {
    let policy = Policy {
        trust: Trust::Digest,
        minimum: KeyClass::K1,
        key_policy: Vec::new(),
        requires_creation: false,
        pcrs: PcrPolicy::default(),
    };
    let key = PublicArea::parse(&evidence.ek_pub.0);
    let machine = Machine { listed: key.iter().map(PublicArea::digest).collect(), ..Machine::default() };
    let challenge =
        Challenge { nonce: b"nonce", secret: b"secret", csr_digest: &[0; 32], csr_public_key: &[] };
    let (now, has_failed) =
        (SystemTime::UNIX_EPOCH, |check: &Check| matches!(check.result, CheckResult::Failed(_)));
    let enrolled = enrol(evidence, &policy, &machine, now);
    assert_eq!(enrolled.outcome.is_err(), enrolled.checks.iter().any(has_failed), "{enrolled:?}");
    assert_eq!(enrolled.checks.len(), 7, "{enrolled:?}");
    let proven = prove(evidence, &challenge, &policy, &machine, now);
    // Nobody signed for this challenge.
    assert!(proven.outcome.is_err() && proven.checks.iter().any(has_failed), "{proven:?}");
    assert_eq!(proven.checks.len(), 15, "{proven:?}");
}

/// A structure takes all of its bytes.
pub(crate) fn structure(input: &[u8]) -> bool {
    let longer = [input, &[0]].concat();
    let key = PublicArea::parse(input);
    if let Ok(key) = &key {
        assert!(PublicArea::parse(&longer).is_err(), "no byte is left over");
        assert!(key.name().as_bytes().len() > 32 && key.public_key_der().len() > 64, "{key:?}");
    }
    let statement = Statement::parse(input).is_ok();
    let creation = CreationData::parse(input).is_ok();
    let signature = Signature::parse(input).is_ok();
    assert!(!statement || Statement::parse(&longer).is_err(), "no byte is left over");
    assert!(!creation || CreationData::parse(&longer).is_err(), "no byte is left over");
    assert!(!signature || Signature::parse(&longer).is_err(), "no byte is left over");
    key.is_ok() || statement || creation || signature
}

/// The padding behind a certificate changes nothing.
pub(crate) fn certificate(input: &[u8]) -> bool {
    let Ok(certificate) = EndorsementCertificate::parse(input) else { return false };
    let _ = certificate.check(KeyType::Rsa(2048), SystemTime::UNIX_EPOCH);
    if let Ok(padded) = EndorsementCertificate::parse(&[input, &[0xff; 8]].concat()) {
        assert_eq!(padded.digest(), certificate.digest(), "padding is cut off");
    }
    true
}
