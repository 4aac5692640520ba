//! Completes the last word of a command line with commands, flags, values of flags, and names from the cluster that the flags before
//! it name. Nothing is written, no error is printed, and a cluster that does not answer soon has no names.

mod cluster;
mod line;

use clap::{Arg, Command, ValueHint};

use self::cluster::{Cluster, Source};
use self::line::Line;
use crate::question::{RESOURCE_VERBS, SUBRESOURCES};
use crate::resource_type::ResourceType;

/// The groups that every cluster has.
const GROUPS: &[&str] = &[
    "system:authenticated",
    "system:masters",
    "system:nodes",
    "system:serviceaccounts",
    "system:unauthenticated",
];

/// A completion, and its description in a few words; empty for names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Word {
    pub(crate) text: String,
    pub(crate) help: String,
}

/// The completions of a word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Next {
    pub(crate) words: Vec<Word>,
    /// Whether the shell should add names of files.
    pub(crate) files: bool,
}

/// Completes the last of the words that follow the name of the program. Of a word `--flag=VALUE` only values are named, as shells and
/// kubectl expect it.
pub(crate) fn next(mut command: Command, words: &[String]) -> Next {
    command.build();
    let (begun, before) = words.split_last().map_or(("", words), |(begun, before)| (begun, before));
    let line = Line::read(&command, before);
    let mut next = match line.expected() {
        Some(flag) => values(&line, flag, begun),
        None => match line.flag_with_value(begun) {
            Some((flag, value)) => values(&line, flag, value),
            None if line.can_be_flag(begun) => Next { words: flags(&line, begun), files: false },
            None => words_of_command(&line, begun),
        },
    };
    // A name that a shell would not take as it is may be an attack on whoever presses the key.
    next.words.retain(|word| word.text.chars().all(is_plain));
    next.words.sort();
    next.words.dedup_by(|one, other| one.text == other.text);
    next
}

/// Whether a letter means itself in every shell.
fn is_plain(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "-_.:/@+,=".contains(letter)
}

fn words_of_command(line: &Line<'_>, begun: &str) -> Next {
    let mut next = match line.positional() {
        Some(positional) => values(line, positional, begun),
        None => Next::default(),
    };
    if line.positionals.is_empty() {
        for command in line.command.get_subcommands().filter(|command| !command.is_hide_set()) {
            let help = command.get_about().map(ToString::to_string).unwrap_or_default();
            next.words.extend(fitting([command.get_name().to_owned()], begun, &help));
        }
    }
    next
}

fn flags(line: &Line<'_>, begun: &str) -> Vec<Word> {
    let mut words = Vec::new();
    for flag in line.command.get_arguments().filter(|arg| !arg.is_hide_set() && !arg.is_positional()) {
        let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
        let long = flag.get_long().map(|long| format!("--{long}"));
        let short = flag.get_short().map(|short| format!("-{short}"));
        words.extend(fitting(long.into_iter().chain(short), begun, &help));
    }
    words
}

/// The words that continue what is begun.
fn fitting(texts: impl IntoIterator<Item = String>, begun: &str, help: &str) -> Vec<Word> {
    // The first sentence: there is room for a few words.
    let help = help.lines().next().and_then(|line| line.split(". ").next()).unwrap_or_default();
    let texts = texts.into_iter().filter(|text| text.starts_with(begun));
    texts.map(|text| Word { text, help: help.to_owned() }).collect()
}

/// The values of a flag or of an argument.
fn values(line: &Line<'_>, arg: &Arg, begun: &str) -> Next {
    // Of a list with commas the last item is completed.
    let at = arg.get_value_delimiter().and_then(|comma| begun.rfind(comma)).map_or(0, |at| at + 1);
    let (kept, begun) = begun.split_at_checked(at).unwrap_or(("", begun));
    let mut words = Vec::new();
    for value in arg.get_possible_values().iter().filter(|value| !value.is_hide_set()) {
        let help = value.get_help().map(ToString::to_string).unwrap_or_default();
        words.extend(fitting([value.get_name().to_owned()], begun, &help));
    }
    words.extend(fitting(names(line, arg, begun), begun, ""));
    if !kept.is_empty() {
        words.iter_mut().for_each(|word| word.text.insert_str(0, kept));
    }
    let files = matches!(arg.get_value_hint(), ValueHint::AnyPath | ValueHint::FilePath | ValueHint::DirPath);
    Next { words, files }
}

/// The names that can be the value of a flag or of an argument, as far as they are known.
fn names(line: &Line<'_>, arg: &Arg, begun: &str) -> Vec<String> {
    let source = Source::of(line);
    match (arg.get_long(), arg.get_id().as_str()) {
        (Some("context"), _) => source.contexts(),
        (Some("namespace"), _) => source.ask(Cluster::namespaces),
        (Some("node" | "node-name"), _) | (None, "node_name") => source.ask(Cluster::nodes),
        (Some("as"), _) => {
            let begun = begun.to_owned();
            source.ask(async move |cluster| cluster.users(&begun).await)
        }
        (Some("as-group"), _) => {
            let mut groups = source.ask(Cluster::groups);
            groups.extend(GROUPS.iter().map(|group| (*group).to_owned()));
            groups
        }
        (Some("subresource"), _) => SUBRESOURCES.iter().map(|name| (*name).to_owned()).collect(),
        (None, "verb") => {
            RESOURCE_VERBS.iter().filter(|verb| **verb != "*").map(|verb| (*verb).to_owned()).collect()
        }
        (None, "what") => match begun.split_once('/') {
            Some((word, _)) => {
                let names = of_type(line, &source, word);
                names.into_iter().map(|name| format!("{word}/{name}")).collect()
            }
            None => {
                let mut types = source.ask(Cluster::types);
                types.extend(ResourceType::known().map(|kind| kind.to_string()));
                types
            }
        },
        (None, "name") => match line.positionals.last() {
            Some(word) if !word.contains('/') => of_type(line, &source, word),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// The names of the objects of a type, in the namespace of the line.
fn of_type(line: &Line<'_>, source: &Source, word: &str) -> Vec<String> {
    let (kind, namespace) = (ResourceType::of(word), line.value("namespace").map(str::to_owned));
    source.ask(async move |cluster| cluster.objects(&kind, namespace.as_deref()).await)
}
