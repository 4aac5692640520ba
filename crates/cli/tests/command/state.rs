//! `--state` takes what `kubectl get -o json` and `-o yaml` print, however it is cut into files.

use portcullis_testkit::scratch::Scratch;
use serde_json::Value;

use crate::command::support::{portcullis, text, with_input};

/// Objects as `kubectl get -o json` prints them, with all that nobody here reads.
const POD: &str = r#"{
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{\"apiVersion\":\"v1\"}\n"},
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "labels": {"app": "web"},
        "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {"k:{\"name\":\"a\"}": {".": {}}}}}],
        "name": "web",
        "namespace": "shop",
        "resourceVersion": "1234",
        "uid": "0a1b2c3d-0000-4000-8000-000000000000"
    },
    "spec": {
        "containers": [{"image": "registry.example.com/web", "name": "web", "resources": {"limits": {"cpu": "500m"}}}],
        "nodeName": "n1",
        "serviceAccountName": "web",
        "tolerations": [{"effect": "NoExecute", "tolerationSeconds": 300}],
        "volumes": [{"name": "s", "secret": {"defaultMode": 420, "secretName": "tls"}}]
    },
    "status": {"phase": "Running", "qosClass": "Burstable"}
}"#;

const ROLE: &str = r#"{
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "Role",
    "metadata": {"name": "reader", "namespace": "shop"},
    "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
}"#;

const BINDING: &str = r#"{
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "RoleBinding",
    "metadata": {"name": "readers", "namespace": "shop"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}]
}"#;

const IGNORED: &str = r#"{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"nodeName": 7}}"#;

const ROLE_YAML: &str = "\
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: reader
  namespace: shop
rules:
- apiGroups:
  - \"\"
  resources:
  - pods
  verbs:
  - get
";

const BINDING_YAML: &str = "\
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: readers
  namespace: shop
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: reader
subjects:
- apiGroup: rbac.authorization.k8s.io
  kind: User
  name: jane
";

const POD_YAML: &str = "\
apiVersion: v1
kind: Pod
metadata:
  annotations:
    note: |
      several
      lines: not keys
  creationTimestamp: \"2026-01-02T03:04:05Z\"
  labels:
    \"on\": \"true\"
  name: web
  namespace: shop
spec:
  containers:
  - image: registry.example.com/web
    name: web
  nodeName: n1
  serviceAccountName: web
  volumes:
  - name: s
    secret:
      defaultMode: 420
      secretName: tls
status:
  phase: Running
  startTime: null
";

/// Asserts that a state relates the pod to its node and binds the role.
#[track_caller]
fn assert_complete(what: &str, states: &[&str]) {
    let flags: Vec<&str> = states.iter().flat_map(|state| ["--state", state]).collect();
    for (question, code) in [
        (&["get", "secrets/tls", "--as", "system:node:n1", "--as-group", "system:nodes"], 0),
        (&["get", "secrets/tls", "--as", "system:node:n2", "--as-group", "system:nodes"], 1),
        (&["get", "pods/web", "--as", "jane", "--as-group", "x"], 0),
        (&["get", "pods/web", "--as", "john", "--as-group", "x"], 1),
    ] {
        let run = portcullis([&["can-i", "--exact-groups", "-n", "shop"], &question[..], &flags].concat());
        assert_eq!((run.code, &*run.stderr), (code, ""), "{what}: {question:?}");
    }
}

/// The items of a YAML list, as kubectl prints them.
fn yaml_items(documents: &[&str]) -> String {
    let mut items = String::new();
    for document in documents {
        for (number, line) in document.lines().enumerate() {
            items.push_str(if number == 0 { "- " } else { "  " });
            items.push_str(line);
            items.push('\n');
        }
    }
    items
}

#[test]
fn a_state_means_the_same_however_it_is_written() {
    let scratch = Scratch::new();
    let compact = |object: &str| serde_json::from_str::<Value>(object).unwrap().to_string();
    let all = [ROLE, IGNORED, POD, BINDING];
    let list = |kind: &str, items: &[&str]| {
        format!(
            r#"{{"apiVersion": "v1", "items": [{}], "kind": "{kind}", "metadata": {{"resourceVersion": ""}}}}"#,
            items.join(",\n")
        )
    };
    let yaml_list = format!(
        "apiVersion: v1\nitems:\n{}kind: List\nmetadata:\n  resourceVersion: \"\"\n",
        yaml_items(&[POD_YAML, BINDING_YAML, ROLE_YAML])
    );
    for (name, content) in [
        ("list.json", list("List", &all)),
        ("rows.json", all.map(compact).join("\n")),
        ("side-by-side.json", all.join("")),
        ("lists.json", [list("List", &[POD]), list("List", &[]), list("List", &[BINDING, ROLE])].join("\n")),
        ("documents.yaml", [POD_YAML, ROLE_YAML, BINDING_YAML].join("---\n")),
        (
            "documents.yml",
            format!("---\n{ROLE_YAML}---\n---\n# none\n---\n{BINDING_YAML}...\n---\n{POD_YAML}"),
        ),
        ("list.yaml", yaml_list.clone()),
        (
            "list-and-document.yaml",
            format!(
                "apiVersion: v1\nkind: List\nitems:\n{}---\n{POD_YAML}",
                yaml_items(&[BINDING_YAML, ROLE_YAML])
            ),
        ),
        ("json-in.yaml", [POD, ROLE, BINDING].join("\n---\n")),
        ("windows.yaml", yaml_list.replace('\n', "\r\n")),
        ("no-extension", list("List", &all)),
        ("no-extension-either", yaml_list),
    ] {
        let path = scratch.write(name, content);
        assert_complete(name, &[text(&path)]);
    }
}

#[test]
fn a_typed_list_says_the_type_of_its_items() {
    let scratch = Scratch::new();
    let bare = |object: &str| {
        let mut object: Value = serde_json::from_str(object).unwrap();
        object.as_object_mut().unwrap().retain(|field, _| field != "kind" && field != "apiVersion");
        object.to_string()
    };
    let list = |group: &str, kind: &str, item: &str| {
        format!(
            r#"{{"kind":"{kind}List","apiVersion":"{group}","metadata":{{"resourceVersion":"7"}},"items":[{item}]}}"#
        )
    };
    let rbac = "rbac.authorization.k8s.io/v1";
    let files = [
        scratch.write("pods.json", list("v1", "Pod", &bare(POD))),
        scratch.write("roles.json", list(rbac, "Role", &bare(ROLE))),
        scratch.write("bindings.json", list(rbac, "RoleBinding", &bare(BINDING))),
    ];
    assert_complete("typed lists", &files.each_ref().map(|path| text(path)));
}

#[test]
fn a_directory_is_read_with_all_below_and_state_is_repeatable() {
    let scratch = Scratch::new();
    scratch.write("a/roles/role.yml", ROLE_YAML);
    scratch.write("a/roles/more/deep/binding.json", BINDING);
    scratch.write("a/pod.yaml", POD_YAML);
    scratch.write("a/README.md", "not: [read");
    scratch.write("a/reviews.jsonl", "neither");
    scratch.write("a/..2026_01_02/pod.yaml", POD_YAML);
    assert_complete("a directory", &[text(&scratch.path().join("a"))]);

    let pod = scratch.write("b/pod.json", POD);
    scratch.write("c/role.json", ROLE);
    scratch.write("c/binding.yaml", BINDING_YAML);
    let c = scratch.path().join("c");
    assert_complete("a file and a directory", &[text(&pod), text(&c)]);
    assert_complete("the other order", &[text(&c), text(&pod)]);
    portcullis(["review", "--state", text(&c), "--state", text(&c)]).refused(&["occurs twice"]);
}

#[test]
fn kinds_that_play_no_part_are_ignored_and_change_nothing() {
    let scratch = Scratch::new();
    let path = scratch.write("state.json", [IGNORED, IGNORED, POD, ROLE, BINDING].join("\n"));
    assert_complete("ignored kinds", &[text(&path)]);
}

#[test]
fn without_state_there_is_nothing() {
    let question = r#"{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{"user":"system:node:n1","groups":["system:nodes"],"resourceAttributes":{"verb":"get","resource":"NAME","name":"n1","namespace":"NS"}}}"#;
    let ask = |resource: &str, namespace: &str| {
        let line = question.replace("NAME", resource).replace("NS", namespace);
        with_input(["review"], line.as_bytes()).json_lines()[0]["status"]["allowed"].clone()
    };
    // NA-95: its own node a node may read whatever there is; secrets only through pods.
    assert_eq!((ask("nodes", ""), ask("secrets", "ns")), (Value::Bool(true), Value::Bool(false)));
}

#[test]
fn old_versions_of_rbac_mean_what_they_mean_today_rb_121() {
    let scratch = Scratch::new();
    let old = |object: &str| {
        object.replace("rbac.authorization.k8s.io/v1\"", "rbac.authorization.k8s.io/v1beta1\"")
    };
    let path = scratch.write("state.json", [POD, &old(ROLE), &old(BINDING)].join("\n"));
    assert_complete("v1beta1", &[text(&path)]);
}
