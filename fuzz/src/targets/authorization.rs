//! The configuration and the responses of authorization webhooks, and CEL expressions.

use std::sync::Arc;

use portcullis_client::kubeconfig::service;
use portcullis_policy::User;
use portcullis_policy::review::{AccessReview, AccessStatus, ReviewKind, ReviewMetadata, ReviewVersion};
use portcullis_server::authz::configuration::Document;
use portcullis_server::match_conditions::checks::Checks;
use portcullis_server::match_conditions::{
    AdmissionConditions, Conditions, Matched, Write, admission_faults, selector_faults,
};
use portcullis_server::remote::kubeconfig;
use serde_json::json;

use super::admission_policies::answered;

/// The words of the configuration.
pub(super) const CONFIGURATION: &[&str] = &[
    "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n",
    "- {type: RBAC, name: rbac}\n",
    "- type: Webhook\n  name: w\n  webhook:\n",
    "    timeout: 3s\n",
    "    connectionInfo: {type: KubeConfigFile, kubeConfigFile: /k}\n",
    "    matchConditions:\n    - expression: true\n",
];
/// The words of connection files.
pub(super) const KUBECONFIG: &[&str] = &[
    "apiVersion: v1\nkind: Config\n",
    "current-context: c\n",
    "contexts: [{name: c, context: {cluster: c, user: u}}]\n",
    "clusters: [{name: c, cluster: {server: 'https://h/p'}}]\n",
    "users: [{name: u, user: {token: t}}]\n",
    "insecure-skip-tls-verify: true",
];
/// The words of responses.
pub(super) const ANSWER: &[&str] = &[
    "{\"apiVersion\":\"authorization.k8s.io/v1\",\"kind\":\"SubjectAccessReview\",",
    "\"status\":{",
    "\"allowed\":true",
    "\"denied\":true",
    "\"reason\":\"r\"",
    "\"spec\":{\"user\":\"u\"}",
    "}}",
];
/// The words of conditions about writes.
pub(super) const WRITE_CONDITION: &[&str] = &[
    "request.userInfo.groups",
    "request.operation == 'CREATE'",
    "object.metadata.labels",
    "oldObject",
    "has(object.spec)",
    ".exists(x, x == 'a')",
    ".all(x, ",
    "object.spec.list",
    "type(",
    " && ",
    "null",
    "authorizer",
    ".requestResource",
    ".group('')",
    ".resource('pods')",
    ".name('a')",
    ".check('get')",
    ".allowed()",
];
/// The words of conditions.
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
    ".optMap(x, ",
    ".optFlatMap(x, ",
    ".all(k, v, ",
    ".transformList(k, v, ",
    ".transformMap(k, v, ",
    ".transformMapEntry(k, v, ",
    "k",
    "v",
    "x",
];

/// The words of selectors of devices.
pub(super) const SELECTOR: &[&str] = &[
    "device",
    ".driver",
    ".attributes",
    ".capacity",
    ".allowMultipleAllocations",
    "cel.bind(x, ",
    ".optMap(x, ",
    ".optFlatMap(x, ",
    ".all(k, v, ",
    ".exists(k, v, ",
    ".transformList(k, v, ",
    ".transformMap(k, v, ",
    ".transformMapEntry(k, v, ",
    "['a']",
    "has(",
    ")",
    "==",
    "&&",
    ".?",
    "{",
    "}",
    ":",
    "quantity('1')",
    "semver('1.0.0')",
    ".compareTo(",
    "'a'",
    "1",
];

/// An accepted configuration is the same when it is parsed again; validation opens no connection.
pub(super) fn configuration(input: &[u8]) -> bool {
    let Ok(document) = Document::read(input) else { return false };
    assert_eq!(Document::read(input).ok().as_ref(), Some(&document));
    // Errors can always be printed.
    if let Err(error) = document.validate() {
        assert!(!error.to_string().is_empty());
    }
    true
}

/// A connection file is accepted or refused with a reason.
pub(super) fn connection(input: &[u8]) -> bool {
    let checked =
        kubeconfig::to_json(input).and_then(|json| service::check(&json).map_err(|error| error.to_string()));
    match checked {
        Ok(()) => true,
        Err(reason) => {
            assert!(!reason.is_empty());
            false
        }
    }
}

/// A response that allows or denies says so explicitly, in the requested version.
pub(super) fn webhook_answer(input: &[u8]) -> bool {
    let mut is_taken = false;
    for version in [ReviewVersion::V1, ReviewVersion::V1beta1] {
        let Ok(status) = AccessStatus::read(input, version) else { continue };
        is_taken = true;
        let document: serde_json::Value = serde_json::from_slice(input).unwrap_or_default();
        let said = |field: &str| document.pointer(field).and_then(serde_json::Value::as_bool) == Some(true);
        assert_eq!(status.allowed, said("/status/allowed"));
        assert_eq!(status.denied, said("/status/denied"));
    }
    is_taken
}

/// A condition that compiles can be evaluated on the usual stack, and always with the same result.
pub(super) fn condition(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    let Ok(conditions) = Conditions::compile(&[text.to_owned()]) else { return false };
    let spec = AccessReview {
        version: ReviewVersion::V1,
        kind: ReviewKind::SubjectAccessReview,
        metadata: ReviewMetadata::default(),
        user: User::new("a", ["a", "b"]),
        resource: None,
        non_resource: None,
    };
    let is_same = match (conditions.evaluate(&spec), conditions.evaluate(&spec)) {
        // Maps are printed in any order.
        (Matched::Failed(_), Matched::Failed(_)) => true,
        (a, b) => a == b,
    };
    assert!(is_same);
    true
}

/// A condition about a write that compiles can be evaluated on the usual stack, and always with the same result; one that does
/// not has a fault.
pub(super) fn admission_condition(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    let expressions = [text.to_owned()];
    let Ok(conditions) = AdmissionConditions::compile(&expressions) else {
        assert!(!admission_faults(expressions.to_vec()).is_empty());
        return false;
    };
    let request = json!({"name": "a", "operation": "CREATE", "userInfo": {"groups": ["a", "b"]}});
    let object = json!({"metadata": {"name": "a", "labels": {"a": "b"}}, "spec": {"list": [1, 2.5, null, "\u{0}int"]}});
    let write =
        Write { request: request.as_object().expect("an object"), object: object.as_object(), old: None };
    let evaluate = || {
        let checks = Arc::new(Checks::of_conditions());
        loop {
            let matched = conditions.evaluate(&write, &checks);
            if !answered(&checks) {
                return matched;
            }
        }
    };
    let is_same = match (evaluate(), evaluate()) {
        // Maps are printed in any order.
        (Matched::Failed(_), Matched::Failed(_)) => true,
        (a, b) => a == b,
    };
    assert!(is_same);
    true
}

/// A selector has one fault, which can be printed, or none, and the same when it is compiled again.
pub(super) fn selector(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    let faults = selector_faults(vec![text.to_owned()]);
    assert_eq!(faults, selector_faults(vec![text.to_owned()]));
    assert!(faults.len() <= 1 && faults.values().all(|fault| !fault.is_empty()));
    faults.is_empty()
}
