//! The generated pages of the reference: the commands with their flags, the kinds of objects, the codes of reasons, and the
//! feature gates. Tests compare the pages in `docs/reference` with the code; with `UPDATE_REFERENCE` set they write them instead.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that cannot be set up must stop")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use clap::{Arg, Command, CommandFactory as _};
use portcullis_attestation::Reason as AttestationReason;
use portcullis_policy::FeatureGates;
use portcullis_policy::approval::machine::Reason as ApproverReason;
use portcullis_server::Kinds;
use portcullis_testkit::recorded::repository;

use crate::Cli;

const UPDATE: &str = "UPDATE_REFERENCE";
const UPDATE_COMMAND: &str = "UPDATE_REFERENCE=1 cargo test -p portcullis --lib reference";

/// The pages of a folder of the reference are these and no others.
fn assert_pages(folder: &str, pages: &BTreeMap<String, String>) {
    let folder = repository().join("docs/reference").join(folder);
    let path = |name: &String| folder.join(name);
    if std::env::var_os(UPDATE).is_some() {
        fs::create_dir_all(&folder).unwrap();
        pages.iter().for_each(|(name, text)| fs::write(path(name), text).unwrap());
        stray(&folder, pages).iter().for_each(|path| fs::remove_file(path).unwrap());
    }
    let stray = stray(&folder, pages);
    assert!(stray.is_empty(), "{stray:?}: run {UPDATE_COMMAND}");
    for (name, text) in pages {
        let written = fs::read_to_string(path(name)).unwrap_or_default();
        assert!(
            written == *text,
            "docs/reference is not what the code says, in {name}: run {UPDATE_COMMAND}"
        );
    }
}

fn stray(folder: &PathBuf, pages: &BTreeMap<String, String>) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    let is_stray = |path: &PathBuf| {
        path.is_file() && !pages.contains_key(&path.file_name().unwrap().to_string_lossy().into_owned())
    };
    files.filter(is_stray).collect()
}

/// Text as Markdown: nothing is markup but code, and rules are links.
fn markdown(text: &str) -> String {
    let escaped = |part: &str| {
        let part = part.replace('&', "&amp;").replace('<', "&lt;").replace('*', "\\*").replace('_', "\\_");
        part.split_inclusive([' ', '\n']).map(linked).collect::<String>()
    };
    // Every second part is code.
    let parts = text.split('`').enumerate();
    let parts = parts.map(|(at, part)| if at % 2 == 0 { escaped(part) } else { part.to_owned() });
    parts.collect::<Vec<String>>().join("`")
}

/// A word, as a link if it is the number of a rule or names a page.
fn linked(word: &str) -> String {
    let name = word.trim_matches(['(', ')', ',', '.', ':', ';', ' ', '\n']);
    let page = name.strip_prefix("docs/").map(str::to_owned).or_else(|| {
        let (prefix, digits) = name.split_once('-')?;
        let is_rule = prefix.len() == 2 && digits.starts_with(|first: char| first.is_ascii_digit());
        is_rule.then(|| format!("rules/{prefix}.md#{}", name.to_lowercase().replace('.', "-")))
    });
    let file = |page: &String| repository().join("docs").join(page.split('#').next().unwrap_or_default());
    match page.filter(|page| page.contains(".md") && file(page).exists()) {
        Some(page) => word.replace(name, &format!("[{name}](../{page})")),
        None => word.to_owned(),
    }
}

/// Paragraphs in one cell of a table.
fn cell(text: &str) -> String {
    let paragraphs = text.split("\n\n").map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
    paragraphs.map(|part| markdown(&part).replace('|', "\\|")).collect::<Vec<String>>().join("<br><br>")
}

fn flag(arg: &Arg) -> String {
    let mut names = arg.get_short().map(|short| format!("`-{short}`, ")).unwrap_or_default();
    write!(names, "`{}`", arg.to_string().replace('|', "\\|")).unwrap();
    for alias in arg.get_visible_aliases().into_iter().flatten() {
        write!(names, ", `--{alias}`").unwrap();
    }
    names
}

fn meaning(arg: &Arg) -> String {
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut text = cell(&help);
    let values = arg.get_possible_values();
    let values: Vec<_> = values.iter().filter(|value| !value.is_hide_set()).collect();
    if !values.is_empty() && !arg.is_hide_possible_values_set() && arg.get_action().takes_values() {
        let each = values.iter().map(|value| {
            let help = value.get_help().map(|help| format!(": {}", cell(&help.to_string())));
            format!("`{}`{}", value.get_name(), help.unwrap_or_default())
        });
        let between = if values.iter().any(|value| value.get_help().is_some()) { "<br>" } else { ", " };
        write!(text, "<br><br>Values: {}", each.collect::<Vec<String>>().join(between)).unwrap();
    }
    let defaults: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if !defaults.is_empty() && !arg.is_hide_default_value_set() && arg.get_action().takes_values() {
        write!(text, "<br><br>Default: `{}`", defaults.join(",").replace('|', "\\|")).unwrap();
    }
    if let Some(variable) = arg.get_env() {
        write!(text, "<br><br>Environment: `{}`", variable.to_string_lossy()).unwrap();
    }
    text
}

/// A command and those below it. `depth` is the level of its title.
fn describe(command: &Command, words: &str, depth: usize, page: &mut String) {
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").trim_start();
    let title = "#".repeat(depth);
    write!(page, "{title} {words}\n\n{}\n\n```text\n{usage}\n```\n", markdown(&about)).unwrap();
    let mut sections: Vec<(String, Vec<&Arg>)> = Vec::new();
    for arg in command.get_arguments().filter(|arg| !arg.is_hide_set() && arg.get_id() != "help") {
        let default = if arg.is_positional() { "Arguments" } else { "Options" };
        let heading = arg.get_help_heading().unwrap_or(default);
        match sections.iter_mut().find(|(name, _)| name == heading) {
            Some((_, args)) => args.push(arg),
            None => sections.push((heading.to_owned(), vec![arg])),
        }
    }
    for (heading, args) in sections {
        write!(page, "\n{title}# {heading}\n\n| Flag | Meaning |\n| --- | --- |\n").unwrap();
        for arg in args {
            writeln!(page, "| {} | {} |", flag(arg), meaning(arg)).unwrap();
        }
    }
    if let Some(examples) = command.get_after_help().map(ToString::to_string) {
        let lines = examples.lines().filter(|line| *line != "Examples:");
        let lines: Vec<&str> = lines.map(|line| line.strip_prefix("  ").unwrap_or(line)).collect();
        write!(page, "\n{title}# Examples\n\n```sh\n{}\n```\n", lines.join("\n").trim()).unwrap();
    }
    if let Some(notes) = command.get_after_long_help().map(ToString::to_string) {
        write!(page, "\n{title}# Notes\n\n{}\n", markdown(&notes)).unwrap();
    }
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        page.push('\n');
        describe(sub, &format!("{words} {}", sub.get_name()), 2, page);
    }
}

#[test]
fn every_command_has_a_page_with_its_flags() {
    let mut command_line = Cli::command().disable_help_subcommand(true).term_width(usize::MAX);
    command_line.build();
    let mut pages = BTreeMap::new();
    let mut list = "# Commands\n\nEvery command with all its flags, generated from the program. `portcullis COMMAND --help` \
         prints the same, and [manual pages](../../kubectl-plugin.md) are there as well.\n\n| Command | Purpose |\n| --- | --- |\n"
        .to_owned();
    for command in command_line.get_subcommands().filter(|command| !command.is_hide_set()) {
        let name = command.get_name();
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        writeln!(list, "| [`{name}`]({name}.md) | {} |", cell(&about)).unwrap();
        let mut page = String::new();
        describe(command, &format!("portcullis {name}"), 1, &mut page);
        // Links are those of a page in docs/reference. This one is a folder below.
        pages.insert(format!("{name}.md"), page.replace("](../", "](../../"));
    }
    assert!(pages.len() > 15, "{:?}", pages.keys());
    pages.insert("README.md".to_owned(), list);
    assert_pages("commands", &pages);
}

#[test]
fn the_pages_of_kinds_reasons_and_feature_gates_are_what_the_code_says() {
    let pages = [("kinds.md", kinds()), ("reasons.md", reasons()), ("feature-gates.md", feature_gates())];
    assert_pages("", &pages.map(|(name, text)| (name.to_owned(), text)).into());
}

fn kinds() -> String {
    let mut page = "# Kinds of objects\n\nEvery kind that [`serve`](../serve.md#kinds) has without CustomResourceDefinitions, in every \
         version, generated from its table of kinds. The reviews, such as SubjectAccessReview, are served beside them and not \
         stored. Custom kinds are described in [custom-kinds.md](../custom-kinds.md), and what is stored without being enforced in \
         [compatibility.md](../compatibility.md#objects). *All* verbs are create, delete, deletecollection, get, list, patch, \
         update and watch. `kubectl explain` says what each field means.\n"
        .to_owned();
    let built_in = Kinds::built_in();
    let mut groups: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for row in built_in.built_in_rows() {
        let mut parts: Vec<&str> = row.subresources.iter().map(|subresource| subresource.name).collect();
        parts.sort_unstable();
        let line = format!(
            "| {} | {} | {} | {} | {} | {} | {} |",
            row.kind,
            row.version,
            row.plural,
            row.short_names.join(", "),
            if row.is_namespaced { "yes" } else { "no" },
            if row.verbs.len() == 8 { "all".to_owned() } else { row.verbs.join(", ") },
            parts.join(", "),
        );
        groups.entry(row.group).or_default().push(line);
    }
    for (group, mut lines) in groups {
        lines.sort_unstable();
        let title = if group.is_empty() { "The core group" } else { group };
        write!(
            page,
            "\n## {title}\n\n| Kind | Version | Resource | Short | Namespaced | Verbs | Subresources |\n\
             | --- | --- | --- | --- | --- | --- | --- |\n{}\n",
            lines.join("\n")
        )
        .unwrap();
    }
    page
}

/// Reads the doc comment of each variant of an enum, which begins so, from its source.
fn documented(source: &str, begin: &str) -> BTreeMap<String, String> {
    let source = fs::read_to_string(repository().join(source)).unwrap();
    let (_, list) = source.split_once(&format!("\n{begin} {{\n")).unwrap();
    let (list, _) = list.split_once("\n}\n").unwrap();
    let (mut texts, mut text) = (BTreeMap::new(), String::new());
    for line in list.lines().map(str::trim) {
        match line.strip_prefix("/// ") {
            Some(more) => text = format!("{text} {more}"),
            None => {
                texts.insert(
                    line.trim_end_matches(',').to_owned(),
                    std::mem::take(&mut text).trim().to_owned(),
                );
            }
        }
    }
    texts
}

fn reasons() -> String {
    let mut page = "# Reasons\n\nWhy a request was allowed, refused, approved or held. The codes below are generated from the code, and never \
         change: scripts and alerts can rely on them. The reasons of *authorizers* (\"no relationship found between node 'node-3' \
         and this object\") are free text for people, as in Kubernetes; [explain](../explain.md) says more than they do.\n\n\
         The codes of findings of `portcullis audit` are on [pages of their own](../findings/README.md).\n\n\
         ## The machine approver\n\nIn the annotation, the Event, the log and the metric of each certificate request that \
         [approve](../approver.md) evaluates. A request that is held waits for a person or another approver; one that is retried \
         is evaluated again. [What to do](../approver.md#a-node-is-stuck-where-to-look) is said there.\n\n\
         | Reason | Outcome | Meaning |\n| --- | --- | --- |\n"
        .to_owned();
    let texts = documented("crates/policy/src/approval/machine/reason.rs", "reasons!");
    for reason in ApproverReason::ALL {
        let name = reason.as_str();
        writeln!(page, "| `{name}` | {} | {} |", reason.outcome(), cell(&texts[name])).unwrap();
    }
    page.push_str(
        "\n## Attestation\n\nIn the condition of each certificate request that [attest](../attestation.md) refuses.\n\n\
         | Reason | May pass by itself | A new request can succeed | Meaning |\n| --- | --- | --- | --- |\n",
    );
    let texts = documented("crates/attestation/src/reason.rs", "reasons!");
    let word = |holds: bool| if holds { "yes" } else { "no" };
    for reason in AttestationReason::ALL {
        let (name, passes, again) =
            (reason.as_str(), word(reason.is_transient()), word(reason.may_ask_again()));
        writeln!(page, "| `{name}` | {passes} | {again} | {} |", cell(&texts[name])).unwrap();
    }
    page
}

fn feature_gates() -> String {
    let mut page = "# Feature gates\n\nThe gates that change a decision or the default policy, generated from the code, with the stage and the \
         default of Kubernetes 1.36. `--feature-gates Name=true,Other=false` sets them for [serve](commands/serve.md), \
         [webhook](commands/webhook.md), [guard](commands/guard.md) and the commands that answer from files; `AllAlpha` and \
         `AllBeta` set all of one stage. A gate without a stage is locked: it cannot be changed. Every other gate of Kubernetes \
         1.36 is accepted and changes nothing; a name that Kubernetes does not know is an error.\n\n\
         | Gate | Stage | Default | Meaning |\n| --- | --- | --- | --- |\n"
        .to_owned();
    let texts = documented("crates/policy/src/features/mod.rs", "pub enum Feature");
    for (name, stage, is_on) in FeatureGates::default().all() {
        let (stage, default) = (stage.to_lowercase(), if is_on { "on" } else { "off" });
        writeln!(page, "| `{name}` | {stage} | {default} | {} |", cell(&texts[name])).unwrap();
    }
    page
}
