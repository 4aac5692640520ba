//! `portcullis version`: prints the version, as `--version` does.

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Args, Command};

use crate::failure::Failure;

/// Print the version
#[derive(Args, Debug)]
pub struct VersionArgs {}

/// Runs the command, for the command line that is given.
///
/// # Errors
/// The version cannot be written.
pub fn run(_args: &VersionArgs, command_line: &Command) -> Result<ExitCode, Failure> {
    std::io::stdout().write_all(command_line.render_version().as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
