//! Keys that live in the TPM: attestation keys and kubelet keys (AT-113, AT-114).

use crate::command::{self, Command};
use crate::endorsement::{self, EndorsementKind};
use crate::error::TpmError;
use crate::operation::{Loaded, Operation, Tpm};
use crate::pcr::Pcrs;
use crate::session::{self, Permission};
use crate::signature::Signature;
use crate::storage::{self, New, Origin, Parent};
use crate::template;
use crate::wire::{Malformed, Reader, Writer, only_sized};
use crate::wrapped::Wrapped;

/// The tag of the proof that a digest is not that of a statement of the TPM. Unrestricted keys need none.
const HASH_CHECK: u16 = 0x8024;

/// Below which key an attestation key was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttestationParent {
    /// The storage root key.
    StorageRoot,
    /// An endorsement key.
    EndorsementKey(EndorsementKind),
}

/// An attestation key: it signs nothing but statements of the TPM (AT-113).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttestationKey {
    /// The key, to be kept.
    pub wrapped: Wrapped,
    /// Below which key it was made.
    pub parent: AttestationParent,
}

impl AttestationKey {
    pub(crate) fn load<'o>(&self, operation: &'o Operation<'_>) -> Result<Loaded<'o>, TpmError> {
        attestation_parent(operation, self.parent)?.load(operation, &self.wrapped)
    }
}

fn attestation_parent<'o>(
    operation: &'o Operation<'_>,
    parent: AttestationParent,
) -> Result<Parent<'o>, TpmError> {
    match parent {
        AttestationParent::StorageRoot => Parent::storage_root(operation),
        AttestationParent::EndorsementKey(kind) => endorsement::parent(operation, kind),
    }
}

/// What a kubelet key shall be like.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyOptions<'k> {
    /// The key signs only while these PCRs have the values that they have when it is made (key class K3, AT-117).
    pub bound_to: Option<Pcrs>,
    /// Bytes that the statement about its creation contains, at most 64: a nonce.
    pub outside_info: &'k [u8],
    /// PCRs whose values the statement about its creation contains.
    pub pcrs: Option<Pcrs>,
}

/// A kubelet key, and how it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedKey {
    /// The key, to be kept.
    pub wrapped: Wrapped,
    /// The PCRs that it is bound to.
    pub bound_to: Option<Pcrs>,
    /// How it was made, to be kept for [`Tpm::certify_creation`].
    pub creation: Creation,
}

/// How a key was made: the creation data, their hash, and the proof of the TPM that it made the key so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Creation(Origin);

impl Creation {
    /// The creation data, a `TPM2B_CREATION_DATA`.
    pub fn data(&self) -> &[u8] {
        &self.0.data
    }

    /// The hash of the creation data.
    pub(crate) fn hash(&self) -> &[u8] {
        &self.0.hash
    }

    /// The proof of the TPM, a `TPMT_TK_CREATION`.
    pub(crate) fn ticket(&self) -> &[u8] {
        &self.0.ticket
    }

    /// Reads what [`Self::to_bytes`] wrote.
    ///
    /// # Errors
    /// These are not the three structures and nothing else.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let origin = Origin::read(&mut reader)?;
        reader.finish()?;
        Ok(Self(origin))
    }

    /// The bytes to keep: a `TPM2B_CREATION_DATA`, a `TPM2B_DIGEST` and a `TPMT_TK_CREATION`, one after the other.
    ///
    /// # Errors
    /// None in practice: the parts came in one response.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Malformed> {
        Writer::default().bytes(&self.0.data).sized(&self.0.hash).bytes(&self.0.ticket).finish()
    }
}

impl Tpm {
    /// Makes an attestation key: P-256, ECDSA with SHA-256, restricted (AT-113).
    ///
    /// # Errors
    /// See [`TpmError`].
    pub fn create_attestation_key(&self, parent: AttestationParent) -> Result<AttestationKey, TpmError> {
        let operation = self.begin()?;
        let new = New { template: template::attestation_key(), data: &[], outside_info: &[], pcrs: None };
        let (wrapped, _) = attestation_parent(&operation, parent)?.create(&operation, &new)?;
        Ok(AttestationKey { wrapped, parent })
    }

    /// Makes a kubelet key: P-256, ECDSA with SHA-256, below the storage root key (AT-114).
    ///
    /// # Errors
    /// See [`TpmError`].
    pub fn create_key(&self, options: KeyOptions<'_>) -> Result<CreatedKey, TpmError> {
        let operation = self.begin()?;
        let policy = options.bound_to.map(|pcrs| session::policy_of_pcrs(&operation, pcrs)).transpose()?;
        let new = New {
            template: template::kubelet_key(policy.as_deref()),
            data: &[],
            outside_info: options.outside_info,
            pcrs: options.pcrs,
        };
        let (wrapped, origin) = Parent::storage_root(&operation)?.create(&operation, &new)?;
        Ok(CreatedKey { wrapped, bound_to: options.bound_to, creation: Creation(origin) })
    }

    /// Signs a SHA-256 digest with a kubelet key, which is bound to these PCRs or to none.
    ///
    /// # Errors
    /// `TPM_RC_POLICY_FAIL` if a PCR has changed since the key was made; else see [`TpmError`].
    pub fn sign_digest(
        &self,
        key: &Wrapped,
        bound_to: Option<Pcrs>,
        digest: &[u8; 32],
    ) -> Result<Signature, TpmError> {
        let operation = self.begin()?;
        let key = storage::load(&operation, key)?;
        let permission = Permission::for_pcrs(&operation, bound_to)?;
        // The scheme is that of the key.
        let parameters = Writer::default()
            .sized(digest)
            .u16(template::NULL)
            .u16(HASH_CHECK)
            .u32(command::NULL_HANDLE)
            .sized(&[]);
        let sign = Command::new(command::SIGN)
            .authorized(key.handle(), permission.authorization())
            .parameters(parameters);
        operation.run(sign)?.read(read_signature)
    }

    /// Recovers the secret of a credential that was made for this attestation key and this endorsement key (AT-116,
    /// AT-121). The blob is a `TPM2B_ID_OBJECT`, the encrypted secret a `TPM2B_ENCRYPTED_SECRET`.
    ///
    /// # Errors
    /// `TPM_RC_INTEGRITY` and others if it was made for another key; else see [`TpmError`].
    pub fn activate_credential(
        &self,
        endorsement_key: EndorsementKind,
        key: &AttestationKey,
        credential_blob: &[u8],
        encrypted_secret: &[u8],
    ) -> Result<Vec<u8>, TpmError> {
        let argument = |what| move |why| TpmError::Argument { what, why };
        only_sized(credential_blob).map_err(argument("credential blob"))?;
        only_sized(encrypted_secret).map_err(argument("encrypted secret"))?;
        let operation = self.begin()?;
        let key = key.load(&operation)?;
        let endorsement_key = endorsement::parent(&operation, endorsement_key)?;
        let permission = endorsement_key.permission(&operation)?;
        let activate = Command::new(command::ACTIVATE_CREDENTIAL)
            .authorized(key.handle(), Permission::Password.authorization())
            .authorized(endorsement_key.key.handle(), permission.authorization())
            .parameters(Writer::default().bytes(credential_blob).bytes(encrypted_secret));
        operation.run(activate)?.read(|reader| Ok(reader.sized()?.to_vec()))
    }
}

/// Reads a `TPMT_SIGNATURE` that fills the rest.
pub(crate) fn read_signature(reader: &mut Reader<'_>) -> Result<Signature, Malformed> {
    let raw = reader.rest();
    reader.take(raw.len())?;
    Signature::parse(raw)
}
