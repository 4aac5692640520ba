//! The attestor `tpm` (AT-110 to AT-125).

use std::collections::BTreeMap;
use std::path::PathBuf;

use portcullis_attestation::KeyClass;
use portcullis_attestation::hex::hex;
use portcullis_pki::tpm::evidence::{Bytes, Creation, Purpose, Quote, Signed, TpmEvidence, qualifying_data};
use portcullis_tpm::{
    AttestationKey, AttestationParent, AttestedKey, Challenge, Chip, EndorsementKind, Pcrs, SoftwareKey,
    Statement, Tpm, Wrapped,
};
use serde_json::Value;

use super::attestor::{Attestor, Question, Subject};
use super::error::AttestedError;
use super::insecure::software_key;
use super::key::{NodeKey, ResidentKey, tpm_error};
use crate::node_certificate::files::{read_private, write_private};

/// The PCRs that a quote has, unless configured: what the firmware and the boot loader measure.
pub const PCRS: [u8; 6] = [0, 1, 2, 3, 4, 7];

/// See the module.
#[derive(Clone, Debug)]
pub struct TpmAttestor {
    /// The TPM.
    pub tpm: Tpm,
    /// The endorsement key; none for the first one with a certificate.
    pub endorsement_key: Option<EndorsementKind>,
    /// The class of new keys: K1, K2 or K3.
    pub key_class: KeyClass,
    /// The PCRs of quotes, which keys of class K3 are bound to.
    pub pcrs: Pcrs,
    /// The file with the attestation key, wrapped by the TPM.
    pub attestation_key: PathBuf,
}

impl TpmAttestor {
    /// The chip with its attestation key: the kept one, or a new one (AT-123).
    fn chip(&self) -> Result<Chip, AttestedError> {
        let broken = |why: String| {
            AttestedError::Integrity(format!(
                "{}: {why}; remove it, and a new attestation key is made",
                self.attestation_key.display()
            ))
        };
        let kept = match read_private(&self.attestation_key)? {
            Some(bytes) => {
                let wrapped = Wrapped::from_bytes(&bytes).map_err(|error| broken(error.to_string()))?;
                Some(AttestationKey { wrapped, parent: AttestationParent::StorageRoot })
            }
            None => None,
        };
        let is_new = kept.is_none();
        let chip = match self.endorsement_key {
            Some(kind) => Chip::open_with(self.tpm.clone(), kind, kept),
            None => Chip::open(self.tpm.clone(), kept),
        };
        let chip = chip.map_err(tpm_error)?;
        if is_new {
            write_private(&self.attestation_key, &chip.attestation_key().wrapped.to_bytes())?;
        }
        Ok(chip)
    }

    /// What both requests have.
    fn evidence(&self, chip: &Chip, key: AttestedKey<'_>) -> Result<TpmEvidence, AttestedError> {
        let enrolment = chip.enrol(key).map_err(tpm_error)?;
        Ok(TpmEvidence {
            ek_cert: enrolment.ek_certificate.map(Bytes),
            ek_chain: enrolment.ek_chain.into_iter().map(Bytes).collect(),
            ek_pub: Bytes(enrolment.ek_public),
            ak_pub: Bytes(enrolment.ak_public),
            key_pub: Bytes(enrolment.key_public),
            ..TpmEvidence::default()
        })
    }
}

impl Attestor for TpmAttestor {
    fn provider(&self) -> &'static str {
        "tpm"
    }

    fn has_challenge(&self) -> bool {
        true
    }

    fn tpm(&self) -> Option<&Tpm> {
        Some(&self.tpm)
    }

    fn new_key(&self) -> Result<NodeKey, AttestedError> {
        let bound_to = match self.key_class {
            KeyClass::K0 | KeyClass::K1 => return software_key(),
            KeyClass::K2 => None,
            KeyClass::K3 => Some(self.pcrs),
        };
        Ok(NodeKey::Resident(Box::new(ResidentKey::create(self.tpm.clone(), bound_to)?)))
    }

    fn enrol(&self, key: &NodeKey) -> Result<Option<Value>, AttestedError> {
        let software = software(key)?;
        let evidence = self.evidence(&self.chip()?, attested(key, software.as_ref())?)?;
        json(&evidence).map(Some)
    }

    fn prove(
        &self,
        key: &NodeKey,
        question: &Question,
        subject: &Subject<'_>,
    ) -> Result<Value, AttestedError> {
        let software = software(key)?;
        let (chip, key) = (self.chip()?, attested(key, software.as_ref())?);
        let mut evidence = self.evidence(&chip, key)?;
        let qualifying = |purpose| qualifying_data(purpose, &question.nonce, subject.csr_digest);
        let challenge = Challenge {
            credential_blob: &question.credential_blob,
            encrypted_secret: &question.encrypted_secret,
            certify: qualifying(Purpose::Certify),
            creation: qualifying(Purpose::Creation),
            quote: qualifying(Purpose::Quote),
            pcrs: self.pcrs,
        };
        let proof = chip.prove(key, &challenge).map_err(tpm_error)?;
        evidence.certify = Some(signed(&proof.certify));
        evidence.creation = proof.creation.map(|(data, statement)| {
            let Signed { attest, sig } = signed(&statement);
            // Without its length (AT-119.13).
            Creation { data: Bytes(data.get(2..).unwrap_or_default().to_vec()), attest, sig }
        });
        let Signed { attest, sig } = signed(&proof.quote.statement);
        let values = proof.quote.values.iter().map(|(index, value)| (u32::from(*index), hex(value)));
        let pcrs = BTreeMap::from([("sha256".to_owned(), values.collect())]);
        evidence.quote = Some(Quote { attest, sig, pcrs });
        evidence.activated = Some(Bytes(proof.activated));
        json(&evidence)
    }
}

/// A software key in the form that the TPM loads.
fn software(key: &NodeKey) -> Result<Option<SoftwareKey>, AttestedError> {
    let NodeKey::Software(key) = key else { return Ok(None) };
    let parts = key.p256_parts();
    let (point, number) =
        parts.ok_or_else(|| AttestedError::Integrity("the key is not on P-256".to_owned()))?;
    SoftwareKey::new(&point, &number).map(Some).map_err(tpm_error)
}

fn attested<'k>(
    key: &'k NodeKey,
    software: Option<&'k SoftwareKey>,
) -> Result<AttestedKey<'k>, AttestedError> {
    match (key, software) {
        (NodeKey::Resident(key), _) => Ok(AttestedKey::Resident(key.created())),
        (NodeKey::Software(_), Some(key)) => Ok(AttestedKey::Software(key)),
        (NodeKey::Software(_), None) => Err(AttestedError::Integrity("the key is not on P-256".to_owned())),
    }
}

fn signed(statement: &Statement) -> Signed {
    Signed { attest: Bytes(statement.attest.clone()), sig: Bytes(statement.signature.raw().to_vec()) }
}

fn json(evidence: &TpmEvidence) -> Result<Value, AttestedError> {
    serde_json::to_value(evidence).map_err(|error| AttestedError::Temporary(error.to_string()))
}
