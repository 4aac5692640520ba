//! Tests ABAC against recorded responses, and the edge cases of its lines (AB-1 to AB-62).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use portcullis_testkit::recorded;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::chain::{Chain, Member};
use crate::review::{AccessStatus, Review};

/// A stub of the YAML parser, for the lines that these tests need.
fn yaml(text: &str) -> Result<Value, String> {
    match text.trim() {
        "user: bob" => Ok(json!({ "user": "bob" })),
        "user: 5" => Ok(json!({ "user": 5 })),
        "null" | "---" | "~" => Ok(Value::Null),
        "[]" => Ok(json!([])),
        "garbage" => Ok(json!("garbage")),
        other => Err(format!("not YAML: {other}")),
    }
}

fn parse(text: &str) -> Result<AbacPolicyFile, PolicyFileError> {
    AbacPolicyFile::parse("policy.jsonl", text.as_bytes(), Compatibility::Strict, yaml)
}

fn compatible(text: &str) -> Result<AbacPolicyFile, PolicyFileError> {
    AbacPolicyFile::parse("policy.jsonl", text.as_bytes(), Compatibility::AbacCompatible, yaml)
}

fn file(lines: &[Value]) -> AbacPolicyFile {
    let text: Vec<String> = lines.iter().map(ToString::to_string).collect();
    parse(&text.join("\n")).unwrap()
}

fn versioned(spec: Value) -> Value {
    json!({ "apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": spec })
}

fn get<'a>(user: &'a User, resource: ResourceRequest<'a>) -> Attributes<'a> {
    Attributes { user, verb: "get", path: "", resource: Some(resource) }
}

fn path<'a>(user: &'a User, verb: &'a str, path: &'a str) -> Attributes<'a> {
    Attributes { user, verb, path, resource: None }
}

#[test]
fn every_recorded_review_is_answered_as_by_kubernetes() {
    for case in ["case1", "case2", "case3"] {
        let policies = Arc::new(parse(&recorded::text(&format!("abac/{case}/policy.jsonl"))).unwrap());
        let chain = Chain::new(vec![Member::Abac(Arc::clone(&policies))]);
        for line in recorded::lines(&format!("abac/{case}/reviews.jsonl")) {
            let Ok(Review::Access(review)) = Review::read(&line, None) else { panic!("{line}") };
            let sender = User::default();
            let read = review.attributes(&sender).unwrap_or_else(|e| panic!("{line}: {e:?}"));
            let outcome = chain.decide(&read.attributes());
            let status = AccessStatus::new(&read, &outcome);
            assert_eq!(serde_json::to_value(status).unwrap(), line["status"], "{case}: {line}");
            let explained = policies.explain(&read.attributes()).starts_with("allowed");
            assert_eq!(explained, outcome.is_allow(), "{case}: {line}");
        }
    }
}

#[test]
fn ab_section_6_the_worked_cases() {
    let policies = file(&[
        versioned(json!({ "user": "alice", "namespace": "*", "resource": "*", "apiGroup": "*" })),
        versioned(json!({ "user": "kubelet", "namespace": "*", "resource": "pods", "readonly": true })),
        versioned(
            json!({ "user": "bob", "namespace": "projectCaribou", "resource": "pods", "readonly": true }),
        ),
        versioned(json!({ "user": "*", "readonly": true, "nonResourcePath": "*" })),
        json!({ "user": "carol", "namespace": "ns1" }),
        json!({ "readonly": true, "resource": "events" }),
    ]);
    let authenticated = ["system:authenticated"].as_slice();
    // user, groups, verb, namespace, group, resource or path
    for (user, groups, verb, namespace, group, target, allowed) in [
        ("alice", &[][..], "delete", "", "", "nodes", true),
        ("alice", &[], "get", "", "", "/healthz", false),
        ("alice", authenticated, "get", "", "", "/healthz", true),
        ("alice", authenticated, "post", "", "", "/healthz", false),
        ("kubelet", &[], "list", "", "", "pods", true),
        ("kubelet", &[], "list", "", "apps", "pods", false),
        ("kubelet", &[], "get", "x", "", "pods", true),
        ("kubelet", &[], "create", "x", "", "pods", false),
        ("bob", &[], "watch", "projectCaribou", "", "pods", true),
        ("bob", &[], "list", "", "", "pods", false),
        ("carol", &[], "create", "ns1", "apps", "deployments", true),
        ("carol", &[], "get", "", "", "/api", false),
        ("dave", authenticated, "get", "any", "any", "events", true),
        ("system:anonymous", &["system:unauthenticated"], "get", "", "", "/api", false),
    ] {
        let user = User::new(user, groups.iter().copied());
        let attributes = match target.starts_with('/') {
            true => path(&user, verb, target),
            false => Attributes {
                user: &user,
                verb,
                path: "",
                resource: Some(ResourceRequest {
                    namespace,
                    group,
                    resource: target,
                    subresource: "log",
                    name: "x",
                    ..ResourceRequest::default()
                }),
            },
        };
        assert_eq!(policies.authorize(&attributes).is_allow(), allowed, "{user:?} {verb} {target}");
    }
}

#[test]
fn ab_2_3_4_6_blank_lines_comments_and_line_endings() {
    let text = "# c\n\n   # c\r\n  {\"user\":\"a\"}\r\n\u{a0}\nuser: bob\n{\"user\":\"#\"}";
    let policies = parse(text).unwrap();
    let lines: Vec<(usize, &str)> = policies.policies().iter().map(|p| (p.line, p.user.as_str())).collect();
    assert_eq!(lines, [(4, "a"), (6, "bob"), (7, "#")]);
    assert!(parse("").unwrap().policies().is_empty());
    assert!(parse("\n").unwrap().warnings().is_empty());
    // Comments may be in any encoding.
    let latin = AbacPolicyFile::parse("f", b"# caf\xe9\n{}", Compatibility::Strict, yaml).unwrap();
    assert_eq!(latin.policies().len(), 1);
}

#[test]
fn ab_5_a_line_of_65535_bytes_is_the_longest() {
    let line = |length: usize| {
        let frame = r#"{"user":""}"#.len();
        format!(r#"{{"user":"{}"}}"#, "a".repeat(length - frame))
    };
    assert_eq!(parse(&line(65_535)).unwrap().policies().len(), 1);
    assert_eq!(parse(&format!("{}\r\n", line(65_534))).unwrap().policies().len(), 1);
    for text in [
        line(65_536),
        format!("{{}}\n{}\n", line(65_536)),
        format!("{}\r\n", line(65_535)),
        "#".repeat(70_000),
    ] {
        let error = parse(&text).unwrap_err();
        assert_eq!(error.line(), None);
        assert_eq!(
            error.to_string(),
            "error reading policy file policy.jsonl: bufio.Scanner: token too long"
        );
    }
}

#[test]
fn ab_11_which_version_a_line_is_in() {
    let v0 = "abac.authorization.kubernetes.io/v0";
    let v1beta1 = "abac.authorization.kubernetes.io/v1beta1";
    for (line, unversioned) in [
        (json!({ "user": "a" }), true),
        (json!({ "kind": "Policy", "user": "a" }), true),
        (json!({ "apiVersion": v0, "user": "a" }), true),
        (json!({ "apiVersion": "", "kind": null, "user": "a" }), true),
        (json!({ "apiVersion": v0, "kind": "Policy", "user": "a" }), false),
        (json!({ "apiVersion": v1beta1, "kind": "Policy", "spec": { "user": "a" } }), false),
    ] {
        let read = parse(&line.to_string()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(read.policies()[0].user, "a");
        // AB-13
        assert_eq!(read.warnings().len(), usize::from(unversioned), "{line}: {:?}", read.warnings());
    }
    for line in [
        json!({ "kind": "Foo" }),
        json!({ "apiVersion": v1beta1, "spec": {} }),
        json!({ "apiVersion": "abac.authorization.kubernetes.io/v2", "kind": "Policy" }),
        json!({ "apiVersion": "v1", "kind": "Pod" }),
        json!({ "apiVersion": "v0", "kind": "Policy" }),
        json!({ "apiVersion": "a/b/c", "kind": "Policy" }),
        json!({ "apiVersion": 1, "kind": "Policy" }),
        json!({ "apiVersion": v1beta1, "kind": "PolicyList", "spec": {} }),
    ] {
        for read in [parse, compatible] {
            assert_eq!(read(&line.to_string()).unwrap_err().line(), Some(1), "{line}");
        }
    }
}

#[test]
fn ab_11_lines_that_grant_more_than_they_say_are_refused_unless_asked_for() {
    let bob = json!({ "user": "bob", "namespace": "x", "resource": "pods" });
    let version = "abac.authorization.kubernetes.io/v1beta1";
    let v0 = "abac.authorization.kubernetes.io/v0";
    let trap = |line: String| {
        let error = parse(&line).unwrap_err();
        assert!(error.cause().contains("--abac-compatible"), "{error}");
        let read = compatible(&line).unwrap_or_else(|e| panic!("{e}"));
        assert!(!read.warnings().is_empty(), "{line}");
        read
    };
    for line in [
        json!({ "spec": bob }),
        json!({ "kind": "Policy", "spec": bob }),
        json!({ "apiVersion": v0, "kind": "Policy", "spec": bob }),
        json!({ "Spec": bob }),
        json!({ "spec": null }),
    ] {
        // Kubernetes: a policy for everybody and everything.
        let read = trap(line.to_string());
        let user = User::new("eve", ["system:authenticated"]);
        assert!(read.authorize(&path(&user, "post", "/")).is_allow(), "{line}");
    }
    for line in ["null", "---", "~"] {
        trap(line.to_owned());
    }
    for line in [
        json!({ "user": "bob", "nonResourcePath": "/healthz" }),
        json!({ "user": "bob", "apiGroup": "apps", "resource": "deployments" }),
        json!({ "user": "bob", "readOnly": true }),
        json!({ "User": "bob" }),
        versioned(json!({ "user": "bob", "readOnly": true, "resource": "pods" })),
        versioned(json!({ "user": "bob", "nonresourcepath": "/x" })),
        json!({ "apiVersion": version, "kind": "Policy", "SPEC": bob }),
    ] {
        trap(line.to_string());
    }
    // Kubernetes matches these two keys case-insensitively, unlike all others.
    for line in [json!({ "apiversion": version, "kind": "Policy", "spec": bob }), json!({ "Kind": "Policy" })]
    {
        assert!(parse(&line.to_string()).is_err(), "{line}");
        assert!(compatible(&line.to_string()).is_err(), "{line}");
    }
    // Plain unknown fields are ignored, as by Kubernetes (AB-8).
    let unknown = parse(r#"{"user":"bob","comment":{"spec":[1]}}"#).unwrap();
    assert_eq!(unknown.policies()[0].user, "bob");
}

#[test]
fn ab_8_values_are_typed_and_the_last_of_a_repeated_key_counts() {
    for line in [
        r#"{"readonly": "true"}"#,
        r#"{"user": 5}"#,
        r#"{"user": ["a"]}"#,
        r#"{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":"x"}"#,
        r#"{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"readonly":1}}"#,
        "user: 5",
        "[]",
        "garbage",
        "not yaml",
        r#"{"user":"a""#,
        r#"{"user":"a"} {"user":"b"}"#,
        r#"{"user":"a"},"#,
    ] {
        assert_eq!(parse(line).unwrap_err().line(), Some(1), "{line}");
    }
    let repeated = parse(r#"{"user":"a","user":"b"}"#).unwrap();
    assert_eq!(repeated.policies()[0].user, "b");
    assert!(repeated.warnings()[0].contains("\"user\" is given more than once"), "{:?}", repeated.warnings());
    // A null or a second, smaller spec must not make the policy wider than in Kubernetes.
    assert_eq!(parse(r#"{"user":"a","user":null}"#).unwrap().policies()[0].user, "a");
    let twice = r#"{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy",
        "spec":{"user":"a","readonly":true},"spec":{"resource":"pods"},"spec":null}"#;
    let policy = &parse(&twice.replace('\n', " ")).unwrap().policies()[0].clone();
    assert_eq!((policy.user.as_str(), policy.readonly, policy.resource.as_str()), ("a", true, "pods"));
    // null is the same as absent.
    let nulls = parse(r#"{"user":"a","group":null,"readonly":null,"namespace":null}"#).unwrap();
    assert_eq!(nulls.policies()[0].namespace, "*");
}

#[test]
fn ab_12_errors_name_file_line_and_text() {
    let error = parse("# c\n{\"user\": \"a\"}\n{\"kind\": \"Foo\"}\n{").unwrap_err();
    assert_eq!(error.line(), Some(3));
    let text = error.to_string();
    assert!(
        text.starts_with("error reading policy file policy.jsonl, line 3: {\"kind\": \"Foo\"}: no kind"),
        "{text}"
    );
    let binary = AbacPolicyFile::parse("f", b"{\"user\":\"\xff\"}", Compatibility::Strict, yaml).unwrap_err();
    assert!(binary.to_string().contains("not valid UTF-8"), "{binary}");
    let deep = format!("{{\"user\":{}1{}}}", "[".repeat(10_000), "]".repeat(10_000));
    assert_eq!(parse(&deep).unwrap_err().line(), Some(1));
}

#[test]
fn ab_20_to_26_what_the_fields_become() {
    let policy = |line: Value| file(&[line]).policies()[0].clone();
    let everyone = Policy { line: 1, group: "system:authenticated".to_owned(), ..Policy::default() };
    let star = || "*".to_owned();
    // AB-20, AB-23, AB-24
    assert_eq!(policy(versioned(json!({ "user": "*" }))), everyone);
    assert_eq!(policy(versioned(json!({ "user": "bob", "group": "*" }))), everyone);
    assert_eq!(policy(versioned(json!({}))), Policy { line: 1, ..Policy::default() });
    // AB-21, AB-22
    let all = Policy {
        api_group: star(),
        resource: star(),
        namespace: star(),
        non_resource_path: star(),
        ..everyone.clone()
    };
    assert_eq!(policy(json!({})), all);
    assert_eq!(policy(json!({ "user": "bob", "group": "*" })), all);
    let narrowed = Policy { resource: "pods".to_owned(), non_resource_path: String::new(), ..all };
    assert_eq!(policy(json!({ "resource": "pods", "user": "*" })), narrowed);
}

#[test]
fn a_line_that_opens_everything_to_everybody_is_warned_of() {
    for line in [json!({}), json!({ "user": "*" }), json!({ "group": "*", "namespace": "" })] {
        let warnings = file(std::slice::from_ref(&line)).warnings().join("\n");
        assert!(
            warnings.contains("line 1: every authenticated user may do everything"),
            "{line}: {warnings}"
        );
    }
    assert!(
        file(&[versioned(json!({ "user": "*", "namespace": "*", "resource": "*" }))]).warnings().is_empty()
    );
}

#[test]
fn ab_30_31_a_policy_wants_its_user_and_its_group() {
    let policies = file(&[versioned(json!({ "user": "a", "group": "g", "nonResourcePath": "*" }))]);
    let allows = |name: &str, groups: &[&str]| {
        policies.authorize(&path(&User::new(name, groups.iter().copied()), "get", "/")).is_allow()
    };
    assert!(allows("a", &["x", "g"]));
    assert!(!allows("a", &[]));
    assert!(!allows("b", &["g"]));
    // AB-30: the empty user.
    let open = file(&[json!({}), versioned(json!({ "namespace": "*", "nonResourcePath": "*" }))]);
    assert!(!open.authorize(&path(&User::default(), "get", "/")).is_allow());
}

#[test]
fn ab_33_to_37_resources_match_exactly_or_by_a_star() {
    let policies = file(&[versioned(json!({ "user": "a", "namespace": "team-*", "resource": "pod*" }))]);
    let user = User::new("a", [""; 0]);
    let request = |namespace, resource| ResourceRequest { namespace, resource, ..ResourceRequest::default() };
    assert!(policies.authorize(&get(&user, request("team-*", "pod*"))).is_allow());
    assert!(!policies.authorize(&get(&user, request("team-a", "pods"))).is_allow());
    let cluster = file(&[versioned(json!({ "user": "a", "resource": "*" }))]);
    assert!(cluster.authorize(&get(&user, request("", "nodes"))).is_allow());
    assert!(!cluster.authorize(&get(&user, request("x", "pods"))).is_allow());
}

#[test]
fn ab_38_to_40_paths_match_exactly_or_up_to_the_stars_at_the_end() {
    for (own, asked, allowed) in [
        ("*", "/anything", true),
        ("/foo/*", "/foo/", true),
        ("/foo/*", "/foo/bar", true),
        ("/foo/*", "/foo", false),
        ("/foo*", "/foobar", true),
        ("/a**", "/ab", true),
        ("/a*b*", "/a*bc", true),
        ("/a*b*", "/axb", false),
        ("/version", "/version/", false),
        ("**", "", true),
        ("", "", true),
        ("", "/", false),
    ] {
        let policies = file(&[versioned(json!({ "user": "a", "nonResourcePath": own }))]);
        let user = User::new("a", [""; 0]);
        assert_eq!(policies.authorize(&path(&user, "get", asked)).is_allow(), allowed, "{own} {asked}");
    }
}

#[test]
fn ab_50_to_54_what_is_listed() {
    let policies = file(&[
        versioned(json!({ "user": "a", "namespace": "n", "resource": "pods", "readonly": true })),
        versioned(json!({ "user": "a", "nonResourcePath": "/healthz" })),
        versioned(json!({ "user": "a", "namespace": "*", "nonResourcePath": "/x*" })),
        versioned(json!({ "user": "b", "namespace": "*", "resource": "*" })),
        json!({ "user": "a", "namespace": "other" }),
        json!({ "user": "a" }),
    ]);
    let listing = policies.rules_for(&User::new("a", [""; 0]), "n");
    assert_eq!(
        serde_json::to_value(&listing).unwrap(),
        json!({
            "resourceRules": [
                { "verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["pods"] },
                { "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] },
            ],
            "nonResourceRules": [
                { "verbs": ["*"], "nonResourceURLs": ["/x*"] },
                { "verbs": ["*"], "nonResourceURLs": ["*"] },
            ],
            "incomplete": false,
        })
    );
    assert!(listing.errors.is_empty());
}

#[test]
fn explaining_names_the_line_or_the_lines_that_came_nearest() {
    let policies = file(&[
        versioned(json!({ "user": "b", "namespace": "*", "resource": "*", "apiGroup": "*" })),
        versioned(json!({ "user": "a", "namespace": "x", "resource": "pods", "readonly": true })),
        versioned(json!({ "user": "a", "namespace": "y", "resource": "pods" })),
        versioned(json!({ "user": "a", "namespace": "x", "resource": "secrets" })),
    ]);
    let user = User::new("a", [""; 0]);
    let request = |namespace, resource| ResourceRequest { namespace, resource, ..ResourceRequest::default() };
    let explain = |attributes: Attributes<'_>| policies.explain(&attributes);
    assert_eq!(explain(get(&user, request("y", "pods"))), "allowed by line 3 of the policy file");
    assert_eq!(
        explain(get(&user, request("x", "nodes"))),
        "no line allows it; the nearest:\nline 2: it is for another resource\nline 4: it is for another resource"
    );
    assert_eq!(
        explain(Attributes { verb: "create", ..get(&user, request("z", "pods")) }),
        "no line allows it; the nearest:\nline 3: it is for another namespace\nline 4: it is for another namespace"
    );
    let stranger = User::new("z", [""; 0]);
    assert_eq!(explain(get(&stranger, request("x", "pods"))), "no line is for this user");
}

static YAML_LINES: AtomicUsize = AtomicUsize::new(0);

#[test]
fn ab_7_only_lines_that_begin_with_a_brace_are_json() {
    fn counting(text: &str) -> Result<Value, String> {
        YAML_LINES.fetch_add(1, Ordering::Relaxed);
        yaml(text)
    }
    let text = " \t{\"user\":\"a\"}\nuser: bob\n{\"user\":\"b\"}\n";
    let read = AbacPolicyFile::parse("f", text.as_bytes(), Compatibility::Strict, counting).unwrap();
    assert_eq!(read.policies().len(), 3);
    assert_eq!(YAML_LINES.load(Ordering::Relaxed), 1);
}

proptest! {
    #[test]
    fn no_file_makes_the_reader_panic(
        bytes in prop::collection::vec(0_u8.., 0..64),
        words in r#"(\{|\}|"user"|"spec"|:|,|"a"|null|true|\n| |#|\[|\]){0,16}"#,
    ) {
        for bytes in [&bytes, words.as_bytes()] {
            for compatibility in [Compatibility::Strict, Compatibility::AbacCompatible] {
                let _ = AbacPolicyFile::parse("f", bytes, compatibility, yaml);
            }
        }
    }

    #[test]
    fn what_strict_reading_accepts_compatible_reading_reads_the_same(
        flat in prop::collection::btree_map("user|group|namespace|resource", "[ab*]?", 0..4),
        spec in prop::collection::btree_map("user|group|namespace|resource|apiGroup|nonResourcePath", "[ab*]?", 0..6),
    ) {
        let text = format!("{}\n{}\n", json!(flat), versioned(json!(spec)));
        let (strict, compatible) = (parse(&text).unwrap(), compatible(&text).unwrap());
        prop_assert_eq!(strict.policies(), compatible.policies());
    }

    #[test]
    fn a_decision_is_what_the_explanation_says(
        specs in prop::collection::vec(
            prop::collection::btree_map("user|group|namespace|resource|apiGroup", "[ab*]?", 0..5), 0..4),
        name in "[ab]?", group in "[ab]", namespace in "[ab]?", resource in "[ab]",
    ) {
        let policies = file(&specs.into_iter().map(|spec| versioned(json!(spec))).collect::<Vec<_>>());
        let user = User::new(name, [group]);
        let request = get(&user, ResourceRequest {
            namespace: &namespace, resource: &resource, ..ResourceRequest::default()
        });
        let allowed = policies.explain(&request).starts_with("allowed");
        prop_assert_eq!(policies.authorize(&request).is_allow(), allowed);
    }
}
