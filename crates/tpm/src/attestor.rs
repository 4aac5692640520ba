//! What a node sends in the two rounds of attestation (AT-116). The form of the evidence and the qualifying data are the
//! caller's.

use crate::endorsement::{EndorsementKey, EndorsementKind};
use crate::error::TpmError;
use crate::keys::{AttestationKey, AttestationParent, CreatedKey};
use crate::operation::Tpm;
use crate::pcr::Pcrs;
use crate::software_key::SoftwareKey;
use crate::statements::{Quote, Statement};

/// A TPM with the keys that it attests with.
#[derive(Debug)]
pub struct Chip {
    tpm: Tpm,
    endorsement_key: EndorsementKey,
    chain: Vec<Vec<u8>>,
    attestation_key: AttestationKey,
}

/// The key that a certificate is asked for (AT-117).
#[derive(Clone, Copy, Debug)]
pub enum AttestedKey<'k> {
    /// A key that the TPM made: class K2, or K3 if it is bound to PCRs.
    Resident(&'k CreatedKey),
    /// A key that was made outside: class K1.
    Software(&'k SoftwareKey),
}

/// What round 1 sends (`enrol`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enrolment {
    /// The certificate of the endorsement key, DER; some manufacturers provide none.
    pub ek_certificate: Option<Vec<u8>>,
    /// Certificates of authorities that the TPM has, DER.
    pub ek_chain: Vec<Vec<u8>>,
    /// The public area of the endorsement key, a `TPM2B_PUBLIC`.
    pub ek_public: Vec<u8>,
    /// The public area of the attestation key, a `TPM2B_PUBLIC`.
    pub ak_public: Vec<u8>,
    /// The public area of the attested key, a `TPM2B_PUBLIC`.
    pub key_public: Vec<u8>,
}

/// What the controller answers to round 1, and what round 2 shall state.
#[derive(Clone, Copy, Debug)]
pub struct Challenge<'c> {
    /// A `TPM2B_ID_OBJECT`.
    pub credential_blob: &'c [u8],
    /// A `TPM2B_ENCRYPTED_SECRET`.
    pub encrypted_secret: &'c [u8],
    /// The qualifying data of `certify` (AT-115).
    pub certify: [u8; 32],
    /// The qualifying data of `creation` (AT-115).
    pub creation: [u8; 32],
    /// The qualifying data of `quote` (AT-115).
    pub quote: [u8; 32],
    /// The PCRs to quote.
    pub pcrs: Pcrs,
}

/// What round 2 sends (`prove`), together with what round 1 sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// The secret of the credential.
    pub activated: Vec<u8>,
    /// That the attested key is in the TPM.
    pub certify: Statement,
    /// How the attested key was made: the creation data, a `TPM2B_CREATION_DATA`, and the statement. The TPM did not make
    /// a software key.
    pub creation: Option<(Vec<u8>, Statement)>,
    /// What the machine booted.
    pub quote: Quote,
}

impl Chip {
    /// Finds the endorsement key, and makes an attestation key below the storage root key if there is none yet.
    ///
    /// # Errors
    /// See [`TpmError`].
    pub fn open(tpm: Tpm, attestation_key: Option<AttestationKey>) -> Result<Self, TpmError> {
        let endorsement_key = tpm.endorsement_key()?;
        Self::with(tpm, endorsement_key, attestation_key)
    }

    /// As [`Self::open`], with an endorsement key of this kind.
    ///
    /// # Errors
    /// See [`TpmError`].
    pub fn open_with(
        tpm: Tpm,
        kind: EndorsementKind,
        attestation_key: Option<AttestationKey>,
    ) -> Result<Self, TpmError> {
        let endorsement_key = tpm.endorsement_key_of(kind)?;
        Self::with(tpm, endorsement_key, attestation_key)
    }

    fn with(
        tpm: Tpm,
        endorsement_key: EndorsementKey,
        attestation_key: Option<AttestationKey>,
    ) -> Result<Self, TpmError> {
        let chain = tpm.certificate_chain()?;
        let attestation_key = match attestation_key {
            Some(key) => key,
            None => tpm.create_attestation_key(AttestationParent::StorageRoot)?,
        };
        Ok(Self { tpm, endorsement_key, chain, attestation_key })
    }

    /// The TPM.
    pub fn tpm(&self) -> &Tpm {
        &self.tpm
    }

    /// The attestation key, to be kept for the next time (AT-123).
    pub fn attestation_key(&self) -> &AttestationKey {
        &self.attestation_key
    }

    /// What round 1 sends about this key.
    ///
    /// # Errors
    /// None in practice: the TPM is not asked.
    pub fn enrol(&self, key: AttestedKey<'_>) -> Result<Enrolment, TpmError> {
        let key_public = match key {
            AttestedKey::Resident(key) => key.wrapped.public().to_vec(),
            AttestedKey::Software(key) => key.public()?,
        };
        Ok(Enrolment {
            ek_certificate: self.endorsement_key.certificate.clone(),
            ek_chain: self.chain.clone(),
            ek_public: self.endorsement_key.public.clone(),
            ak_public: self.attestation_key.wrapped.public().to_vec(),
            key_public,
        })
    }

    /// What round 2 sends about this key.
    ///
    /// # Errors
    /// The credential is for another TPM or attestation key; else see [`TpmError`].
    pub fn prove(&self, key: AttestedKey<'_>, challenge: &Challenge<'_>) -> Result<Proof, TpmError> {
        let (tpm, ak) = (&self.tpm, &self.attestation_key);
        let activated = tpm.activate_credential(
            self.endorsement_key.kind,
            ak,
            challenge.credential_blob,
            challenge.encrypted_secret,
        )?;
        let (certify, creation) = match key {
            AttestedKey::Software(key) => (tpm.certify_software_key(key, ak, &challenge.certify)?, None),
            AttestedKey::Resident(key) => {
                let statement = tpm.certify_creation(key, ak, &challenge.creation)?;
                let creation = (key.creation.data().to_vec(), statement);
                (tpm.certify(key, ak, &challenge.certify)?, Some(creation))
            }
        };
        let quote = tpm.quote(challenge.pcrs, ak, &challenge.quote)?;
        Ok(Proof { activated, certify, creation, quote })
    }
}
