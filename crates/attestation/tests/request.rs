//! The checks that all providers have in common: each one passes and fails with its reason (AT-60 to AT-69). The requests are
//! made by openssl.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot be set up must stop"
)]

use std::collections::BTreeSet;

use portcullis_attestation::request::{Allowed, ClientRequest, NamedMachine, check};
use portcullis_attestation::{CheckResult, Reason};
use portcullis_pki::evidence::{AttestedRequest, Envelope, Evidence, Labels, Phase, read, write};
use portcullis_pki::pem;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool::openssl;

const SIGNER: &str = "cluster.x-k8s.io/kube-apiserver-client-kubelet-challenge";
const PROVIDER_ID: &str = "1.3.6.1.4.1.11129.2.1.21=ASN1:UTF8String:p://1";

/// A request, everything around it, and the evidence.
struct Case {
    text: String,
    signer_name: String,
    username: String,
    groups: Vec<String>,
    usages: Vec<String>,
    allowed: Allowed,
    machine: Option<NamedMachine>,
}

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

/// A PKCS#10 request by openssl, in PEM.
fn csr(key: &str, subject: &str, extensions: &str) -> String {
    let folder = Scratch::new();
    let config = format!(
        "[req]\ndistinguished_name=dn\nreq_extensions=ext\nprompt=no\nstring_mask=utf8only\n[dn]\n{subject}\n[ext]\n{extensions}\n"
    );
    folder.write("req.cnf", config);
    openssl(folder.path(), &format!("genpkey {key} -out key.pem"));
    openssl(folder.path(), "req -new -key key.pem -config req.cnf")
}

const P256: &str = "-algorithm EC -pkeyopt ec_paramgen_curve:P-256";
const SUBJECT: &str = "O=system:nodes\nCN=system:node:n1";

fn envelope(csr: &str) -> Envelope {
    Envelope {
        provider: "challenge".into(),
        phase: Phase::Enrol,
        created_at: portcullis_apimachinery::time::Instant::of_seconds(0),
        node_name: "n1".into(),
        provider_id: "p://1".into(),
        csr_digest: portcullis_pki::sha256(&pem::first(csr.as_bytes()).unwrap().der),
        challenge_id: None,
        member: None,
    }
}

fn with_evidence(csr: &str, change: impl FnOnce(&mut Envelope)) -> String {
    let mut envelope = envelope(csr);
    change(&mut envelope);
    write(csr, &Evidence { provider: "challenge".into(), data: envelope.write(None) })
}

fn good() -> Case {
    let csr = csr(P256, SUBJECT, PROVIDER_ID);
    Case {
        text: with_evidence(&csr, |_| {}),
        signer_name: SIGNER.into(),
        username: "system:bootstrap:abcdef".into(),
        groups: texts(&["system:bootstrappers", "system:bootstrappers:nodes", "system:authenticated"]),
        usages: texts(&["digital signature", "client auth"]),
        allowed: Allowed {
            attestors: BTreeSet::from(["challenge".to_owned()]),
            service_accounts: BTreeSet::from(["system:serviceaccount:boot:strap".to_owned()]),
            token_group: Some("system:bootstrappers:nodes".into()),
            ..Allowed::default()
        },
        machine: Some(NamedMachine {
            node_name: "n1".into(),
            provider_ids: BTreeSet::from(["p://1".to_owned()]),
            is_bootstrapped: true,
        }),
    }
}

fn renewal() -> Case {
    Case {
        username: "system:node:n1".into(),
        groups: texts(&["system:nodes", "system:authenticated"]),
        ..good()
    }
}

impl Case {
    fn report(&self) -> portcullis_attestation::Report<portcullis_attestation::request::Claim> {
        let content: Result<AttestedRequest, String> =
            read(self.text.as_bytes(), Labels::Exact).map_err(|error| error.to_string());
        let request = ClientRequest {
            signer_name: &self.signer_name,
            username: &self.username,
            groups: &self.groups,
            usages: &self.usages,
            content: content.as_ref().map_err(String::as_str),
        };
        check(&request, &self.allowed, self.machine.as_ref())
    }

    #[track_caller]
    fn passes(&self) {
        let report = self.report();
        assert!(report.outcome.is_ok(), "{report:#?}");
    }

    #[track_caller]
    fn fails(&self, reason: Reason, rule: &str) {
        let report = self.report();
        let refusal = report.outcome.as_ref().unwrap_err();
        assert_eq!((refusal.reason, refusal.rule), (reason, rule), "{report:#?}");
    }
}

#[track_caller]
fn fails(change: impl FnOnce(&mut Case), reason: Reason, rule: &str) {
    let mut case = good();
    change(&mut case);
    case.fails(reason, rule);
}

#[test]
fn first_requests_and_renewals_of_kubelets_pass_at_60_to_at_69() {
    let report = good().report();
    let claim = report.outcome.unwrap();
    assert_eq!((&*claim.node_name, claim.is_renewal), ("n1", false));
    let rules: Vec<&str> = report.checks.iter().map(|check| check.rule).collect();
    let expected: Vec<String> = (60..=69).map(|number| format!("AT-{number}")).collect();
    assert_eq!(rules, expected, "every check, in order");
    assert!(report.checks.iter().all(|check| matches!(check.result, CheckResult::Passed(_))));
    assert!(renewal().report().outcome.unwrap().is_renewal);
    // A service account, and an RSA key with its usage.
    let rsa = csr("-algorithm RSA -pkeyopt rsa_keygen_bits:2048", SUBJECT, PROVIDER_ID);
    Case {
        text: with_evidence(&rsa, |_| {}),
        username: "system:serviceaccount:boot:strap".into(),
        groups: texts(&["system:serviceaccounts", "system:serviceaccounts:boot", "system:authenticated"]),
        usages: texts(&["key encipherment", "digital signature", "client auth"]),
        ..good()
    }
    .passes();
    // The extensions that are allowed.
    let more = format!(
        "{PROVIDER_ID}\nkeyUsage=digitalSignature\nextendedKeyUsage=clientAuth\nbasicConstraints=critical,CA:FALSE"
    );
    Case { text: with_evidence(&csr(P256, SUBJECT, &more), |_| {}), ..good() }.passes();
}

#[test]
fn attestors_that_the_cluster_does_not_trust_are_refused_at_60() {
    let reason = Reason::AttestorNotAuthorized;
    fails(|case| case.allowed.attestors.clear(), reason, "AT-60");
    for signer in [
        "cluster.x-k8s.io/kube-apiserver-client-kubelet-tpm",
        "cluster.x-k8s.io/kubelet-serving-challenge",
        "cluster-x-k8s-io/kube-apiserver-client-kubelet-challenge",
        "kubernetes.io/kube-apiserver-client-kubelet",
    ] {
        fails(|case| case.signer_name = signer.into(), reason, "AT-60");
    }
    // The evidence of a weaker attestor, for the signer of a trusted one.
    let csr = csr(P256, SUBJECT, PROVIDER_ID);
    let other = write(&csr, &Evidence { provider: "insecure".into(), data: envelope(&csr).write(None) });
    fails(|case| case.text = other, reason, "AT-60");
}

#[test]
fn malformed_requests_and_evidence_are_refused_at_61() {
    let reason = Reason::MalformedAttestation;
    let plain = csr(P256, SUBJECT, PROVIDER_ID);
    let without_id = csr(P256, SUBJECT, "keyUsage=digitalSignature");
    for text in [
        "x".to_owned(),
        // No evidence, and no provider ID.
        plain.clone(),
        with_evidence(&without_id, |_| {}),
        // For another node, another machine, or another provider.
        with_evidence(&plain, |envelope| envelope.node_name = "n2".into()),
        with_evidence(&plain, |envelope| envelope.provider_id = "p://2".into()),
        with_evidence(&plain, |envelope| envelope.provider = "insecure".into()),
        write(&plain, &Evidence { provider: "challenge".into(), data: b"{}".to_vec() }),
    ] {
        fails(|case| case.text = text, reason, "AT-61");
    }
    for subject in [
        "O=system:nodes\nCN=n1",
        "O=system:nodes\nCN=system:node:",
        "O=system:nodes\nCN=system:node:N1",
        "O=system:nodes",
        "O=system:nodes\nCN=system:node:n1\nOU=x",
    ] {
        let text = with_evidence(&csr(P256, subject, PROVIDER_ID), |_| {});
        fails(|case| case.text = text, reason, "AT-61");
    }
    for key in ["-algorithm ed25519", "-algorithm RSA -pkeyopt rsa_keygen_bits:1024"] {
        let text = with_evidence(&csr(key, SUBJECT, PROVIDER_ID), |_| {});
        fails(|case| case.text = text, reason, "AT-61");
    }
    let other = with_evidence(&plain, |envelope| envelope.csr_digest = [0; 32]);
    fails(|case| case.text = other, Reason::EvidenceNotForThisRequest, "AT-61");
    let data = String::from_utf8(envelope(&plain).write(None)).unwrap().replace("\"v\":1", "\"v\":9");
    let newer = write(&plain, &Evidence { provider: "challenge".into(), data: data.into_bytes() });
    fails(|case| case.text = newer, Reason::UnsupportedAttestationVersion, "AT-61");
}

#[test]
fn machines_that_are_not_there_or_not_ready_or_others_are_refused_at_62_at_63() {
    fails(|case| case.machine = None, Reason::MachineNotFound, "AT-62");
    let with = |change: fn(&mut NamedMachine)| move |case: &mut Case| change(case.machine.as_mut().unwrap());
    fails(with(|machine| machine.provider_ids.clear()), Reason::ProviderIDMismatch, "AT-62");
    fails(with(|machine| machine.is_bootstrapped = false), Reason::BootstrapNotReady, "AT-63");
    assert!(Reason::BootstrapNotReady.is_transient() && !Reason::ProviderIDMismatch.is_transient());
    let pool = BTreeSet::from(["p://0".to_owned(), "p://1".to_owned()]);
    let mut member = good();
    member.machine.as_mut().unwrap().provider_ids = pool;
    member.passes();
    fails(with(|machine| machine.node_name = "n2".into()), Reason::CommonNameMismatch, "AT-67");
}

#[test]
fn requesters_without_the_right_groups_are_refused_at_64() {
    let reason = Reason::WrongRequesterGroups;
    for groups in [
        &["system:bootstrappers", "system:authenticated"][..],
        &["system:bootstrappers:nodes", "system:authenticated"],
        &["system:bootstrappers", "system:bootstrappers:nodes"],
        &["system:bootstrappers", "system:bootstrappers:nodes", "system:authenticated", "system:masters"],
        &[],
    ] {
        fails(|case| case.groups = texts(groups), reason, "AT-64");
    }
    for user in ["somebody", "system:serviceaccount:boot:other", "system:serviceaccount:boot", ""] {
        fails(|case| case.username = user.into(), reason, "AT-64");
    }
    fails(|case| case.allowed.token_group = None, reason, "AT-64");
    let account = ["system:serviceaccounts", "system:serviceaccounts:boot", "system:authenticated"];
    for left_out in account {
        let groups: Vec<&str> = account.into_iter().filter(|group| *group != left_out).collect();
        let change = |case: &mut Case| {
            case.username = "system:serviceaccount:boot:strap".into();
            case.groups = texts(&groups);
        };
        fails(change, reason, "AT-64");
    }
    for groups in [&["system:nodes"][..], &["system:authenticated"]] {
        Case { groups: texts(groups), ..renewal() }.fails(reason, "AT-64");
    }
}

#[test]
fn other_usages_extensions_names_and_organizations_are_refused_at_65_to_at_69() {
    for usages in [
        &["client auth"][..],
        &["digital signature", "client auth", "server auth"],
        // The key is not an RSA key.
        &["digital signature", "client auth", "key encipherment"],
        &[],
    ] {
        fails(|case| case.usages = texts(usages), Reason::WrongUsages, "AT-65");
    }
    for more in ["basicConstraints=CA:TRUE", "nsComment=x", "subjectKeyIdentifier=hash"] {
        let text = with_evidence(&csr(P256, SUBJECT, &format!("{PROVIDER_ID}\n{more}")), |_| {});
        fails(|case| case.text = text, Reason::ForbiddenExtension, "AT-66");
    }
    Case { username: "system:node:n2".into(), ..renewal() }.fails(Reason::CommonNameMismatch, "AT-67");
    for subject in [
        "CN=system:node:n1",
        "0.O=system:nodes\n1.O=system:masters\nCN=system:node:n1",
        "O=x\nCN=system:node:n1",
    ] {
        let text = with_evidence(&csr(P256, subject, PROVIDER_ID), |_| {});
        fails(|case| case.text = text, Reason::WrongOrganization, "AT-68");
    }
    let groups = texts(&["system:nodes", "system:authenticated", "more"]);
    Case { groups, ..renewal() }.fails(Reason::WrongOrganization, "AT-68");
    for names in
        ["DNS:a.example", "IP:10.0.0.1", "email:a@b.example", "URI:spiffe://a/b", "otherName:1.2.3;UTF8:x"]
    {
        let more = format!("{PROVIDER_ID}\nsubjectAltName={names}");
        let text = with_evidence(&csr(P256, SUBJECT, &more), |_| {});
        fails(|case| case.text = text, Reason::NotKubeletClient, "AT-69");
    }
}
