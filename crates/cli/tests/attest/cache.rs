//! The cache of the plugin, its protocol, and kills at any moment (AT-202 to AT-204).

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::attest::support::{Cluster, Finished, Machine, entry, failed};

const INSECURE: [&str; 2] = ["--attestor", "insecure"];
const KILLS: u64 = 200;

fn insecure() -> Cluster {
    Cluster::start("authorizedAttestors: [insecure]\n", &entry("node-a", ""))
}

const MACHINE: Machine<'static> = Machine { name: "node-a", cache: "cache", tpm: None };

#[test]
fn twenty_parallel_calls_file_one_request_and_print_one_certificate_at_202() {
    let cluster = insecure();
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let mut command = cluster.credential(&MACHINE, &INSECURE);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let mut printed: Vec<Value> = calls
        .into_iter()
        .map(|call| {
            let done = call.wait_with_output().unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            let text: Value = serde_json::from_slice(&done.stdout).unwrap();
            text["status"]["clientCertificateData"].clone()
        })
        .collect();
    printed.dedup();
    assert_eq!(printed.len(), 1);
    assert_eq!(cluster.requests().len(), 1);
}

#[test]
fn the_protocol_is_that_of_the_variable_at_11_to_at_13_at_202() {
    let cluster = insecure();
    let with = |info: &str| {
        let mut command = cluster.credential(&MACHINE, &INSECURE);
        Finished::of(command.env("KUBERNETES_EXEC_INFO", info))
    };
    let info = |version: &str, spec: &str| {
        format!(
            r#"{{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/{version}","spec":{spec}}}"#
        )
    };
    for version in ["v1", "v1beta1"] {
        let done = with(&info(version, r#"{"interactive":false}"#));
        assert_eq!(done.code, 0, "{done:#?}");
        let printed: Value = serde_json::from_str(&done.stdout).unwrap();
        assert_eq!(printed["apiVersion"], format!("client.authentication.k8s.io/{version}"));
        assert_eq!(printed["kind"], "ExecCredential");
        let status = printed["status"].as_object().unwrap();
        let names: Vec<&str> = status.keys().map(String::as_str).collect();
        assert_eq!(names, ["clientCertificateData", "clientKeyData", "expirationTimestamp"]);
    }
    // Without the variable: v1beta1 (AT-12).
    let printed: Value = serde_json::from_str(&cluster.run(&MACHINE, &INSECURE).stdout).unwrap();
    assert_eq!(printed["apiVersion"], "client.authentication.k8s.io/v1beta1");
    for bad in [info("v1alpha1", "{}"), "{".to_owned(), r#"{"kind":"Pod"}"#.to_owned()] {
        failed(&with(&bad), 2);
    }
    // Secure attestors verify the server (AT-38).
    let unverified = info("v1", r#"{"cluster":{"server":"https://a","insecure-skip-tls-verify":true}}"#);
    let mut command = cluster.credential(&MACHINE, &["--attestor", "tpm", "--tpm", "unix:/nonexistent"]);
    failed(&Finished::of(command.env("KUBERNETES_EXEC_INFO", &unverified)), 2);
}

#[test]
fn a_kill_at_any_moment_leaves_a_cache_that_the_next_run_completes_at_20_at_203() {
    let names: Vec<String> = (0..KILLS).map(|number| format!("node-{number}")).collect();
    let inventory: String = names.iter().map(|name| entry(name, "")).collect();
    let cluster = Cluster::start("authorizedAttestors: [insecure]\n", &inventory);
    let mut interrupted = 0;
    for (number, name) in (0..).zip(&names) {
        let machine = Machine { name, cache: name, tpm: None };
        let mut command = cluster.credential(&machine, &INSECURE);
        let mut call = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let cache = cluster.path(name);
        // One in four when its key is written, however slow the machine is. The others from before anything is written to after
        // everything is.
        if number % 4 == 0 {
            while !cache.join("pending").exists() && call.try_wait().unwrap().is_none() {
                thread::sleep(Duration::from_micros(200));
            }
        } else {
            thread::sleep(Duration::from_micros(number * 500 % 80_000));
        }
        call.kill().unwrap();
        call.wait().unwrap();
        interrupted += usize::from(cache.join("pending").exists());
        let done = cluster.run(&machine, &INSECURE);
        assert_eq!(done.code, 0, "{name}: {done:#?}\n{}", cluster.log());
        let read = |file: &str| fs::read(cache.join("current").join(file)).unwrap();
        let pair = portcullis_pki::Pair::from_pem(&read("client.crt"), &read("client.key"));
        assert!(pair.is_ok(), "{name}: {pair:?}");
        assert!(!cache.join("pending").exists(), "{name}");
    }
    // At most one more than without the kill.
    let requests = cluster.requests();
    let mut counts = std::collections::BTreeMap::<Vec<u8>, usize>::new();
    for csr in &requests {
        let pem = STANDARD.decode(csr["spec"]["request"].as_str().unwrap()).unwrap();
        let csr = portcullis_pki::evidence::read(&pem, portcullis_pki::evidence::Labels::Exact).unwrap().csr;
        *counts.entry(csr.subject().common_name().unwrap().into()).or_default() += 1;
    }
    assert_eq!(counts.len(), names.len());
    assert!(counts.values().all(|count| *count <= 2), "{counts:?}");
    assert!(interrupted > 0, "no run was killed between its key and its certificate");
}

#[test]
fn a_cache_is_used_repaired_or_refused_at_204() {
    let cluster = insecure();
    let cache = cluster.path("cache");
    let first = cluster.run(&MACHINE, &INSECURE);
    assert_eq!(first.code, 0, "{first:#?}");
    assert_eq!(mode(&cache), 0o700);
    assert_eq!(mode(&cache.join("current/client.key")), 0o600);
    assert_eq!(mode(&cache.join("current/client.crt")), 0o644);
    assert_eq!(fs::read_link(cache.join("current")).unwrap().to_str(), Some("gen-000001"));
    let meta: Value = serde_json::from_slice(&fs::read(cache.join("current/meta.json")).unwrap()).unwrap();
    assert_eq!(meta["nodeName"], "node-a");
    assert_eq!(meta["csrUid"], cluster.requests()[0]["metadata"]["uid"]);
    // Others can read the key, or write to the folder: exit 6, and nothing is requested.
    chmod(&cache.join("current/client.key"), 0o644);
    failed(&cluster.run(&MACHINE, &INSECURE), 6);
    chmod(&cache.join("current/client.key"), 0o600);
    chmod(&cache, 0o755);
    failed(&cluster.run(&MACHINE, &INSECURE), 6);
    chmod(&cache, 0o700);
    assert_eq!(cluster.requests().len(), 1);
    // The certificate or the key is damaged, missing, or that of another: a new one, with a new key, is asked for. The
    // attestor does not accept the new key, so an administrator says that it is the same machine.
    let (certificate, key) = (cache.join("current/client.crt"), cache.join("current/client.key"));
    let (good_certificate, good_key) = (fs::read(&certificate).unwrap(), fs::read(&key).unwrap());
    let other = portcullis_pki::KeyPair::generate().unwrap().to_pem();
    for (path, damage) in [
        (&certificate, Some(b"damaged".to_vec())),
        (&certificate, None),
        (&key, Some(b"damaged".to_vec())),
        (&key, Some(other.into_bytes())),
        (&key, None),
    ] {
        let target = fs::canonicalize(cache.join("current")).unwrap();
        for (file, good) in [("client.crt", &good_certificate), ("client.key", &good_key)] {
            fs::write(target.join(file), good).unwrap();
        }
        match &damage {
            Some(damage) => fs::write(path, damage).unwrap(),
            None => fs::remove_file(path).unwrap(),
        }
        if target.join("client.key").exists() {
            chmod(&target.join("client.key"), 0o600);
        }
        cluster.attest(&["reset", "node-a", "--reason", "test"]).ok();
        let done = cluster.run(&MACHINE, &INSECURE);
        assert_eq!(done.code, 0, "{path:?}: {done:#?}\n{}", cluster.log());
        assert!(done.stderr.contains("cacheUnusable"), "{done:#?}");
        assert_ne!(fs::read_link(cache.join("current")).unwrap(), target.file_name().unwrap());
    }
    // The one before the current one is kept, and no other.
    let generations = fs::read_dir(&cache).unwrap().filter(|entry| name(entry).starts_with("gen-")).count();
    assert_eq!(generations, 2);
}

#[test]
fn without_any_credential_there_is_nothing_to_ask_with_at_31() {
    let cluster = insecure();
    fs::remove_file(cluster.path("bootstrap.kubeconfig")).unwrap();
    let done = failed(&cluster.run(&MACHINE, &INSECURE), 3);
    assert!(done["message"].as_str().unwrap().contains("bootstrap.kubeconfig does not exist"), "{done}");
}

#[test]
fn a_node_that_has_a_certificate_does_not_renew_by_the_insecure_attestor_at_92() {
    let cluster = insecure();
    assert_eq!(cluster.run(&MACHINE, &INSECURE).code, 0, "{}", cluster.log());
    let renewed = cluster.run(&MACHINE, &["--attestor", "insecure", "--max-age", "1s"]);
    assert_eq!(renewed.code, 0, "the old one is used: {renewed:#?}");
    assert!(renewed.stderr.contains("RotationNotSupported"), "{renewed:#?}");
    // Somebody else with the token does not become the node.
    let other = Machine { cache: "other", ..MACHINE };
    let refused = failed(&cluster.run(&other, &INSECURE), 4);
    assert!(refused["message"].as_str().unwrap().starts_with("TofuMismatch"), "{refused}");
}

fn mode(path: &std::path::Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn chmod(path: &std::path::Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn name(entry: &std::io::Result<fs::DirEntry>) -> String {
    entry.as_ref().unwrap().file_name().into_string().unwrap()
}
