//! Data that only this TPM can open, optionally only in the present state of the machine (AT-118).

use crate::command::{self, Command};
use crate::error::TpmError;
use crate::operation::Tpm;
use crate::pcr::Pcrs;
use crate::session::{self, Permission};
use crate::storage::{self, New, Parent};
use crate::template;
use crate::wire::Malformed;
use crate::wrapped::Wrapped;

/// How much data a TPM seals at once, in bytes: room for a symmetric key or a private number.
pub const MAX_SEALED_BYTES: usize = 128;

impl Tpm {
    /// Encrypts data so that only this TPM can open them; with `bound_to` only while these PCRs have the values that
    /// they have now.
    ///
    /// # Errors
    /// The data are empty or more than [`MAX_SEALED_BYTES`]; else see [`TpmError`].
    pub fn seal(&self, data: &[u8], bound_to: Option<Pcrs>) -> Result<Wrapped, TpmError> {
        if data.is_empty() || data.len() > MAX_SEALED_BYTES {
            let why = Malformed("a TPM seals 1 to 128 bytes");
            return Err(TpmError::Argument { what: "data to seal", why });
        }
        let operation = self.begin()?;
        let policy = bound_to.map(|pcrs| session::policy_of_pcrs(&operation, pcrs)).transpose()?;
        let new = New { template: template::sealed(policy.as_deref()), data, outside_info: &[], pcrs: None };
        Ok(Parent::storage_root(&operation)?.create(&operation, &new)?.0)
    }

    /// Opens sealed data, which are bound to these PCRs or to none.
    ///
    /// # Errors
    /// `TPM_RC_POLICY_FAIL` if a PCR has changed, `TPM_RC_INTEGRITY` at another TPM; else see [`TpmError`].
    pub fn unseal(&self, sealed: &Wrapped, bound_to: Option<Pcrs>) -> Result<Vec<u8>, TpmError> {
        let operation = self.begin()?;
        let loaded = storage::load(&operation, sealed)?;
        let permission = Permission::for_pcrs(&operation, bound_to)?;
        let unseal = Command::new(command::UNSEAL).authorized(loaded.handle(), permission.authorization());
        operation.run(unseal)?.read(|reader| Ok(reader.sized()?.to_vec()))
    }
}
