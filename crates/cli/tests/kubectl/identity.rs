//! The commands of `docs/node-identity.md`, typed one after the other: from an empty data directory to a node's certificate,
//! its renewal, and the end of what let it in.

use std::os::unix::fs::symlink;

use portcullis_testkit::recorded::repository;

use crate::kubectl::support::Served;

#[test]
fn a_machine_becomes_a_node_as_the_page_says_with_nothing_but_one_server() {
    let served = Served::start(&["--approver", "machine"]);
    let folder = served.scratch.path();
    symlink(served.data(), folder.join("portcullis-data")).unwrap();
    symlink(repository().join("examples"), folder.join("examples")).unwrap();
    served.types("docs/node-identity.md", &["kubectl", "portcullis", "faketime", "openssl"], folder, "");
}
