//! The history of a machine, and the order of a judgement, without a network (AT-72, AT-150 to AT-157).
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot be set up must stop"
)]

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use portcullis_attestation::challenge::Keys;
use portcullis_attestation::config::Config;
use portcullis_attestation::exchange::RequestFacts;
use portcullis_attestation::inventory::{Inventory, InventoryFile};
use portcullis_attestation::judge::{Accepted, Decision, Rules, Subject};
use portcullis_attestation::machine::Machine;
use portcullis_attestation::record::{Record, State};
use portcullis_attestation::request::{ClientRequest, NamedMachine};
use portcullis_attestation::time::instant;
use portcullis_attestation::{CheckResult, Device, Offer, Reason, Refusal, Report};
use portcullis_pki::evidence::{self, AttestedRequest, Envelope, Evidence, Labels, Phase};
use portcullis_pki::{KeyPair, Request, hmac_sha256, pem, sha256};
use serde_json::json;

const KEYS: Keys = Keys { current: [1; 32], previous: None };
const TOKEN: &str = "system:bootstrap:abcdef";

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000 + seconds)
}

fn rules(attestors: &[&str]) -> Rules {
    let config = json!({"authorizedAttestors": attestors, "machines": {"inventory": "i"}});
    let config: Config = serde_json::from_value(config).unwrap();
    config.rules(|_| Err("no file".to_owned())).unwrap()
}

fn machine(secret: Option<&[u8]>) -> Machine {
    Machine {
        uid: "m1".to_owned(),
        named: NamedMachine {
            node_name: "n1".to_owned(),
            provider_ids: BTreeSet::from(["p://1".to_owned()]),
            is_bootstrapped: true,
        },
        endorsement_keys: BTreeSet::new(),
        platform_key: None,
        addresses: Vec::new(),
        owner: None,
        enrolled: secret.map(|secret| portcullis_attestation::answer::Enrolled::Secret(sha256(secret))),
    }
}

/// A node that asks by one attestor.
struct Node {
    provider: &'static str,
    key: KeyPair,
    username: &'static str,
}

impl Node {
    fn new(provider: &'static str) -> Self {
        Self { provider, key: KeyPair::generate().unwrap(), username: TOKEN }
    }

    fn facts(&self, uid: &str) -> RequestFacts {
        RequestFacts {
            uid: uid.to_owned(),
            username: self.username.to_owned(),
            common_name: "system:node:n1".to_owned(),
            public_key: sha256(self.key.public_der()),
        }
    }

    /// A request that was made at this time.
    fn ask(
        &self,
        phase: Phase,
        challenge: Option<&Offer>,
        secret: &[u8],
        made: SystemTime,
    ) -> AttestedRequest {
        let request = Request {
            common_name: "system:node:n1".to_owned(),
            organizations: vec!["system:nodes".to_owned()],
            provider_id: "p://1".to_owned(),
            ..Request::default()
        };
        let text = request.to_pem(&self.key).unwrap();
        let csr_digest = sha256(&pem::first(text.as_bytes()).unwrap().der);
        let member = challenge.map(|offer| {
            use base64::Engine as _;
            // Computed here, after AT-104, and not by the library.
            let message =
                [b"kubelet-authenticator challenge v1\0".as_slice(), &offer.nonce, &csr_digest, b"n1\0p://1"]
                    .concat();
            let code = hmac_sha256(&sha256(secret), &[&message]);
            json!({"answer": base64::engine::general_purpose::STANDARD.encode(code)})
        });
        let envelope = Envelope {
            provider: self.provider.to_owned(),
            phase,
            created_at: instant(made),
            node_name: "n1".to_owned(),
            provider_id: "p://1".to_owned(),
            csr_digest,
            challenge_id: challenge.map(|offer| offer.id.clone()),
            member: None,
        };
        let evidence = Evidence { provider: self.provider.to_owned(), data: envelope.write(member) };
        evidence::read(evidence::write(&text, &evidence).as_bytes(), Labels::Exact).unwrap()
    }
}

/// What the controller knows when it judges.
struct World<'a> {
    rules: &'a Rules,
    machine: &'a Machine,
    record: Option<&'a Record>,
    earlier: &'a [RequestFacts],
    uid: &'a str,
    created: SystemTime,
    now: SystemTime,
}

impl World<'_> {
    fn judge(&self, node: &Node, content: &AttestedRequest) -> Report<Decision> {
        let groups = match node.username {
            TOKEN => vec!["system:bootstrappers", "system:bootstrappers:kubeadm:default-node-token"],
            _ => vec!["system:nodes"],
        };
        let groups: Vec<String> =
            groups.into_iter().chain(["system:authenticated"]).map(str::to_owned).collect();
        let usages = ["digital signature", "client auth"].map(str::to_owned);
        let request = ClientRequest {
            signer_name: &format!("cluster.x-k8s.io/kube-apiserver-client-kubelet-{}", node.provider),
            username: node.username,
            groups: &groups,
            usages: &usages,
            content: Ok(content),
        };
        let subject = Subject {
            request,
            uid: self.uid,
            created: self.created,
            machine: Some(self.machine),
            record: self.record,
            earlier: self.earlier,
        };
        self.rules.judge(&subject, &KEYS, [7; 32], self.now)
    }
}

fn accepted(report: Report<Decision>) -> Accepted {
    match report.outcome {
        Ok(Decision::Issue(accepted)) => *accepted,
        other => panic!("{other:?}"),
    }
}

fn offered(report: Report<Decision>) -> Offer {
    match report.outcome {
        Ok(Decision::Challenge(offer)) => offer,
        other => panic!("{other:?}"),
    }
}

fn refused(report: Report<Decision>) -> (Reason, &'static str) {
    let Refusal { reason, rule, .. } = report.outcome.unwrap_err();
    (reason, rule)
}

#[test]
fn the_first_key_of_an_insecure_node_is_pinned_until_a_reset_at_151_at_153() {
    let (rules, machine) = (rules(&["insecure"]), machine(None));
    let world = |record, uid| World {
        rules: &rules,
        machine: &machine,
        record,
        earlier: &[],
        uid,
        created: at(0),
        now: at(1),
    };
    let (node, other) = (Node::new("insecure"), Node::new("insecure"));
    let ask = |node: &Node| node.ask(Phase::Single, None, b"", at(0));
    let first = accepted(world(None, "u1").judge(&node, &ask(&node)));
    let record = &first.record;
    assert_eq!((record.state, &*record.node_name, &*record.machine_uid), (State::Active, "n1", "m1"));
    assert_eq!(record.device, Device(sha256(node.key.public_der())));
    assert!(record.has_issued(record.device));
    // The same request again, after a restart of the controller, changes nothing.
    let request = ask(&node);
    let again = accepted(world(None, "u1").judge(&node, &request));
    let judged_again = accepted(world(Some(&again.record), "u1").judge(&node, &request));
    assert_eq!((judged_again.record.used.len(), judged_again.record.issued.len()), (1, 1));
    // Somebody else.
    assert_eq!(
        refused(world(Some(record), "u2").judge(&other, &ask(&other))),
        (Reason::TofuMismatch, "AT-151")
    );
    let revoked = Record { state: State::Revoked, ..record.clone() };
    assert_eq!(
        refused(world(Some(&revoked), "u2").judge(&node, &ask(&node))),
        (Reason::IdentityRevoked, "AT-153")
    );
    let reset = Record { state: State::Reset, ..record.clone() };
    let pinned = accepted(world(Some(&reset), "u2").judge(&other, &ask(&other))).record;
    assert_eq!((pinned.state, pinned.device), (State::Active, Device(sha256(other.key.public_der()))));
}

#[test]
fn evidence_is_accepted_once_and_while_it_is_new_at_103_at_156() {
    let (rules, machine) = (rules(&["challenge"]), machine(Some(b"secret")));
    let node = Node::new("challenge");
    let earlier = [node.facts("u1")];
    let world = |record, uid, created, now| World {
        rules: &rules,
        machine: &machine,
        record,
        earlier: &earlier,
        uid,
        created,
        now,
    };
    let enrol = node.ask(Phase::Enrol, None, b"", at(0));
    let offer = offered(world(None, "u1", at(0), at(0)).judge(&node, &enrol));
    assert_eq!(offer.expires_at, at(300));
    let prove = node.ask(Phase::Prove, Some(&offer), b"secret", at(10));
    let record = accepted(world(None, "u2", at(10), at(10)).judge(&node, &prove)).record;
    assert!(record.is_secret_used);
    // The same evidence in another request; the same request again.
    let replayed = world(Some(&record), "u3", at(12), at(12)).judge(&node, &prove);
    assert_eq!(refused(replayed), (Reason::EvidenceReplayed, "AT-156"));
    accepted(world(Some(&record), "u2", at(10), at(13)).judge(&node, &prove));
    // Too late, too old, too new, by another secret, for nobody's challenge.
    let late = world(None, "u2", at(10), at(300)).judge(&node, &prove);
    assert_eq!(refused(late), (Reason::ChallengeInvalid, "AT-103"));
    for created in [at(311), SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000 - 291)] {
        let stale = world(None, "u2", created, at(10)).judge(&node, &prove);
        assert_eq!(refused(stale), (Reason::EvidenceStale, "AT-156"));
    }
    let wrong = node.ask(Phase::Prove, Some(&offer), b"another", at(10));
    assert_eq!(
        refused(world(None, "u2", at(10), at(10)).judge(&node, &wrong)),
        (Reason::AnswerInvalid, "AT-104")
    );
    let forged = Offer { id: offer.id.replace('A', "B"), ..offer.clone() };
    let forged = node.ask(Phase::Prove, Some(&forged), b"secret", at(10));
    assert_eq!(
        refused(world(None, "u2", at(10), at(10)).judge(&node, &forged)),
        (Reason::ChallengeInvalid, "AT-103")
    );
    // The challenge of one key answers for no other.
    let thief = Node::new("challenge");
    let stolen = thief.ask(Phase::Prove, Some(&offer), b"secret", at(10));
    assert_eq!(
        refused(world(None, "u2", at(10), at(10)).judge(&thief, &stolen)),
        (Reason::ChallengeInvalid, "AT-103")
    );
}

#[test]
fn a_record_that_is_written_is_read_and_bounded_at_88_at_150() {
    let (rules, machine) = (rules(&["insecure"]), machine(None));
    let node = Node::new("insecure");
    let mut record: Option<Record> = None;
    for number in 0_u64..40 {
        let (uid, time) = (format!("u{number}"), at(number * 60));
        let world = World {
            rules: &rules,
            machine: &machine,
            record: record.as_ref(),
            earlier: &[],
            uid: &uid,
            created: time,
            now: time,
        };
        let report = world.judge(&node, &node.ask(Phase::Single, None, b"", time));
        let next = accepted(report).record;
        // Twenty minutes are remembered, and twenty certificates.
        assert!(next.used.len() <= 20 && next.issued.len() <= 20, "{number}");
        let text = serde_json::to_string(&next).unwrap();
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), next);
        record = Some(next);
    }
    // As fast as it can: the record does not grow without end.
    let mut last = None;
    for number in 0_u64..40 {
        let (uid, time) = (format!("v{number}"), at(10_000));
        let world = World {
            rules: &rules,
            machine: &machine,
            record: last.as_ref(),
            earlier: &[],
            uid: &uid,
            created: time,
            now: time,
        };
        match world.judge(&node, &node.ask(Phase::Single, None, b"", time)).outcome {
            Ok(Decision::Issue(accepted)) => last = Some(accepted.record),
            Err(refusal) => {
                assert_eq!((refusal.reason, number), (Reason::TooManyCertificates, 32));
                assert!(refusal.reason.is_transient());
                return;
            }
            other => panic!("{other:?}"),
        }
    }
    panic!("nothing bounded the record");
}

#[test]
fn core_checks_come_before_the_attestor_and_this_before_the_history_at_72() {
    let (rules, machine) = (rules(&["insecure"]), machine(None));
    let node = Node::new("insecure");
    let world = World {
        rules: &rules,
        machine: &machine,
        record: None,
        earlier: &[],
        uid: "u1",
        created: at(0),
        now: at(0),
    };
    let report = world.judge(&node, &node.ask(Phase::Single, None, b"", at(0)));
    let order: Vec<&str> = report.checks.iter().map(|check| check.rule).collect();
    let core = ["AT-60", "AT-61", "AT-62", "AT-63", "AT-64", "AT-65", "AT-66", "AT-67", "AT-68", "AT-69"];
    assert_eq!(order[..10], core);
    assert_eq!(order[10..], ["AT-156", "AT-101", "AT-92", "AT-153", "AT-151", "AT-156"]);
    assert!(report.checks.iter().all(|check| matches!(check.result, CheckResult::Passed(_))));
    // A node that has a certificate does not get another one by this attestor.
    let renewing = Node { username: "system:node:n1", ..Node::new("insecure") };
    let renewal = world.judge(&renewing, &renewing.ask(Phase::Single, None, b"", at(0)));
    assert_eq!(refused(renewal), (Reason::RotationNotSupported, "AT-92"));
    // A challenge is not one that a node may skip.
    let skipped = world.judge(&node, &node.ask(Phase::Enrol, None, b"", at(0)));
    assert_eq!(refused(skipped), (Reason::MalformedAttestation, "AT-101"));
}

#[test]
fn inventories_name_every_machine_and_every_key_once_at_100_at_152() {
    let read = |machines: serde_json::Value| {
        let file: Result<InventoryFile, _> = serde_json::from_value(json!({"machines": machines}));
        file.map_err(|error| error.to_string()).and_then(Inventory::new)
    };
    let key = format!("sha256:{}", "ab".repeat(32));
    let one = json!({"nodeName": "a", "providerID": "p://a", "endorsementKeys": [key]});
    assert_eq!(read(json!([one])).unwrap().len(), 1);
    for (other, why) in [
        (json!({"nodeName": "a", "providerID": "p://b"}), "already"),
        (json!({"nodeName": "b", "providerID": "p://a"}), "provider ID"),
        (json!({"nodeName": "b", "providerID": "p://b", "uid": "inventory/a"}), "UID"),
        (json!({"nodeName": "b", "providerID": "p://b", "endorsementKeys": [key]}), "sha256:abab"),
        (json!({"nodeName": "b", "providerID": "p://b", "platformEndorsementKey": key}), "sha256:abab"),
        (json!({"nodeName": "b", "providerID": ""}), "providerID"),
        (json!({"nodeName": "b", "providerID": "p://b", "publicKey": "x"}), "public key"),
        (json!({"nodeName": "b", "providerID": "p://b", "publicKey": "x", "secretDigest": key}), "both"),
        (json!({"nodeName": "b", "providerID": "p://b", "more": 1}), "unknown field"),
    ] {
        let error = read(json!([one, other])).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}
