//! Certificate requests: W24 and NR-96 to NR-100. The requests under `csr/` were made by `openssl req -new`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use portcullis_policy::features::Feature;
use portcullis_policy::restriction::NodeRestriction;
use portcullis_policy::restriction::Operation::{Create, Delete, Update};
use serde_json::{Value, json};

use crate::node_restriction::support::{Silent, World, Write, create, node, write};

const RESOURCE: &str = "certificatesigningrequests.certificates.k8s.io";
const KUBELET_SIGNERS: [&str; 2] =
    ["kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"];

const OWN: &str = include_str!("csr/own.pem");
const OWN_LAST: &str = include_str!("csr/own-last.pem");
const OTHERS: [&str; 6] = [
    include_str!("csr/bare-name.pem"),
    include_str!("csr/foreign.pem"),
    include_str!("csr/longer.pem"),
    include_str!("csr/nameless.pem"),
    include_str!("csr/other.pem"),
    include_str!("csr/own-first.pem"),
];

fn body(signer: &str, request: &str) -> Value {
    json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": "c"}, "spec": {"signerName": signer, "request": request}})
}

fn ask(signer: &str, pem: &str) -> Write {
    create(RESOURCE, "", "c", &body(signer, &STANDARD.encode(pem)))
}

fn code(write: &Write) -> u16 {
    World::of(&[]).code(write)
}

#[test]
fn a_kubelet_signer_is_asked_only_in_ones_own_name_w24_nr_100() {
    for signer in KUBELET_SIGNERS {
        assert_eq!(code(&ask(signer, OWN)), 200);
        assert_eq!(code(&ask(signer, OWN_LAST)), 200, "the last common name counts");
        for other in OTHERS {
            assert_eq!(code(&ask(signer, other)), 403, "{signer}: {other}");
        }
        assert_eq!(code(&ask(signer, OWN).by(node("n1"))), 403);
    }
}

#[test]
fn what_is_no_request_is_refused_nr_99() {
    let coded = STANDARD.encode(OWN);
    let certificate = OWN.replace("CERTIFICATE REQUEST", "CERTIFICATE");
    let empty = "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n";
    for signer in KUBELET_SIGNERS {
        for pem in [&*certificate, empty, ""] {
            assert_eq!(code(&ask(signer, pem)), 403, "{pem}");
        }
        for text in [OWN, "AAA", coded.trim_end_matches('=').get(1..).unwrap()] {
            assert_eq!(code(&create(RESOURCE, "", "c", &body(signer, text))), 403, "{text}");
        }
        let mut lines = coded.clone();
        lines.insert_str(16, "\r\n");
        assert_eq!(
            code(&create(RESOURCE, "", "c", &body(signer, &lines))),
            200,
            "line ends are no part of base64"
        );
    }
}

#[test]
fn other_signers_and_operations_are_not_examined_w24_nr_96_to_nr_98() {
    for signer in
        ["kubernetes.io/kube-apiserver-client", "kubernetes.io/kubelet-serving2", "example.com/any", ""]
    {
        assert_eq!(code(&ask(signer, OTHERS[1])), 200, "{signer}");
        assert_eq!(code(&ask(signer, "")), 200, "{signer}");
    }
    for signer in KUBELET_SIGNERS {
        for operation in [Update, Delete] {
            assert_eq!(code(&write(operation, RESOURCE, "", "c").with(&body(signer, ""))), 200, "NR-97");
        }
        let mut insecure = World::of(&[]);
        insecure.gates = insecure.gates.with(Feature::AllowInsecureKubeletCertificateSigningRequests, true);
        assert_eq!(insecure.code(&ask(signer, OTHERS[1])), 200, "NR-96");
        assert_eq!(insecure.code(&write(Create, RESOURCE, "", "c")), 200, "NR-96: not even read");
    }
}

#[test]
fn without_a_reader_requests_for_kubelet_signers_are_refused_nr_99() {
    let world = World::of(&[]);
    let plugin = NodeRestriction::new(&world.cache, world.gates);
    let admit = |signer| plugin.admit(&ask(signer, OWN).request(), &Silent);
    for signer in KUBELET_SIGNERS {
        assert_eq!(admit(signer).unwrap_err().code, 403);
    }
    assert_eq!(admit("example.com/any"), Ok(()));
}
