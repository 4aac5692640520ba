//! How much is written of a request, and when.

use portcullis_apimachinery::field_error::FieldError;

use portcullis_apimachinery::quote::quoted;

/// How much is logged of a request, from least to most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Nothing.
    None,
    /// The user, the request's metadata, the time and the response code.
    Metadata,
    /// Also the request body.
    Request,
    /// Also the response body.
    RequestResponse,
}

impl Level {
    /// All levels, from least to most.
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

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }
}

/// A stage of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The headers were received, and the user is known.
    RequestReceived,
    /// The response headers were sent, the body continues: for watches, and for callers that were not authenticated.
    ResponseStarted,
    /// The response is complete.
    ResponseComplete,
    /// The server failed while answering.
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

/// A set of stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stages(u8);

impl Stages {
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// Returns whether the set contains a stage.
    pub fn contains(self, stage: Stage) -> bool {
        self.0 & stage.bit() != 0
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn read(names: &[String], path: &str, errors: &mut Vec<FieldError>) -> Self {
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
