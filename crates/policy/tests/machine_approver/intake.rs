//! Which requests are considered, and which are denied.

use portcullis_policy::approval::machine::{
    Condition, Config, Ignored, Intake, MachineKind, Outcome, Reason, Request, SignerPath, intake,
};

use super::support::*;

fn taken(request: &Request) -> Intake {
    intake(request, &Config::default())
}

#[test]
fn other_signers_are_none_of_the_approvers_business_nb_50() {
    assert_eq!(taken(&client_request()), Intake::Evaluate(SignerPath::Client));
    assert_eq!(taken(&serving_request()), Intake::Evaluate(SignerPath::Serving));
    for signer in [
        "kubernetes.io/kube-apiserver-client",
        "kubernetes.io/legacy-unknown",
        "kubernetes.io/kubelet-serving ",
        "example.com/kubelet-serving",
        "",
    ] {
        for mut request in [client_request(), serving_request()] {
            request.signer_name = signer.to_owned();
            assert_eq!(taken(&request), Intake::Ignored(Ignored::ForeignSigner), "{signer}");
            assert_eq!(SignerPath::of(signer), None);
        }
    }
}

#[test]
fn requests_of_others_for_the_same_signers_count_nowhere_nb_51() {
    let mut request = serving_request();
    request.groups = strings(&["system:authenticated"]);
    assert_eq!(taken(&request), Intake::Ignored(Ignored::NotByANode));
    let mut request = client_request();
    request.username = "system:serviceaccount:cni:agent".to_owned();
    assert_eq!(taken(&request), Intake::Ignored(Ignored::NotByABootstrapUser));
}

#[test]
fn what_is_decided_stays_decided_nb_52() {
    for kind in ["Approved", "Denied", "Failed"] {
        let mut request = client_request();
        request.conditions.push(Condition { kind: kind.to_owned(), ..Condition::default() });
        assert_eq!(taken(&request), Intake::Ignored(Ignored::Decided), "{kind}");
    }
    let mut request = client_request();
    request.has_certificate = true;
    assert_eq!(taken(&request), Intake::Ignored(Ignored::Decided));
    let mut request = client_request();
    request.conditions.push(Condition { kind: "example.com/Seen".to_owned(), ..Condition::default() });
    assert_eq!(taken(&request), Intake::Evaluate(SignerPath::Client));
}

#[test]
fn forged_requests_are_denied_in_strict_mode_only_nb_60() {
    let mut forged = client_request();
    content(&mut forged).organizations = strings(&["system:masters"]);
    for (mode, outcome) in
        [("never", Outcome::Hold), ("superseded", Outcome::Hold), ("strict", Outcome::Deny)]
    {
        let mut world = World::of(MachineKind::OpenShiftV1Beta1);
        world.set_config(&format!("denyMode: {mode}"));
        let verdict = world.decide(&forged);
        assert_eq!((verdict.outcome, verdict.is_forged), (outcome, true), "{mode}");
        // A request that is not forged is never denied.
        world.machines = Ok(Vec::new());
        assert_eq!(world.answer(&client_request()).0, Outcome::Retry);
    }
}

#[test]
fn superseded_requests_are_denied_in_that_mode_only_nb_75() {
    let mut newer = client_request();
    newer.name = "csr-newer".to_owned();
    newer.created = Some(at(121));
    for (mode, outcome) in
        [("never", Outcome::Hold), ("superseded", Outcome::Deny), ("strict", Outcome::Hold)]
    {
        let mut world = World::of(MachineKind::OpenShiftV1Beta1);
        world.set_config(&format!("denyMode: {mode}"));
        world.others = vec![newer.clone()];
        assert_eq!(world.answer(&client_request()), (outcome, Reason::Superseded, "NB-75"), "{mode}");
        // Another key supersedes nobody.
        content(&mut world.others[0]).key_hash = [66; 32];
        let contested = (Outcome::Hold, Reason::ContestedIdentity, "NB-75a");
        assert_eq!(world.answer(&client_request()), contested, "{mode}");
    }
}

#[test]
fn every_reason_has_its_own_code_and_only_approvals_approve_nb_61() {
    let codes: std::collections::BTreeSet<_> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
    assert_eq!(codes.len(), Reason::ALL.len());
    for reason in Reason::ALL {
        let approves = matches!(
            reason.as_str(),
            "ClientApproved" | "ServingApproved" | "ServingRenewed" | "EgressApproved"
        );
        assert_eq!(reason.outcome() == Outcome::Approve, approves, "{reason}");
        assert!(!(reason.is_forged() && reason.outcome() != Outcome::Hold), "{reason}");
    }
}

#[test]
fn a_request_object_is_read_as_the_api_server_writes_it() {
    let text = r#"{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest",
        "metadata":{"name":"csr-1","uid":"u","creationTimestamp":"2026-01-02T03:02:00Z","managedFields":[{}]},
        "spec":{"request":"YWJj","signerName":"kubernetes.io/kubelet-serving","username":"u","groups":["g"],
                "usages":["server auth"],"expirationSeconds":600,"extra":{"a":["b"]}},
        "status":{"certificate":null,"conditions":[{"type":"Approved","status":"True","reason":"NodeCSRApprove",
                "lastTransitionTime":"2026-01-02T03:02:01Z"}]}}"#;
    let request = Request::from_json(text, |bytes| Err(String::from_utf8_lossy(bytes).into_owned())).unwrap();
    assert_eq!(request.content, Err("abc".to_owned()));
    assert_eq!((request.name.as_str(), request.created), ("csr-1", Some(at(120))));
    assert_eq!(request.approval().unwrap().since, Some(at(121)));
    assert!(!request.has_certificate && !request.is_pending());
    let broken = text.replace("YWJj", "!");
    assert!(Request::from_json(&broken, |_| Err("never asked".to_owned())).unwrap().content.is_err());
    for damaged in ["", "[]", "{", r#"{"spec":[]}"#, r#"{"spec":{"groups":"g"}}"#, r#"{"spec":{},"spec":{}}"#]
    {
        assert!(Request::from_json(damaged, |_| Err(String::new())).is_err(), "{damaged}");
    }
}
