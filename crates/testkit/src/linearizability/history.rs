//! What clients asked for, what they were told, and when.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What was written. No two operations of a history write the same.
pub type Value = u64;

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// To read the value.
    Read,
    /// To write, whatever is there.
    Write(Value),
    /// To write if the value is the expected one.
    CompareAndSwap {
        /// What must be there.
        expected: Value,
        /// What is written then.
        new: Value,
    },
    /// To write if nothing is there.
    Create(Value),
    /// To remove what is there.
    Delete,
}

/// What a client was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// What was read; none: the key is absent.
    Observed(Option<Value>),
    /// It took effect.
    Done,
    /// It had no effect. For a swap the value is not the expected one, for a creation there is one, and for a removal
    /// there is none. A refused write says nothing about the value.
    Refused,
}

/// One call of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Who called. It is shown, and decides nothing.
    pub client: usize,
    /// The key.
    pub key: String,
    /// What was asked for.
    pub action: Action,
    /// When the call began, on the one clock of the history.
    pub invoked: u64,
    /// When it ended, not before `invoked`, and how. None: unknown; it takes effect at any time after its invocation,
    /// or never.
    pub response: Option<(u64, Outcome)>,
}

/// The operations of all clients. Their order does not matter, only their times.
///
/// Threads may record in it while they call: its clock counts invocations and responses.
#[derive(Debug, Default)]
pub struct History {
    recorded: Mutex<Recorded>,
}

#[derive(Debug, Default)]
struct Recorded {
    now: u64,
    operations: Vec<Operation>,
}

/// An operation that was invoked and has no response yet.
#[derive(Debug)]
#[must_use = "without its response the outcome is unknown"]
pub struct Call(usize);

impl History {
    fn recorded(&self) -> MutexGuard<'_, Recorded> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the begin of an operation, just before it is sent.
    pub fn invoke(&self, client: usize, key: &str, action: Action) -> Call {
        let mut recorded = self.recorded();
        recorded.now += 1;
        let operation =
            Operation { client, key: key.to_owned(), action, invoked: recorded.now, response: None };
        recorded.operations.push(operation);
        Call(recorded.operations.len() - 1)
    }

    /// Records the outcome of an operation, just after it was received. Without this call it stays unknown.
    pub fn respond(&self, call: Call, outcome: Outcome) {
        let mut recorded = self.recorded();
        recorded.now += 1;
        let now = recorded.now;
        recorded.operations[call.0].response = Some((now, outcome));
    }

    /// The operations so far, by their invocations.
    pub fn operations(&self) -> Vec<Operation> {
        self.recorded().operations.clone()
    }
}

impl From<Vec<Operation>> for History {
    fn from(operations: Vec<Operation>) -> Self {
        let times = operations.iter().map(|o| o.response.map_or(o.invoked, |(responded, _)| responded));
        let now = times.max().unwrap_or(0);
        Self { recorded: Mutex::new(Recorded { now, operations }) }
    }
}

impl Action {
    /// The value that it writes, if it takes effect.
    pub(super) fn writes(self) -> Option<Value> {
        match self {
            Self::Write(new) | Self::Create(new) | Self::CompareAndSwap { new, .. } => Some(new),
            Self::Read | Self::Delete => None,
        }
    }
}

impl Operation {
    /// When it ended; the end of time for an unknown outcome.
    pub(super) fn responded(&self) -> u64 {
        self.response.map_or(u64::MAX, |(responded, _)| responded)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, key, action, invoked, response } = self;
        write!(f, "{key}: client {client} {action:?} from {invoked}")?;
        match response {
            Some((responded, outcome)) => write!(f, " to {responded}: {outcome:?}"),
            None => write!(f, ": outcome unknown"),
        }
    }
}
