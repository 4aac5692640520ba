//! `credential` killed at any moment, and on a full disk: nothing is lost, and nothing is requested twice.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use portcullis_testkit::mutate::dice;

use crate::credential::support::*;

/// There is one request, and one pair, however often it was written.
fn check(cluster: &Cluster) {
    assert_eq!(cluster.requests().len(), 1);
    openssl_accepts(cluster, &cluster.path("pki/kubelet-client-current.pem"));
    assert!(!cluster.path("pki/kubelet-client.key.tmp").exists());
    let texts: Vec<String> = cluster.pairs().iter().map(|pair| fs::read_to_string(pair).unwrap()).collect();
    assert!(texts.iter().all(|text| *text == texts[0]));
}

#[test]
fn killed_fifty_times_it_ends_with_one_request_and_one_certificate() {
    let cluster = Cluster::start();
    let _signer = Signer::start(&cluster);
    let mut killed = 0;
    for round in 0.. {
        let mut command = cluster.credential(&["--once", "--wait", "60"]);
        let mut process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(dice(round) % 40_000));
        if process.try_wait().unwrap().is_none() {
            process.kill().unwrap();
            process.wait().unwrap();
            killed += 1;
            if killed == 50 {
                break;
            }
            continue;
        }
        // It was done before that: the next node.
        assert!(process.wait().unwrap().success());
        check(&cluster);
        fs::remove_dir_all(cluster.path("pki")).unwrap();
        fs::remove_file(cluster.path("node.kubeconfig")).unwrap();
        let name = cluster.requests()[0]["metadata"]["name"].as_str().unwrap().to_owned();
        cluster.admin().must(200, "DELETE", &format!("{REQUESTS}/{name}"), None);
    }
    cluster.once().must(0, &[]);
    check(&cluster);
}

#[test]
fn on_a_full_disk_it_says_so_and_goes_on_once_there_is_room() {
    let cluster = Cluster::start();
    let _signer = Signer::start(&cluster);
    // Without the signal, a write beyond the limit fails as one to a full disk does. Not even the key fits.
    let full = "trap '' XFSZ; ulimit -f 0;";
    cluster.run(full, &["--once"]).must(2, &["kubelet-client.key.tmp", "make room"]);
    assert_eq!(cluster.requests().len(), 0, "nothing is asked for that could not be kept");
    assert_eq!(
        fs::read_dir(cluster.path("pki"))
            .unwrap()
            .filter(|entry| { entry.as_ref().unwrap().file_name() != "kubelet-client.lock" })
            .count(),
        0
    );
    // The key fits (512 bytes), the certificate does not.
    let small = "trap '' XFSZ; ulimit -f 1;";
    for _ in 0..2 {
        cluster.run(small, &["--once"]).must(2, &["kubelet-client-", ".pem", "make room"]);
        assert_eq!(cluster.pairs().len(), 0);
        assert!(!cluster.path("pki/kubelet-client-current.pem").exists());
    }
    cluster.once().must(0, &[]);
    assert_eq!((cluster.requests().len(), cluster.pairs().len()), (1, 1));
    openssl_accepts(&cluster, &cluster.path("pki/kubelet-client-current.pem"));
}
