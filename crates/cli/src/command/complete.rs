//! `portcullis __complete`: what shells and kubectl call to complete a word, with the protocol of kubectl and other programs that are
//! built with Cobra.
//!
//! The arguments are the words after the name of the program; the last is the one to complete, and may be empty. Each word that fits is
//! printed on a line, with a tab and its help, if there is any. The last line tells the shell more: `:4`, no names of files fit; `:0`,
//! they do. No error is printed, and the exit code is always 0.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

use clap::{Args, Command};

use crate::completion::{self, Word};
use crate::failure::Failure;

/// The name of the command, which is that of kubectl.
pub(crate) const NAME: &str = "__complete";

/// Print the words that can come next on a command line
#[derive(Args, Debug)]
#[command(hide = true, disable_help_flag = true)]
pub struct CompleteArgs {
    /// The words after the name of the program; the last is to be completed
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Runs the command, for the command line that is given.
///
/// # Errors
/// The words cannot be written.
pub fn run(args: &CompleteArgs, command_line: Command) -> Result<ExitCode, Failure> {
    let words: Vec<String> = args.words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let next = completion::next(command_line, &words);
    let mut text = String::new();
    for Word { text: word, help } in &next.words {
        // Writing to a string cannot fail.
        let _ = match &**help {
            "" => writeln!(text, "{word}"),
            help => writeln!(text, "{word}\t{help}"),
        };
    }
    text.push_str(if next.files { ":0\n" } else { ":4\n" });
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
