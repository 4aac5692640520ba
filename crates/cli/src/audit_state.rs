//! The state of a cluster in files, as the audit reads it; what it lacks, and the time for which it is judged.

use std::path::PathBuf;

use jiff::Timestamp;
use portcullis_policy::audit::state::{Item, State, StateBuilder};
use portcullis_policy::audit::{Incomplete, Why};
use portcullis_policy::engine::EngineConfig;
use portcullis_server::state::{self, ForAudit};

use crate::engine_flags::threads;
use crate::failure::Failure;
use crate::terminal::plain;

/// Reads a state.
///
/// # Errors
/// The first invalid object or file, with file, line, field and reason.
pub(crate) fn load(config: EngineConfig, paths: &[PathBuf]) -> Result<State, Failure> {
    let mut builder = StateBuilder::new(config).map_err(Failure::input)?;
    let mut sink = |item: Item<'_>| builder.take(item).map_err(|error| error.to_string());
    state::load_for::<ForAudit>(paths, threads(), &mut sink).map_err(Failure::input)?;
    Ok(builder.finish())
}

/// A time, or the beginning of a day in UTC.
///
/// # Errors
/// It is neither.
pub(crate) fn time(text: &str) -> Result<Timestamp, Failure> {
    let whole = if text.len() == 10 { format!("{text}T00:00:00Z") } else { text.to_owned() };
    whole.parse().map_err(|error| {
        Failure::input(format_args!("{text:?} is no time: {error}; write 2026-01-31T12:00:00Z or 2026-01-31"))
    })
}

/// Tells on standard error what an answer lacks.
pub(crate) fn tell_missing(incomplete: &[Incomplete]) {
    for Incomplete { input, why, detail, .. } in incomplete {
        let why = if *why == Why::NotGiven { "is not in the state" } else { why.as_str() };
        eprintln!("note: {} {why}: {}", plain(input), plain(detail));
    }
}
