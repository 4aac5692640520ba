//! Statements that an attestation key signs: about keys and about PCRs (AT-115, AT-116).

use crate::about::read_pcrs;
use crate::command::{self, Authorization, Command};
use crate::error::TpmError;
use crate::keys::{AttestationKey, CreatedKey, read_signature};
use crate::operation::{Loaded, Operation, Tpm};
use crate::pcr::{self, PcrValues, Pcrs};
use crate::signature::Signature;
use crate::software_key::SoftwareKey;
use crate::storage;
use crate::template;
use crate::wire::{Malformed, Reader, Writer};

/// How often PCRs are quoted that change meanwhile.
const QUOTES: u32 = 4;

/// A statement of the TPM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// What is stated, and signed: a `TPMS_ATTEST`, without a size.
    pub attest: Vec<u8>,
    /// The signature of the attestation key.
    pub signature: Signature,
}

impl Statement {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { attest: reader.sized()?.to_vec(), signature: read_signature(reader)? })
    }
}

/// A statement about PCRs, with the values that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quote {
    /// The statement, which has a digest of the values.
    pub statement: Statement,
    /// The values.
    pub values: PcrValues,
}

impl Tpm {
    /// States that a key is in this TPM, with its attributes (AT-116). The qualifying data have at most 64 bytes.
    ///
    /// # Errors
    /// See [`TpmError`].
    pub fn certify(
        &self,
        key: &CreatedKey,
        attestation_key: &AttestationKey,
        qualifying_data: &[u8],
    ) -> Result<Statement, TpmError> {
        let operation = self.begin()?;
        let key = storage::load(&operation, &key.wrapped)?;
        certify(&operation, &key, attestation_key, qualifying_data)
    }

    /// States that this TPM has loaded a software key (key class K1, AT-117).
    ///
    /// # Errors
    /// See [`TpmError`].
    pub fn certify_software_key(
        &self,
        key: &SoftwareKey,
        attestation_key: &AttestationKey,
        qualifying_data: &[u8],
    ) -> Result<Statement, TpmError> {
        let operation = self.begin()?;
        let key = key.load(&operation)?;
        certify(&operation, &key, attestation_key, qualifying_data)
    }

    /// States how a key was made: with which outside info, parent and PCRs (AT-116).
    ///
    /// # Errors
    /// See [`TpmError`].
    pub fn certify_creation(
        &self,
        key: &CreatedKey,
        attestation_key: &AttestationKey,
        qualifying_data: &[u8],
    ) -> Result<Statement, TpmError> {
        let operation = self.begin()?;
        let loaded = storage::load(&operation, &key.wrapped)?;
        let signer = attestation_key.load(&operation)?;
        let parameters = Writer::default()
            .sized(qualifying_data)
            .sized(key.creation.hash())
            .u16(template::NULL)
            .bytes(key.creation.ticket());
        let certify = Command::new(command::CERTIFY_CREATION)
            .authorized(signer.handle(), Authorization::Password)
            .handle(loaded.handle())
            .parameters(parameters);
        operation.run(certify)?.read(Statement::read)
    }

    /// States what these PCRs contain (AT-116). The values are those of the statement: if a PCR changes meanwhile, it is
    /// done again, up to four times.
    ///
    /// # Errors
    /// [`TpmError::PcrsChange`] if they changed each time; else see [`TpmError`].
    pub fn quote(
        &self,
        pcrs: Pcrs,
        attestation_key: &AttestationKey,
        qualifying_data: &[u8],
    ) -> Result<Quote, TpmError> {
        let operation = self.begin()?;
        let signer = attestation_key.load(&operation)?;
        for _ in 0..QUOTES {
            let before = read_pcrs(&operation, pcrs)?;
            let parameters = Writer::default().sized(qualifying_data).u16(template::NULL);
            let quote = Command::new(command::QUOTE)
                .authorized(signer.handle(), Authorization::Password)
                .parameters(pcr::write(parameters, Some(pcrs)));
            let statement = operation.run(quote)?.read(Statement::read)?;
            if read_pcrs(&operation, pcrs)? == before {
                return Ok(Quote { statement, values: before.values });
            }
        }
        Err(TpmError::PcrsChange)
    }
}

/// A key without a policy for administration is certified with its password, also if its use is bound to PCRs.
fn certify(
    operation: &Operation<'_>,
    key: &Loaded<'_>,
    attestation_key: &AttestationKey,
    qualifying_data: &[u8],
) -> Result<Statement, TpmError> {
    let signer = attestation_key.load(operation)?;
    let certify = Command::new(command::CERTIFY)
        .authorized(key.handle(), Authorization::Password)
        .authorized(signer.handle(), Authorization::Password)
        .parameters(Writer::default().sized(qualifying_data).u16(template::NULL));
    operation.run(certify)?.read(Statement::read)
}
