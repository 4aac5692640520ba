//! Attacks with a stolen bootstrap credential on a running cluster.

use portcullis_testkit::wait::until;

use super::{World, free_port, probe};

#[test]
fn a_thief_who_asks_second_is_not_approved_and_everybody_is_told_nb_75a() {
    let world = World::new();
    let port = free_port();
    let approver =
        world.start(&["--leader-elect=false", "--metrics-bind-address", &format!("127.0.0.1:{port}")]);
    world.ask("own", "worker-0", &["system:nodes"]);
    world.ask("thief", "worker-0", &["system:nodes"]);
    world.ask("forged", "worker-0", &["system:nodes", "system:masters"]);
    for name in ["own", "thief"] {
        until("it waits", || world.decision(name) == Some(("MachineNotFound".into(), "NB-89".into())));
    }
    world.create_machine("worker-0");
    for name in ["own", "thief"] {
        until("it is held", || world.decision(name) == Some(("ContestedIdentity".into(), "NB-75a".into())));
        until("an event tells it", || world.events(name).contains(&"ContestedIdentity".to_owned()));
    }
    until("it is counted", || probe(port, "/metrics").unwrap().1.contains("\nnode_csr_contested 2\n"));
    assert!(world.approvals("own").is_empty() && world.approvals("thief").is_empty());
    // An administrator deletes the thief's request: the machine gets its certificate without another request.
    world.admin().must(200, "DELETE", &format!("{}/thief", super::REQUESTS), None);
    until("it is approved", || world.approvals("own") == ["NodeCSRApprove"]);
    until("it is not counted", || probe(port, "/metrics").unwrap().1.contains("\nnode_csr_contested 0\n"));
    assert!(world.approvals("forged").is_empty());
    assert_eq!(approver.stop().code, 0);
}
