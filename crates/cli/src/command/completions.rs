//! `portcullis completions`: prints shell completions.

use std::io::Write;
use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::{Shell, generate};

use crate::failure::Failure;

/// Print a shell completion script
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  source <(portcullis completions bash)
  portcullis completions zsh > \"${fpath[1]}/_portcullis\"
  portcullis completions fish > ~/.config/fish/completions/portcullis.fish";

/// Runs the command, for the command line that is given.
///
/// # Errors
/// The script cannot be written.
pub fn run(args: &CompletionsArgs, command_line: &mut Command) -> Result<ExitCode, Failure> {
    // Generated in memory first: the generator panics if writing fails.
    let mut script = Vec::new();
    generate(args.shell, command_line, "portcullis", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}
