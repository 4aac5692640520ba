//! The commands of `docs/confinement.md`, typed one after the other: what the page shows is what happens.

use portcullis_testkit::recorded::repository;

use crate::kubectl::support::Served;

/// What the page has the reader type before: who the node is, as a command.
const NODE_1: &str = "node-1() { kubectl --as system:node:node-1 --as-group system:nodes \"$@\"; }";

#[test]
fn a_stolen_node_gets_what_the_page_says_and_no_more() {
    let served = Served::start(&[]);
    served.types("docs/confinement.md", &["kubectl", "node-1"], &repository(), NODE_1);
}
