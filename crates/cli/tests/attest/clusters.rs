//! Several workload clusters behind one controller.

use portcullis_testkit::program;
use portcullis_testkit::program::Running;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::software_tpm::Manufacturer;

use crate::attest::support::{Cluster, Finished, Machine, TPM, entry, failed};

/// The entry of a cluster in the file, whose folder is another one.
fn listed(name: &str, cluster: &Cluster) -> String {
    let path = |file: &str| cluster.path(file).display().to_string();
    format!(
        "- name: {name}\n  kubeconfig: {}\n  config: {}\n  signingCertFile: {}\n  signingKeyFile: {}\n",
        path("data/admin.kubeconfig"),
        path("attest.yaml"),
        path("data/ca.crt"),
        path("data/ca.key")
    )
}

#[test]
fn one_controller_serves_several_clusters_and_a_chip_belongs_to_one_machine_of_one_at_152() {
    let manufacturer = Manufacturer::new();
    let (one, two) = (manufacturer.make("one"), manufacturer.make("two"));
    let clusters = ["a", "b"].map(|_| Cluster::alone(TPM, &entry("node-1", "")));
    clusters.iter().for_each(|cluster| Cluster::trust(cluster.scratch.path(), &manufacturer));
    let [a, b] = &clusters;
    let folder = Scratch::new();
    let file = folder.write("clusters.yaml", format!("clusters:\n{}{}", listed("a", a), listed("b", b)));
    let management = a.path("data/admin.kubeconfig");
    let mut command = program!().command(["attest", "--clusters"]);
    let controller = Running::spawn({
        command.arg(&file).arg("--management-kubeconfig").arg(&management);
        command
    });
    let machine = Machine::with_tpm("node-1", &one);
    let done = a.run(&machine, &["--once"]);
    assert_eq!(done.code, 0, "{done:#?}\n{}", controller.log());
    a.openssl_accepts(&machine);
    // The same chip in the other cluster: there is a machine with the same name and the same UID, which is another one.
    let refused = failed(&b.run(&machine, &["--once"]), 4);
    assert!(refused["message"].as_str().unwrap().starts_with("EkInUse: AT-152"), "{refused}");
    let other = Machine { cache: "other", ..Machine::with_tpm("node-1", &two) };
    let done = b.run(&other, &["--once"]);
    assert_eq!(done.code, 0, "{done:#?}\n{}", controller.log());
    // The records of both are on one server.
    let listed = a.attest(&["records"]).ok();
    assert_eq!(listed.matches("node-1").count(), 2, "{listed}");
    assert!(listed.contains("CLUSTER"), "{listed}");
    let ambiguous = a.attest(&["revoke", "node-1", "--reason", "stolen"]);
    assert_eq!(ambiguous.code, 1, "{ambiguous:#?}");
    a.attest(&["revoke", "node-1", "--reason", "stolen", "--cluster", "b"]).ok();
    let records = a.attest(&["records", "--cluster", "b", "-o", "json"]).ok();
    let records: serde_json::Value = serde_json::from_str(&records).unwrap();
    assert_eq!(records[0]["state"], "Revoked");
    let note = records[0]["stateNote"].as_str().unwrap();
    assert!(note.ends_with(": stolen") && note.len() > ": stolen".len(), "who did it, and why: {note}");
    // The machine of the first cluster renews as before, that of the second does not.
    let again = Machine { cache: "again", ..machine };
    assert_eq!(a.run(&again, &["--once"]).code, 0, "{}", controller.log());
    let revoked = failed(&b.run(&Machine { cache: "revoked", ..other }, &["--once"]), 4);
    assert!(revoked["message"].as_str().unwrap().starts_with("IdentityRevoked"), "{revoked}");
}

#[test]
fn a_file_of_clusters_with_a_mistake_is_refused() {
    let folder = Scratch::new();
    let good = "- {name: a, kubeconfig: a, config: c, signingCertFile: d, signingKeyFile: e}\n";
    for (text, wrong) in [
        ("clusters: []\n".to_owned(), "clusters is empty"),
        (format!("clusters:\n{good}{good}"), "it is there twice"),
        (format!("clusters:\n{}", good.replace("name: a", "name: A")), "must be a DNS label"),
        (format!("clusters:\n{}", good.replace("kubeconfig: a, ", "")), "kubeconfig is missing"),
        (format!("clusters:\n{}", good.replace("config: c", "configs: c")), "configs"),
        (format!("clusters:\n{good}"), "cannot read"),
    ] {
        let file = folder.write("clusters.yaml", &text);
        let mut command = program!().command(["attest", "--clusters"]);
        let done = Finished::of(command.arg(file));
        assert_eq!(done.code, 2, "{text}: {done:#?}");
        assert!(done.stderr.contains(wrong), "{text}: {done:#?}");
    }
}
