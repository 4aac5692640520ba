//! The expressions of ValidatingAdmissionPolicies. A policy that compiles can be evaluated on the usual stack, and always with the
//! same outcome; one that does not has faults, each with its field.

use std::sync::Arc;

use portcullis_kinds::Map;
use portcullis_server::match_conditions::Write;
use portcullis_server::match_conditions::checks::{Answer, Checks};
use portcullis_server::match_conditions::policies::{Budget, Inputs, Judgement, Program, Texts, faults};
use serde_json::{Value, json};

pub(super) const POLICY: &[&str] = &[
    "\"paramKind\":{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\"},",
    "\"matchConditions\":[{\"name\":\"a\",\"expression\":\"true\"}],",
    "\"variables\":[{\"name\":\"a\",\"expression\":\"object.spec.list\"},",
    "{\"name\":\"b\",\"expression\":\"variables.a.map(x, [x, x])\"}],",
    "\"validations\":[{\"expression\":\"variables.b.size() > 1\",\"messageExpression\":\"string(variables.a)\"}],",
    "\"auditAnnotations\":[{\"key\":\"a\",\"valueExpression\":\"null\"}],",
    "variables.a",
    "has(variables.b)",
    "namespaceObject.metadata.labels",
    "params.data",
    ".all(x, ",
    ".all(k, v, ",
    ".transformMap(k, v, ",
    ".optMap(x, ",
    "authorizer",
    ".requestResource",
    ".group('')",
    ".resource('pods')",
    ".path('/a')",
    ".serviceAccount('a', 'b')",
    ".namespace('a')",
    ".fieldSelector('a=b')",
    ".check('get')",
    ".allowed()",
    ".reason()",
    " + ",
];

/// Answers the open questions of expressions, each always alike. Returns whether there were any.
pub(super) fn answered(checks: &Checks) -> bool {
    let open = checks.take_open();
    for question in &open {
        let is_allowed = question.verb.len().is_multiple_of(2);
        let error = (!is_allowed).then(|| "it failed".to_owned());
        checks.add(question.clone(), Answer { is_allowed, reason: "\u{0}int".to_owned(), error });
    }
    !open.is_empty()
}

pub(super) fn admission_policy(input: &[u8]) -> bool {
    let Ok(Value::Object(spec)) = serde_json::from_slice(input) else { return false };
    let Ok(texts) = Texts::of(&spec) else { return false };
    let Ok(program) = Program::compile(&texts) else {
        let policy: Map = [("spec".to_owned(), Value::Object(spec))].into_iter().collect();
        let found = faults(&policy);
        assert!(found.iter().all(|fault| fault.field.starts_with("spec") && !fault.why.is_empty()));
        assert!(!found.is_empty(), "what cannot be compiled has a fault");
        return false;
    };
    let request = json!({"name": "a", "operation": "CREATE", "userInfo": {"groups": ["a", "b"]}});
    let object = json!({"metadata": {"name": "a", "labels": {"a": "b"}}, "spec": {"list": [1, 2.5, null, "\u{0}int"]}});
    let namespace = json!({"metadata": {"name": "n", "labels": {"a": "b"}}});
    let params = json!({"metadata": {"name": "p"}, "data": {"a": "1"}});
    let write =
        Write { request: request.as_object().expect("an object"), object: object.as_object(), old: None };
    let inputs = Inputs::of(&write, namespace.as_object());
    let judge = || {
        let (mut budget, checks) = (Budget::default(), Arc::new(Checks::of_policy()));
        loop {
            let judged = program.judge(&inputs, params.as_object(), &mut budget, &checks);
            if !answered(&checks) {
                return judged;
            }
        }
    };
    match (judge(), judge()) {
        // Maps are printed in any order, and so are messages made of them.
        (Judgement::Judged(a, _), Judgement::Judged(b, _)) => assert_eq!(a.len(), b.len()),
        (Judgement::Failed(_), Judgement::Failed(_)) => {}
        (a, b) => assert_eq!(a, b),
    }
    true
}
