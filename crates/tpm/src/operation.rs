//! One operation at a TPM: commands in a row on one connection, and what they loaded is removed at the end (AT-110, ST-21).

use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::address::Address;
use crate::answer::Answer;
use crate::command::{self, Command};
use crate::error::TpmError;
use crate::transport::Transport;
use crate::wire::{Malformed, Reader, Writer};

/// How long to wait for a socket unless told otherwise.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The first pause before a busy TPM is asked again; each pause is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// How often a busy TPM is asked again: 5 seconds in all.
const RETRIES: u32 = 8;

/// A TPM. It may be shared between threads, which take turns. Clones share the turns.
#[derive(Clone, Debug)]
pub struct Tpm {
    address: Address,
    timeout: Duration,
    turn: Arc<Mutex<()>>,
}

impl Tpm {
    /// The TPM at this address. Nothing is opened until it is used.
    pub fn at(address: Address) -> Self {
        Self { address, timeout: TIMEOUT, turn: Arc::default() }
    }

    /// Waits this long, instead of 30 seconds, for a socket to answer a command, and for a device that another program
    /// has open.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Where the TPM is.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Opens the TPM for one operation.
    pub(crate) fn begin(&self) -> Result<Operation<'_>, TpmError> {
        // There is nothing in it that a panic could have left half done.
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let transport = RefCell::new(Transport::open(&self.address, self.timeout)?);
        Ok(Operation { transport, _turn: turn })
    }
}

/// An operation that runs.
#[derive(Debug)]
pub(crate) struct Operation<'t> {
    transport: RefCell<Transport>,
    _turn: MutexGuard<'t, ()>,
}

impl Operation<'_> {
    /// Runs a command, and again a few times if the TPM is busy. Returns what the command loaded, and its parameters.
    pub(crate) fn run(&self, command: Command) -> Result<Done<'_>, TpmError> {
        let name = command.name();
        let shape = command.shape();
        let bytes = command.encode().map_err(|why| TpmError::Argument { what: name, why })?;
        let mut pause = FIRST_PAUSE;
        let mut retries = RETRIES;
        loop {
            let response = self.transport.borrow_mut().exchange(name, &bytes)?;
            let answer = Answer::parse(&response, shape.sessions, shape.has_handle);
            match answer.map_err(|why| TpmError::Response { command: name, why })? {
                Answer::Done { handle, parameters } => {
                    let loaded = Loaded { operation: self, handle, is_transient: shape.has_handle };
                    return Ok(Done { command: name, loaded, parameters });
                }
                Answer::Refused(code) if code.is_temporary() && retries > 0 => {
                    thread::sleep(pause);
                    pause = pause.saturating_mul(2);
                    retries -= 1;
                }
                Answer::Refused(code) => return Err(TpmError::Refused { command: name, code }),
            }
        }
    }

    /// An object that is always there.
    pub(crate) fn persistent(&self, handle: u32) -> Loaded<'_> {
        Loaded { operation: self, handle, is_transient: false }
    }
}

/// A command that was done.
#[derive(Debug)]
pub(crate) struct Done<'o> {
    command: &'static str,
    loaded: Loaded<'o>,
    parameters: Vec<u8>,
}

impl<'o> Done<'o> {
    /// Reads the parameters, of which nothing may be left. What the command loaded is removed.
    pub(crate) fn read<T>(
        self,
        read: impl FnOnce(&mut Reader<'_>) -> Result<T, Malformed>,
    ) -> Result<T, TpmError> {
        self.read_loaded(read).map(|(_, value)| value)
    }

    /// As [`Self::read`], and returns what the command loaded.
    pub(crate) fn read_loaded<T>(
        self,
        read: impl FnOnce(&mut Reader<'_>) -> Result<T, Malformed>,
    ) -> Result<(Loaded<'o>, T), TpmError> {
        let mut reader = Reader::new(&self.parameters);
        let value = read(&mut reader).and_then(|value| reader.finish().map(|()| value));
        let value = value.map_err(|why| TpmError::Response { command: self.command, why })?;
        Ok((self.loaded, value))
    }
}

/// An object or session in the TPM, which is removed from it when this is dropped.
#[derive(Debug)]
pub(crate) struct Loaded<'o> {
    operation: &'o Operation<'o>,
    handle: u32,
    is_transient: bool,
}

impl Loaded<'_> {
    pub(crate) fn handle(&self) -> u32 {
        self.handle
    }
}

impl Drop for Loaded<'_> {
    fn drop(&mut self) {
        if self.is_transient {
            let flush = Command::new(command::FLUSH_CONTEXT).parameters(Writer::default().u32(self.handle));
            // A TPM that fails here fails at the next command too.
            let _ = self.operation.run(flush);
        }
    }
}
