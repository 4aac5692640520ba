//! The guide `docs/embedding.md` shows the examples of both crates as they are, and what they print.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test reads the repository")]

use std::error::Error;
use std::fs;

use portcullis_testkit::pages;
use portcullis_testkit::recorded::repository;

#[path = "../../policy/examples/decide.rs"]
#[expect(dead_code, reason = "its main only prints")]
mod decide;
#[path = "../../policy/examples/explain.rs"]
#[expect(dead_code, reason = "its main only prints")]
mod explain;
#[path = "../examples/sign.rs"]
#[expect(dead_code, reason = "its main only prints")]
mod sign;

type Run = fn(&mut Vec<u8>) -> Result<(), Box<dyn Error>>;

/// The crate, the example, and what it does.
const EXAMPLES: [(&str, &str, Run); 3] =
    [("policy", "decide", decide::run), ("policy", "explain", explain::run), ("pki", "sign", sign::run)];

#[test]
fn every_program_of_the_guide_is_an_example() {
    let page = fs::read_to_string(repository().join("docs/embedding.md")).unwrap();
    let shown: Vec<&str> =
        page.split("```rust\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(shown.len(), EXAMPLES.len(), "programs of the guide");
    for ((name, example, _), shown) in EXAMPLES.iter().zip(shown) {
        let file = repository().join("crates").join(name).join("examples").join(format!("{example}.rs"));
        let text = fs::read_to_string(file).unwrap();
        let (_, program) = text.split_once("\n\n").unwrap();
        assert_eq!(
            shown, program,
            "docs/embedding.md must show crates/{name}/examples/{example}.rs as it is"
        );
    }
}

#[test]
fn the_examples_print_what_the_guide_says() {
    let written = pages::examples(&repository().join("docs/embedding.md"), "cargo");
    assert_eq!(written.len(), EXAMPLES.len(), "commands of the guide");
    for ((name, example, run), written) in EXAMPLES.iter().zip(written) {
        assert_eq!(written.command, format!("cargo run -q -p portcullis-{name} --example {example}"));
        let mut printed = Vec::new();
        run(&mut printed).unwrap();
        let printed: Vec<String> = String::from_utf8(printed).unwrap().lines().map(str::to_owned).collect();
        assert!(pages::fits(&written.expected, &printed), "{example} prints\n{}", printed.join("\n"));
    }
}
