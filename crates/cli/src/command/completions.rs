//! `portcullis completions`: what a shell needs to complete the command line.

use std::io::Write;
use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::{Shell, generate};

use crate::Cli;
use crate::failure::Failure;

/// Print a script that makes a shell complete this command line
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

/// Runs the command.
///
/// # Errors
/// The script cannot be written.
pub fn run(args: &CompletionsArgs) -> Result<ExitCode, Failure> {
    // Made in memory first: the generator panics where writing fails.
    let mut script = Vec::new();
    generate(args.shell, &mut Cli::command(), "portcullis", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}
