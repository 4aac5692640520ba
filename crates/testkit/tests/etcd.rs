//! etcd as a tool of tests: it starts, survives what is done to it, and is gone when it is dropped.

use std::net::TcpListener;

use portcullis_testkit::etcd::{ClientTls, Cluster, Etcd, Options};
use portcullis_testkit::scratch::Scratch;

#[test]
fn etcd_keeps_its_data_and_its_address_when_it_is_killed_and_restarted() {
    let etcd = Etcd::start();
    let endpoint = etcd.endpoint();
    etcd.etcdctl(["put", "a", "1"]).ok();
    etcd.kill();
    assert_ne!(etcd.etcdctl(["get", "a", "--dial-timeout=1s", "--command-timeout=1s"]).code, 0);
    etcd.restart();
    etcd.wait_until_healthy();
    assert_eq!(etcd.endpoint(), endpoint);
    assert_eq!(etcd.etcdctl(["get", "a", "--print-value-only"]).ok(), "1\n");
}

#[test]
fn a_running_etcd_is_restarted_too() {
    let etcd = Etcd::start();
    etcd.etcdctl(["put", "a", "1"]).ok();
    let log = etcd.log();
    etcd.restart();
    etcd.wait_until_healthy();
    assert_eq!(etcd.etcdctl(["get", "a", "--print-value-only"]).ok(), "1\n");
    assert!(etcd.log().starts_with(&log), "the log of the first process is kept");
}

#[test]
fn a_stopped_etcd_is_silent_until_it_goes_on() {
    let etcd = Etcd::start();
    etcd.etcdctl(["put", "a", "1"]).ok();
    etcd.stop();
    assert_ne!(etcd.etcdctl(["get", "a", "--command-timeout=1s"]).code, 0);
    etcd.cont();
    etcd.wait_until_healthy();
    assert_eq!(etcd.etcdctl(["get", "a", "--print-value-only"]).ok(), "1\n");
}

#[test]
fn dropping_a_stopped_etcd_frees_its_port() {
    let etcd = Etcd::start();
    let port = etcd.port();
    TcpListener::bind(("127.0.0.1", port)).unwrap_err();
    etcd.stop();
    drop(etcd);
    TcpListener::bind(("127.0.0.1", port)).unwrap();
}

#[test]
fn a_cluster_of_three_elects_another_leader_when_the_leader_is_killed() {
    let cluster = Cluster::start(3);
    cluster.etcdctl(["put", "a", "1"]).ok();
    let first = cluster.leader();
    cluster.member(first).kill();
    let second = cluster.leader();
    assert_ne!(second, first);
    cluster.wait_until_healthy();
    cluster.member(second).etcdctl(["put", "a", "2"]).ok();

    cluster.member(first).restart();
    cluster.wait_until_healthy();
    assert_eq!(cluster.member(first).etcdctl(["get", "a", "--print-value-only"]).ok(), "2\n");
}

#[test]
fn a_cluster_of_three_elects_another_leader_when_the_leader_is_stopped() {
    let cluster = Cluster::start(3);
    let first = cluster.leader();
    cluster.member(first).stop();
    let second = cluster.leader();
    assert_ne!(second, first);
    cluster.member(second).etcdctl(["put", "a", "1"]).ok();
    cluster.member(first).cont();
    cluster.wait_until_healthy();
    assert_eq!(cluster.member(first).etcdctl(["get", "a", "--print-value-only"]).ok(), "1\n");
}

#[test]
fn etcd_refuses_writes_beyond_its_quota() {
    let options = Options { quota_backend_bytes: Some(64 << 10), ..Options::default() };
    let etcd = Etcd::with(&options);
    let value = "x".repeat(32 << 10);
    let refused = (0..100).map(|_| etcd.etcdctl(["put", "a", &value])).find(|put| put.code != 0);
    let refused = refused.expect("the database has a limit");
    assert!(refused.stderr.contains("database space exceeded"), "{refused:?}");
}

#[test]
fn etcd_asks_clients_for_a_certificate_of_its_authority() {
    let folder = Scratch::new();
    let tls = ClientTls::make(folder.path());
    let ca = tls.ca.display().to_string();
    let etcd = Etcd::with(&Options { client_tls: Some(tls), ..Options::default() });
    assert!(etcd.endpoint().starts_with("https://"));
    etcd.etcdctl(["put", "a", "1"]).ok();

    let get = |certificate: &str| {
        let url = format!("{}/version", etcd.endpoint());
        let mut curl = portcullis_testkit::tool::command("curl");
        curl.args(["--silent", "--show-error", "--cacert", &ca, &url]);
        if !certificate.is_empty() {
            let key = folder.path().join("etcd.key");
            curl.arg("--cert").arg(folder.path().join(certificate)).arg("--key").arg(key);
        }
        portcullis_testkit::tool::Finished::of(&mut curl)
    };
    assert!(get("etcd.crt").ok().contains("etcdserver"));
    assert_ne!(get("").code, 0);
}

#[test]
fn many_members_started_at_once_get_ports_of_their_own() {
    let started: Vec<Etcd> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(Etcd::start)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (index, etcd) in started.iter().enumerate() {
        etcd.etcdctl(["put", "a", &index.to_string()]).ok();
    }
    for (index, etcd) in started.iter().enumerate() {
        assert_eq!(etcd.etcdctl(["get", "a", "--print-value-only"]).ok(), format!("{index}\n"));
    }
}
