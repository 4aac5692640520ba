//! Commands: their codes, and how they are put together.

use crate::wire::{Malformed, Writer};

/// The empty password as a session.
const PASSWORD_SESSION: u32 = 0x4000_0009;
const CONTINUE_SESSION: u8 = 1;
const WITHOUT_SESSIONS: u16 = 0x8001;
const WITH_SESSIONS: u16 = 0x8002;
const HEADER_BYTES: usize = 10;

/// The handle that stands for nothing, and for the hierarchy without a seed that lasts.
pub(crate) const NULL_HANDLE: u32 = 0x4000_0007;
/// The hierarchy of the owner.
pub(crate) const OWNER: u32 = 0x4000_0001;
/// The hierarchy of endorsement keys.
pub(crate) const ENDORSEMENT: u32 = 0x4000_000b;

/// A command's code and name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Code(pub(crate) u32, pub(crate) &'static str);

pub(crate) const CREATE_PRIMARY: Code = Code(0x131, "TPM2_CreatePrimary");
pub(crate) const ACTIVATE_CREDENTIAL: Code = Code(0x147, "TPM2_ActivateCredential");
pub(crate) const CERTIFY: Code = Code(0x148, "TPM2_Certify");
pub(crate) const CERTIFY_CREATION: Code = Code(0x14a, "TPM2_CertifyCreation");
pub(crate) const NV_READ: Code = Code(0x14e, "TPM2_NV_Read");
pub(crate) const POLICY_SECRET: Code = Code(0x151, "TPM2_PolicySecret");
pub(crate) const CREATE: Code = Code(0x153, "TPM2_Create");
pub(crate) const LOAD: Code = Code(0x157, "TPM2_Load");
pub(crate) const QUOTE: Code = Code(0x158, "TPM2_Quote");
pub(crate) const SIGN: Code = Code(0x15d, "TPM2_Sign");
pub(crate) const UNSEAL: Code = Code(0x15e, "TPM2_Unseal");
pub(crate) const FLUSH_CONTEXT: Code = Code(0x165, "TPM2_FlushContext");
pub(crate) const LOAD_EXTERNAL: Code = Code(0x167, "TPM2_LoadExternal");
pub(crate) const NV_READ_PUBLIC: Code = Code(0x169, "TPM2_NV_ReadPublic");
pub(crate) const READ_PUBLIC: Code = Code(0x173, "TPM2_ReadPublic");
pub(crate) const START_AUTH_SESSION: Code = Code(0x176, "TPM2_StartAuthSession");
pub(crate) const GET_CAPABILITY: Code = Code(0x17a, "TPM2_GetCapability");
pub(crate) const GET_RANDOM: Code = Code(0x17b, "TPM2_GetRandom");
pub(crate) const PCR_READ: Code = Code(0x17e, "TPM2_PCR_Read");
pub(crate) const POLICY_PCR: Code = Code(0x17f, "TPM2_PolicyPCR");
pub(crate) const READ_CLOCK: Code = Code(0x181, "TPM2_ReadClock");
pub(crate) const POLICY_GET_DIGEST: Code = Code(0x189, "TPM2_PolicyGetDigest");

impl Code {
    /// Whether the response begins with a handle.
    fn answers_with_a_handle(self) -> bool {
        [CREATE_PRIMARY.0, LOAD.0, LOAD_EXTERNAL.0, START_AUTH_SESSION.0].contains(&self.0)
    }
}

/// What a response must look like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// How many sessions the command had.
    pub(crate) sessions: usize,
    /// Whether the response begins with a handle.
    pub(crate) has_handle: bool,
}

/// How a command proves that it may use an object.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Authorization {
    /// The empty password.
    Password,
    /// A policy session, by its handle.
    Policy(u32),
}

/// A command that is being put together.
#[derive(Clone, Debug)]
pub(crate) struct Command {
    code: Code,
    handles: Writer,
    sessions: Writer,
    session_count: usize,
    parameters: Writer,
}

impl Command {
    pub(crate) fn new(code: Code) -> Self {
        let empty = Writer::default;
        Self { code, handles: empty(), sessions: empty(), session_count: 0, parameters: empty() }
    }

    /// The next handle, which needs no authorization. Those that need one come first.
    pub(crate) fn handle(mut self, handle: u32) -> Self {
        self.handles = self.handles.u32(handle);
        self
    }

    /// The next handle, with its authorization.
    pub(crate) fn authorized(mut self, handle: u32, authorization: Authorization) -> Self {
        let session = match authorization {
            Authorization::Password => PASSWORD_SESSION,
            Authorization::Policy(session) => session,
        };
        // The nonce and the password, or the HMAC, are empty.
        self.sessions = self.sessions.u32(session).sized(&[]).u8(CONTINUE_SESSION).sized(&[]);
        self.session_count = self.session_count.saturating_add(1);
        self.handle(handle)
    }

    /// The parameters.
    pub(crate) fn parameters(mut self, parameters: Writer) -> Self {
        self.parameters = parameters;
        self
    }

    pub(crate) fn name(&self) -> &'static str {
        self.code.1
    }

    pub(crate) fn shape(&self) -> Shape {
        Shape { sessions: self.session_count, has_handle: self.code.answers_with_a_handle() }
    }

    /// The bytes to send.
    ///
    /// # Errors
    /// They are more than a TPM takes.
    pub(crate) fn encode(self) -> Result<Vec<u8>, Malformed> {
        let handles = self.handles.finish()?;
        let sessions = self.sessions.finish()?;
        let parameters = self.parameters.finish()?;
        let mut body = Writer::default().bytes(&handles);
        if self.session_count > 0 {
            body = body.u32(length(sessions.len())?).bytes(&sessions);
        }
        let body = body.bytes(&parameters).finish()?;
        let tag = if self.session_count > 0 { WITH_SESSIONS } else { WITHOUT_SESSIONS };
        let size = length(body.len().saturating_add(HEADER_BYTES))?;
        Writer::default().u16(tag).u32(size).u32(self.code.0).bytes(&body).finish()
    }
}

fn length(bytes: usize) -> Result<u32, Malformed> {
    u32::try_from(bytes).map_err(|_| Malformed("more than 4096 bytes"))
}
