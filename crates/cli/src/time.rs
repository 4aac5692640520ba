//! Times in flags.

use jiff::Timestamp;

use crate::failure::Failure;

/// A time, or the beginning of a day in UTC.
///
/// # Errors
/// The text is neither.
pub(crate) fn parse(text: &str) -> Result<Timestamp, Failure> {
    let whole = if text.len() == 10 { format!("{text}T00:00:00Z") } else { text.to_owned() };
    whole.parse().map_err(|error| {
        Failure::input(format_args!("{text:?} is no time: {error}; write 2026-01-31T12:00:00Z or 2026-01-31"))
    })
}
