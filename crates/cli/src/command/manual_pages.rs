//! `portcullis manual-pages`: writes a manual page of the program and of each of its commands, from the flags and their texts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use jiff::Timestamp;

use crate::failure::Failure;
use crate::program_name::PROGRAM;

/// Write the manual pages of the program and of each command, such as portcullis-serve.1
///
/// The pages have the date of SOURCE_DATE_EPOCH, in seconds since 1970, as builds set it that can be repeated; else that of today.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ManualPagesArgs {
    /// The directory, which is created if it is missing. Files of the same names are replaced
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  portcullis manual-pages /usr/local/share/man/man1";

/// Runs the command, for the command line that is given.
///
/// # Errors
/// A page cannot be written.
pub fn run(args: &ManualPagesArgs, command_line: Command) -> Result<ExitCode, Failure> {
    let directory = &args.directory;
    fs::create_dir_all(directory).map_err(|error| {
        Failure::unreachable(format_args!("cannot create {}: {error}", directory.display()))
    })?;
    // A page for `help` would say nothing.
    let mut command_line = command_line.disable_help_subcommand(true);
    command_line.build();
    write_all(&command_line, directory, &date()?)?;
    Ok(ExitCode::SUCCESS)
}

/// The date of the pages.
fn date() -> Result<String, Failure> {
    let at = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => {
            text.parse().ok().and_then(|seconds| Timestamp::from_second(seconds).ok()).ok_or_else(|| {
                Failure::input(format_args!("SOURCE_DATE_EPOCH {text:?}: not a number of seconds"))
            })?
        }
        Err(_) => Timestamp::now(),
    };
    Ok(at.strftime("%Y-%m-%d").to_string())
}

/// Writes the page of a command, and those of the commands below it that are not hidden.
fn write_all(command: &Command, directory: &Path, date: &str) -> Result<(), Failure> {
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        write_all(sub, directory, date)?;
    }
    let page = Man::new(with_aliases(command))
        .date(date)
        .source(format!("Portcullis {}", env!("CARGO_PKG_VERSION")))
        .manual("Portcullis Manual");
    let path = directory.join(page.get_filename());
    let failed = |error| Failure::unreachable(format_args!("cannot write {}: {error}", path.display()));
    let text = render(&page, command).map_err(failed)?;
    fs::write(&path, text).map_err(failed)
}

/// The command with the other names of flags in their help: the library leaves them out.
fn with_aliases(command: &Command) -> Command {
    command.clone().mut_args(|arg| {
        let Some(aliases) = arg.get_visible_aliases().filter(|aliases| !aliases.is_empty()) else {
            return arg;
        };
        let names: Vec<String> = aliases.iter().map(|alias| format!("--{alias}")).collect();
        let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
        arg.long_help(format!("{help}\n\nAlso {}", names.join(", ")))
    })
}

/// The page in roff. The library would print examples as one paragraph, so that section is made here.
fn render(page: &Man, command: &Command) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    if command.get_subcommands().any(|sub| !sub.is_hide_set()) {
        page.render_subcommands_section(&mut text)?;
    }
    if let Some(examples) = command.get_after_help().map(ToString::to_string) {
        let mut section = Roff::new();
        section.control("SH", ["EXAMPLES"]).control("nf", []);
        for line in examples.lines().filter(|line| *line != "Examples:") {
            section.text([roman(line.trim_start_matches("  "))]);
        }
        section.control("fi", []).to_writer(&mut text)?;
    }
    if let Some(notes) = command.get_after_long_help().map(ToString::to_string) {
        let mut section = Roff::new();
        section.control("SH", ["NOTES"]);
        for line in notes.lines() {
            match line.trim() {
                "" => section.control("PP", []),
                line => section.text([roman(line)]),
            };
        }
        section.to_writer(&mut text)?;
    }
    if command.get_name() != PROGRAM {
        let mut section = Roff::new();
        section.control("SH", ["SEE ALSO"]).control("BR", [PROGRAM, "(1)"]);
        section.to_writer(&mut text)?;
    }
    Ok(text)
}
