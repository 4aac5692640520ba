//! Honest nodes (AT-205).

use std::time::SystemTime;

use portcullis_attestation::tpm::{PcrMode, PcrPolicy, Policy, Trust, enrol};
use portcullis_attestation::{CheckResult, KeyClass, Reason};
use portcullis_pki::tpm::PublicArea;
use portcullis_testkit::software_tpm::Bench;

use crate::fixture::{FIXED, NONCE, Node, hex, is_refused};

#[test]
fn all_evidence_of_an_honest_node_is_verified_at_119_1() {
    let node = Node::new(FIXED, "");
    let report = node.prove(&node.evidence);
    let verified = report.outcome.clone().unwrap_or_else(|_| panic!("{report:#?}"));
    assert_eq!(verified.key_class, KeyClass::K2);
    assert_eq!(verified.attestation_key.as_bytes(), node.bench.read("ak.name"));
    let model = verified.model.unwrap();
    assert_eq!((&*model.manufacturer, &*model.model), ("id:00001014", "swtpm"), "ST-16");
    assert!(verified.pcrs.unwrap().values().all(|value| *value == [0; 32]));
    let rules: Vec<&str> = report.checks.iter().map(|check| check.rule).collect();
    let expected: Vec<String> = (1..=15).map(|number| format!("AT-{}.{number}", 119)).collect();
    assert_eq!(rules, expected, "every check, in order");
    for check in &report.checks {
        let is_skipped = check.result == CheckResult::NotRequired;
        assert_eq!(is_skipped, check.rule == "AT-119.12", "only K3 needs a policy: {check:?}");
    }

    // The first request has the keys alone.
    let mut first = node.evidence.clone();
    (first.certify, first.creation, first.quote, first.activated) = (None, None, None, None);
    let enrolled = enrol(&first, &node.policy(), &node.machine(), SystemTime::now()).outcome.unwrap();
    assert_eq!(enrolled.attestation_key.as_bytes(), node.bench.read("ak.name"));
    // It is not enough for a certificate.
    is_refused(&node.prove(&first), Reason::TpmMalformed, "AT-119.1");

    // By less strict policies, too.
    let lenient = Policy {
        trust: Trust::Digest,
        minimum: KeyClass::K1,
        key_policy: Vec::new(),
        requires_creation: false,
        pcrs: PcrPolicy::default(),
    };
    let mut least = node.evidence.clone();
    (least.ek_cert, least.creation, least.quote) = (None, None, None);
    let verified = node.prove_by(&least, &lenient, &node.machine()).outcome.unwrap();
    assert_eq!((verified.key_class, verified.model, verified.pcrs), (KeyClass::K2, None, None));
    let platform = Policy { trust: Trust::Platform, ..lenient };
    let mut machine = node.machine();
    machine.platform = machine.listed.pop_first();
    assert!(node.prove_by(&least, &platform, &machine).outcome.is_ok());
    let record = PcrPolicy { mode: PcrMode::Record, ..node.policy().pcrs };
    let recorded = Policy { pcrs: PcrPolicy { accepted: Default::default(), ..record }, ..node.policy() };
    assert!(node.prove_by(&node.evidence, &recorded, &node.machine()).outcome.unwrap().pcrs.is_some());
}

#[test]
fn keys_that_are_bound_to_pcrs_are_of_class_k3_at_117_at_119_12() {
    let bench = Bench::new();
    bench.make_attestation_key("rsa2048", "rsassa");
    bench.run("tpm2_startauthsession -S t.ctx");
    bench.run("tpm2_policypcr -S t.ctx -l sha256:7 -L pcr.policy");
    bench.run("tpm2_flushcontext t.ctx");
    let policy_digest = bench.read("pcr.policy");
    // To be certified, a key without userWithAuth needs no authorization of its own: the admin role is adminWithPolicy.
    bench.make_key("fixedtpm|fixedparent|sensitivedataorigin|sign", &hex(&NONCE), " -L pcr.policy");
    let node = Node::with_keys(bench);
    assert_eq!(PublicArea::parse(&node.evidence.key_pub.0).unwrap().policy(), policy_digest);
    let strict = Policy { minimum: KeyClass::K3, key_policy: policy_digest.clone(), ..node.policy() };
    let verified = node.prove_by(&node.evidence, &strict, &node.machine()).outcome.unwrap();
    assert_eq!(verified.key_class, KeyClass::K3);
    // Another policy is not that one.
    let other = Policy { key_policy: vec![1; 32], ..strict };
    is_refused(&node.prove_by(&node.evidence, &other, &node.machine()), Reason::KeyPolicy, "AT-119.12");
    let none = Policy { key_policy: Vec::new(), ..other };
    is_refused(&node.prove_by(&node.evidence, &none, &node.machine()), Reason::KeyPolicy, "AT-119.12");
}
