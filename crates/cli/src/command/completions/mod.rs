//! `portcullis completions`: prints shell completions. Those of bash, fish and zsh ask the program for words when a key is pressed, so
//! that they know the names in a cluster; those of other shells know commands and flags alone.

use std::io::Write;
use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::{Shell, generate};

use crate::failure::Failure;
use crate::program_name::PROGRAM;

/// Print a shell completion script
///
/// In bash, fish and zsh it also completes names: of contexts, namespaces, nodes, users, groups, types and objects of the cluster of the
/// kubeconfig, unless the command line reads files or etcd. A cluster that does not answer within three seconds has no names.
///
/// For `kubectl portcullis`, the completion of kubectl itself asks the program: it must also be on PATH under the name
/// kubectl_complete-portcullis, such as by a link.
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
    let mut out = std::io::stdout();
    match args.shell {
        Shell::Bash => out.write_all(include_bytes!("portcullis.bash"))?,
        Shell::Fish => out.write_all(include_bytes!("portcullis.fish"))?,
        Shell::Zsh => out.write_all(include_bytes!("portcullis.zsh"))?,
        other => {
            // Generated in memory first: the generator panics if writing fails.
            let mut script = Vec::new();
            generate(other, command_line, PROGRAM, &mut script);
            out.write_all(&script)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
