//! Why an operation failed (AT-125).

use std::io;

use crate::response_code::ResponseCode;
use crate::wire::Malformed;

/// Why an operation failed. None of them is a reason to attest in a weaker way (AT-125).
#[derive(Debug, thiserror::Error)]
pub enum TpmError {
    /// A connection string is not one.
    #[error(
        "{text:?} is no address of a TPM: {why}; expected /dev/tpmrm0, device:PATH, unix:SOCKET, tcp:HOST:PORT, swtpm:path=SOCKET or swtpm:host=HOST,port=PORT"
    )]
    Address {
        /// The connection string.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// This machine has no TPM device.
    #[error(
        "this machine has no TPM: neither /dev/tpmrm0 nor /dev/tpm0 exists; enable the TPM in the firmware settings or pass the address of a TPM"
    )]
    NoDevice,
    /// The device or socket cannot be opened.
    #[error("cannot open the TPM at {address}: {source}")]
    Open {
        /// Where the TPM was looked for.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// Another program uses the TPM, or the TPM does not answer in time.
    #[error(
        "the TPM at {address} is busy: it did not answer in time, or another program uses it; try again later"
    )]
    Busy {
        /// Where the TPM is.
        address: String,
    },
    /// The device or socket failed.
    #[error("{command} failed at the TPM at {address}: {source}")]
    Io {
        /// The command that was sent.
        command: &'static str,
        /// Where the TPM is.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// The TPM refused a command.
    #[error("the TPM refuses {command} with {code}")]
    Refused {
        /// The command.
        command: &'static str,
        /// The code of the response.
        code: ResponseCode,
    },
    /// The response to a command cannot be understood.
    #[error("the response of the TPM to {command} is malformed: {why}")]
    Response {
        /// The command.
        command: &'static str,
        /// What is wrong with it.
        why: Malformed,
    },
    /// An argument cannot be put into a command, or is not the structure that it should be.
    #[error("invalid {what}: {why}")]
    Argument {
        /// Which argument.
        what: &'static str,
        /// What is wrong with it.
        why: Malformed,
    },
    /// The TPM has something that this crate cannot use.
    #[error("this TPM cannot be used: {0}")]
    Unsuitable(&'static str),
    /// PCRs changed each time that they were quoted.
    #[error("the PCRs changed while they were quoted; try again later")]
    PcrsChange,
}

impl TpmError {
    /// The code with which the TPM refused a command.
    pub fn code(&self) -> Option<ResponseCode> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Whether the TPM has nothing at the handle that was asked for.
    pub(crate) fn is_absent_handle(&self) -> bool {
        self.code().is_some_and(ResponseCode::is_absent_handle)
    }
}
