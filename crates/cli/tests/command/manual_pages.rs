//! `manual-pages`: a page for each command, which `man` and mandoc read without complaint.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use portcullis_testkit::program;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool::{self, Finished};

use crate::command::support::{portcullis, text};

/// The commands that a help lists.
fn listed(words: &[String]) -> Vec<String> {
    let arguments: Vec<&str> = words.iter().map(String::as_str).chain(["--help"]).collect();
    let help = portcullis(arguments).ok();
    let Some((_, commands)) = help.split_once("\nCommands:\n") else { return Vec::new() };
    // Long descriptions go on in lines that are further to the right.
    let commands = commands.lines().take_while(|line| !line.is_empty());
    let names = commands.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    names.filter(|name| !name.is_empty() && *name != "help").map(str::to_owned).collect()
}

/// The words of every command that a help lists, and of those below it.
fn all_commands() -> Vec<Vec<String>> {
    let mut all = vec![Vec::new()];
    let mut at = 0;
    while let Some(words) = all.get(at).cloned() {
        all.extend(listed(&words).into_iter().map(|name| [words.clone(), vec![name]].concat()));
        at += 1;
    }
    all
}

fn page(words: &[String]) -> String {
    format!("{}.1", [&["portcullis".to_owned()], words].concat().join("-"))
}

/// The page as a terminal shows it, without bold and underlined letters.
fn shown(file: &Path) -> String {
    let mut man = tool::command("man");
    man.args(["--warnings", "--no-justification", "--local-file"]).arg(file);
    let done = Finished::of(man.env("MANWIDTH", "100").env("MANPAGER", "cat").env("LC_ALL", "C.UTF-8"));
    assert_eq!((done.code, &*done.stderr), (0, ""), "{}", file.display());
    let mut plain = String::new();
    let mut escape = false;
    for letter in done.stdout.chars() {
        match (escape, letter) {
            (false, '\u{1b}') => escape = true,
            (false, '\u{8}') => {
                plain.pop();
            }
            (false, letter) => plain.push(letter),
            (true, letter) => escape = !letter.is_ascii_alphabetic(),
        }
    }
    // Words that are divided at the end of a line.
    let mut parts = plain.split("\u{2010}\n");
    let begin = parts.next().unwrap_or_default().to_owned();
    parts.fold(begin, |text, part| text + part.trim_start())
}

#[test]
fn every_command_has_a_page_that_reads_well() {
    let scratch = Scratch::new();
    let folder = scratch.path().join("man1");
    portcullis(["manual-pages", text(&folder)]).ok();
    let commands = all_commands();
    assert!(commands.len() > 30, "{}", commands.len());
    let written: BTreeSet<String> =
        fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(written, commands.iter().map(|words| page(words)).collect());

    let files: Vec<_> = written.iter().map(|name| folder.join(name)).collect();
    let lint = Finished::of(tool::command("mandoc").args(["-Tlint", "-Wwarning"]).args(&files));
    // The library ends lines twice before lists of values, which no reader shows.
    let complaints = lint.stdout.lines().filter(|line| !line.contains("skipping paragraph macro: br "));
    assert_eq!(complaints.collect::<Vec<&str>>(), [""; 0]);
    assert_eq!(lint.stderr, "");

    for words_of in &commands {
        let shown = shown(&folder.join(page(words_of)));
        let arguments: Vec<&str> = words_of.iter().map(String::as_str).chain(["--help"]).collect();
        let help = portcullis(arguments).ok();
        // Everything that the help lists is on the page: flags, and examples line by line.
        let flags = help.split(|c: char| c.is_whitespace() || "<>[]=,.;:()`'".contains(c));
        for flag in flags.filter(|word| word.starts_with("--") && word.len() > 2) {
            assert!(shown.contains(flag), "{}: {flag}: {shown}", page(words_of));
        }
        for heading in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS"] {
            assert!(shown.lines().any(|line| line == heading), "{}: {heading}", page(words_of));
        }
        // The help wraps lines, so words are compared; every example begins on a line of its own.
        if let Some((_, examples)) = help.split_once("Examples:\n") {
            let (_, on_page) = shown.split_once("\nEXAMPLES\n").unwrap();
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<String>>();
            assert!(words(on_page).starts_with(&words(examples)), "{}: {on_page}", page(words_of));
            for line in examples.lines().filter(|line| line.starts_with("  portcullis ")) {
                let begin = line.trim();
                assert!(on_page.lines().any(|line| line.trim().starts_with(begin)), "{begin}: {on_page}");
            }
        }
    }
}

#[test]
fn pages_have_the_date_of_the_build() {
    let scratch = Scratch::new();
    let write = |epoch: &str| {
        let mut command = program!().command(["manual-pages", text(scratch.path())]);
        Finished::of(command.env("SOURCE_DATE_EPOCH", epoch))
    };
    write("1800000000").ok();
    let title = fs::read_to_string(scratch.path().join("portcullis-serve.1")).unwrap();
    assert!(title.contains("\n.TH portcullis-serve 1 2027-01-15 "), "{title:.200}");
    write("yesterday").refused(&["SOURCE_DATE_EPOCH", "yesterday"]);
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let scratch = Scratch::new();
    let file = scratch.write("file", "");
    let run = portcullis(["manual-pages", text(&file.join("man1"))]);
    run.must(3, &["cannot create", "man1"]);
}
