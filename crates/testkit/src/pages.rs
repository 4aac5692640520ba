//! The examples in the documentation: `console` blocks with commands and the output of each.
//!
//! A block holds commands (`$ portcullis ...`) and, below each, what it prints. A line `...` stands for any number of
//! lines, and `...` within a line for any text.

use std::fs;
use std::path::Path;

use crate::recorded::repository;

/// A command and its documented output.
#[derive(Clone, Debug)]
pub struct Example {
    /// The page, from the repository's root.
    pub file: String,
    /// Where the command stands in it.
    pub line: usize,
    /// The command, as typed.
    pub command: String,
    /// Its documented output.
    pub expected: Vec<String>,
}

/// The examples of one program in a page, in order.
pub fn examples(page: &Path, program: &str) -> Vec<Example> {
    let file = page.strip_prefix(repository()).unwrap_or(page).display().to_string();
    let text = fs::read_to_string(page).unwrap_or_else(|e| panic!("{file}: {e}"));
    let mut examples: Vec<Example> = Vec::new();
    let (mut in_block, mut in_example) = (false, false);
    for (number, line) in (1..).zip(text.lines()) {
        if line.starts_with("```") {
            (in_block, in_example) = (line == "```console", false);
        } else if in_block && let Some(command) = line.strip_prefix("$ ") {
            in_example = command.split(' ').next() == Some(program);
            if in_example {
                let command = command.to_owned();
                examples.push(Example { file: file.clone(), line: number, command, expected: Vec::new() });
            }
        } else if in_example && let Some(example) = examples.last_mut() {
            example.expected.push(line.to_owned());
        }
    }
    examples
}

/// Whether a line matches, where `...` stands for any text.
fn line_fits(written: &str, printed: &str) -> bool {
    let mut parts = written.split("...");
    let Some(mut rest) = parts.next().and_then(|start| printed.strip_prefix(start)) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// Whether the printed lines match the documented ones.
pub fn fits(written: &[String], printed: &[String]) -> bool {
    match written.split_first() {
        None => printed.is_empty(),
        Some((line, rest)) if line == "..." => {
            (0..=printed.len()).any(|skipped| fits(rest, &printed[skipped..]))
        }
        Some((line, rest)) => {
            printed.split_first().is_some_and(|(first, others)| line_fits(line, first) && fits(rest, others))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_stand_for_text_and_for_lines_and_for_nothing_else() {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<String>>();
        assert!(fits(&lines("a\n...\nz"), &lines("a\nz")));
        assert!(fits(&lines("a\n...\nz"), &lines("a\nb\nc\nz")));
        assert!(!fits(&lines("a\n...\nz"), &lines("a\nb")));
        assert!(!fits(&lines("a"), &lines("a\nb")));
        assert!(!fits(&lines("a\nb"), &lines("a")));
        assert!(line_fits("p50 ... ns, max ... ns", "p50 12 ns, max 3 ns"));
        assert!(!line_fits("p50 ... ns", "p50 12 ms"));
        assert!(!line_fits("yes", "yes "));
        assert!(!line_fits("...aa", "a"));
    }
}
