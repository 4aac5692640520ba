//! Every way of cheating with the statements, keys and secrets of TPMs (AT-206).

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use portcullis_attestation::SeenClock;
use portcullis_attestation::tpm::{Challenge, Machine, Policy, Trust, enrol, prove};
use portcullis_attestation::{KeyClass, Reason};
use portcullis_pki::tpm::PublicArea;
use portcullis_pki::tpm::evidence::{Bytes, Purpose, Signed, TpmEvidence};
use portcullis_testkit::tool;

use crate::fixture::{DIGEST, FIXED, Node, PCRS, SECRET, hex, is_refused, qualifying, quote};

#[test]
fn evidence_for_another_request_challenge_or_key_is_refused_at_206() {
    let node = Node::new(FIXED, "");
    let (policy, machine, now) = (node.policy(), node.machine(), SystemTime::now());
    let good = node.challenge();
    for (what, challenge, reason, rule) in [
        ("a stale nonce", Challenge { nonce: &[9; 32], ..good }, Reason::AttestInvalid, "AT-119.9"),
        ("another request", Challenge { csr_digest: &[9; 32], ..good }, Reason::AttestInvalid, "AT-119.9"),
        ("another secret", Challenge { secret: &[9; 32], ..good }, Reason::ActivationFailed, "AT-119.8"),
        ("no secret", Challenge { secret: &[], ..good }, Reason::ActivationFailed, "AT-119.8"),
        (
            "the key of another request",
            Challenge { csr_public_key: b"x", ..good },
            Reason::KeyNotBound,
            "AT-119.10",
        ),
    ] {
        println!("{what}");
        is_refused(&prove(&node.evidence, &challenge, &policy, &machine, now), reason, rule);
    }
    node.refused(Reason::ActivationFailed, "AT-119.8", |e| e.activated = None);
    node.refused(Reason::ActivationFailed, "AT-119.8", |e| e.activated = Some(Bytes(SECRET[1..].to_vec())));
    let empty = |e: &mut TpmEvidence| e.activated = Some(Bytes(Vec::new()));
    node.refused(Reason::ActivationFailed, "AT-119.8", empty);

    // A statement for another purpose, or of another type.
    let (attest, sig) = node.bench.certify(&qualifying(Purpose::Quote));
    let wrong_purpose = Signed { attest: Bytes(attest), sig: Bytes(sig) };
    node.refused(Reason::AttestInvalid, "AT-119.9", |e| e.certify = Some(wrong_purpose));
    let of_quote = node.evidence.quote.clone().unwrap();
    node.refused(Reason::AttestInvalid, "AT-119.9", |e| {
        e.certify = Some(Signed { attest: of_quote.attest.clone(), sig: of_quote.sig.clone() });
    });
    // A statement about the time, which the chip signs too.
    node.bench.run(&format!(
        "tpm2_gettime -c ak.ctx -g sha256 -s ecdsa -q {} -o time.sig --attestation time.attest",
        hex(&qualifying(Purpose::Certify))
    ));
    let time =
        Signed { attest: Bytes(node.bench.read("time.attest")), sig: Bytes(node.bench.read("time.sig")) };
    node.refused(Reason::AttestInvalid, "AT-119.9", |e| e.certify = Some(time));
    // A quote from before, with another nonce.
    let mut replayed = node.evidence.quote.clone().unwrap();
    node.bench.run(&format!(
        "tpm2_quote -c ak.ctx -l sha256:0,1,2,3,4,7 -q {} -m old.attest -s old.sig -g sha256",
        hex(&[8; 32])
    ));
    (replayed.attest, replayed.sig) =
        (Bytes(node.bench.read("old.attest")), Bytes(node.bench.read("old.sig")));
    node.refused(Reason::AttestInvalid, "AT-119.9", |e| e.quote = Some(replayed));
    // The signature of another statement.
    node.refused(Reason::AttestInvalid, "AT-119.9", |e| {
        let sig = e.quote.as_ref().unwrap().sig.clone();
        e.certify.as_mut().unwrap().sig = sig;
    });
    // Another key of the same chip, which the request is not for.
    let mut other = Node::with_keys({
        node.bench.make_key(FIXED, &hex(&[6; 32]), "");
        node.bench
    });
    let (attest, sig) = other.bench.certify(&qualifying(Purpose::Certify));
    let first = std::mem::replace(&mut other.public_key, node.public_key);
    other.refused(Reason::KeyNotBound, "AT-119.10", |_| {});
    other.public_key = first;
    other.refused(Reason::KeyNotBound, "AT-119.10", |e| {
        e.certify = Some(Signed { attest: Bytes(attest), sig: Bytes(sig) });
        e.key_pub = node.evidence.key_pub.clone();
    });
    // The creation of another key.
    other.refused(Reason::CreationInvalid, "AT-119.13", |e| e.creation = node.evidence.creation.clone());
    other.refused(Reason::CreationInvalid, "AT-119.13", |e| e.creation = None);
    other.refused(Reason::CreationInvalid, "AT-119.13", |e| {
        e.creation.as_mut().unwrap().data = node.evidence.creation.as_ref().unwrap().data.clone();
    });
}

#[test]
fn keys_that_can_leave_a_chip_are_refused_at_119_11_st_n1_st_n2() {
    let node = Node::new("sensitivedataorigin|userwithauth|sign", "");
    node.refused(Reason::KeyClassTooLow, "AT-119.11", |_| {});
    // Where K1 is enough, the chip must still have had it.
    let lenient = Policy { minimum: KeyClass::K1, ..node.policy() };
    let verified = node.prove_by(&node.evidence, &lenient, &node.machine()).outcome.unwrap();
    assert_eq!(verified.key_class, KeyClass::K1);

    tool::openssl(node.bench.folder(), "ecparam -name prime256v1 -genkey -noout -out soft.pem");
    let with_loaded_key = |policy: &Policy| {
        let (attest, sig) = node.bench.certify(&qualifying(Purpose::Certify));
        let mut evidence = node.evidence.clone();
        evidence.key_pub = Bytes(node.bench.read("key.pub"));
        evidence.certify = Some(Signed { attest: Bytes(attest), sig: Bytes(sig) });
        evidence.creation = None;
        let area = PublicArea::parse(&evidence.key_pub.0).unwrap();
        let challenge = Challenge { csr_public_key: area.public_key_der(), ..node.challenge() };
        prove(&evidence, &challenge, policy, &node.machine(), SystemTime::now())
    };
    // ST-N2: a software key that was imported.
    node.bench.run("tpm2_createprimary -C o -G ecc -c srk.ctx");
    node.bench.run("tpm2_import -C srk.ctx -G ecc -i soft.pem -a sign|userwithauth -u key.pub -r key.priv");
    node.bench.run("tpm2_load -C srk.ctx -u key.pub -r key.priv -c key.ctx");
    is_refused(&with_loaded_key(&node.policy()), Reason::KeyClassTooLow, "AT-119.11");
    let lenient = Policy { requires_creation: false, ..lenient };
    assert_eq!(with_loaded_key(&lenient).outcome.unwrap().key_class, KeyClass::K1);
    // ST-N1: a software key that was merely loaded.
    node.bench.run("tpm2_loadexternal -C n -G ecc -r soft.pem -a sign|userwithauth -c key.ctx");
    node.bench.run("tpm2_readpublic -c key.ctx -f tss -o key.pub");
    is_refused(&with_loaded_key(&node.policy()), Reason::KeyClassTooLow, "AT-119.11");
    assert_eq!(with_loaded_key(&lenient).outcome.unwrap().key_class, KeyClass::K1);
}

#[test]
fn keys_that_forge_statements_are_no_attestation_keys_at_119_7_st_n3() {
    let node = Node::new(FIXED, "");
    // An unrestricted key signs whatever looks like a statement: take the kubelet's own key for the attestation key.
    let signed = |name: &str, bytes: &[u8]| {
        node.bench.write("forged.bin", bytes);
        node.bench.run(&format!("tpm2_sign -c key.ctx -g sha256 -s ecdsa -o {name} forged.bin"));
        Bytes(node.bench.read(name))
    };
    node.refused(Reason::AkTemplate, "AT-119.7", |e| {
        e.ak_pub = e.key_pub.clone();
        let certify = e.certify.as_mut().unwrap();
        certify.sig = signed("certify.sig", &certify.attest.0);
    });
    // Neither the endorsement key nor a storage key can take its place.
    node.refused(Reason::AkTemplate, "AT-119.7", |e| e.ak_pub = e.ek_pub.clone());
    let mut evidence = node.evidence.clone();
    evidence.ek_pub = evidence.ak_pub.clone();
    let digest = PublicArea::parse(&evidence.ek_pub.0).unwrap().digest();
    let machine = Machine { listed: BTreeSet::from([digest]), ..Machine::default() };
    let by_digest = Policy { trust: Trust::Digest, ..node.policy() };
    is_refused(&node.prove_by(&evidence, &by_digest, &machine), Reason::EkTemplate, "AT-119.5");
}

#[test]
fn keys_of_another_chip_are_refused_st_n4() {
    let (node, other) = (Node::new(FIXED, ""), Node::new(FIXED, ""));
    // The attestation key of another chip opens no secret for this one. Whatever it says is worth nothing.
    node.refused(Reason::AttestInvalid, "AT-119.9", |e| e.ak_pub = other.evidence.ak_pub.clone());
    node.refused(Reason::ActivationFailed, "AT-119.8", |e| {
        (e.ak_pub, e.certify) = (other.evidence.ak_pub.clone(), other.evidence.certify.clone());
        e.activated = Some(Bytes(vec![0; 32]));
    });
    // The chip of another machine.
    let machine = node.machine();
    let report = other.prove_by(&other.evidence, &other.policy(), &machine);
    is_refused(&report, Reason::EkNotForMachine, "AT-119.6");
    let unknown = other.prove_by(&other.evidence, &other.policy(), &Machine::default());
    is_refused(&unknown, Reason::EkNotForMachine, "AT-119.6");
}

#[test]
fn an_endorsement_key_other_than_the_known_ones_is_refused_in_every_mode_at_112_at_119_6() {
    let node = Node::new(FIXED, "");
    let own = PublicArea::parse(&node.evidence.ek_pub.0).unwrap().digest();
    let foreign = [9; 32];
    let listed = |digests: &[[u8; 32]], platform| Machine {
        listed: digests.iter().copied().collect(),
        platform,
        ..Machine::default()
    };
    // A machine, and whether its TPM is trusted by the modes cert, hash, cert-and-hash and platform.
    let cases = [
        ("nothing is known", listed(&[], None), [true, false, false, false]),
        ("listed", listed(&[own, foreign], None), [true, true, true, false]),
        ("another is listed", listed(&[foreign], None), [false; 4]),
        ("reported", listed(&[], Some(own)), [true, false, false, true]),
        ("another is reported", listed(&[], Some(foreign)), [false; 4]),
        ("listed and reported", listed(&[own], Some(own)), [true; 4]),
        ("listed, and another is reported", listed(&[own], Some(foreign)), [true, true, true, false]),
        ("reported, and another is listed", listed(&[foreign], Some(own)), [true, false, false, true]),
    ];
    for (what, machine, expected) in cases {
        let modes = [
            Trust::Certificate(node.roots()),
            Trust::Digest,
            Trust::CertificateAndDigest(node.roots()),
            Trust::Platform,
        ];
        for (trust, is_trusted) in modes.into_iter().zip(expected) {
            let policy = Policy { trust, ..node.policy() };
            println!("{what}");
            let report = node.prove_by(&node.evidence, &policy, &machine);
            match is_trusted {
                true => assert!(report.outcome.is_ok(), "{report:#?}"),
                false => is_refused(&report, Reason::EkNotForMachine, "AT-119.6"),
            }
        }
    }
}

#[test]
fn pcrs_that_changed_or_are_others_are_refused_at_119_14_st_n6() {
    let node = Node::new(FIXED, "");
    // A changed value of an unchanged quote.
    node.refused(Reason::PcrPolicy, "AT-119.14", |e| {
        e.quote.as_mut().unwrap().pcrs.get_mut("sha256").unwrap().insert(7, hex(&[1; 32]));
    });
    for wrong in [String::new(), "zz".repeat(32), "00".repeat(31)] {
        node.refused(Reason::PcrPolicy, "AT-119.14", |e| {
            e.quote.as_mut().unwrap().pcrs.get_mut("sha256").unwrap().insert(7, wrong);
        });
    }
    node.refused(Reason::PcrPolicy, "AT-119.14", |e| e.quote.as_mut().unwrap().pcrs = BTreeMap::new());
    node.refused(Reason::PcrPolicy, "AT-119.14", |e| e.quote = None);
    // Fewer PCRs than the policy asks for.
    let fewer = quote(&node.bench, &PCRS[..5], &[0; 32]);
    node.refused(Reason::PcrPolicy, "AT-119.14", |e| e.quote = Some(fewer));
    // The machine booted something else.
    node.bench.run(&format!("tpm2_pcrextend 7:sha256={}", hex(&[1; 32])));
    let mut changed = quote(&node.bench, &PCRS, &[0; 32]);
    let extended = portcullis_pki::sha256(&[[0; 32], [1; 32]].concat());
    changed.pcrs.get_mut("sha256").unwrap().insert(7, hex(&extended));
    node.refused(Reason::PcrPolicy, "AT-119.14", |e| e.quote = Some(changed.clone()));
    // Where that is accepted, by its own value or as a whole, it passes.
    let mut evidence = node.evidence.clone();
    evidence.quote = Some(changed);
    let mut by_value = node.policy();
    by_value.pcrs.accepted.values.get_mut(&7).unwrap().insert(extended.to_vec());
    assert!(node.prove_by(&evidence, &by_value, &node.machine()).outcome.is_ok());
    let mut as_a_whole = node.policy();
    let all = [vec![0; 5 * 32], extended.to_vec()].concat();
    as_a_whole.pcrs.accepted.values = BTreeMap::new();
    as_a_whole.pcrs.accepted.composites = BTreeSet::from([portcullis_pki::sha256(&all).to_vec()]);
    assert!(node.prove_by(&evidence, &as_a_whole, &node.machine()).outcome.is_ok());
    is_refused(&node.prove_by(&node.evidence, &as_a_whole, &node.machine()), Reason::PcrPolicy, "AT-119.14");
}

#[test]
fn a_clock_that_went_back_is_refused_at_119_15() {
    let node = Node::new(FIXED, "");
    let first = node.prove(&node.evidence).outcome.unwrap().clock;
    let with = |clock: SeenClock| Machine { clock: Some(clock), ..node.machine() };
    let policy = node.policy();
    assert!(node.prove_by(&node.evidence, &policy, &with(first)).outcome.is_ok());
    for later in [
        SeenClock { reset_count: first.reset_count.wrapping_add(1), ..first },
        SeenClock { restart_count: first.restart_count.wrapping_add(1), ..first },
    ] {
        is_refused(&node.prove_by(&node.evidence, &policy, &with(later)), Reason::TpmClock, "AT-119.15");
    }
    // The TPM adds a secret number to the counts, so they may pass zero.
    let last = first.reset_count.wrapping_sub(1);
    let earlier = SeenClock { reset_count: last, restart_count: u32::MAX, ..first };
    let now = node.prove_by(&node.evidence, &policy, &with(earlier)).outcome.unwrap().clock;
    assert_eq!((now.reset_count, now.restart_count), (first.reset_count, first.restart_count));
    assert!(now.since > first.since - Duration::from_secs(60));
}

#[test]
fn malformed_structures_are_refused_wherever_they_are_at_119_1_st_31() {
    let node = Node::new(FIXED, "");
    type Part = fn(&mut TpmEvidence) -> &mut Vec<u8>;
    let parts: [(&str, Part); 10] = [
        ("ekPub", |e| &mut e.ek_pub.0),
        ("akPub", |e| &mut e.ak_pub.0),
        ("keyPub", |e| &mut e.key_pub.0),
        ("certify", |e| &mut e.certify.as_mut().unwrap().attest.0),
        ("creation", |e| &mut e.creation.as_mut().unwrap().attest.0),
        ("creation data", |e| &mut e.creation.as_mut().unwrap().data.0),
        ("quote", |e| &mut e.quote.as_mut().unwrap().attest.0),
        ("certify signature", |e| &mut e.certify.as_mut().unwrap().sig.0),
        ("creation signature", |e| &mut e.creation.as_mut().unwrap().sig.0),
        ("quote signature", |e| &mut e.quote.as_mut().unwrap().sig.0),
    ];
    for (what, part) in parts {
        println!("{what}");
        node.refused(Reason::TpmMalformed, "AT-119.1", |e| part(e).truncate(20));
        node.refused(Reason::TpmMalformed, "AT-119.1", |e| part(e).push(0));
        node.refused(Reason::TpmMalformed, "AT-119.1", |e| part(e).clear());
    }
    node.refused(Reason::TpmMalformed, "AT-119.1", |e| e.certify = None);
    node.refused(Reason::TpmMalformed, "AT-119.1", |e| e.ek_chain = vec![Bytes(vec![1]); 6]);
    // Certificates larger than those that a TPM stores.
    node.refused(Reason::TpmMalformed, "AT-119.1", |e| e.ek_cert.as_mut().unwrap().0.resize(4097, 0xff));
    node.refused(Reason::TpmMalformed, "AT-119.1", |e| e.ek_chain = vec![Bytes(vec![0x30; 4097])]);
    let first = TpmEvidence { ek_chain: vec![Bytes(vec![0x30; 4097])], ..node.evidence.clone() };
    let report = enrol(&first, &node.policy(), &node.machine(), SystemTime::now());
    is_refused(&report, Reason::TpmMalformed, "AT-119.1");
    assert_eq!(qualifying(Purpose::Certify).len(), DIGEST.len());
}
