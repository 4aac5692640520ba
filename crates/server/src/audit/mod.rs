//! The audit log: who asked what, what was decided and what was answered, as Kubernetes writes it
//! (`audit.k8s.io/v1`).
//!
//! A request carries a [`Trail`] from its beginning to its end, whatever becomes of it. What a [`Policy`] wants of it is
//! written as a line of JSON by one thread, which requests do not wait for unless told to.

mod event;
mod file;
pub mod policy;
mod rule;
pub mod sink;
pub(crate) mod trail;

use portcullis_policy::field_error::FieldError;

pub use policy::{Policy, PolicyError};
pub use sink::{Mode, Sink, SinkError, SinkOptions};
pub use trail::Trail;

use crate::go::quoted;

/// The header that names a request in all logs.
pub const AUDIT_ID: &str = "audit-id";

/// How much is written of a request, from least to most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Nothing.
    None,
    /// Who, what, when and the answer's code.
    Metadata,
    /// That and the request's body.
    Request,
    /// That and the answer's body.
    RequestResponse,
}

impl Level {
    /// All of them, from least to most.
    pub const ALL: [Self; 4] = [Self::None, Self::Metadata, Self::Request, Self::RequestResponse];

    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Metadata => "Metadata",
            Self::Request => "Request",
            Self::RequestResponse => "RequestResponse",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }
}

/// A point in the life of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Its head is there, and who asks is known.
    RequestReceived,
    /// The head of the answer is sent, its body goes on: for watches, and for those whom nobody knows.
    ResponseStarted,
    /// The answer is sent.
    ResponseComplete,
    /// The server failed on the way.
    Panic,
}

impl Stage {
    const ALL: [Self; 4] =
        [Self::RequestReceived, Self::ResponseStarted, Self::ResponseComplete, Self::Panic];

    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            Self::RequestReceived => "RequestReceived",
            Self::ResponseStarted => "ResponseStarted",
            Self::ResponseComplete => "ResponseComplete",
            Self::Panic => "Panic",
        }
    }

    fn bit(self) -> u8 {
        match self {
            Self::RequestReceived => 1,
            Self::ResponseStarted => 2,
            Self::ResponseComplete => 4,
            Self::Panic => 8,
        }
    }
}

/// Some stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stages(u8);

impl Stages {
    /// None of them.
    pub const NONE: Self = Self(0);

    /// Whether this is one of them.
    pub fn contains(self, stage: Stage) -> bool {
        self.0 & stage.bit() != 0
    }

    fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn read(names: &[String], path: &str, errors: &mut Vec<FieldError>) -> Self {
        let mut stages = Self::NONE;
        for (at, name) in names.iter().enumerate() {
            match Stage::ALL.into_iter().find(|stage| stage.name() == name) {
                Some(stage) => stages = stages.and(Self(stage.bit())),
                None => {
                    let known = Stage::ALL.map(Stage::name);
                    errors.push(FieldError::not_supported(format!("{path}[{at}]"), quoted(name), &known));
                }
            }
        }
        stages
    }
}

/// A policy, and where what it wants is written.
pub struct Audit {
    policy: Policy,
    sink: Sink,
}

impl Audit {
    /// Writes what this policy wants.
    pub fn new(policy: Policy, sink: Sink) -> Self {
        Self { policy, sink }
    }
}
