//! The controller as a program: replicas, files, and the offline verifier.

use std::process::Stdio;

use portcullis_testkit::health::{free_port, probe};
use portcullis_testkit::metrics::assert_documented;
use portcullis_testkit::software_tpm::Manufacturer;
use portcullis_testkit::wait;

use crate::attest::support::{Cluster, Finished, Machine, TPM, entry};

#[test]
fn a_replica_that_is_killed_between_challenge_and_proof_is_replaced_and_issues_once_at_102() {
    let manufacturer = Manufacturer::new();
    let tpm = manufacturer.make("node-a");
    let cluster = Cluster::alone(TPM, &entry("node-a", ""));
    Cluster::trust(cluster.scratch.path(), &manufacturer);
    let short = [
        "--leader-elect-lease-duration",
        "3s",
        "--leader-elect-renew-deadline",
        "2s",
        "--leader-elect-retry-period",
        "500ms",
    ];
    let first = cluster.controller(&short);
    let machine = Machine::with_tpm("node-a", &tpm);
    let mut command = cluster.credential(&machine, &["--once"]);
    let mut node = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut admin = cluster.admin();
    wait::until("the challenge is there", || {
        cluster
            .requests()
            .iter()
            .any(|csr| csr["metadata"]["annotations"]["portcullis.dev/challenge"].is_string())
    });
    first.kill();
    let _second = cluster.controller(&short);
    let done = node.wait().unwrap();
    assert!(done.success(), "{}", std::io::read_to_string(node.stderr.take().unwrap()).unwrap());
    cluster.openssl_accepts(&machine);
    let issued = cluster.requests().iter().filter(|csr| csr["status"]["certificate"].is_string()).count();
    assert_eq!(issued, 1);
    let maps = admin.must(200, "GET", "/api/v1/namespaces/kube-system/configmaps", None);
    let names: Vec<&str> =
        maps["items"].as_array().unwrap().iter().filter_map(|map| map["metadata"]["name"].as_str()).collect();
    let count = |prefix: &str| names.iter().filter(|name| name.starts_with(prefix)).count();
    assert_eq!((count("portcullis-identity-"), count("portcullis-device-")), (1, 1), "{names:?}");
}

#[test]
fn all_checks_of_a_request_are_printed_without_a_server_at_192() {
    let manufacturer = Manufacturer::new();
    let tpm = manufacturer.make("node-a");
    let cluster = Cluster::trusting(TPM, &entry("node-a", ""), &manufacturer);
    assert_eq!(cluster.run(&Machine::with_tpm("node-a", &tpm), &["--once"]).code, 0, "{}", cluster.log());
    let requests = cluster.requests();
    let of = |has: bool| requests.iter().find(|csr| csr["status"]["certificate"].is_string() == has).unwrap();
    let write = |name: &str, value: &serde_json::Value| {
        cluster.scratch.write(name, value.to_string()).display().to_string()
    };
    let (first, second) = (write("first.json", of(false)), write("second.json", of(true)));
    let path = "/api/v1/namespaces/kube-system/secrets/portcullis-attestation-keys";
    let keys = write("keys.json", &cluster.admin().must(200, "GET", path, None));
    let config = cluster.path("attest.yaml").display().to_string();
    let verify = |words: &[&str]| {
        let mut command = portcullis_testkit::program!().command(["attest", "verify", "--config", &config]);
        Finished::of(command.args(words))
    };
    let good = verify(&["--csr", &second, "--earlier", &first, "--keys", &keys]);
    assert_eq!(good.code, 0, "{good:#?}");
    assert!(good.stdout.contains("the node would get a certificate (key class K2)"), "{good:#?}");
    for rule in
        ["AT-60", "AT-62", "AT-69", "AT-103", "AT-119.1 ", "AT-119.8", "AT-119.15", "AT-151", "AT-156"]
    {
        assert!(good.stdout.contains(rule), "{rule}: {good:#?}");
    }
    let unknown = verify(&["--csr", &second, "--earlier", &first]);
    assert_eq!(unknown.code, 1, "{unknown:#?}");
    assert!(unknown.stdout.contains("refused: ChallengeInvalid (AT-103)"), "{unknown:#?}");
    let late =
        verify(&["--csr", &second, "--earlier", &first, "--keys", &keys, "--now", "2099-01-01T00:00:00Z"]);
    assert_eq!(late.code, 1, "{late:#?}");
    assert!(late.stdout.contains("the challenge has expired"), "{late:#?}");
    let bad = verify(&["--csr", "/nonexistent"]);
    assert_eq!(bad.code, 2, "{bad:#?}");
}

#[test]
fn a_configuration_that_would_let_nobody_in_or_anybody_is_refused_at_132() {
    let cluster = Cluster::alone(TPM, &entry("node-a", ""));
    let config = cluster.path("attest.yaml").display().to_string();
    for (rules, inventory, wrong) in [
        ("authorizedAttestors: []\n", entry("node-a", ""), "authorizedAttestors is empty"),
        ("authorizedAttestors: [null]\n", entry("node-a", ""), "authorizedAttestors"),
        ("authorizedAttestors: ['null']\n", entry("node-a", ""), "is not an attestor"),
        ("authorizedAttestors: [tpm]\ntpm: {trust: none}\n", entry("node-a", ""), "tpm.trust"),
        ("authorizedAttestors: [tpm]\ntpm: {trust: cert}\n", entry("node-a", ""), "tpm.roots"),
        (
            "authorizedAttestors: [tpm]\ntpm: {trust: cert, roots: missing.pem}\n",
            entry("node-a", ""),
            "missing.pem",
        ),
        ("authorizedAttestors: [tpm]\ntpm: {trust: hash, minimumKeyClass: K0}\n", entry("node-a", ""), "K0"),
        ("authorizedAttestors: [insecure]\nunknown: 1\n", entry("node-a", ""), "unknown"),
        (
            "authorizedAttestors: [insecure]\n",
            entry("node-a", "") + &entry("node-a", ""),
            "it is in the inventory already",
        ),
        ("authorizedAttestors: [insecure]\n", entry("Node_A", ""), "not the name of a node"),
        (
            "authorizedAttestors: [insecure]\n",
            entry("node-a", ", endorsementKeys: ['sha256:12']"),
            "64 hexadecimal",
        ),
    ] {
        cluster.configure(rules, &inventory);
        let mut command = portcullis_testkit::program!().command(["attest", "verify", "--config", &config]);
        let done = Finished::of(command.args(["--csr", "/nonexistent"]));
        assert_eq!(done.code, 2, "{rules}: {done:#?}");
        assert!(done.stderr.contains(wrong), "{rules}: {done:#?}");
    }
}

#[test]
fn the_manifests_grant_what_it_needs_and_nothing_is_refused_at_87() {
    let manufacturer = Manufacturer::new();
    let tpm = manufacturer.make("node-a");
    let cluster = Cluster::alone(TPM, &entry("node-a", ""));
    Cluster::trust(cluster.scratch.path(), &manufacturer);
    let kubeconfig = cluster.deploy(&["rbac.yaml", "deployment.yaml"]);
    let flags = ["--leader-elect-resource-namespace=portcullis", "--namespace=portcullis"];
    let controller = cluster.controller_as(&kubeconfig, &flags);
    let machine = Machine::with_tpm("node-a", &tpm);
    let done = cluster.run(&machine, &["--once"]);
    assert_eq!(done.code, 0, "{done:#?}\n{}", controller.log());
    // A refusal writes its Event as well.
    let other = manufacturer.make("other");
    let swapped = Machine { cache: "swapped", ..Machine::with_tpm("node-a", &other) };
    crate::attest::support::failed(&cluster.run(&swapped, &["--once"]), 4);
    wait::until("the event is there", || {
        let events = cluster.admin().must(200, "GET", "/api/v1/namespaces/default/events", None);
        events["items"].as_array().unwrap().iter().any(|event| event["reason"] == "TofuMismatch")
    });
    assert!(!controller.log().contains("forbidden"), "{}", controller.log());
}

#[test]
fn a_machine_of_the_cluster_api_is_attested_and_its_record_dies_with_it_at_62_at_153() {
    let manufacturer = Manufacturer::new();
    let tpm = manufacturer.make("node-a");
    let cluster = Cluster::alone(TPM, "");
    Cluster::trust(cluster.scratch.path(), &manufacturer);
    cluster.scratch.write("attest.yaml", format!("{TPM}machines: {{apis: [cluster.x-k8s.io]}}\n"));
    let machines = "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/machines";
    let mut admin = cluster.admin();
    let mut create = |provider_id: &str| {
        let machine = serde_json::json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": {"name": "node-a"},
            "spec": {"clusterName": "c", "bootstrap": {}, "infrastructureRef": {}, "providerID": provider_id},
        });
        let mut made = admin.must(201, "POST", machines, Some(&machine));
        made["status"] = serde_json::json!({"conditions": [{"type": "BootstrapConfigReady", "status": "True",
            "reason": "Ready", "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
        admin.must(200, "PUT", &format!("{machines}/node-a/status"), Some(&made))
    };
    let controller = cluster.controller(&[]);
    create("metal://node-a");
    let node = Machine::with_tpm("node-a", &tpm);
    let done = cluster.run(&node, &["--once"]);
    assert_eq!(done.code, 0, "{done:#?}\n{}", controller.log());
    let records = || -> Vec<serde_json::Value> {
        let maps = cluster.admin().must(200, "GET", "/api/v1/namespaces/default/configmaps", None);
        let is_record = |map: &&serde_json::Value| {
            map["metadata"]["name"].as_str().is_some_and(|name| name.starts_with("portcullis-identity-"))
        };
        maps["items"].as_array().unwrap().iter().filter(is_record).cloned().collect()
    };
    assert_eq!(records()[0]["metadata"]["ownerReferences"][0]["kind"], "Machine");
    // A machine that replaces it, with the same chip, joins without anybody's help.
    cluster.admin().must(200, "DELETE", &format!("{machines}/node-a"), None);
    wait::until("the record is gone", || records().is_empty());
    create("metal://node-a");
    let again = Machine { cache: "again", ..node };
    let done = cluster.run(&again, &["--once"]);
    assert_eq!(done.code, 0, "{done:#?}\n{}", controller.log());
    // Another provider ID is another machine.
    cluster.admin().must(200, "DELETE", &format!("{machines}/node-a"), None);
    create("metal://other");
    let refused =
        crate::attest::support::failed(&cluster.run(&Machine { cache: "third", ..node }, &["--once"]), 4);
    assert!(refused["message"].as_str().unwrap().starts_with("ProviderIDMismatch: AT-62"), "{refused}");
}

#[test]
fn the_program_has_no_attestor_that_approves_everything_at_7_at_210() {
    let program = portcullis_testkit::program!().command(["--version"]).get_program().to_owned();
    let bytes = std::fs::read(program).unwrap();
    let has = |mark: &str| bytes.windows(mark.len()).any(|window| window == mark.as_bytes());
    // What the attestor `insecure` says is there, so the search finds what there is.
    assert!(has("the attestor insecure does not renew certificates"));
    assert!(!has("portcullis-null-attestor-approves-every-machine"));
}

#[test]
fn machines_are_enrolled_in_an_inventory_that_stays_valid_at_100_at_112() {
    let folder = portcullis_testkit::scratch::Scratch::new();
    let path = folder.path().join("inventory.yaml");
    let enroll = |words: &[&str]| {
        let mut command = portcullis_testkit::program!().command(["attest", "enroll", "--inventory"]);
        Finished::of(command.arg(&path).args(words))
    };
    let digest = format!("sha256:{}", "ab".repeat(32));
    let keys =
        ["node-a", "--provider-id", "metal://a", "--endorsement-key", &digest, "--address", "10.0.0.7"];
    assert!(enroll(&keys).ok().contains("(1 machines)"));
    let before = std::fs::read_to_string(&path).unwrap();
    for (words, wrong) in [
        (&keys[..], "machine \"node-a\": it is in the inventory already"),
        (&["node-b", "--provider-id", "metal://b", "--endorsement-key", &digest], "the same"),
        (&["node-b", "--provider-id", "metal://b", "--endorsement-key", "sha256:12"], "64 hexadecimal"),
        (&["Node_B", "--provider-id", "metal://b"], "not the name of a node"),
        (&["node-b", "--provider-id", "metal://b", "--address", "a b"], "neither an IP address"),
    ] {
        let done = enroll(words);
        assert_eq!(done.code, 2, "{done:#?}");
        assert!(done.stderr.contains(wrong), "{done:#?}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), before, "nothing changed");
    }
    // A secret for the machine, and its digest for the controller, as OpenSSL computes it.
    let secret = folder.path().join("secret").display().to_string();
    enroll(&["node-s", "--provider-id", "metal://s", "--new-secret-file", &secret]).ok();
    let text = std::fs::read_to_string(&secret).unwrap();
    folder.write("raw", text.trim());
    let computed = portcullis_testkit::tool::openssl(folder.path(), "dgst -sha256 -r raw");
    let computed = computed.split_whitespace().next().unwrap();
    assert!(std::fs::read_to_string(&path).unwrap().contains(computed));
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&secret).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    // Comments and the form of a file by hand stay.
    std::fs::write(&path, "# rack 1\nmachines:\n  - {nodeName: x, providerID: 'metal://x'}").unwrap();
    enroll(&["node-y", "--provider-id", "metal://y"]).ok();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("# rack 1\n") && text.lines().count() == 4, "{text}");
}

#[test]
fn while_the_records_cannot_be_read_nobody_is_let_in_and_nobody_is_turned_away_at_154_at_206() {
    let manufacturer = Manufacturer::new();
    let tpm = manufacturer.make("node-a");
    let cluster = Cluster::alone(TPM, &entry("node-a", ""));
    Cluster::trust(cluster.scratch.path(), &manufacturer);
    let kubeconfig = cluster.deploy(&["rbac.yaml"]);
    // The rights without those to ConfigMaps.
    let path = "/apis/rbac.authorization.k8s.io/v1/namespaces/portcullis/roles/portcullis-attest";
    let mut admin = cluster.admin();
    let whole = admin.must(200, "GET", path, None);
    let mut role = whole.clone();
    role["rules"].as_array_mut().unwrap().retain(|rule| rule["resources"][0] != "configmaps");
    role["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    admin.must(200, "PUT", path, Some(&role));
    let port = free_port();
    let address = format!("127.0.0.1:{port}");
    let controller = cluster.controller_as(
        &kubeconfig,
        &[
            "--leader-elect-resource-namespace=portcullis",
            "--namespace=portcullis",
            "--metrics-bind-address",
            &address,
        ],
    );
    let machine = Machine::with_tpm("node-a", &tpm);
    let mut command = cluster.credential(&machine, &["--once"]);
    let mut node = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let metrics = || probe(port, "/metrics").unwrap_or_default().1;
    wait::until("the request waits for the records", || {
        metrics().contains("result=\"waiting\",reason=\"RecordUnavailable\"")
    });
    let requests = cluster.requests();
    assert!(requests.iter().all(|csr| csr["status"] == serde_json::json!({})), "{requests:#?}");
    let mut whole = whole;
    whole["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    admin.must(200, "PUT", path, Some(&whole));
    let done = node.wait().unwrap();
    assert!(
        done.success(),
        "{}\n{}",
        std::io::read_to_string(node.stderr.take().unwrap()).unwrap(),
        controller.log()
    );
    cluster.openssl_accepts(&machine);
    wait::until("the certificate is counted", || metrics().contains("issued_certificates_total{"));
    assert_documented(&["attest"], &metrics());
}
