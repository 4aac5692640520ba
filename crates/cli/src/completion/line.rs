//! The words before the one that is completed, read as the parser would, but without refusing any.

use clap::{Arg, Command};

/// See the module.
pub(super) struct Line<'c> {
    /// The innermost command that is named.
    pub(super) command: &'c Command,
    /// The arguments that are no flags.
    pub(super) positionals: Vec<String>,
    /// The values of flags.
    given: Vec<(&'c Arg, String)>,
    /// The flag whose value comes next.
    expected: Option<&'c Arg>,
    /// Whether `--` came: nothing after it is a flag.
    has_ended_flags: bool,
}

impl<'c> Line<'c> {
    /// Reads the words that follow the name of the program.
    pub(super) fn read(command: &'c Command, words: &[String]) -> Self {
        let mut line = Self {
            command,
            positionals: Vec::new(),
            given: Vec::new(),
            expected: None,
            has_ended_flags: false,
        };
        words.iter().for_each(|word| line.take(word));
        line
    }

    fn take(&mut self, word: &str) {
        if let Some(flag) = self.expected.take() {
            self.given.push((flag, word.to_owned()));
        } else if !self.has_ended_flags && word == "--" {
            self.has_ended_flags = true;
        } else if let Some((flag, value)) = self.flag_with_value(word) {
            self.given.push((flag, value.to_owned()));
        } else if self.can_be_flag(word) {
            self.expected = self.flag(word).filter(|flag| takes_value(flag));
        } else if let Some(command) = self.subcommand(word) {
            self.command = command;
        } else {
            self.positionals.push(word.to_owned());
        }
    }

    fn subcommand(&self, word: &str) -> Option<&'c Command> {
        if self.positionals.is_empty() { self.command.find_subcommand(word) } else { None }
    }

    /// The flag whose value is the word to complete.
    pub(super) fn expected(&self) -> Option<&'c Arg> {
        self.expected
    }

    /// Whether a word is a flag, or the begin of one.
    pub(super) fn can_be_flag(&self, word: &str) -> bool {
        !self.has_ended_flags && word.starts_with('-')
    }

    /// The flag and the value in `--flag=VALUE` and `-fVALUE`.
    pub(super) fn flag_with_value<'w>(&self, word: &'w str) -> Option<(&'c Arg, &'w str)> {
        if !self.can_be_flag(word) {
            return None;
        }
        if word.starts_with("--") {
            let (name, value) = word.split_once('=')?;
            return self.flag(name).map(|flag| (flag, value));
        }
        let (flag, value) = word.split_at_checked(2).filter(|(_, value)| !value.is_empty())?;
        let flag = self.flag(flag).filter(|flag| takes_value(flag))?;
        Some((flag, value.strip_prefix('=').unwrap_or(value)))
    }

    /// The flag of this name. Of several short ones in a word it is the last, which may have a value.
    fn flag(&self, word: &str) -> Option<&'c Arg> {
        let mut flags = self.command.get_arguments();
        match word.strip_prefix("--") {
            Some(name) => flags.find(|flag| {
                flag.get_long() == Some(name) || flag.get_all_aliases().is_some_and(|all| all.contains(&name))
            }),
            None => flags.find(|flag| flag.get_short().is_some() && flag.get_short() == word.chars().last()),
        }
    }

    /// The argument that is no flag and comes next.
    pub(super) fn positional(&self) -> Option<&'c Arg> {
        let takes_more =
            |arg: &&Arg| arg.get_num_args().is_some_and(|number| number.max_values() == usize::MAX);
        let all = || self.command.get_positionals();
        all().nth(self.positionals.len()).or_else(|| all().find(takes_more))
    }

    /// The last value of a flag.
    pub(super) fn value(&self, flag: &str) -> Option<&str> {
        let given = self.given.iter().rfind(|(arg, _)| arg.get_long() == Some(flag));
        given.map(|(_, value)| value.as_str())
    }
}

fn takes_value(flag: &Arg) -> bool {
    flag.get_num_args().is_some_and(|number| number.min_values() > 0)
}
