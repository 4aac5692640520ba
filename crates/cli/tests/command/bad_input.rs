//! Bad input is refused: exit code 2, no answer at all, and one error that says where and why.

use std::fs::File;
use std::path::Path;

use portcullis_testkit::program;
use portcullis_testkit::scratch::Scratch;

use crate::command::support::{Finished, portcullis, text, words};

/// The forms of lines: flags, and a line that is answered.
const FORMS: &[(&[&str], &str)] = &[
    (
        &[],
        r#"{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{"user":"a","resourceAttributes":{"verb":"get","resource":"pods"}},"status":{"allowed":false}}"#,
    ),
    (
        &[],
        r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","resource":{"group":"","version":"v1","resource":"nodes"},"name":"n1","operation":"DELETE","userInfo":{"username":"a"}},"response":{"uid":"u","allowed":true}}"#,
    ),
    (
        &["--rules"],
        r#"{"query":{"user":"a","groups":["g"],"namespace":"ns"},"status":{"resourceRules":[],"nonResourceRules":[],"incomplete":false}}"#,
    ),
    (
        &["--covers"],
        r#"{"covers":true,"owner":[{"verbs":["get"],"apiGroups":[""],"resources":["pods"]}],"servant":[],"uncovered":[]}"#,
    ),
    (&["--request-info"], r#"{"error":"x","method":"GET","url":"/api/v1/watch"}"#),
    (&["--kubelet-attributes"], r#"{"attributes":[],"method":"GET","url":"/healthz"}"#),
];

fn review(scratch: &Scratch, flags: &[&str], lines: impl AsRef<[u8]>) -> Finished {
    let path = scratch.write("lines.jsonl", lines);
    portcullis([&["review", "--reviews", text(&path)], flags].concat())
}

#[test]
fn the_forms_are_answered_as_they_stand() {
    let scratch = Scratch::new();
    for (flags, line) in FORMS {
        let run = review(&scratch, flags, line);
        assert_eq!((run.code, &*run.stderr), (0, ""), "{line}");
    }
}

#[test]
fn a_bad_line_of_any_form_stops_everything_before_the_first_answer() {
    let scratch = Scratch::new();
    let deep = format!("{{\"deep\":{}{},", "[".repeat(100), "]".repeat(100));
    let long = format!("{{\"long\":\"{}\",", "x".repeat(8 << 20));
    for (flags, line) in FORMS {
        let mut binary = line.as_bytes().to_vec();
        let quote = line.find('"').unwrap();
        binary.insert(quote + 1, 0xff);
        let faults: [(Vec<u8>, &[&str]); 12] = [
            (line.as_bytes()[..line.len() / 2].to_vec(), &["cut short"]),
            (line.as_bytes()[..line.len() - 1].to_vec(), &["cut short"]),
            (binary, &["not UTF-8", "0xff"]),
            (line.replacen('{', r#"{"twice":1,"twice":2,"#, 1).into(), &["twice: ", "given twice"]),
            (line.replacen('{', r#"{"x":{"y":[{"z":1,"z":1}]},"#, 1).into(), &["x.y[0].z: ", "given twice"]),
            (line.replacen('{', &deep, 1).into(), &["deep[0][0]", "nested deeper than 64 levels"]),
            (line.replacen('{', &long, 1).into(), &["more than 8388608"]),
            (format!("{line} {line}").into(), &["trailing characters"]),
            (format!("[{line}]").into(), &["expected a JSON object, found a list"]),
            (b"null".to_vec(), &["expected a JSON object, found null"]),
            (b"\"text\"".to_vec(), &["expected a JSON object, found a string"]),
            (b"{'a': 1}".to_vec(), &["key must be a string"]),
        ];
        for (bad, parts) in faults {
            let lines = [line.as_bytes(), b"\n\n", &bad, b"\n", line.as_bytes()].concat();
            let run = review(&scratch, flags, lines);
            run.refused(&["lines.jsonl:3: "]);
            run.refused(parts);
        }
    }
}

#[test]
fn a_line_cut_short_anywhere_is_refused() {
    let scratch = Scratch::new();
    for (flags, line) in FORMS {
        for length in (1..line.len()).step_by(23) {
            review(&scratch, flags, &line[..length]).refused(&["lines.jsonl:1: "]);
        }
    }
}

#[test]
fn a_value_of_the_wrong_type_is_named_by_its_field() {
    let scratch = Scratch::new();
    let [sar, admission, rules, covers, info, kubelet] = FORMS else { panic!("six forms") };
    for ((flags, line), from, to, field) in [
        (sar, r#""user":"a""#, r#""user":7"#, "spec.user: "),
        (sar, r#""user":"a""#, r#""user":"a","groups":"g""#, "spec.groups: "),
        (sar, r#""user":"a""#, r#""user":"a","groups":["g",1]"#, "spec.groups[1]: "),
        (sar, r#""user":"a""#, r#""user":"""#, "spec.user: "),
        (sar, r#""user":"a""#, r#""user":"a","extra":{"k":"v"}"#, "spec.extra.k: "),
        (sar, r#""verb":"get""#, r#""verb":["get"]"#, "spec.resourceAttributes.verb: "),
        (
            sar,
            r#""verb":"get""#,
            r#""verb":"get","fieldSelector":{}"#,
            "spec.resourceAttributes.fieldSelector.requirements: ",
        ),
        (
            sar,
            r#""spec":{"#,
            r#""spec":{"nonResourceAttributes":{"path":"/"},"#,
            "spec.nonResourceAttributes: ",
        ),
        (sar, r#""allowed":false"#, r#""allowed":"no""#, "status.allowed: "),
        (
            sar,
            r#""kind":"SubjectAccessReview""#,
            r#""kind":"Pod""#,
            "kind: found Pod of authorization.k8s.io/v1",
        ),
        (sar, r#""kind":"SubjectAccessReview","#, "", "kind: is missing"),
        (
            sar,
            "authorization.k8s.io/v1",
            "authorization.k8s.io/v2",
            "kind: found SubjectAccessReview of authorization.k8s.io/v2",
        ),
        (sar, "authorization.k8s.io/v1", "", "apiVersion: is missing"),
        (admission, "admission.k8s.io/v1", "admission.k8s.io/v2", "admission.k8s.io/v1"),
        (admission, r#""operation":"DELETE""#, r#""operation":"ERASE""#, "request.operation: "),
        (admission, r#""operation":"DELETE","#, "", "request.operation: "),
        (admission, r#""username":"a""#, r#""username":1"#, "request.userInfo.username: "),
        (admission, r#","userInfo":{"username":"a"}"#, "", "request.userInfo: "),
        (admission, r#""resource":"nodes""#, r#""resource":null"#, "request.resource: "),
        (rules, r#""namespace":"ns""#, r#""namespace":["ns"]"#, "query.namespace: "),
        (rules, r#""groups":["g"]"#, r#""groups":["g",{}]"#, "query.groups[1]: "),
        (rules, "query", "question", "query: is missing"),
        (covers, r#""verbs":["get"]"#, r#""verbs":"get""#, "owner[0].verbs: "),
        (covers, r#""covers":true"#, r#""covers":"yes""#, "covers: "),
        (info, r#""method":"GET""#, r#""method":1"#, "method: "),
        (info, r#","url":"/api/v1/watch""#, "", "url: is missing"),
        (kubelet, r#""url":"/healthz""#, r#""url":{}"#, "url: "),
        (kubelet, r#""method":"GET","#, "", "method: is missing"),
    ] {
        assert!(line.contains(from), "{from}");
        let run = review(&scratch, flags, line.replace(from, to));
        run.refused(&["lines.jsonl:1: ", field]);
    }
}

#[test]
fn the_check_refuses_lines_without_an_answer() {
    let scratch = Scratch::new();
    let answers = [
        (r#","status":{"allowed":false}"#, "status.allowed: is missing"),
        (r#","response":{"uid":"u","allowed":true}"#, "response.allowed: is missing"),
        (r#","status":{"resourceRules":[],"nonResourceRules":[],"incomplete":false}"#, "status: is missing"),
        (r#""covers":true,"#, "covers: is missing"),
        (r#""error":"x","#, "info: is missing"),
        (r#""attributes":[],"#, "attributes: is missing"),
    ];
    for ((flags, line), (answer, error)) in FORMS.iter().zip(answers) {
        assert!(line.contains(answer), "{answer}");
        let question = line.replace(answer, "");
        let flags = [*flags, &["--check"]].concat();
        review(&scratch, &flags, format!("{line}\n{question}")).refused(&[
            "lines.jsonl:2: ",
            error,
            "--check",
        ]);
    }
    let wrong = FORMS[1].1.replace(r#""allowed":true"#, r#""allowed":false,"status":{"code":"403"}"#);
    review(&scratch, &["--check"], wrong).refused(&["response.status.code: "]);
}

/// Asks something over a state.
fn over(state: &Path) -> Finished {
    portcullis(["can-i", "get", "pods", "--as", "a", "--state", text(state)])
}

const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"ns"},"spec":{"nodeName":"n","containers":[]}}"#;

#[test]
fn a_bad_state_in_json_is_refused_with_file_line_and_field() {
    let scratch = Scratch::new();
    let nested = format!("{}{}", "[".repeat(100), "]".repeat(100));
    let list = |item: &str| {
        format!("{{\n\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[\n{POD},\n{item}\n]}}\n")
    };
    let other = POD.replace("\"p\"", "\"q\"");
    for (item, parts) in [
        (POD, &["Pod ns/p occurs twice", "line 3"] as &[&str]),
        (&other.replace("\"n\"", "7"), &["items[1].spec.nodeName: "]),
        (&other.replace("[]", "[{\"env\":5}]"), &["items[1].spec.containers[0].env: "]),
        (&other.replace("\"q\"", "\"\""), &["items[1].metadata.name: is missing"]),
        (&other.replace(",\"namespace\":\"ns\"", ""), &["items[1].metadata.namespace: is missing"]),
        (&other.replace("\"name\"", "\"name\":\"x\",\"name\""), &["items[1].metadata.name: ", "given twice"]),
        (&other.replace("[]", &nested), &["items[1].spec.containers", "nested deeper"]),
        (&other.replace("\"kind\":\"Pod\",", ""), &["items[1].kind: ", "missing"]),
        (
            r#"{"apiVersion":"v1","kind":"Status","status":"Failure","code":403}"#,
            &["items[1].kind: ", "Status"],
        ),
        (r#"{"apiVersion":"meta.k8s.io/v1","kind":"Table"}"#, &["items[1].kind: ", "json or yaml"]),
        (r#"{"apiVersion":"v1","kind":"List","items":[]}"#, &["items[1].kind: ", "list within a list"]),
        ("[]", &["items[1]: ", "not an object"]),
        ("\"text\"", &["items[1]: ", "not an object"]),
    ] {
        let run = over(&scratch.write("state.json", list(item)));
        run.refused(&["state.json:4: "]);
        run.refused(parts);
    }
    for (content, parts) in [
        (b"" as &[u8], &["state.json: ", "empty"] as &[&str]),
        (b" \n", &["state.json: ", "empty"]),
        (b"null", &["state.json:1: "]),
        (b"[1]", &["state.json:1: "]),
        (b"{\"kind\":\"\xff\"}", &["state.json:1: ", "not UTF-8"]),
        (b"\xef\xbb\xbf{}", &["state.json: ", "byte order mark"]),
        (b"\xff\xfe{\0}\0", &["state.json:1: ", "UTF-16"]),
        (b"{\"apiVersion\":\"v1\",\"kind\":\"List\"}", &["state.json:1: items: ", "missing"]),
        (b"{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":{}}", &["state.json:1: items: ", "list"]),
        (
            b"{\"apiVersion\":\"v1\",\"kind\":\"PodList\",\"items\":[],\"items\":[]}",
            &["state.json:1: ", "given twice"],
        ),
    ] {
        over(&scratch.write("state.json", content)).refused(parts);
    }
    let whole = list(&other);
    for length in (1..whole.trim_end().len()).step_by(17) {
        let run = over(&scratch.write("state.json", &whole[..length]));
        run.refused(&["state.json:", "truncated"]);
    }
}

#[test]
fn a_bad_state_in_yaml_is_refused_with_file_line_and_field() {
    let scratch = Scratch::new();
    let pod = |name: &str, rest: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n  namespace: ns\nspec:\n  nodeName: n1\n{rest}"
        )
    };
    let bomb: String = (1..40).fold("a0: &a0 [x, x]\n".to_owned(), |bomb, level| {
        let below = level - 1;
        format!("{bomb}a{level}: &a{level} [*a{below}, *a{below}, *a{below}]\n")
    });
    let deep = format!("  x: {}{}\n", "[".repeat(100), "]".repeat(100));
    for (second, parts) in [
        (pod("p", ""), &["state.yaml:9: ", "Pod ns/p occurs twice", "line 1"] as &[&str]),
        (pod("q", "  containers: {}\n"), &["state.yaml:16: spec.containers: "]),
        (pod("q", "  nodeName: m\n"), &["state.yaml:16: ", "nodeName", "given twice"]),
        (pod("q", "\tcontainers: []\n"), &["state.yaml:15: ", "not valid YAML"]),
        (pod("q", "  containers: [\n"), &["state.yaml:", "not valid YAML"]),
        (pod("q", &deep), &["state.yaml:16: ", "nested deeper than 64 levels"]),
        (pod("q", " x: y\n"), &["state.yaml:16: ", "not valid YAML"]),
        (pod("yes", ""), &["state.yaml:12: metadata.name: "]),
        (pod("q", "").replace("kind: Pod\n", ""), &["state.yaml:9: kind: "]),
        ("just text\n".to_owned(), &["state.yaml:9: "]),
        ("- a\n- b\n".to_owned(), &["state.yaml:9: "]),
        (bomb, &["state.yaml:"]),
    ] {
        let run = over(&scratch.write("state.yaml", format!("{}---\n{second}", pod("p", ""))));
        run.refused(parts);
    }
    over(&scratch.write("state.yaml", "# nothing\n\0")).refused(&["state.yaml:"]);
    over(&scratch.write("state.yaml", b"a: \xff\n")).refused(&["state.yaml:1: ", "not UTF-8"]);
}

#[test]
fn files_that_are_too_large_or_not_there_are_refused() {
    let scratch = Scratch::new();
    for (name, size, limit) in
        [("state.json", (2 << 30) + 1, "2048 MiB"), ("state.yaml", (256 << 20) + 1, "256 MiB")]
    {
        let path = scratch.path().join(name);
        File::create(&path).unwrap().set_len(size).unwrap();
        over(&path).refused(&[name, limit]);
    }
    let absent = scratch.path().join("absent");
    over(&absent).refused(&["absent: cannot be read"]);
    portcullis(["review", "--reviews", text(&absent)]).refused(&["cannot read ", "absent"]);
    portcullis(["review", "--reviews", text(scratch.path())]).refused(&["cannot read ", "irectory"]);
    let empty = scratch.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    over(&empty).refused(&["empty: ", "holds no .json, .yaml or .yml file"]);
    abac(&absent, &[]).refused(&["cannot read --authorization-policy-file", "absent"]);
}

/// Asks something of an ABAC policy.
fn abac(policy: &Path, flags: &[&str]) -> Finished {
    let ask = "can-i get secrets -n ns --as a --as-group system:authenticated --authorization-mode ABAC";
    portcullis([&words(ask)[..], &["--authorization-policy-file", text(policy)], flags].concat())
}

const POLICY: &str = r#"{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"a","namespace":"*","resource":"pods","apiGroup":"*"}}"#;

#[test]
fn a_bad_abac_policy_is_refused_with_file_and_line() {
    let scratch = Scratch::new();
    for (line, part) in [
        (POLICY.as_bytes()[..POLICY.len() - 2].to_vec(), "EOF"),
        (POLICY.replace("\"user\":\"a\"", "\"user\":1").into(), "user: "),
        (POLICY.replace("\"user\":\"a\"", "\"readonly\":\"true\"").into(), "readonly: "),
        (POLICY.replace("\"spec\":{", "\"spec\":[{").replace("}}", "}]}").into(), "spec: "),
        (POLICY.replace("\"Policy\"", "\"Foo\"").into(), "no kind \"Foo\""),
        (POLICY.replace("v1beta1", "v2").into(), "abac.authorization.kubernetes.io/v2"),
        (POLICY.replace("\"kind\":\"Policy\",", "").into(), "without a kind"),
        (br#"{"apiVersion":"v1","kind":"Pod"}"#.to_vec(), "no kind \"Pod\""),
        (POLICY.replace("\"a\"", &format!("{}{}", "[".repeat(20_000), "]".repeat(20_000))).into(), "user: "),
        (b"{\"user\":\"\xff\"}".to_vec(), "UTF-8"),
        (b"garbage".to_vec(), "a policy object"),
        (b"[]".to_vec(), "a policy object"),
        (format!("{POLICY}{POLICY}").into(), "trailing characters"),
    ] {
        let policy =
            scratch.write("policy.jsonl", [b"# comment\n", POLICY.as_bytes(), b"\n", &line, b"\n"].concat());
        abac(&policy, &[]).refused(&["policy.jsonl, line 3: ", part]);
        abac(&policy, &["--abac-compatible"]).refused(&["policy.jsonl, line 3: ", part]);
    }
    // AB-5: such a line has no number in Kubernetes.
    let long = scratch.write("long.jsonl", format!("{POLICY}\n#{}\n", "x".repeat(65_536)));
    abac(&long, &[]).refused(&["error reading policy file", "long.jsonl", "token too long"]);
}

#[test]
fn a_key_given_twice_in_an_abac_policy_is_a_warning_ab_8() {
    let scratch = Scratch::new();
    let policy = scratch.write(
        "policy.jsonl",
        POLICY.replace("\"resource\"", "\"resource\":\"x\",\"resource\":\"secrets\",\"x\""),
    );
    let run = abac(&policy, &[]);
    assert_eq!((run.code, &*run.stdout), (0, "yes\n"));
    assert!(
        run.stderr.contains("warning: ") && run.stderr.contains("\"resource\" is given more than once"),
        "{}",
        run.stderr
    );
}

#[test]
fn an_abac_spec_without_a_version_grants_everything_and_is_refused_unless_accepted_ab_11() {
    let scratch = Scratch::new();
    let policy = scratch.write("policy.jsonl", r#"{"spec":{"user":"nobody","resource":"nothing"}}"#);
    abac(&policy, &[]).refused(&["policy.jsonl, line 1: ", "\"spec\"", "--abac-compatible"]);
    let run = abac(&policy, &["--abac-compatible"]);
    assert_eq!((run.code, &*run.stdout), (0, "yes\n"));
    assert!(run.stderr.contains("line 1: every authenticated user may do everything"), "{}", run.stderr);
}

#[test]
fn bad_flags_are_refused() {
    for (line, parts) in [
        ("", &["Usage"] as &[&str]),
        ("frobnicate", &["frobnicate"]),
        ("review --frobnicate", &["--frobnicate"]),
        ("review --check=yes", &["--check"]),
        ("review --covers --rules", &["--covers", "--rules"]),
        ("review --state", &["--state"]),
        ("review file", &["'file'"]),
        ("review --authorization-mode RABC", &["\"RABC\"", "RBAC"]),
        ("review --authorization-mode node", &["\"node\"", "Node"]),
        ("review --authorization-mode Node,,RBAC", &["\"\" is not a valid mode"]),
        ("review --authorization-mode=", &["at least one authorization-mode"]),
        ("review --authorization-mode Node,RBAC,Node", &["more than once"]),
        ("review --authorization-mode Webhook", &["Webhook is not available"]),
        ("review --authorization-mode ABAC", &["policy file not passed"]),
        ("review --feature-gates Frob=true", &["Frob", "with an effect here: "]),
        ("review --feature-gates ClusterTrustBundle", &["ClusterTrustBundle"]),
        ("review --feature-gates ClusterTrustBundle=maybe", &["ClusterTrustBundle", "maybe"]),
        ("review --feature-gates AuthorizeNodeWithSelectors=false", &["AuthorizeNodeWithSelectors"]),
    ] {
        let run = portcullis(words(line));
        if line.is_empty() {
            assert_eq!((run.code, &*run.stdout), (2, ""));
            assert!(run.stderr.contains("Usage: "), "{}", run.stderr);
        } else {
            run.refused(parts);
        }
    }
    let scratch = Scratch::new();
    let policy = scratch.write("policy.jsonl", POLICY);
    portcullis(["review", "--authorization-policy-file", text(&policy)]).refused(&["without mode ABAC"]);
}

#[test]
fn a_reader_that_has_had_enough_is_no_error() {
    let scratch = Scratch::new();
    let reviews = scratch.write("reviews.jsonl", format!("{}\n", FORMS[0].1).repeat(20_000));
    let mut child = program!()
        .command(["review", "--reviews", text(&reviews)])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let finished = Finished::from(child.wait_with_output().unwrap());
    assert_eq!((finished.code, &*finished.stderr), (3, ""));
}
