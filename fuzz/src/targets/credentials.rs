//! The inputs of a node's agent: what a credential plugin's client sends, and pairs of certificate and key.

use portcullis_client::node_certificate::exec;
use portcullis_pki::{Pair, Request};

pub(super) const EXEC: &[&str] = &[
    "\"kind\":\"ExecCredential\"",
    "\"apiVersion\":\"client.authentication.k8s.io/v1\"",
    "\"client.authentication.k8s.io/v1beta1\"",
    "{}",
    "[]",
    "null",
    "\\u0000",
    "[[[[",
];

pub(super) fn exec_info(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    let Ok(version) = exec::version(text) else { return false };
    let word = match version {
        exec::Version::V1 => "v1",
        exec::Version::V1Beta1 => "v1beta1",
    };
    assert!(text.contains(word) || text.contains('\\'), "a version that nobody has asked for");
    true
}

pub(super) fn certificate_pair(input: &[u8]) -> bool {
    let Ok(pair) = Pair::from_pem(input, input) else { return false };
    let (certificates, key) = (pair.certificates_pem(), pair.key().to_pem());
    let again =
        Pair::from_pem(certificates.as_bytes(), key.as_bytes()).expect("what was read can be written");
    assert_eq!(again.key().public_der(), pair.key().public_der());
    assert_eq!((again.not_before(), again.not_after()), (pair.not_before(), pair.not_after()));
    let asked = Request {
        common_name: pair.common_name().to_owned(),
        organizations: pair.organizations().to_vec(),
        ..Request::default()
    };
    assert!(!pair.satisfies(&Request { common_name: format!("{}x", asked.common_name), ..asked }));
    true
}
