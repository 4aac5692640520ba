//! The path in the error of an object whose fields do not fit.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test that cannot be set up must stop")]

use portcullis_apimachinery::json::{self, JsonError};
use portcullis_policy::objects::{Kind, Object};

#[test]
fn a_field_of_another_type_is_named_with_its_path_and_line() {
    let cases = [
        (r#"{"spec":{"nodeName":5}}"#, "spec.nodeName"),
        (r#"{"spec":{"nodeName":512.5e3,"x":1}}"#, "spec.nodeName"),
        (r#"{"spec":{"nodeName":true}}"#, "spec.nodeName"),
        (r#"{"spec":{"nodeName":{"a":1}}}"#, "spec.nodeName"),
        (r#"{"spec":{"nodeName":["a"]}}"#, "spec.nodeName"),
        (r#"{"spec":{"volumes":[{},{"name":false}]}}"#, "spec.volumes[1].name"),
        (r#"{"spec":{"volumes":"none"}}"#, "spec.volumes"),
        (r#"{"metadata":{"labels":{"a.b/c":1}}}"#, r#"metadata.labels["a.b/c"]"#),
        (r#"{"metadata":{"labels":{"n1":"a","n2":22}}}"#, "metadata.labels.n2"),
        (r#"{"spec":{"nodeName":[]}}"#, "spec.nodeName"),
        (r#"{"spec":{"nodeName":{}}}"#, "spec.nodeName"),
        (r#"{"spec":{"volumes":{}}}"#, "spec.volumes"),
        (r#"{"spec":"x1"}"#, "spec"),
        (r#"{"spec":["n1"]}"#, "spec"),
        (r#"{"spec":[]}"#, "spec"),
        ("{\"spec\": {\"nodeName\": [\n \"a\"]}}", "spec.nodeName"),
        ("{\"spec\": {\"nodeName\": {\n \"a\": 1}}}", "spec.nodeName"),
        ("{\"spec\":\n {\"volumes\": [\n [\"a\"]]}}", "spec.volumes[0]"),
        ("{\"spec\":\n {\"volumes\": [{},\n [\"a\"]]}}", "spec.volumes[1]"),
        (r#"{"spec":{"volumes":[{},["a"]]}}"#, "spec.volumes[1]"),
        (r#"{"spec":{"volumes":[{},1]}}"#, "spec.volumes[1]"),
        (r#"{"spec":{"volumes":[true]}}"#, "spec.volumes[0]"),
        (r#"{"metadata":[]}"#, "metadata"),
        (r#"{"spec":{"volumes":[{"secret":["s"]}]}}"#, "spec.volumes[0].secret"),
        (r#"{"spec":{"volumes":[["a"]]}}"#, "spec.volumes[0]"),
        (
            r#"{"spec":{"containers":[{"env":[{"valueFrom":{"secretKeyRef":[]}}]}]}}"#,
            "spec.containers[0].env[0].valueFrom.secretKeyRef",
        ),
        (r#"[]"#, ""),
        (r#"{"spec":17}"#, "spec"),
    ];
    for (text, path) in cases {
        assert_eq!(json::check(text), Ok(()), "{text}");
        let error = Object::parse(Kind::Pod, text).expect_err(text);
        let error = JsonError::of_decoding(text, &error);
        assert_eq!(error.path, path, "{text}: {error}");
        assert!(!error.reason.contains("column"), "{error}");
    }
    let text = "{\n \"metadata\": {},\n \"spec\": {\n  \"nodeName\": 5\n }\n}";
    let error = Object::parse(Kind::Pod, text).unwrap_err();
    assert_eq!(JsonError::of_decoding(text, &error).line, 4);
}

#[test]
fn an_object_is_read_by_its_own_type_or_the_error_names_the_field() {
    let key = r#""metadata": {"name": "a", "namespace": "s"}"#;
    let read = |fields: &str| {
        Object::from_json(&format!("{{{fields}, {key}}}")).map(|object| object.map(|o| o.kind()))
    };
    assert_eq!(read(r#""apiVersion": "v1", "kind": "Pod""#), Ok(Some(Kind::Pod)));
    assert_eq!(read(r#""apiVersion": "v1", "kind": "Secret""#), Ok(None));
    for (fields, path) in [
        (r#""kind": "Pod""#, "apiVersion"),
        (r#""apiVersion": "", "kind": "Pod""#, "apiVersion"),
        (r#""apiVersion": "v1""#, "kind"),
        (r#""apiVersion": "v1", "kind": "List", "items": []"#, "kind"),
        (r#""apiVersion": "v1", "kind": "Node""#, "metadata.namespace"),
        (r#""apiVersion": "rbac.authorization.k8s.io/v1beta1", "kind": "Role""#, "apiVersion"),
        (r#""apiVersion": "v1", "kind": "Pod", "kind": "Node""#, "kind"),
        (r#""apiVersion": "v1", "kind": "Pod", "spec": {"nodeName": 5}"#, "spec.nodeName"),
    ] {
        assert_eq!(read(fields).expect_err(fields).path, path, "{fields}");
    }
    let nameless = r#"{"apiVersion": "v1", "kind": "Node", "metadata": {}}"#;
    assert_eq!(Object::from_json(nameless).unwrap_err().path, "metadata.name");
}
