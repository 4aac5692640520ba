//! Parents, and what is made and loaded below them.

use crate::command::{self, Authorization, Command};
use crate::error::TpmError;
use crate::operation::{Loaded, Operation};
use crate::pcr::{self, Pcrs};
use crate::public::{Header, attribute};
use crate::session::Permission;
use crate::template;
use crate::wire::{Malformed, Reader, Writer};
use crate::wrapped::Wrapped;

/// The reserved handle of the storage root key.
const STORAGE_ROOT: u32 = 0x8100_0001;

/// A key that is always in the TPM or can be made again at any time, and may have children.
#[derive(Debug)]
pub(crate) struct Parent<'o> {
    pub(crate) key: Loaded<'o>,
    pub(crate) header: Header,
    is_endorsement_key: bool,
}

impl<'o> Parent<'o> {
    /// The storage root key: the one at the reserved handle, else one that is made from its template.
    pub(crate) fn storage_root(operation: &'o Operation<'_>) -> Result<Self, TpmError> {
        let (key, public) = match read_public(operation, STORAGE_ROOT)? {
            Some(public) => (operation.persistent(STORAGE_ROOT), public),
            None => create_primary(operation, command::OWNER, template::storage_root())?,
        };
        let header = header(&public)?;
        if !header.has(attribute::RESTRICTED | attribute::DECRYPT | attribute::USER_WITH_AUTH) {
            return Err(TpmError::Unsuitable("the key at 0x81000001 is no storage root key"));
        }
        Ok(Self { key, header, is_endorsement_key: false })
    }

    /// An endorsement key that was found or made.
    pub(crate) fn endorsement_key(key: Loaded<'o>, public: &[u8]) -> Result<Self, TpmError> {
        Ok(Self { key, header: header(public)?, is_endorsement_key: true })
    }

    /// How it may be used next: a policy session serves once.
    pub(crate) fn permission(&self, operation: &'o Operation<'_>) -> Result<Permission<'o>, TpmError> {
        if self.is_endorsement_key {
            Permission::for_endorsement_key(operation, self.header)
        } else {
            Ok(Permission::Password)
        }
    }

    /// Makes an object below it, around `data` or with a new key, and with statements of what the world was like then.
    pub(crate) fn create(
        &self,
        operation: &'o Operation<'_>,
        new: &New<'_>,
    ) -> Result<(Wrapped, Origin), TpmError> {
        let permission = self.permission(operation)?;
        let sensitive = Writer::default().sized(&[]).sized(new.data);
        let parameters = Writer::default()
            .sized_structure(sensitive)
            .sized_structure(new.template.clone())
            .sized(new.outside_info);
        let create = Command::new(command::CREATE)
            .authorized(self.key.handle(), permission.authorization())
            .parameters(pcr::write(parameters, new.pcrs));
        operation.run(create)?.read(|reader| Ok((Wrapped::read_created(reader)?, Origin::read(reader)?)))
    }

    /// Loads an object that was made below it.
    pub(crate) fn load(
        &self,
        operation: &'o Operation<'_>,
        wrapped: &Wrapped,
    ) -> Result<Loaded<'o>, TpmError> {
        let permission = self.permission(operation)?;
        let load = Command::new(command::LOAD)
            .authorized(self.key.handle(), permission.authorization())
            .parameters(Writer::default().bytes(wrapped.private()).bytes(wrapped.public()));
        let (loaded, ()) = operation.run(load)?.read_loaded(|name| name.sized().map(drop))?;
        Ok(loaded)
    }
}

/// Loads an object that was made below the storage root key.
pub(crate) fn load<'o>(operation: &'o Operation<'_>, wrapped: &Wrapped) -> Result<Loaded<'o>, TpmError> {
    Parent::storage_root(operation)?.load(operation, wrapped)
}

/// What to make.
#[derive(Debug)]
pub(crate) struct New<'n> {
    /// Its public area.
    pub(crate) template: Writer,
    /// The data to seal; empty for a key.
    pub(crate) data: &'n [u8],
    /// What the statement about its creation shall contain.
    pub(crate) outside_info: &'n [u8],
    /// The PCRs whose values the statement shall contain.
    pub(crate) pcrs: Option<Pcrs>,
}

/// How an object was made: what `TPM2_CertifyCreation` needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) data: Vec<u8>,
    pub(crate) hash: Vec<u8>,
    pub(crate) ticket: Vec<u8>,
}

impl Origin {
    /// Reads a `TPM2B_CREATION_DATA`, a `TPM2B_DIGEST` and a `TPMT_TK_CREATION`, and keeps the size of the first.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let data = Writer::default().sized(reader.sized()?).finish()?;
        let hash = reader.sized()?.to_vec();
        let (tag, hierarchy, digest) = (reader.u16()?, reader.u32()?, reader.sized()?);
        let ticket = Writer::default().u16(tag).u32(hierarchy).sized(digest).finish()?;
        Ok(Self { data, hash, ticket })
    }
}

/// The public area of a persistent object, a `TPM2B_PUBLIC`; nothing if there is no object.
pub(crate) fn read_public(operation: &Operation<'_>, handle: u32) -> Result<Option<Vec<u8>>, TpmError> {
    match operation.run(Command::new(command::READ_PUBLIC).handle(handle)) {
        Err(e) if e.is_absent_handle() => Ok(None),
        Err(e) => Err(e),
        Ok(done) => {
            let public = done.read(|reader| {
                let public = Writer::default().sized(reader.sized()?).finish()?;
                let (_name, _qualified_name) = (reader.sized()?, reader.sized()?);
                Ok(public)
            })?;
            Ok(Some(public))
        }
    }
}

/// Makes a primary key, and returns its public area, a `TPM2B_PUBLIC`.
pub(crate) fn create_primary<'o>(
    operation: &'o Operation<'_>,
    hierarchy: u32,
    template: Writer,
) -> Result<(Loaded<'o>, Vec<u8>), TpmError> {
    let nothing = Writer::default().sized(&[]).sized(&[]);
    let parameters = Writer::default().sized_structure(nothing).sized_structure(template).sized(&[]);
    let create = Command::new(command::CREATE_PRIMARY)
        .authorized(hierarchy, Authorization::Password)
        .parameters(pcr::write(parameters, None));
    operation.run(create)?.read_loaded(|reader| {
        let public = Writer::default().sized(reader.sized()?).finish()?;
        Origin::read(reader)?;
        let _name = reader.sized()?;
        Ok(public)
    })
}

fn header(public: &[u8]) -> Result<Header, TpmError> {
    Header::of(public).map_err(|why| TpmError::Response { command: command::READ_PUBLIC.1, why })
}
