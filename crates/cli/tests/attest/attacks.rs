//! What is refused, each attack by its name.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use portcullis_testkit::software_tpm::{Manufacturer, SoftwareTpm};
use portcullis_testkit::wait;
use serde_json::{Value, json};

use crate::attest::support::{Cluster, Machine, REQUESTS, TPM, ek_digest, entry, failed, openssl};

#[test]
fn an_impostor_with_a_valid_bootstrap_token_gets_no_certificate_at_145() {
    let manufacturer = Manufacturer::new();
    let (tpm, thief) = (manufacturer.make("node-a"), manufacturer.make("thief"));
    let key = ek_digest(&manufacturer, &tpm);
    let rules = TPM.replace("trust: cert", "trust: cert-and-hash");
    let cluster =
        Cluster::trusting(&rules, &entry("node-a", &format!(", endorsementKeys: ['{key}']")), &manufacturer);
    // With a genuine TPM of its own.
    let impostor = Machine { cache: "thief", ..Machine::with_tpm("node-a", &thief) };
    let refused = failed(&cluster.run(&impostor, &["--once"]), 4);
    assert!(refused["message"].as_str().unwrap().starts_with("EkNotForMachine: AT-119.6"), "{refused}");
    // A refused node asks for nothing more for a while (AT-35).
    let count = cluster.requests().len();
    let refused = failed(&cluster.run(&impostor, &["--once"]), 4);
    let message = refused["message"].as_str().unwrap();
    assert!(message.starts_with("EkNotForMachine: AT-119.6"), "{refused}");
    assert!(message.contains("no new request before"), "{refused}");
    assert_eq!(cluster.requests().len(), count);
    // With the token alone, for each signer that there is.
    for (signer, reason) in [
        ("cluster.x-k8s.io/kube-apiserver-client-kubelet-tpm", "MalformedAttestation"),
        ("cluster.x-k8s.io/kube-apiserver-client-kubelet-insecure", "AttestorNotAuthorized"),
        ("cluster.x-k8s.io/kube-apiserver-client-kubelet-challenge", "AttestorNotAuthorized"),
    ] {
        assert_eq!(cluster.refusal(&bare_request(&cluster, signer)), reason, "{signer}");
    }
    // Nobody approves for the signer of kubelets: there is no automatic approval.
    let name = bare_request(&cluster, "kubernetes.io/kube-apiserver-client-kubelet");
    let own = Machine::with_tpm("node-a", &tpm);
    assert_eq!(cluster.run(&own, &["--once"]).code, 0, "the machine itself still joins: {}", cluster.log());
    let csr = cluster.admin().must(200, "GET", &format!("{REQUESTS}/{name}"), None);
    assert_eq!(csr["status"], json!({}), "pending for ever");
    // And no other request got a certificate.
    let issued = cluster.requests().iter().filter(|csr| csr["status"]["certificate"].is_string()).count();
    assert_eq!(issued, 1);
}

#[test]
fn a_copied_disk_is_worth_nothing_without_its_tpm_at_206() {
    let manufacturer = Manufacturer::new();
    let (tpm, thief) = (manufacturer.make("node-a"), manufacturer.make("thief"));
    let cluster = Cluster::trusting(TPM, &entry("node-a", ""), &manufacturer);
    assert_eq!(cluster.run(&Machine::with_tpm("node-a", &tpm), &["--once"]).code, 0, "{}", cluster.log());
    // Everything that is on the disk, at another machine, which needs a new certificate.
    copy(&cluster, "node-a", "copied");
    let copied = Machine { cache: "copied", ..Machine::with_tpm("node-a", &thief) };
    let renewed = cluster.run(&copied, &["--once", "--max-age", "1s"]);
    assert!(renewed.stderr.contains("TofuMismatch: AT-151"), "{renewed:#?}");
    let issued = cluster.requests().iter().filter(|csr| csr["status"]["certificate"].is_string()).count();
    assert_eq!(issued, 1, "what is there is the old certificate");
    // And its key is one that this TPM cannot use.
    let kept: Value =
        serde_json::from_slice(&fs::read(cluster.path("copied/current/client.tpm")).unwrap()).unwrap();
    let kept = STANDARD.decode(kept["key"].as_str().unwrap()).unwrap();
    let sign = |tpm: &SoftwareTpm| {
        let tpm = portcullis_tpm::Tpm::at(tpm.connection().parse().unwrap());
        tpm.sign_digest(&portcullis_tpm::Wrapped::from_bytes(&kept).unwrap(), None, &[7; 32])
    };
    assert!(sign(&tpm).is_ok());
    assert!(sign(&thief).is_err());
}

#[test]
fn a_swapped_chip_is_refused_until_an_administrator_resets_the_identity_at_151_at_153() {
    let manufacturer = Manufacturer::new();
    let (tpm, other) = (manufacturer.make("node-a"), manufacturer.make("other"));
    let cluster = Cluster::trusting(TPM, &entry("node-a", ""), &manufacturer);
    assert_eq!(cluster.run(&Machine::with_tpm("node-a", &tpm), &["--once"]).code, 0, "{}", cluster.log());
    let swapped = Machine { cache: "swapped", ..Machine::with_tpm("node-a", &other) };
    let refused = failed(&cluster.run(&swapped, &["--once"]), 4);
    assert!(refused["message"].as_str().unwrap().starts_with("TofuMismatch: AT-151"), "{refused}");
    cluster.attest(&["reset", "node-a", "--reason", "the board was replaced"]).ok();
    let swapped = Machine { cache: "swapped-2", ..swapped };
    assert_eq!(cluster.run(&swapped, &["--once"]).code, 0, "{}", cluster.log());
    // Now the old chip is the foreign one.
    let old = Machine { cache: "old", ..Machine::with_tpm("node-a", &tpm) };
    let refused = failed(&cluster.run(&old, &["--once"]), 4);
    assert!(refused["message"].as_str().unwrap().starts_with("TofuMismatch"), "{refused}");
}

#[test]
fn a_second_machine_with_the_same_chip_is_refused_at_152() {
    let manufacturer = Manufacturer::new();
    let tpm = manufacturer.make("node-a");
    let clone = manufacturer.clone_of(&tpm, "clone");
    let cluster = Cluster::trusting(TPM, &(entry("node-a", "") + &entry("node-b", "")), &manufacturer);
    assert_eq!(cluster.run(&Machine::with_tpm("node-a", &tpm), &["--once"]).code, 0, "{}", cluster.log());
    let refused = failed(&cluster.run(&Machine::with_tpm("node-b", &clone), &["--once"]), 4);
    assert!(refused["message"].as_str().unwrap().starts_with("EkInUse: AT-152"), "{refused}");
}

#[test]
fn a_renewal_after_a_revocation_is_refused_at_153_at_157() {
    let manufacturer = Manufacturer::new();
    let tpm = manufacturer.make("node-a");
    let rules = TPM.replace("requireCreation: true", "minimumKeyClass: K1");
    let cluster = Cluster::trusting(&rules, &entry("node-a", ""), &manufacturer);
    let machine = Machine::with_tpm("node-a", &tpm);
    assert_eq!(cluster.run(&machine, &["--key-class", "K1"]).code, 0, "{}", cluster.log());
    let done = cluster.attest(&["revoke", "node-a", "--reason", "stolen"]).ok();
    assert!(done.contains("revoked the identity of node node-a"), "{done}");
    assert!(cluster.attest(&["records"]).ok().contains("Revoked"));
    let renewed = cluster.run(&machine, &["--key-class", "K1", "--max-age", "1s"]);
    // The old certificate is still valid, so it is used; the new one is refused.
    assert_eq!(renewed.code, 0, "{renewed:#?}");
    assert!(renewed.stderr.contains("IdentityRevoked: AT-153"), "{renewed:#?}");
    let fresh = Machine { cache: "fresh", ..machine };
    let refused = failed(&cluster.run(&fresh, &["--key-class", "K1"]), 4);
    assert!(refused["message"].as_str().unwrap().starts_with("IdentityRevoked"), "{refused}");
}

#[test]
fn replayed_evidence_is_refused_at_156() {
    let manufacturer = Manufacturer::new();
    let tpm = manufacturer.make("node-a");
    let cluster = Cluster::trusting(TPM, &entry("node-a", ""), &manufacturer);
    assert_eq!(cluster.run(&Machine::with_tpm("node-a", &tpm), &["--once"]).code, 0, "{}", cluster.log());
    let signed = cluster.requests().into_iter().find(|csr| csr["status"]["certificate"].is_string()).unwrap();
    // The same bytes in a new object, by the same user.
    let copy = json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": "replayed"},
        "spec": {"request": signed["spec"]["request"], "signerName": signed["spec"]["signerName"],
            "usages": signed["spec"]["usages"]},
    });
    cluster.bootstrapper().must(201, "POST", REQUESTS, Some(&copy));
    assert_eq!(cluster.refusal("replayed"), "EvidenceReplayed");
    // The Event tells the rule (AT-191).
    let events = wait::until_some("the event", || {
        let events = cluster.admin().must(200, "GET", "/api/v1/namespaces/default/events", None);
        let events = events["items"].as_array()?.clone();
        events.into_iter().find(|event| event["reason"] == "EvidenceReplayed")
    });
    assert_eq!(events["involvedObject"]["name"], "replayed");
    assert!(events["message"].as_str().unwrap().contains("AT-156"), "{events}");
}

#[test]
fn a_request_that_an_administrator_approved_is_not_signed_without_evidence_at_82() {
    let manufacturer = Manufacturer::new();
    let _tpm = manufacturer.make("node-a");
    let cluster = Cluster::alone(TPM, &entry("node-a", ""));
    Cluster::trust(cluster.scratch.path(), &manufacturer);
    let name = bare_request(&cluster, "cluster.x-k8s.io/kube-apiserver-client-kubelet-tpm");
    let mut admin = cluster.admin();
    let mut csr = admin.must(200, "GET", &format!("{REQUESTS}/{name}"), None);
    csr["status"] = json!({"conditions": [{"type": "Approved", "status": "True", "reason": "Trust"}]});
    admin.must(200, "PUT", &format!("{REQUESTS}/{name}/approval"), Some(&csr));
    let _controller = cluster.controller(&[]);
    assert_eq!(cluster.refusal(&name), "MalformedAttestation");
    let csr = admin.must(200, "GET", &format!("{REQUESTS}/{name}"), None);
    let kinds: Vec<&Value> =
        csr["status"]["conditions"].as_array().unwrap().iter().map(|condition| &condition["type"]).collect();
    assert_eq!(kinds, ["Approved", "Failed"]);
    assert!(csr["status"]["certificate"].is_null());
}

#[test]
fn a_flood_with_one_token_does_not_delay_a_node_with_another_one() {
    const FLOOD: usize = 600;
    let manufacturer = Manufacturer::new();
    let tpm = manufacturer.make("node-a");
    let cluster = Cluster::alone(TPM, &entry("node-a", ""));
    Cluster::trust(cluster.scratch.path(), &manufacturer);
    // For the very node, with names that come first.
    let request = bare_csr(&cluster);
    let mut thief = cluster.other_bootstrapper();
    for number in 0..FLOOD {
        let csr = json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
            "metadata": {"name": format!("aaa-{number}")},
            "spec": {"request": request, "signerName": "cluster.x-k8s.io/kube-apiserver-client-kubelet-tpm",
                "usages": ["digital signature", "client auth"]},
        });
        thief.must(201, "POST", REQUESTS, Some(&csr));
    }
    // The node asks last, and its answers come while the flood is refused.
    let machine = Machine::with_tpm("node-a", &tpm);
    let node = cluster.credential(&machine, &["--once"]).spawn().unwrap();
    wait::until("the node has asked", || cluster.requests().len() > FLOOD);
    let _controller = cluster.controller(&["--leader-elect=false"]);
    let done = node.wait_with_output().unwrap();
    assert!(done.status.success());
    let refused = |csr: &&Value| csr["status"]["conditions"][0]["reason"] == "MalformedAttestation";
    let count = cluster.requests().iter().filter(refused).count();
    assert!(count < FLOOD / 2, "{count} of {FLOOD} came before the node");
    wait::until("all of the flood is refused", || cluster.requests().iter().filter(refused).count() == FLOOD);
}

/// A request by the bootstrap token, without evidence. Returns its name.
fn bare_request(cluster: &Cluster, signer: &str) -> String {
    let request = bare_csr(cluster);
    let csr = json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"generateName": "bare-"},
        "spec": {"request": request, "signerName": signer, "usages": ["digital signature", "client auth"]},
    });
    let made = cluster.bootstrapper().must(201, "POST", REQUESTS, Some(&csr));
    made["metadata"]["name"].as_str().unwrap().to_owned()
}

/// A PKCS#10 request for node-a, in base64.
fn bare_csr(cluster: &Cluster) -> String {
    let folder = cluster.scratch.path();
    openssl(
        folder,
        "req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout bare.key \
        -subj /O=system:nodes/CN=system:node:node-a -out bare.csr",
    );
    openssl(folder, "base64 -A -in bare.csr").trim().to_owned()
}

/// Copies the cache of a machine.
fn copy(cluster: &Cluster, from: &str, to: &str) {
    let (from, to) = (cluster.path(from), cluster.path(to));
    portcullis_testkit::tool::run("cp", ["-a", from.to_str().unwrap(), to.to_str().unwrap()]);
    assert!(fs::exists(to.join("ak.tpm")).unwrap());
}
