//! How a command ends when it cannot do its work: a message and an exit code.

use std::fmt;
use std::process::ExitCode;

/// A command that could not do its work. It has said nothing that could be taken for an answer.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    /// Empty where nobody is left to read it.
    message: String,
}

impl Failure {
    /// A mistake in the flags or in the input: exit code 2. The message says what, where, why and what to do.
    pub fn input(message: impl fmt::Display) -> Self {
        Self { code: 2, message: message.to_string() }
    }

    /// Somebody who may decide so has said no: exit code 1.
    pub fn refused(message: impl fmt::Display) -> Self {
        Self { code: 1, message: message.to_string() }
    }

    /// Something that is needed cannot be reached: exit code 3.
    pub fn unreachable(message: impl fmt::Display) -> Self {
        Self { code: 3, message: message.to_string() }
    }

    /// Prints the message and gives the exit code.
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
    /// Writing the answer failed. A reader that has had enough, such as `head`, is no news to anybody.
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Self::unreachable("");
        }
        Self::unreachable(format_args!("cannot write the output: {error}"))
    }
}
