//! The failure of a command: a message and an exit code.

use std::fmt;
use std::process::ExitCode;

use portcullis_server::registry::content::ContentError;

/// The failure of a command. The command has printed nothing that could be mistaken for an answer.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    /// Empty if nobody is left to read it.
    message: String,
}

impl Failure {
    /// Creates a failure for an error in the flags or in the input: exit code 2. The message says what is wrong, where,
    /// why, and how to fix it.
    pub fn input(message: impl fmt::Display) -> Self {
        Self { code: 2, message: message.to_string() }
    }

    /// Creates a failure for a refusal: exit code 1.
    pub fn refused(message: impl fmt::Display) -> Self {
        Self { code: 1, message: message.to_string() }
    }

    /// Creates a failure for something that cannot be reached: exit code 3.
    pub fn unreachable(message: impl fmt::Display) -> Self {
        Self { code: 3, message: message.to_string() }
    }

    /// Prints the message and returns the exit code.
    pub fn report(&self) -> ExitCode {
        if !self.message.is_empty() {
            eprintln!("error: {self}");
        }
        ExitCode::from(self.code)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<std::io::Error> for Failure {
    /// Output cannot be written. A closed pipe, such as that to `head`, is not reported.
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Self::unreachable("");
        }
        Self::unreachable(format_args!("cannot write the output: {error}"))
    }
}

impl From<ContentError> for Failure {
    fn from(error: ContentError) -> Self {
        match error {
            ContentError::Invalid(why) => Self::input(why),
            ContentError::Unavailable(why) => Self::unreachable(why),
        }
    }
}
