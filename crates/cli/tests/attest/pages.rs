//! The page on attestation shows what happens.

use std::process::Command;

use portcullis_testkit::pages;
use portcullis_testkit::program;
use portcullis_testkit::recorded::repository;
use portcullis_testkit::software_tpm::Manufacturer;

use crate::attest::support::{Cluster, ek_digest, entry};

#[test]
fn the_page_on_attestation_shows_what_happens() {
    let manufacturer = Manufacturer::new();
    let (tpm, other) = (manufacturer.make("node-a"), manufacturer.make("other"));
    // The configuration of the page.
    let page = std::fs::read_to_string(repository().join("docs/attestation.md")).unwrap();
    let rules = page.split("# attest.yaml\n").nth(1).unwrap().split("machines:\n").next().unwrap();
    let key = format!(", endorsementKeys: ['{}']", ek_digest(&manufacturer, &tpm));
    let inventory = entry("node-a", &key).replace("metal://node-a", "metal://rack-1/node-a");
    let cluster = Cluster::start(rules, &inventory);
    let page = repository().join("docs/attestation.md");
    let mut examples = pages::examples(&page, "portcullis");
    examples.extend(pages::examples(&page, "openssl"));
    examples.sort_by_key(|example| example.line);
    assert!(examples.len() >= 6);
    for pages::Example { file, line, command, expected } in examples {
        let out = Command::new("bash")
            .args(["-c", &format!("{{ {command}\n}} 2>&1")])
            .current_dir(cluster.scratch.path())
            .env("KUBECONFIG", cluster.path("data/admin.kubeconfig"))
            .env("PATH", program!().search_path())
            .env("TPM", tpm.connection())
            .env("OTHER_TPM", other.connection())
            .env_remove("KUBERNETES_EXEC_INFO")
            .output()
            .unwrap();
        let printed: Vec<String> =
            String::from_utf8(out.stdout).unwrap().lines().map(str::to_owned).collect();
        assert!(
            pages::fits(&expected, &printed),
            "{file}:{line}: {command}\nsays:\n{}\nprints:\n{}\n{}",
            expected.join("\n"),
            printed.join("\n"),
            cluster.log()
        );
    }
}
