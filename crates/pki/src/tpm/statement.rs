//! Statements that a TPM signs about its keys and its state (TPMS_ATTEST), and the data that a key was created with.

use tpm2_protocol::data::{
    TpmAlgId, TpmlPcrSelection, TpmsAttest, TpmsClockInfo, TpmsCreationData, TpmuAttest,
};

use super::hash::HashAlgorithm;
use super::{TpmError, whole};

const STATEMENT: &str = "TPMS_ATTEST";
const CREATION_DATA: &str = "TPMS_CREATION_DATA";

/// What a TPM says in a statement. Only [`super::Signature::is_by`] tells whether a key of a TPM signed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The qualified name of the key that signs.
    pub qualified_signer: Vec<u8>,
    /// The data that the caller of the TPM had it include.
    pub extra_data: Vec<u8>,
    /// The clock of the TPM.
    pub clock: Clock,
    /// The firmware version of the TPM.
    pub firmware_version: u64,
    /// What is stated.
    pub body: Body,
}

/// The clock of a TPM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// How long the TPM has been powered, in milliseconds.
    pub milliseconds: u64,
    /// How often it was reset.
    pub reset_count: u32,
    /// How often it was restarted or resumed since the last reset.
    pub restart_count: u32,
    /// Whether the clock cannot have gone back.
    pub is_safe: bool,
}

/// What is stated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A key of this name is loaded in the TPM.
    Certify {
        /// The name of the key.
        name: Vec<u8>,
    },
    /// A key was created in the TPM.
    Creation {
        /// The name of the key.
        name: Vec<u8>,
        /// The hash of the [`CreationData`].
        hash: Vec<u8>,
    },
    /// The values of PCRs.
    Quote {
        /// Which PCRs.
        selections: Vec<PcrSelection>,
        /// The digest of their values.
        digest: Vec<u8>,
    },
    /// Something else, such as the time. No rule asks for it.
    Other,
}

/// PCRs of one bank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PcrSelection {
    /// The hash function of the bank; none if it is not supported.
    pub bank: Option<HashAlgorithm>,
    /// The numbers of the PCRs, in ascending order.
    pub indexes: Vec<u32>,
}

impl Statement {
    /// Reads a statement, which must take all of the bytes and begin with the magic number of statements.
    ///
    /// # Errors
    /// Malformed bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, TpmError> {
        let attest: TpmsAttest = whole(bytes, STATEMENT)?;
        let body = match attest.attested {
            TpmuAttest::Certify(certify) => Body::Certify { name: certify.name.to_vec() },
            TpmuAttest::Creation(creation) => {
                Body::Creation { name: creation.object_name.to_vec(), hash: creation.creation_hash.to_vec() }
            }
            TpmuAttest::Quote(quote) => {
                Body::Quote { selections: selections(&quote.pcr_select), digest: quote.pcr_digest.to_vec() }
            }
            TpmuAttest::CommandAudit(_)
            | TpmuAttest::SessionAudit(_)
            | TpmuAttest::Time(_)
            | TpmuAttest::Nv(_)
            | TpmuAttest::NvDigest(_) => Body::Other,
        };
        Ok(Self {
            qualified_signer: attest.qualified_signer.to_vec(),
            extra_data: attest.extra_data.to_vec(),
            clock: Clock::of(&attest.clock_info),
            firmware_version: attest.firmware_version.value(),
            body,
        })
    }
}

impl Clock {
    fn of(info: &TpmsClockInfo) -> Self {
        Self {
            milliseconds: info.clock.value(),
            reset_count: info.reset_count.value(),
            restart_count: info.restart_count.value(),
            is_safe: bool::from(info.safe),
        }
    }
}

fn selections(list: &TpmlPcrSelection) -> Vec<PcrSelection> {
    let of = |selection: &tpm2_protocol::data::TpmsPcrSelection| PcrSelection {
        bank: HashAlgorithm::of(selection.hash),
        indexes: (0..)
            .zip(selection.pcr_select.iter())
            .flat_map(|(at, byte)| {
                (0..8).filter(move |bit| byte >> bit & 1 == 1).map(move |bit| at * 8 + bit)
            })
            .collect(),
    };
    list.iter().map(of).collect()
}

/// The data that a key was created with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreationData {
    /// The data that the caller of the TPM had it include.
    pub outside_info: Vec<u8>,
    encoded: Vec<u8>,
}

impl CreationData {
    /// Reads creation data, without a length in front.
    ///
    /// # Errors
    /// Malformed bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, TpmError> {
        let data: TpmsCreationData = whole(bytes, CREATION_DATA)?;
        if data.parent_name_alg != TpmAlgId::Null && HashAlgorithm::of(data.parent_name_alg).is_none() {
            return Err(TpmError::Unsupported(
                "the hash function of the parent's name must be SHA-256 or longer",
            ));
        }
        Ok(Self { outside_info: data.outside_info.to_vec(), encoded: bytes.to_vec() })
    }

    /// The hash that a statement of the creation has, by the name algorithm of the key.
    pub fn hash(&self, algorithm: HashAlgorithm) -> Vec<u8> {
        algorithm.digest(&[&self.encoded])
    }
}
