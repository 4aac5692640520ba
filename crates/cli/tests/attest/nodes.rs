//! Machines that prove themselves, and get certificates for their own names.

use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::software_tpm::Manufacturer;
use portcullis_testkit::wait;
use serde_json::{Value, json};

use crate::attest::support::{Cluster, Machine, TPM, ek_digest, entry};

#[test]
fn two_machines_with_a_tpm_each_get_certificates_for_their_own_names_at_101_at_116() {
    let manufacturer = Manufacturer::new();
    let (one, two) = (manufacturer.make("node-a"), manufacturer.make("node-b"));
    let keys = [&one, &two].map(|tpm| format!(", endorsementKeys: ['{}']", ek_digest(&manufacturer, tpm)));
    let inventory = entry("node-a", &keys[0]) + &entry("node-b", &keys[1]);
    let rules = TPM.replace("trust: cert", "trust: cert-and-hash");
    let cluster = start(&rules, &inventory, &manufacturer);
    for (name, tpm) in [("node-a", &one), ("node-b", &two)] {
        let machine = Machine::with_tpm(name, tpm);
        let done = cluster.run(&machine, &["--once"]);
        assert_eq!((done.code, done.stdout.as_str()), (0, ""), "{done:#?}\n{}", cluster.log());
        let text = cluster.openssl_accepts(&machine);
        for part in
            ["TLS Web Client Authentication", "CA:FALSE", "Digital Signature", "1.3.6.1.4.1.11129.2.1.21"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        // The key never left the TPM: what is on disk can be loaded by no other (K2).
        assert!(cluster.path(name).join("current/client.tpm").exists());
        assert!(!cluster.path(name).join("current/client.key").exists());
    }
    // Each asked twice; the first request was denied once the second one was signed (AT-101).
    wait::until("the first requests are superseded", || {
        let requests = cluster.requests();
        let reason =
            |csr: &Value| csr["status"]["conditions"][0]["reason"].as_str().unwrap_or_default().to_owned();
        let count = |wanted: &str| requests.iter().filter(|csr| reason(csr) == wanted).count();
        requests.len() == 4 && count("ChallengeSuperseded") == 2 && count("AttestationVerified") == 2
    });
    // Used again without a request, and without the TPM (AT-15).
    one.stop();
    let again = cluster.run(&Machine::with_tpm("node-a", &one), &["--once"]);
    assert_eq!((again.code, again.stdout.as_str()), (0, ""));
    let told: Value = serde_json::from_str(&again.stderr).unwrap();
    assert_eq!((&told["event"], &told["level"]), (&json!("cached"), &json!("info")), "{told}");
    assert_eq!(told["notAfter"], json!(cluster.openssl_end("node-a")));
    assert_eq!(cluster.requests().len(), 4);
    let listed = cluster.attest(&["records"]).ok();
    for part in ["node-a", "node-b", "tpm", "K2", "Active"] {
        assert!(listed.contains(part), "{part}: {listed}");
    }
}

#[test]
fn a_machine_has_its_certificate_within_two_seconds_at_101() {
    let manufacturer = Manufacturer::new();
    let tpm = manufacturer.make("node-a");
    let cluster = start(TPM, &entry("node-a", ""), &manufacturer);
    // Machines of tests are slow in bursts: one of a few attempts must do it.
    let times: Vec<_> = (0..4)
        .map(|number| {
            let cache = format!("cache-{number}");
            let machine = Machine { cache: &cache, ..Machine::with_tpm("node-a", &tpm) };
            let began = std::time::Instant::now();
            assert_eq!(cluster.run(&machine, &["--once"]).code, 0, "{}", cluster.log());
            began.elapsed()
        })
        .collect();
    assert!(times.iter().any(|time| time.as_secs() < 2), "{times:?}");
}

#[test]
fn keys_of_all_classes_are_attested_by_rsa_and_ecc_endorsement_keys_at_205() {
    let manufacturer = Manufacturer::new();
    let tpm = manufacturer.make("node-a");
    let rules = TPM.replace("requireCreation: true", "minimumKeyClass: K1");
    let cluster = start(&rules, &entry("node-a", ""), &manufacturer);
    for (number, (kind, class)) in
        [("rsa2048", "K1"), ("rsa2048", "K2"), ("rsa2048", "K3")].into_iter().enumerate()
    {
        let cache = format!("cache-{number}");
        let machine = Machine { cache: &cache, ..Machine::with_tpm("node-a", &tpm) };
        let flags = ["--once", "--tpm-endorsement-key", kind, "--key-class", class];
        let done = cluster.run(&machine, &flags);
        assert_eq!(done.code, 0, "{kind} {class}: {done:#?}\n{}", cluster.log());
        cluster.openssl_accepts(&machine);
    }
    // The other endorsement key is another device: an administrator says that it is the same machine.
    cluster.attest(&["reset", "node-a", "--reason", "the other endorsement key"]).ok();
    let machine = Machine { cache: "cache-ecc", ..Machine::with_tpm("node-a", &tpm) };
    let done = cluster.run(&machine, &["--once", "--tpm-endorsement-key", "p384", "--key-class", "K2"]);
    assert_eq!(done.code, 0, "{done:#?}\n{}", cluster.log());
    cluster.openssl_accepts(&machine);
}

#[test]
fn a_plugin_hands_out_a_key_that_the_tpm_certified_and_renews_it_at_118_at_123() {
    let manufacturer = Manufacturer::new();
    let tpm = manufacturer.make("node-a");
    let rules = TPM.replace("requireCreation: true", "minimumKeyClass: K1");
    let cluster = start(&rules, &entry("node-a", ""), &manufacturer);
    let machine = Machine::with_tpm("node-a", &tpm);
    let flags = ["--key-class", "K1"];
    let first = cluster.run(&machine, &flags);
    assert_eq!(first.code, 0, "{first:#?}\n{}", cluster.log());
    let (certificate, key) = pair(&first.stdout);
    // The API server knows the node by it.
    let write = |name: &str, text: &str| cluster.scratch.write(name, text);
    let identity = Identity::read(
        &cluster.path("data/ca.crt"),
        &write("node.crt", &certificate),
        &write("node.key", &key),
    );
    let mut node = Client::new(cluster.address, &identity);
    let review = serde_json::json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let answer = node.must(201, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", Some(&review));
    assert_eq!(answer["status"]["userInfo"]["username"], "system:node:node-a");
    // The same certificate again, byte for byte.
    assert_eq!(pair(&cluster.run(&machine, &flags).stdout).0, certificate);
    // A renewal proves the machine again, in the node's own name, with a new key. The TPM was restarted.
    tpm.restart();
    let renewed = cluster.run(&machine, &["--key-class", "K1", "--max-age", "1s"]);
    assert_eq!(renewed.code, 0, "{renewed:#?}");
    let (new_certificate, new_key) = pair(&renewed.stdout);
    assert!(new_certificate != certificate && new_key != key, "{renewed:#?}\n{}", cluster.log());
    let users: Vec<String> =
        cluster.requests().iter().map(|csr| csr["spec"]["username"].as_str().unwrap().to_owned()).collect();
    assert_eq!(users.iter().filter(|user| *user == "system:node:node-a").count(), 2, "{users:?}");
}

#[test]
fn an_enrolled_key_and_a_one_time_secret_prove_a_machine_at_100_at_104() {
    let folder = portcullis_testkit::scratch::Scratch::new();
    let openssl = |words: &str| portcullis_testkit::tool::openssl(folder.path(), words);
    openssl("genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-384 -out enrolled.key");
    openssl("pkey -in enrolled.key -pubout -out enrolled.pub");
    folder.write("secret", "correct horse battery staple\n");
    folder.write("secret.raw", "correct horse battery staple");
    let digest = openssl("dgst -sha256 -r secret.raw");
    let digest = digest.split_whitespace().next().unwrap();
    for file in ["enrolled.key", "secret"] {
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(folder.path().join(file), private).unwrap();
    }
    let public = std::fs::read_to_string(folder.path().join("enrolled.pub")).unwrap().replace('\n', "\\n");
    let inventory = entry("node-k", &format!(", publicKey: \"{public}\""))
        + &entry("node-s", &format!(", secretDigest: 'sha256:{digest}'"))
        + &entry("node-x", "");
    let cluster = Cluster::start("authorizedAttestors: [challenge]\n", &inventory);
    let key = folder.path().join("enrolled.key").display().to_string();
    let secret = folder.path().join("secret").display().to_string();
    let by_key = ["--attestor", "challenge", "--challenge-key-file", &key];
    let by_secret = ["--attestor", "challenge", "--challenge-secret-file", &secret];
    let of = |name, cache| Machine { name, cache, tpm: None };
    for (machine, flags) in [(of("node-k", "k"), by_key), (of("node-s", "s"), by_secret)] {
        let done = cluster.run(&machine, &flags);
        assert_eq!(done.code, 0, "{done:#?}\n{}", cluster.log());
        pair(&done.stdout);
        cluster.openssl_accepts(&machine);
    }
    // The enrolled key renews; the secret was good for once (AT-104).
    let again = cluster.run(&of("node-k", "k2"), &by_key);
    assert_eq!(again.code, 0, "{again:#?}");
    for (machine, flags, reason) in [
        (of("node-s", "s2"), by_secret, "EnrolmentUsed"),
        (of("node-x", "x"), by_key, "NotEnrolled"),
        (of("node-k", "k3"), by_secret, "AnswerInvalid"),
    ] {
        let refused = crate::attest::support::failed(&cluster.run(&machine, &flags), 4);
        assert!(refused["message"].as_str().unwrap().starts_with(reason), "{refused}");
    }
    // A machine that nobody knows may still be enrolled: it waits, and the log of the controller says for what.
    let waits = [&by_key[..], &["--attestation-wait", "3s"]].concat();
    let unknown = cluster.run(&of("node-u", "u"), &waits);
    assert_eq!(unknown.code, 1, "{unknown:#?}");
    let log = cluster.log();
    let told: Vec<&str> = log.lines().filter(|line| line.contains("a certificate request waits")).collect();
    assert_eq!(told.len(), 1, "{log}");
    assert!(told[0].contains("MachineNotFound: AT-62"), "{told:?}");
}

fn start(rules: &str, inventory: &str, manufacturer: &Manufacturer) -> Cluster {
    Cluster::trusting(rules, inventory, manufacturer)
}

/// The certificate and the key that a plugin printed.
#[track_caller]
fn pair(stdout: &str) -> (String, String) {
    let printed: Value = serde_json::from_str(stdout).unwrap_or_else(|e| panic!("{e}: {stdout}"));
    let text = |name: &str| printed["status"][name].as_str().unwrap().to_owned();
    assert_eq!(printed["kind"], "ExecCredential");
    (text("clientCertificateData"), text("clientKeyData"))
}

#[test]
fn a_person_at_the_machine_sees_the_tpm_and_the_cache_at_193() {
    let manufacturer = Manufacturer::new();
    let tpm = manufacturer.make("node-a");
    let cluster = start(TPM, &entry("node-a", ""), &manufacturer);
    let cache = cluster.path("node-a").display().to_string();
    let inspect = |cache: &str| {
        let mut command = portcullis_testkit::program!().command(["credential", "inspect", "--tpm"]);
        command.arg(tpm.connection()).args(["--cache-dir", cache]);
        crate::attest::support::Finished::of(&mut command)
    };
    let before = inspect(&cache).ok();
    // The digest is the one that tpm2-tools and openssl compute.
    assert!(
        before.contains(&format!("rsa2048           yes           {}", ek_digest(&manufacturer, &tpm))),
        "{before}"
    );
    assert!(before.contains("does not exist"), "{before}");
    assert_eq!(cluster.run(&Machine::with_tpm("node-a", &tpm), &["--once"]).code, 0, "{}", cluster.log());
    let after = inspect(&cache).ok();
    assert!(after.contains("usable; node node-a, attestor tpm, key in the TPM, valid until 20"), "{after}");
    tpm.stop();
    let gone = inspect(&cache);
    assert_eq!(gone.code, 3, "{gone:#?}");
}
