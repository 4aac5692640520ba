//! Responses: their header, their handle, their parameters, and what follows those.

use crate::response_code::ResponseCode;
use crate::wire::{Malformed, Reader};

const WITHOUT_SESSIONS: u16 = 0x8001;
const WITH_SESSIONS: u16 = 0x8002;

/// A response of a TPM, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The command was refused.
    Refused(ResponseCode),
    /// The command was done.
    Done {
        /// The handle of what was loaded or started; 0 for a command that loads nothing.
        handle: u32,
        /// The parameters of the response.
        parameters: Vec<u8>,
    },
}

impl Answer {
    /// Takes a response apart, to a command with so many sessions, which loads something (`has_handle`) or does not.
    ///
    /// # Errors
    /// A length is wrong, bytes are missing or left, or the response is not one to such a command.
    pub fn parse(response: &[u8], sessions: usize, has_handle: bool) -> Result<Self, Malformed> {
        let mut reader = Reader::new(response);
        let tag = reader.u16()?;
        let size = reader.u32()?;
        let code = reader.u32()?;
        if usize::try_from(size) != Ok(response.len()) {
            return Err(Malformed("its size is not its length"));
        }
        if code != 0 {
            // A TPM of the older generation answers with its own tag here: the code says enough.
            return Ok(Self::Refused(ResponseCode(code)));
        }
        if tag != if sessions > 0 { WITH_SESSIONS } else { WITHOUT_SESSIONS } {
            return Err(Malformed("its tag does not fit to the command"));
        }
        let handle = if has_handle { reader.u32()? } else { 0 };
        if sessions == 0 {
            return Ok(Self::Done { handle, parameters: reader.rest().to_vec() });
        }
        let length = usize::try_from(reader.u32()?).map_err(|_| Malformed("it ends too early"))?;
        let parameters = reader.take(length)?.to_vec();
        for _ in 0..sessions {
            let _nonce = reader.sized()?;
            let _attributes = reader.u8()?;
            let _hmac = reader.sized()?;
        }
        reader.finish()?;
        Ok(Self::Done { handle, parameters })
    }
}
