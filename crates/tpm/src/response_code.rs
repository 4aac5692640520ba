//! The code of a response, in words.

use std::fmt;

/// The code with which a TPM refuses a command.
///
/// Many codes also say which parameter, handle or session was refused; [`ResponseCode::kind`] leaves that out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseCode(pub u32);

/// The TPM is locked because of too many wrong passwords.
const LOCKOUT: u32 = 0x921;
/// The TPM was asked at a bad moment, and did nothing: yielded, testing itself, saving wear of its memory, retry.
const TEMPORARY: [u32; 4] = [0x908, 0x90a, 0x920, 0x922];
/// There is no object at this handle.
const HANDLE: u32 = 0x08b;

const NAMES: &[(u32, &str)] = &[
    (0x081, "TPM_RC_ASYMMETRIC: asymmetric algorithm not supported"),
    (0x082, "TPM_RC_ATTRIBUTES: inconsistent attributes"),
    (0x083, "TPM_RC_HASH: hash algorithm not supported"),
    (0x084, "TPM_RC_VALUE: value out of range"),
    (0x085, "TPM_RC_HIERARCHY: hierarchy not enabled"),
    (0x08a, "TPM_RC_TYPE: wrong type"),
    (0x08b, "TPM_RC_HANDLE: no such handle"),
    (0x08e, "TPM_RC_AUTH_FAIL: wrong password, and it counts towards the lockout"),
    (0x092, "TPM_RC_SCHEME: scheme not supported"),
    (0x095, "TPM_RC_SIZE: wrong size"),
    (0x09a, "TPM_RC_INSUFFICIENT: command too short"),
    (0x09b, "TPM_RC_SIGNATURE: wrong signature"),
    (0x09c, "TPM_RC_KEY: unsuitable key"),
    (0x09d, "TPM_RC_POLICY_FAIL: the policy of the key does not hold now"),
    (0x09f, "TPM_RC_INTEGRITY: made for another key or TPM, or damaged"),
    (0x0a0, "TPM_RC_TICKET: invalid ticket"),
    (0x0a2, "TPM_RC_BAD_AUTH: wrong password"),
    (0x0a6, "TPM_RC_CURVE: curve not supported"),
    (0x100, "TPM_RC_INITIALIZE: the TPM was not started"),
    (0x101, "TPM_RC_FAILURE: the TPM failed"),
    (0x120, "TPM_RC_DISABLED: the command is disabled"),
    (0x128, "TPM_RC_PCR_CHANGED: a PCR changed meanwhile"),
    (0x12f, "TPM_RC_AUTH_UNAVAILABLE: a password cannot authorize this"),
    (0x143, "TPM_RC_COMMAND_CODE: command not supported"),
    (0x14a, "TPM_RC_NV_UNINITIALIZED: the NV index was never written"),
    (0x902, "TPM_RC_OBJECT_MEMORY: no room for another object"),
    (0x903, "TPM_RC_SESSION_MEMORY: no room for another session"),
    (0x904, "TPM_RC_MEMORY: out of memory"),
    (0x908, "TPM_RC_YIELDED: the TPM is busy"),
    (0x90a, "TPM_RC_TESTING: the TPM is testing itself"),
    (0x920, "TPM_RC_NV_RATE: too many writes to NV memory"),
    (0x921, "TPM_RC_LOCKOUT: the TPM is locked out because of too many wrong passwords"),
    (0x922, "TPM_RC_RETRY: the TPM is busy"),
    (0x923, "TPM_RC_NV_UNAVAILABLE: NV memory is not available"),
];

impl ResponseCode {
    /// The code without the number of the parameter, handle or session that was refused, and without the layer that a
    /// resource manager adds.
    pub fn kind(self) -> u32 {
        let code = self.0 & 0xfff;
        if code & 0x80 == 0 { code } else { code & 0xbf }
    }

    /// Whether the TPM is locked out because of too many wrong passwords.
    pub fn is_lockout(self) -> bool {
        self.kind() == LOCKOUT
    }

    /// Whether the same command may succeed a moment later.
    pub(crate) fn is_temporary(self) -> bool {
        TEMPORARY.contains(&self.kind())
    }

    /// Whether there is nothing at the handle that the command names.
    pub(crate) fn is_absent_handle(self) -> bool {
        self.kind() == HANDLE
    }
}

impl fmt::Display for ResponseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#05x}", self.0)?;
        match NAMES.iter().find(|(code, _)| *code == self.kind()) {
            Some((_, name)) => write!(f, " ({name})"),
            None => Ok(()),
        }
    }
}
