//! Endorsement keys: the identity that the manufacturer gave to the TPM (AT-111).

use crate::certificate::split_certificates;
use crate::command;
use crate::error::TpmError;
use crate::nv;
use crate::operation::{Loaded, Operation, Tpm};
use crate::storage::{self, Parent};
use crate::template;
use crate::wire::{Malformed, Writer};

/// Where the manufacturer puts certificates of the authorities.
const FIRST_OF_CHAIN: u32 = 0x01c0_0100;
const LAST_OF_CHAIN: u32 = 0x01c0_01ff;
/// How many NV indexes of a chain are read.
const MAX_CHAIN_INDEXES: u32 = 256;
/// How large a chain may be, in bytes.
const MAX_CHAIN_BYTES: usize = 64 * 1024;

/// The kinds of endorsement keys, in the order in which they are preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndorsementKind {
    /// RSA-2048 of the low range.
    Rsa2048,
    /// P-256 of the low range.
    P256,
    /// RSA-2048 of the high range.
    HighRsa2048,
    /// P-256 of the high range.
    HighP256,
    /// P-384 of the high range.
    HighP384,
    /// RSA-3072 of the high range.
    HighRsa3072,
}

impl EndorsementKind {
    /// All kinds, in the order in which they are preferred.
    pub const ALL: [Self; 6] =
        [Self::Rsa2048, Self::P256, Self::HighRsa2048, Self::HighP256, Self::HighP384, Self::HighRsa3072];

    /// The NV index of its certificate (AT-111).
    fn certificate_index(self) -> u32 {
        match self {
            Self::Rsa2048 => 0x01c0_0002,
            Self::P256 => 0x01c0_000a,
            Self::HighRsa2048 => 0x01c0_0012,
            Self::HighP256 => 0x01c0_0014,
            Self::HighP384 => 0x01c0_0016,
            Self::HighRsa3072 => 0x01c0_001c,
        }
    }

    /// The reserved handle of the key (ST-14).
    fn handle(self) -> u32 {
        match self {
            Self::Rsa2048 => 0x8101_0001,
            Self::P256 => 0x8101_0002,
            Self::HighRsa2048 => 0x8101_0012,
            Self::HighP256 => 0x8101_0014,
            Self::HighP384 => 0x8101_0016,
            Self::HighRsa3072 => 0x8101_001c,
        }
    }

    /// The template from which the key can be made again. A key of another kind must be at its handle.
    fn template(self) -> Option<Writer> {
        match self {
            Self::Rsa2048 => Some(template::endorsement_rsa2048()),
            Self::P256 => Some(template::endorsement_p256()),
            Self::HighP384 => Some(template::endorsement_p384()),
            Self::HighRsa2048 | Self::HighP256 | Self::HighRsa3072 => None,
        }
    }
}

/// An endorsement key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndorsementKey {
    /// Its kind.
    pub kind: EndorsementKind,
    /// Its public area, a `TPM2B_PUBLIC`.
    pub public: Vec<u8>,
    /// Its certificate, DER, without padding; some manufacturers provide none.
    pub certificate: Option<Vec<u8>>,
}

impl Tpm {
    /// The endorsement key to attest with: the first kind that has a certificate, else RSA-2048 (AT-111).
    ///
    /// # Errors
    /// There is no such key and it cannot be made, or its certificate cannot be read.
    pub fn endorsement_key(&self) -> Result<EndorsementKey, TpmError> {
        let operation = self.begin()?;
        for kind in EndorsementKind::ALL {
            let Some(certificate) = certificate(&operation, kind)? else { continue };
            if let Some((_, public)) = find(&operation, kind)? {
                return Ok(EndorsementKey { kind, public, certificate: Some(certificate) });
            }
        }
        let kind = EndorsementKind::Rsa2048;
        let (_, public) = require(&operation, kind)?;
        Ok(EndorsementKey { kind, public, certificate: None })
    }

    /// The endorsement key of this kind.
    ///
    /// # Errors
    /// There is none and it cannot be made, or its certificate cannot be read.
    pub fn endorsement_key_of(&self, kind: EndorsementKind) -> Result<EndorsementKey, TpmError> {
        let operation = self.begin()?;
        let (_, public) = require(&operation, kind)?;
        Ok(EndorsementKey { kind, public, certificate: certificate(&operation, kind)? })
    }

    /// The kinds for which the TPM has a certificate (AT-193).
    ///
    /// # Errors
    /// A certificate cannot be read.
    pub fn certified_kinds(&self) -> Result<Vec<EndorsementKind>, TpmError> {
        let operation = self.begin()?;
        let mut kinds = Vec::new();
        for kind in EndorsementKind::ALL {
            if certificate(&operation, kind)?.is_some() {
                kinds.push(kind);
            }
        }
        Ok(kinds)
    }

    /// The certificates of authorities that the TPM has, DER, without padding. A certificate may continue at the next
    /// index (AT-111).
    ///
    /// # Errors
    /// They cannot be read, are more than 64 KiB or 16, or are no certificates.
    pub fn certificate_chain(&self) -> Result<Vec<Vec<u8>>, TpmError> {
        let operation = self.begin()?;
        let mut content = Vec::new();
        for index in nv::indexes(&operation, FIRST_OF_CHAIN, LAST_OF_CHAIN, MAX_CHAIN_INDEXES)? {
            content.extend(nv::read(&operation, index)?.unwrap_or_default());
            if content.len() > MAX_CHAIN_BYTES {
                return Err(TpmError::Unsuitable("its certificate chain is larger than 64 KiB"));
            }
        }
        split_certificates(&content).map_err(bad_certificate)
    }
}

/// The key of this kind as a parent.
pub(crate) fn parent<'o>(
    operation: &'o Operation<'_>,
    kind: EndorsementKind,
) -> Result<Parent<'o>, TpmError> {
    let (key, public) = require(operation, kind)?;
    Parent::endorsement_key(key, &public)
}

fn certificate(operation: &Operation<'_>, kind: EndorsementKind) -> Result<Option<Vec<u8>>, TpmError> {
    let Some(content) = nv::read(operation, kind.certificate_index())? else { return Ok(None) };
    let certificates = split_certificates(&content).map_err(bad_certificate)?;
    Ok(certificates.into_iter().next())
}

fn bad_certificate(why: Malformed) -> TpmError {
    TpmError::Argument { what: "certificate in the memory of the TPM", why }
}

/// A key in the TPM, and its public area.
type Found<'o> = (Loaded<'o>, Vec<u8>);

fn find<'o>(operation: &'o Operation<'_>, kind: EndorsementKind) -> Result<Option<Found<'o>>, TpmError> {
    if let Some(public) = storage::read_public(operation, kind.handle())? {
        return Ok(Some((operation.persistent(kind.handle()), public)));
    }
    let template = kind.template();
    template.map(|template| storage::create_primary(operation, command::ENDORSEMENT, template)).transpose()
}

fn require<'o>(operation: &'o Operation<'_>, kind: EndorsementKind) -> Result<Found<'o>, TpmError> {
    find(operation, kind)?.ok_or(TpmError::Unsuitable("there is no endorsement key of this kind"))
}
