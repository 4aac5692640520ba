//! Policy sessions: proofs that a key may be used now (AT-121).

use crate::command::{self, Authorization, Command};
use crate::error::TpmError;
use crate::operation::{Loaded, Operation};
use crate::pcr::{self, Pcrs};
use crate::public::{Header, attribute};
use crate::template;
use crate::wire::Writer;

const POLICY_SESSION: u8 = 1;
/// The sessions here have no secret, so their nonces protect nothing.
const NONCE: [u8; 16] = [0; 16];

/// How an object may be used: the session is removed when this is dropped.
#[derive(Debug)]
pub(crate) enum Permission<'o> {
    /// With the empty password.
    Password,
    /// With a policy session.
    Policy(Loaded<'o>),
}

impl<'o> Permission<'o> {
    /// For an endorsement key, by its attributes: a policy session that the endorsement hierarchy permits, or the empty
    /// password (AT-121).
    pub(crate) fn for_endorsement_key(operation: &'o Operation<'_>, key: Header) -> Result<Self, TpmError> {
        if key.has(attribute::USER_WITH_AUTH) {
            return Ok(Self::Password);
        }
        let session = start(operation, key.name_algorithm)?;
        // No nonce, no hash of a command, no reference, and no expiry.
        let parameters = Writer::default().sized(&[]).sized(&[]).sized(&[]).u32(0);
        let secret = Command::new(command::POLICY_SECRET)
            .authorized(command::ENDORSEMENT, Authorization::Password)
            .handle(session.handle())
            .parameters(parameters);
        operation.run(secret)?.read(|reader| {
            let _timeout = reader.sized()?;
            let (_tag, _hierarchy, _digest) = (reader.u16()?, reader.u32()?, reader.sized()?);
            Ok(())
        })?;
        Ok(Self::Policy(session))
    }

    /// For an object that is bound to PCRs, or to none.
    pub(crate) fn for_pcrs(operation: &'o Operation<'_>, pcrs: Option<Pcrs>) -> Result<Self, TpmError> {
        match pcrs {
            None => Ok(Self::Password),
            Some(pcrs) => pcr_session(operation, pcrs).map(Self::Policy),
        }
    }

    pub(crate) fn authorization(&self) -> Authorization {
        match self {
            Self::Password => Authorization::Password,
            Self::Policy(session) => Authorization::Policy(session.handle()),
        }
    }
}

/// The policy that demands the values that these PCRs have now.
pub(crate) fn policy_of_pcrs(operation: &Operation<'_>, pcrs: Pcrs) -> Result<Vec<u8>, TpmError> {
    let session = pcr_session(operation, pcrs)?;
    let digest = Command::new(command::POLICY_GET_DIGEST).handle(session.handle());
    operation.run(digest)?.read(|reader| Ok(reader.sized()?.to_vec()))
}

fn pcr_session<'o>(operation: &'o Operation<'_>, pcrs: Pcrs) -> Result<Loaded<'o>, TpmError> {
    let session = start(operation, template::SHA256)?;
    // An empty digest: the values that the PCRs have now.
    let parameters = pcr::write(Writer::default().sized(&[]), Some(pcrs));
    let policy = Command::new(command::POLICY_PCR).handle(session.handle()).parameters(parameters);
    operation.run(policy)?.read(|_| Ok(()))?;
    Ok(session)
}

fn start<'o>(operation: &'o Operation<'_>, hash: u16) -> Result<Loaded<'o>, TpmError> {
    let parameters =
        Writer::default().sized(&NONCE).sized(&[]).u8(POLICY_SESSION).u16(template::NULL).u16(hash);
    let start = Command::new(command::START_AUTH_SESSION)
        .handle(command::NULL_HANDLE)
        .handle(command::NULL_HANDLE)
        .parameters(parameters);
    let (session, ()) = operation.run(start)?.read_loaded(|nonce| nonce.sized().map(drop))?;
    Ok(session)
}
