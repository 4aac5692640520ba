//! What authorization webhooks are configured with, and what they answer.

use portcullis_server::authz::configuration::Document;
use portcullis_server::match_conditions::{Conditions, Matched};
use portcullis_server::webhook::review::{ReviewVersion, Spec};
use portcullis_server::webhook::{answer, kubeconfig};

/// Words of the configuration.
pub(super) const CONFIGURATION: &[&str] = &[
    "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n",
    "- {type: RBAC, name: rbac}\n",
    "- type: Webhook\n  name: w\n  webhook:\n",
    "    timeout: 3s\n",
    "    connectionInfo: {type: KubeConfigFile, kubeConfigFile: /k}\n",
    "    matchConditions:\n    - expression: true\n",
];
/// Words of connection files.
pub(super) const KUBECONFIG: &[&str] = &[
    "apiVersion: v1\nkind: Config\n",
    "current-context: c\n",
    "contexts: [{name: c, context: {cluster: c, user: u}}]\n",
    "clusters: [{name: c, cluster: {server: 'https://h/p'}}]\n",
    "users: [{name: u, user: {token: t}}]\n",
    "insecure-skip-tls-verify: true",
];
/// Words of answers.
pub(super) const ANSWER: &[&str] = &[
    "{\"apiVersion\":\"authorization.k8s.io/v1\",\"kind\":\"SubjectAccessReview\",",
    "\"status\":{",
    "\"allowed\":true",
    "\"denied\":true",
    "\"reason\":\"r\"",
    "\"spec\":{\"user\":\"u\"}",
    "}}",
];
/// Words of conditions.
pub(super) const CONDITION: &[&str] = &[
    "request",
    ".user",
    ".groups",
    ".resourceAttributes",
    "has(",
    ")",
    "==",
    "!",
    "&&",
    "||",
    "'a'",
    "[",
    "]",
    ".exists(g, ",
    ".all(g, ",
    "matches(",
    "{",
    "}",
    ":",
    "?",
    ".?",
    "1",
    "duration('1s')",
    ".map(x, ",
    ".orValue(",
];

/// A configuration that is read says the same when it is read again; checking it opens no connection.
pub(super) fn configuration(input: &[u8]) -> bool {
    let Ok(document) = Document::read(input) else { return false };
    assert_eq!(Document::read(input).ok().as_ref(), Some(&document));
    // Faults are told, whatever they are.
    if let Err(error) = document.validate() {
        assert!(!error.to_string().is_empty());
    }
    true
}

/// A connection file is taken or refused with a reason.
pub(super) fn connection(input: &[u8]) -> bool {
    match kubeconfig::check(input) {
        Ok(()) => true,
        Err(reason) => {
            assert!(!reason.is_empty());
            false
        }
    }
}

/// What allows or denies says so in so many words, in the version that was asked in.
pub(super) fn webhook_answer(input: &[u8]) -> bool {
    let mut is_taken = false;
    for version in [ReviewVersion::V1, ReviewVersion::V1beta1] {
        let Ok(status) = answer::read(input, version) else { continue };
        is_taken = true;
        let document: serde_json::Value = serde_json::from_slice(input).unwrap_or_default();
        let said = |field: &str| document.pointer(field).and_then(serde_json::Value::as_bool) == Some(true);
        assert_eq!(status.allowed, said("/status/allowed"));
        assert_eq!(status.denied, said("/status/denied"));
    }
    is_taken
}

/// A condition that compiles evaluates on an ordinary stack, and twice to the same.
pub(super) fn condition(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    let Ok(conditions) = Conditions::compile(&[text.to_owned()]) else { return false };
    let spec = Spec { user: "a".to_owned(), groups: vec!["a".to_owned(), "b".to_owned()], ..Spec::default() };
    let is_same = match (conditions.evaluate(&spec), conditions.evaluate(&spec)) {
        // Maps print in any order.
        (Matched::Failed(_), Matched::Failed(_)) => true,
        (a, b) => a == b,
    };
    assert!(is_same);
    true
}
