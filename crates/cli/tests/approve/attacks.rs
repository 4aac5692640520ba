//! Attacks with a stolen bootstrap credential on a running cluster.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use portcullis_testkit::wait::until;

use super::{World, free_port, probe};

const HOSTILE: usize = 10_000;

/// The number of evaluations so far.
fn evaluations(port: u16) -> u64 {
    let (_, metrics) = probe(port, "/metrics").unwrap();
    let counts = metrics.lines().filter(|line| line.starts_with("node_csr_decisions_total"));
    counts.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

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

#[test]
fn a_machine_gets_its_certificate_in_spite_of_ten_thousand_hostile_requests_t4_t5_nb_75b() {
    let world = World::new();
    let port = free_port();
    let approver =
        world.start(&["--leader-elect=false", "--metrics-bind-address", &format!("127.0.0.1:{port}")]);
    world.create_machine("worker-1");
    // Made-up names, the names of the two machines with bad requests, and the flood goes on while they are decided.
    let filed = AtomicUsize::new(0);
    let flood = |worker: usize| {
        let mut bad = world.asking(&["system:nodes", "system:masters"]);
        let mut made_up = world.asking(&["system:nodes"]);
        for number in (worker..HOSTILE).step_by(4) {
            match number % 4 {
                0 => bad(&format!("bad-{number}"), "worker-0"),
                1 => bad(&format!("bad-{number}"), "worker-1"),
                _ => made_up(&format!("made-up-{number}"), &format!("made-up-{number}")),
            }
            filed.fetch_add(1, Ordering::Relaxed);
        }
    };
    let decided = |what: &str, name: &str| {
        let (start, before) = (Instant::now(), evaluations(port));
        until(what, || world.approvals(name) == ["NodeCSRApprove"]);
        let count = evaluations(port) - before;
        println!("{what}: {:?} after its last fact, {count} evaluations", start.elapsed());
        // It does not wait for the flood.
        assert!(count < 1000, "{what}: {count}");
    };
    thread::scope(|scope| {
        for worker in 0..4 {
            let flood = &flood;
            scope.spawn(move || flood(worker));
        }
        // Filing takes as long as the machine needs, but it must not stop.
        let mut seen = 0;
        while seen < HOSTILE * 9 / 10 {
            until("more of the flood is filed", || filed.load(Ordering::Relaxed) > seen);
            seen = filed.load(Ordering::Relaxed);
        }
        world.ask("during", "worker-1", &["system:nodes"]);
        decided("asked for during the flood", "during");
    });
    world.ask("own", "worker-0", &["system:nodes"]);
    world.create_machine("worker-0");
    decided("the Machine came after the flood", "own");
    world.create_machine("worker-2");
    world.ask("after", "worker-2", &["system:nodes"]);
    decided("asked for after the flood", "after");
    approver.kill();
}
