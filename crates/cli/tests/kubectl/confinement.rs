//! The commands of `docs/confinement.md`, typed one after the other: what the page shows is what happens.

use std::process::Command;

use portcullis_testkit::pages::{self, Example};
use portcullis_testkit::recorded::repository;

use crate::support::Served;

/// What the page has the reader type before: who the node is, as a command.
const NODE_1: &str = "node-1() { kubectl --as system:node:node-1 --as-group system:nodes \"$@\"; }";

#[test]
fn a_stolen_node_gets_what_the_page_says_and_no_more() {
    let served = Served::start(&[]);
    let page = repository().join("docs/confinement.md");
    let mut examples = pages::examples(&page, "kubectl");
    examples.extend(pages::examples(&page, "node-1"));
    examples.sort_by_key(|example| example.line);
    assert!(examples.len() > 20);
    for Example { file, line, command, expected } in examples {
        let out = Command::new("bash")
            .args(["-c", &format!("{NODE_1}\n{{ {command}\n}} 2>&1")])
            .current_dir(repository())
            .env("KUBECONFIG", served.data().join("admin.kubeconfig"))
            .env("HOME", served.scratch.path())
            .output()
            .unwrap();
        let printed: Vec<String> =
            String::from_utf8(out.stdout).unwrap().lines().map(str::to_owned).collect();
        assert!(
            pages::fits(&expected, &printed),
            "{file}:{line}: {command}\nsays:\n{}\nprints:\n{}",
            expected.join("\n"),
            printed.join("\n")
        );
    }
}
