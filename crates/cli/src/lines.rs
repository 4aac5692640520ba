//! Input with one JSON object per line. It is read completely, and nothing is answered unless every line is valid.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use portcullis_apimachinery::json::{self, JsonError};

use crate::failure::Failure;

/// The maximum length of a line in bytes: more than the largest review that an API server sends.
pub const MAX_LINE: usize = 8 << 20;

/// The lines of one file or of standard input.
#[derive(Debug)]
pub struct Lines {
    name: String,
    text: String,
}

impl Lines {
    /// Reads a file, or standard input without one.
    ///
    /// # Errors
    /// The input cannot be read, or a line is not UTF-8, too long, or not exactly one valid JSON value (see
    /// [`json::check`]).
    pub fn read(path: Option<&Path>) -> Result<Self, Failure> {
        let name = path.map_or_else(|| "standard input".to_owned(), |p| p.display().to_string());
        let unreadable = |error| Failure::input(format_args!("cannot read {name}: {error}"));
        let mut bytes = Vec::new();
        match path {
            Some(path) => File::open(path).and_then(|mut f| f.read_to_end(&mut bytes)).map_err(unreadable)?,
            None => std::io::stdin().lock().read_to_end(&mut bytes).map_err(unreadable)?,
        };
        Self::of(name, bytes)
    }

    /// Uses bytes as if they were the content of file `name`.
    ///
    /// # Errors
    /// See [`Lines::read`].
    pub fn of(name: String, bytes: Vec<u8>) -> Result<Self, Failure> {
        for (number, line) in (1..).zip(bytes.split(|b| *b == b'\n')) {
            if line.len() > MAX_LINE {
                return Err(Failure::input(format_args!(
                    "{name}:{number}: the line has {} bytes, more than {MAX_LINE}: one review belongs on one line",
                    line.len()
                )));
            }
            if !line.trim_ascii().is_empty() {
                json::check_bytes(line)
                    .map_err(|error| Failure::input(format_args!("{name}:{number}: {}", in_line(&error))))?;
            }
        }
        let text =
            String::from_utf8(bytes).map_err(|error| Failure::input(format_args!("{name}: {error}")))?;
        Ok(Self { name, text })
    }

    /// Returns the lines that are not blank, with their numbers from 1.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines()).filter(|(_, line)| !line.trim_ascii().is_empty())
    }

    /// Creates an error of one line; the reason begins with the field if there is one.
    pub fn fault(&self, number: usize, reason: impl std::fmt::Display) -> Failure {
        Failure::input(format_args!("{}:{number}: {reason}", self.name))
    }
}

/// Formats a JSON error within one line: the field, the error, and the column.
pub fn in_line(error: &JsonError) -> String {
    let field = if error.path.is_empty() { String::new() } else { format!("{}: ", error.path) };
    if let Some(rest) = error.reason.strip_prefix("EOF while") {
        return format!("{field}the line ends while{rest}: it is cut short, write it again");
    }
    match error.reason.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
        Some(missing) if error.path.is_empty() => format!("{missing}: is missing: every line has one"),
        Some(missing) => format!("{}.{missing}: is missing", error.path),
        None => format!("{field}{}, at column {}", error.reason, error.column),
    }
}
