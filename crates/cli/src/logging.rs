//! The log of a command, on standard error: its form and how much of it there is.

use std::io::IsTerminal as _;

use clap::ValueEnum;
use portcullis_server::logging;
use tracing_subscriber::EnvFilter;

/// The formats of the log.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LoggingFormat {
    /// One JSON object per line.
    Json,
    /// For people.
    Text,
}

/// Starts the log.
pub(crate) fn log(format: LoggingFormat, verbosity: u8) {
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(logging::filter(verbosity)));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .with_writer(std::io::stderr);
    // A second logger cannot be installed; the first one stays.
    let _ = match format {
        LoggingFormat::Json => log.json().try_init(),
        LoggingFormat::Text => log.try_init(),
    };
}
