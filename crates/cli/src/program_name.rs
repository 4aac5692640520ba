//! The name by which the program was called, which its texts repeat: `portcullis`, or as a plug-in `kubectl portcullis`.
//!
//! kubectl runs the file `kubectl-portcullis` for `kubectl portcullis`, and `kubectl_complete-portcullis` for words that are to be
//! completed. Both can be links to the program.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;

use clap::Command;
use clap::builder::StyledStr;

/// The name of the program.
pub(crate) const PROGRAM: &str = "portcullis";

/// The role of the process, by the name of the file that was run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Called {
    /// The program, under any other name than those below.
    Program,
    /// The plug-in of kubectl.
    Plugin,
    /// The completion of the plug-in's words.
    PluginCompletion,
}

impl Called {
    /// Reads the role from the first argument of a process, which is the path or the name of the program.
    pub(crate) fn by(program: Option<&OsStr>) -> Self {
        match program.and_then(|path| Path::new(path).file_name()).and_then(OsStr::to_str) {
            Some("kubectl-portcullis") => Self::Plugin,
            Some("kubectl_complete-portcullis") => Self::PluginCompletion,
            _ => Self::Program,
        }
    }

    /// The command that users type to run the program.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Program => PROGRAM,
            Self::Plugin | Self::PluginCompletion => "kubectl portcullis",
        }
    }
}

/// The command that users type to run this program, for messages.
pub(crate) fn of_this_process() -> &'static str {
    Called::by(std::env::args_os().next().as_deref()).name()
}

/// The command line under another name: usages and texts say that name wherever they name the program to be run.
pub(crate) fn renamed(command: Command, name: &str) -> Command {
    let commands: BTreeSet<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    let rename = |text: &StyledStr| replaced(&text.to_string(), &commands, name);
    with_texts(command.bin_name(name), &rename)
}

/// The command and all its subcommands with other texts.
fn with_texts(mut command: Command, rename: &dyn Fn(&StyledStr) -> String) -> Command {
    if let Some(text) = command.get_about().map(rename) {
        command = command.about(text);
    }
    if let Some(text) = command.get_long_about().map(rename) {
        command = command.long_about(text);
    }
    if let Some(text) = command.get_after_help().map(rename) {
        command = command.after_help(text);
    }
    if let Some(text) = command.get_after_long_help().map(rename) {
        command = command.after_long_help(text);
    }
    command
        .mut_args(|mut arg| {
            if let Some(text) = arg.get_help().map(rename) {
                arg = arg.help(text);
            }
            match arg.get_long_help().map(rename) {
                Some(text) => arg.long_help(text),
                None => arg,
            }
        })
        .mut_subcommands(|sub| with_texts(sub, rename))
}

/// The text with this name wherever it has the program's own before the name of a command.
fn replaced(text: &str, commands: &BTreeSet<String>, name: &str) -> String {
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    let mut parts = text.split(PROGRAM);
    let mut renamed = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let next = part.strip_prefix(' ').and_then(|rest| rest.split(|letter| !is_word(letter)).next());
        let is_called = next.is_some_and(|word| commands.contains(word));
        // Not as a part of a longer word, such as the name of a file.
        let begins =
            renamed.chars().next_back().is_none_or(|before| matches!(before, ' ' | '`' | '(' | '\n'));
        renamed.push_str(if is_called && begins { name } else { PROGRAM });
        renamed.push_str(part);
    }
    renamed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_stands_in_for_the_program_where_it_is_run() {
        let commands = BTreeSet::from(["can-i".to_owned(), "completions".to_owned(), "serve".to_owned()]);
        let replaced = |text: &str| replaced(text, &commands, "kubectl portcullis");
        for (text, expected) in [
            ("portcullis can-i get pods", "kubectl portcullis can-i get pods"),
            ("Examples:\n  portcullis serve", "Examples:\n  kubectl portcullis serve"),
            ("see `portcullis serve`.", "see `kubectl portcullis serve`."),
            ("source <(portcullis completions bash)", "source <(kubectl portcullis completions bash)"),
            ("/etc/portcullis serve", "/etc/portcullis serve"),
            ("portcullis services", "portcullis services"),
            ("portcullis is a boundary", "portcullis is a boundary"),
        ] {
            assert_eq!(replaced(text), expected);
        }
    }

    #[test]
    fn the_name_of_the_file_says_what_is_asked_for() {
        let by = |path: &str| Called::by(Some(OsStr::new(path)));
        assert_eq!(by("/usr/bin/portcullis"), Called::Program);
        assert_eq!(by("kubectl-portcullis"), Called::Plugin);
        assert_eq!(by("/opt/krew/bin/kubectl-portcullis"), Called::Plugin);
        assert_eq!(by("./kubectl_complete-portcullis"), Called::PluginCompletion);
        assert_eq!(Called::by(None), Called::Program);
    }
}
