//! JSON is decoded as Go decodes it into the types of Kubernetes.

#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot be set up must stop"
)]

use portcullis_apimachinery::json::MAX_DEPTH;
use portcullis_kinds::decode::{self, DecodeError, Decoded};
use portcullis_kinds::schema::Type;
use portcullis_kinds::schema::{authorization, coordination, core, machine, meta, rbac, resource};
use serde_json::{Value, json};

fn read(text: &str, ty: &'static Type) -> Result<Decoded, DecodeError> {
    decode::json(text.as_bytes(), ty)
}

fn object(text: &str, ty: &'static Type) -> Value {
    Value::Object(read(text, ty).unwrap().object)
}

fn problems(text: &str, ty: &'static Type) -> Vec<String> {
    read(text, ty).unwrap().problems.iter().map(ToString::to_string).collect()
}

#[test]
fn nothing_is_an_empty_object_ap_11() {
    for text in ["null", "{}", " {} \n"] {
        assert_eq!(object(text, &core::CONFIG_MAP), json!({"metadata": {}}), "{text}");
    }
    assert_eq!(object("{}", &core::POD), json!({"metadata": {}, "spec": {"containers": null}, "status": {}}));
}

#[test]
fn what_is_not_one_json_value_is_refused_ap_11() {
    for text in [
        "",
        " ",
        "{",
        "}",
        "[]",
        "3",
        "\"x\"",
        "true",
        "{} {}",
        "{} x",
        "{\"a\":}",
        "{\"a\" 1}",
        "{a:1}",
        "{\"a\":1,}",
        "{'a':1}",
        "{\"a\":01}",
        "{\"a\":1.}",
        "{\"a\":+1}",
        "{\"a\":nul}",
        "{\"a\":\"\n\"}",
        "{\"a\":\"\\x\"}",
        "{\"a\":\"\\u12\"}",
        "{\"a\":[1 2]}",
        "{\"a\":\"",
        "\u{feff}{}",
        "{\"a\":-}",
        "{\"a\":1e}",
    ] {
        assert!(read(text, &core::CONFIG_MAP).is_err(), "{text:?}");
    }
}

#[test]
fn values_of_another_type_are_refused_ap_11() {
    for (text, ty) in [
        (r#"{"metadata":[]}"#, &core::CONFIG_MAP),
        (r#"{"metadata":""}"#, &core::CONFIG_MAP),
        (r#"{"metadata":{"name":1}}"#, &core::CONFIG_MAP),
        (r#"{"metadata":{"generation":"1"}}"#, &core::CONFIG_MAP),
        (r#"{"metadata":{"generation":1.0}}"#, &core::CONFIG_MAP),
        (r#"{"metadata":{"generation":1e2}}"#, &core::CONFIG_MAP),
        (r#"{"metadata":{"generation":9223372036854775808}}"#, &core::CONFIG_MAP),
        (r#"{"metadata":{"creationTimestamp":"2026-11-21"}}"#, &core::CONFIG_MAP),
        (r#"{"metadata":{"creationTimestamp":0}}"#, &core::CONFIG_MAP),
        (r#"{"data":{"a":1}}"#, &core::CONFIG_MAP),
        (r#"{"data":[]}"#, &core::CONFIG_MAP),
        (r#"{"binaryData":{"a":"%%"}}"#, &core::CONFIG_MAP),
        (r#"{"binaryData":{"a":"YQ"}}"#, &core::CONFIG_MAP),
        (r#"{"immutable":"true"}"#, &core::CONFIG_MAP),
        (r#"{"kind":1}"#, &core::CONFIG_MAP),
        (r#"{"spec":{"containers":{}}}"#, &core::POD),
        (r#"{"spec":{"containers":["a"]}}"#, &core::POD),
        (r#"{"spec":{"priority":2147483648}}"#, &core::POD),
        (r#"{"spec":{"overhead":{"cpu":"x"}}}"#, &core::POD),
        (r#"{"spec":{"overhead":{"cpu":true}}}"#, &core::POD),
        (r#"{"spec":{"renewTime":"2026-01-02T03:04:05Z"}}"#, &coordination::LEASE),
        (r#"{"spec":{"renewTime":"2026-01-02T03:04:05.000000006Z"}}"#, &coordination::LEASE),
    ] {
        assert!(read(text, ty).is_err(), "{text}");
    }
    let error = read(r#"{"spec":{"containers":[{},{"name":1}]}}"#, &core::POD).unwrap_err();
    let expected = DecodeError::Type {
        path: "spec.containers[1].name".to_owned(),
        found: "number".to_owned(),
        wanted: "string",
    };
    assert_eq!(error, expected);
}

#[test]
fn values_are_brought_into_the_form_that_go_prints_ap_112_ap_130() {
    let pod = r#"{"metadata":{"creationTimestamp":"2026-11-21T10:00:00.9+02:00"},
        "spec":{"overhead":{"cpu":0.5,"memory":" 1024Mi ","x":1e9,"y":2}}}"#;
    assert_eq!(
        object(pod, &core::POD),
        json!({
            "metadata": {"creationTimestamp": "2026-11-21T08:00:00Z"},
            "spec": {"containers": null, "overhead": {"cpu": "500m", "memory": "1Gi", "x": "1e9", "y": "2"}},
            "status": {},
        })
    );
    let lease = r#"{"spec":{"renewTime":"2026-01-02T05:04:05.000006+02:00"}}"#;
    assert_eq!(
        object(lease, &coordination::LEASE)["spec"],
        json!({"renewTime": "2026-01-02T03:04:05.000006Z"})
    );
    let secret = r#"{"data":{"a":"Y\nQ==","b":[97,null],"c":null,"d":"YR=="}}"#;
    let expected = json!({"a": "YQ==", "b": "YQA=", "c": "", "d": "YQ=="});
    assert_eq!(object(secret, &core::SECRET)["data"], expected);
}

#[test]
fn unpaired_surrogates_and_bad_bytes_are_replaced_ap_12() {
    let text = |value: &str| {
        object(&format!(r#"{{"data":{{"a":"{value}"}}}}"#), &core::CONFIG_MAP)["data"]["a"].clone()
    };
    assert_eq!(text(r"\ud83d\ude00"), "\u{1f600}");
    assert_eq!(text(r"\ud83d"), "\u{fffd}");
    assert_eq!(text(r"\ude00\ud83d"), "\u{fffd}\u{fffd}");
    assert_eq!(text(r"\ud83d\u0041"), "\u{fffd}A");
    assert_eq!(text(r"\ud83d\n"), "\u{fffd}\n");
    assert_eq!(text(r"\ud83d\ud83d\ude00"), "\u{fffd}\u{1f600}");
    let decoded = decode::json(b"{\"data\":{\"a\":\"x\xff\xf0\x9fy\"}}", &core::CONFIG_MAP).unwrap();
    assert_eq!(decoded.object["data"]["a"], "x\u{fffd}\u{fffd}\u{fffd}y");
}

#[test]
fn equal_keys_are_merged_or_the_last_wins_ap_13() {
    let text =
        r#"{"data":{"a":"1","b":"1"},"metadata":{"name":"x"},"data":{"a":"2"},"metadata":{"namespace":"n"}}"#;
    let expected = json!({"metadata": {"name": "x", "namespace": "n"}, "data": {"a": "2", "b": "1"}});
    assert_eq!(object(text, &core::CONFIG_MAP), expected);
    assert_eq!(object(r#"{"data":{"a":"1","a":"2"}}"#, &core::CONFIG_MAP)["data"]["a"], "2");
    // Over a plain value null does nothing, over a map or pointer it takes away.
    let text = r#"{"metadata":{"name":"x","name":null},"data":{"a":"1"},"data":null,"immutable":true,"immutable":null}"#;
    assert_eq!(object(text, &core::CONFIG_MAP), json!({"metadata": {"name": "x"}}));
}

#[test]
fn names_count_as_they_are_written_ap_13() {
    let text = r#"{"Metadata":{"name":"x"},"data":{"A":"1","a":"2"}}"#;
    assert_eq!(object(text, &core::CONFIG_MAP), json!({"metadata": {}, "data": {"A": "1", "a": "2"}}));
    assert_eq!(problems(text, &core::CONFIG_MAP), [r#"unknown field "Metadata""#]);
}

#[test]
fn unknown_and_duplicate_fields_are_told_in_order_ap_14() {
    let text = r#"{"zz":null,"metadata":{"name":"a","name":"b","labels":{"x":"1","x":"2"}},
        "spec":{"containers":[{"nam":1},{"foo":{"bar":1},"name":"c"}],"volumes":[{"name":"v","secret":{"x":1}}],"a\"b":1},
        "zz":1}"#;
    assert_eq!(
        problems(text, &core::POD),
        [
            r#"unknown field "zz""#,
            r#"duplicate field "metadata.name""#,
            r#"duplicate field "metadata.labels.x""#,
            r#"unknown field "spec.containers[0].nam""#,
            r#"unknown field "spec.containers[1].foo""#,
            r#"unknown field "spec.volumes[0].secret.x""#,
            r#"unknown field "spec.a\"b""#,
        ]
    );
    let many: String = (0..200).map(|index| format!(r#""f{index}":1,"#)).collect();
    assert_eq!(problems(&format!("{{{many}\"z\":1}}"), &core::POD).len(), 100);
    // A key is a duplicate of those in the same object.
    let text = r#"{"metadata":{"labels":{"a":"1"},"labels":{"a":"2","b":"3","b":"4"},"labels":null}}"#;
    let told = [r#"duplicate field "metadata.labels""#, r#"duplicate field "metadata.labels.b""#];
    assert_eq!(problems(text, &core::POD), told);
}

/// A map over an earlier one keeps its members, as in Go. Going through those for each repetition would take minutes here.
#[test]
fn a_map_that_is_repeated_often_keeps_what_the_first_one_set_ap_13() {
    let labels: Vec<String> = (0..50_000).map(|index| format!(r#""{index}":"""#)).collect();
    let repeated = r#","labels":{}"#.repeat(50_000);
    let text = format!(r#"{{"metadata":{{"labels":{{{}}}{repeated}}}}}"#, labels.join(","));
    let pod = decode::json(text.as_bytes(), &core::POD).unwrap();
    assert_eq!(pod.object["metadata"]["labels"].as_object().map(serde_json::Map::len), Some(50_000));
}

#[test]
fn zero_values_are_printed_as_go_prints_them_ap_136() {
    let text = r#"{"metadata":{"labels":{},"name":"","finalizers":[]},"rules":[]}"#;
    assert_eq!(object(text, &rbac::ROLE), json!({"metadata": {}, "rules": null}));
    assert_eq!(object("{\"data\":{}}", &core::CONFIG_MAP), json!({"metadata": {}}));
    assert_eq!(object(r#"{"data":{"a":null}}"#, &core::CONFIG_MAP)["data"], json!({"a": ""}));
    assert_eq!(object("{}", &coordination::LEASE), json!({"metadata": {}, "spec": {}}));
    let event = json!({
        "metadata": {}, "involvedObject": {}, "source": {}, "firstTimestamp": null, "lastTimestamp": null,
        "eventTime": null, "reportingComponent": "", "reportingInstance": "",
    });
    assert_eq!(object("{}", &core::EVENT), event);
    let pod = r#"{"spec":{"containers":[null,{"livenessProbe":{"tcpSocket":{}},"ports":[null]}],
        "enableServiceLinks":false,"hostNetwork":false,"securityContext":{},"tolerations":[{"tolerationSeconds":0}]}}"#;
    let expected = json!({
        "containers": [
            {"name": "", "resources": {}},
            {"name": "", "resources": {}, "ports": [{"containerPort": 0}], "livenessProbe": {"tcpSocket": {"port": 0}}},
        ],
        "enableServiceLinks": false,
        "securityContext": {},
        "tolerations": [{"tolerationSeconds": 0}],
    });
    assert_eq!(object(pod, &core::POD)["spec"], expected);
    // The year 1 is Go's zero time.
    let text = r#"{"metadata":{"creationTimestamp":"0001-01-01T00:00:00Z"},"firstTimestamp":"0001-01-01T00:00:00Z"}"#;
    assert_eq!(object(text, &core::EVENT), event);
}

#[test]
fn any_value_is_kept_as_it_is() {
    let parameters = json!({"b": [1, -2, 1.5, null, {"z": null}], "a": "", "c": {}});
    let text =
        json!({"spec": {"config": [{"opaque": {"driver": "d", "parameters": parameters}}]}}).to_string();
    let class = object(&text, &resource::DEVICE_CLASS);
    assert_eq!(class["spec"]["config"][0], json!({"opaque": {"driver": "d", "parameters": parameters}}));
    assert!(problems(&text, &resource::DEVICE_CLASS).is_empty());
    let machine =
        r#"{"spec":{"providerID":"a","bootstrap":{"x":1}},"status":{"addresses":[{"type":"t","y":2}]}}"#;
    let read = object(machine, &machine::CLUSTER_MACHINE);
    let expected: Value = serde_json::from_str(machine).unwrap();
    assert_eq!((&read["spec"], &read["status"]), (&expected["spec"], &expected["status"]));
    assert!(read_fails(r#"{"status":{"addresses":{}}}"#, &machine::CLUSTER_MACHINE));
}

fn read_fails(text: &str, ty: &'static Type) -> bool {
    read(text, ty).is_err()
}

#[test]
fn the_old_review_has_the_field_group() {
    let beta = portcullis_kinds::schema::find("authorization.k8s.io/v1beta1", "SubjectAccessReview").unwrap();
    let text = r#"{"spec":{"group":["a"],"groups":["b"]}}"#;
    assert_eq!(problems(text, beta), [r#"unknown field "spec.groups""#]);
    assert_eq!(problems(text, &authorization::SUBJECT_ACCESS_REVIEW), [r#"unknown field "spec.group""#]);
}

#[test]
fn what_would_exhaust_memory_or_stack_is_refused() {
    let deep = |levels: usize| {
        let inner = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        format!(r#"{{"fieldsV1":{inner}}}"#)
    };
    assert!(read(&deep(MAX_DEPTH - 1), &meta::MANAGED_FIELDS_ENTRY).is_ok());
    assert!(read_fails(&deep(MAX_DEPTH), &meta::MANAGED_FIELDS_ENTRY));
    assert!(read_fails(&deep(1_000_000), &meta::MANAGED_FIELDS_ENTRY));
    let value = |levels| (1..levels).fold(json!([]), |inner, _| json!([inner]));
    let entry = |levels| decode::value(json!({"fieldsV1": value(levels)}), &meta::MANAGED_FIELDS_ENTRY);
    assert!(entry(MAX_DEPTH - 1).is_ok());
    assert_eq!(entry(MAX_DEPTH), Err(DecodeError::TooDeep));
    let many = |count: usize| format!(r#"{{"spec":{{"containers":[{}{{}}]}}}}"#, "{},".repeat(count));
    assert!(read(&many(10_000), &core::POD).is_ok());
    assert!(read_fails(&many(decode::MAX_VALUES), &core::POD));
}
