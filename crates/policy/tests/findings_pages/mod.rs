//! The pages in `docs/findings` are made from the table of rules. `UPDATE_FINDINGS=1` writes them.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test that compares files"
)]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use portcullis_policy::audit::findings::{RULES, Rule};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/findings")
}

fn page(rule: &Rule) -> String {
    let Rule { id, severity, subject, title, what, why, by_hand, fix, residual, references } = rule;
    let commands: String = by_hand.split("; ").fold(String::new(), |mut all, command| {
        let _ = writeln!(all, "{command}");
        all
    });
    let rules: Vec<String> = references
        .iter()
        .map(|reference| match reference.split_once('-') {
            Some((prefix, number)) if number.parse::<u32>().is_ok() => {
                format!("[{reference}](../rules/{prefix}.md#{}-{number})", prefix.to_lowercase())
            }
            _ => (*reference).to_owned(),
        })
        .collect();
    format!(
        "# {id}: {title}\n\n| | |\n|---|---|\n| Severity | {severity} |\n| About | {subject} |\n\n## What it looks for\n\n{what}\n\n\
         ## Why\n\n{why}\n\n## How to see it by hand\n\n```sh\n{commands}```\n\n## Fix\n\n{fix}\n\n\
         ## What a stolen node still reaches\n\n{residual}\n\n## See also\n\n{}\n",
        rules.iter().map(|rule| format!("- {rule}")).collect::<Vec<_>>().join("\n")
    )
}

fn index() -> String {
    let mut text =
        "# Findings\n\nWhat `portcullis audit` looks for. [audit.md](../audit.md) says how to use it.\n\n\
                    | Id | Severity | About | Finding |\n|---|---|---|---|\n"
            .to_owned();
    for Rule { id, severity, subject, title, .. } in &RULES {
        let _ = writeln!(text, "| [{id}]({id}.md) | {severity} | {subject} | {title} |");
    }
    text
}

#[test]
fn the_pages_say_what_the_table_says() {
    let mut pages = vec![("README.md".to_owned(), index())];
    pages.extend(RULES.iter().map(|rule| (format!("{}.md", rule.id), page(rule))));
    if std::env::var_os("UPDATE_FINDINGS").is_some() {
        std::fs::create_dir_all(folder()).unwrap();
        for (name, text) in &pages {
            std::fs::write(folder().join(name), text).unwrap();
        }
    }
    for (name, text) in &pages {
        let there = std::fs::read_to_string(folder().join(name)).unwrap_or_default();
        assert!(
            there == *text,
            "docs/findings/{name} is old: run UPDATE_FINDINGS=1 cargo test -p portcullis-policy --test library findings_pages"
        );
    }
    let names: BTreeSet<String> = pages.into_iter().map(|(name, _)| name).collect();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(names.contains(&name), "docs/findings/{name} belongs to no rule");
    }
}

/// Every rule of the table has a page, a severity as the audit's rules say, and words that are sentences.
#[test]
fn every_rule_has_all_its_words() {
    for (number, rule) in (101..).zip(&RULES) {
        assert_eq!(rule.id, format!("PC{number}"));
        for text in [rule.what, rule.why, rule.fix, rule.residual] {
            assert!(text.ends_with('.'), "{}: {text}", rule.id);
        }
        assert!(
            !rule.title.ends_with('.') && !rule.by_hand.is_empty() && !rule.references.is_empty(),
            "{}",
            rule.id
        );
    }
}
