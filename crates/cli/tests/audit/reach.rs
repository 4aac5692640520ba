//! `portcullis reach`: the recorded answers (AU-160), output and exit codes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool::{self, Finished};
use portcullis_testkit::{program, recorded};
use serde_json::{Value, json};

/// Unpacks every recorded file under a folder.
pub(super) fn unpacked(scratch: &Scratch, folder: &str) -> PathBuf {
    let names: Vec<String> = recorded::names();
    let mut files = 0;
    for name in names.iter().filter_map(|name| Some((name, name.strip_prefix(folder)?.strip_prefix('/')?))) {
        let path = scratch.path().join(name.1);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, recorded::text(name.0)).unwrap();
        files += 1;
    }
    assert!(files > 0, "{folder} has files");
    scratch.path().to_owned()
}

/// What the program answers, node by node.
fn reach(state: &std::path::Path, flags: &[&str]) -> BTreeMap<String, Value> {
    let fixed = ["reach", "-o", "json", "--state", state.to_str().unwrap()];
    let run = program!().run(fixed.iter().chain(flags));
    assert_eq!(run.code, 0, "{}", run.stderr);
    let answer: Value = serde_json::from_str(&run.stdout).unwrap();
    let nodes = answer["nodes"].as_array().unwrap().iter();
    nodes.map(|node| (node["node"].as_str().unwrap().to_owned(), node.clone())).collect()
}

#[test]
fn every_node_reaches_directly_what_was_recorded_au_50() {
    let cases: Vec<Value> = serde_json::from_str(&recorded::text("audit/reach/cases.json")).unwrap();
    assert_eq!(cases.len(), 8, "all cases are there");
    let mut compared = 0;
    for case in &cases {
        let scratch = Scratch::new();
        let state = recorded::unpacked(&scratch, case["state"].as_str().unwrap());
        let mut answered = reach(&state, &["--direct"]);
        for line in recorded::lines(case["reach"].as_str().unwrap()) {
            let node = line["node"].as_str().unwrap();
            let answer = answered.remove(node).unwrap_or_else(|| panic!("{case}: {node} is not answered"));
            for (list, recorded) in line.as_object().unwrap() {
                assert_eq!(&answer[list], recorded, "{case}: {node}: {list}");
                compared += 1;
            }
        }
        assert!(answered.is_empty(), "{case}: more nodes: {:?}", answered.keys());
    }
    assert!(compared > 400, "{compared} lists");
}

#[test]
fn every_node_reaches_in_the_end_what_was_recorded_au_60() {
    let names = recorded::names();
    let cases =
        names.iter().filter_map(|name| name.strip_prefix("audit/closure/")?.strip_suffix("/expected.json"));
    let mut compared = 0;
    for case in cases {
        let scratch = Scratch::new();
        let state = unpacked(&scratch, &format!("audit/closure/{case}/state"));
        let answered = reach(&state, &[]);
        let expected: Value =
            serde_json::from_str(&recorded::text(&format!("audit/closure/{case}/expected.json"))).unwrap();
        for node in expected["nodes"].as_array().unwrap() {
            let closure = &answered[node["node"].as_str().unwrap()]["closure"];
            for field in ["clusterAdmin", "nodes", "serviceaccounts"] {
                assert_eq!(closure[field], node[field], "{case}: {}: {field}", node["node"]);
                compared += 1;
            }
        }
    }
    assert!(compared >= 90, "{compared} fields");
}

/// A pod that may read all secrets runs on one of two nodes.
const STATE: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: agent, namespace: ops}
spec:
  nodeName: n1
  serviceAccountName: agent
  containers: [{name: main, image: agent}]
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec:
  nodeName: n2
  containers: [{name: main, image: web, envFrom: [{secretRef: {name: db}}]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules:
- {apiGroups: [""], resources: [pods], verbs: [list]}
- {apiGroups: [""], resources: [secrets], verbs: [list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: agents}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}
subjects: [{kind: ServiceAccount, name: agent, namespace: ops}]
"#;

#[test]
fn a_path_names_every_edge_and_the_rule_that_makes_it_au_66() {
    let scratch = Scratch::new();
    let state = scratch.write("state.yaml", STATE);
    let nodes = reach(&state, &["--node", "n1"]);
    assert_eq!(nodes.keys().collect::<Vec<_>>(), ["n1"]);
    let closure = &nodes["n1"]["closure"];
    assert_eq!(closure["counts"]["secrets"], json!({"count": 1, "all": true}));
    let paths = closure["paths"].as_array().unwrap();
    let to_secret = paths.iter().find(|path| path["to"] == "secret/shop/db").unwrap();
    let grant = json!({
        "binding": {"kind": "ClusterRoleBinding", "name": "agents"},
        "role": {"kind": "ClusterRole", "name": "reader"},
        "rule": 1,
    });
    assert_eq!(
        to_secret["edges"],
        json!([
            {"id": "E2", "from": "node/n1", "to": "serviceaccount/ops/agent"},
            {"id": "E7", "from": "serviceaccount/ops/agent", "to": "secret/shop/db", "grant": grant},
        ])
    );
}

#[test]
fn all_of_a_namespace_is_not_all_of_the_cluster_au_66() {
    let scratch = Scratch::new();
    // The only secrets are those of one namespace, and the right is for that namespace alone.
    let bound = STATE.replace(
        "kind: ClusterRoleBinding\nmetadata: {name: agents}",
        "kind: RoleBinding\nmetadata: {name: agents, namespace: shop}",
    );
    assert_ne!(bound, STATE);
    let state = scratch.write("state.yaml", bound);
    let secrets = &reach(&state, &[])["n1"]["closure"]["counts"]["secrets"];
    assert_eq!(secrets, &json!({"count": 1, "namespaces": ["shop"]}));
}

/// An account that may create volumes, and pods in a namespace in which there is nothing and which keeps them from nodes.
const VOLUMES: &str = r#"
---
apiVersion: v1
kind: Namespace
metadata: {name: empty, labels: {pod-security.kubernetes.io/enforce: restricted}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: volumes}
rules: [{apiGroups: [""], resources: [persistentvolumes], verbs: [create]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: volumes}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: volumes}
subjects: [{kind: ServiceAccount, name: agent, namespace: ops}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: deployer}
rules: [{apiGroups: [apps], resources: [deployments], verbs: [create]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: deployer, namespace: empty}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: deployer}
subjects: [{kind: ServiceAccount, name: agent, namespace: ops}]
"#;

#[test]
fn who_creates_volumes_and_pods_anywhere_reads_every_secret_au_62() {
    let scratch = Scratch::new();
    let (pods, _) = STATE.split_once("---\napiVersion: rbac").unwrap();
    let state = scratch.write("state.yaml", format!("{pods}{VOLUMES}"));
    let paths = reach(&state, &["--node", "n1"])["n1"]["closure"]["paths"].clone();
    let to_secret = paths.as_array().unwrap().iter().find(|path| path["to"] == "secret/shop/db").unwrap();
    assert_eq!(to_secret["edges"][1]["id"], "E27");
}

#[test]
fn the_order_of_the_objects_changes_no_byte_au_131() {
    let scratch = Scratch::new();
    let mut documents: Vec<&str> = STATE.split("---\n").collect();
    let one = scratch.write("one.yaml", STATE);
    documents.reverse();
    let other = scratch.write("other.yaml", documents.join("\n---\n"));
    let [one, other] = [one, other].map(|state| {
        let run = program!().run(["reach", "-o", "json", "--state", state.to_str().unwrap()]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        run.stdout
    });
    assert_eq!(one, other);
}

#[test]
fn the_table_shows_both_and_what_is_missing_is_named_au_22() {
    let scratch = Scratch::new();
    let state = scratch.write("state.yaml", STATE);
    let run = program!().run(["reach", "--sort", "reach", "--state", state.to_str().unwrap()]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let lines: Vec<Vec<&str>> = run.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0][..2], ["NODE", "SECRETS"]);
    // By itself n1 has no secret, in the end all; n2 has one, and it stays so.
    assert_eq!(lines[1], ["n1", "0", "0", "0", "1", "|", "no", "0", "1", "all", "1"]);
    assert_eq!(lines[2], ["n2", "1", "0", "0", "0", "|", "no", "0", "1", "1", "1"]);
    assert!(run.stderr.contains("persistentvolumes is not in the state"), "{}", run.stderr);
}

#[test]
fn mistakes_end_with_2_and_say_what_to_do() {
    let scratch = Scratch::new();
    let state = scratch.write("state.yaml", STATE);
    let state = state.to_str().unwrap();
    for (flags, said) in [
        (vec!["--kubeconfig", "/nonexistent"], "or read files with --state"),
        (vec!["--state", state, "--node", "n9"], "the state has no such node"),
        (vec!["--state", state, "--now", "yesterday"], "is no time"),
    ] {
        let run = program!().run(["reach"].iter().chain(&flags));
        assert_eq!((run.code, &*run.stdout), (2, ""), "{flags:?}");
        assert!(run.stderr.contains(said), "{flags:?}: {}", run.stderr);
    }
}

#[test]
fn no_value_of_a_secret_is_in_any_output_au_13() {
    let scratch = Scratch::new();
    let marker = "c2VjcmV0LW1hcmtlcg==";
    let valid = format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: db, namespace: shop}}\ndata: {{password: {marker}}}\n\
         ---\napiVersion: v1\nkind: Node\nmetadata: {{name: n1}}\n"
    );
    let damaged =
        format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: db, namespace: shop}}\ndata: {marker}\n");
    for (name, text, code) in [("valid.yaml", valid, 0), ("damaged.yaml", damaged, 2)] {
        let state = scratch.write(name, text);
        let run = program!().run(["reach", "-o", "json", "--state", state.to_str().unwrap()]);
        assert_eq!(run.code, code, "{}", run.stderr);
        assert!(!format!("{}{}", run.stdout, run.stderr).contains(marker), "{}{}", run.stdout, run.stderr);
    }
}

#[test]
fn names_without_an_object_are_told_of_kinds_that_were_given_au_57() {
    let scratch = Scratch::new();
    let other = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: other, namespace: shop}\n";
    for (state, absent) in
        [(STATE.to_owned(), json!({})), (format!("{STATE}{other}"), json!({"secrets": ["shop/db"]}))]
    {
        let state = scratch.write("state.yaml", state);
        assert_eq!(reach(&state, &["--wide"])["n2"]["absent"], absent);
        assert!(reach(&state, &[])["n2"].get("absent").is_none());
    }
}

/// The vertices and edges of a graph as Graphviz reads it.
fn graph(text: &str) -> (BTreeSet<String>, BTreeSet<(String, String, String)>) {
    let read = Finished::with_input(tool::command("dot").arg("-Tjson0"), text.as_bytes()).ok();
    let graph: Value = serde_json::from_str(&read).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let names: Vec<String> =
        graph["objects"].as_array().unwrap().iter().map(|object| text(&object["name"])).collect();
    let name = |number: &Value| names[usize::try_from(number.as_u64().unwrap()).unwrap()].clone();
    let edges = graph["edges"].as_array().into_iter().flatten();
    let edges = edges.flat_map(|edge| {
        let label = text(&edge["label"]);
        let ids: Vec<String> = label.split(", ").map(str::to_owned).collect();
        ids.into_iter().map(move |id| (name(&edge["tail"]), name(&edge["head"]), id)).collect::<Vec<_>>()
    });
    (names.iter().cloned().collect(), edges.collect())
}

#[test]
fn graphviz_reads_the_paths_au_130() {
    let names = recorded::names();
    let cases =
        names.iter().filter_map(|name| name.strip_prefix("audit/closure/")?.strip_suffix("/expected.json"));
    let mut compared = 0;
    for case in cases {
        let scratch = Scratch::new();
        let state = unpacked(&scratch, &format!("audit/closure/{case}/state"));
        let files = Scratch::new();
        let (json, dot) = (files.path().join("reach.json"), files.path().join("reach.dot"));
        let run = program!().run([
            "reach",
            "--state",
            state.to_str().unwrap(),
            "-o",
            &format!("json={}", json.display()),
            "-o",
            "dot",
            "--output-file",
            dot.to_str().unwrap(),
        ]);
        assert_eq!((run.code, &*run.stdout), (0, ""), "{case}: {}", run.stderr);
        let answer: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
        let nodes = answer["nodes"].as_array().unwrap();
        let paths = nodes.iter().flat_map(|node| node["closure"]["paths"].as_array().into_iter().flatten());
        let text = |edge: &Value, field: &str| edge[field].as_str().unwrap().to_owned();
        let edges: BTreeSet<_> = paths
            .flat_map(|path| path["edges"].as_array().unwrap())
            .map(|edge| (text(edge, "from"), text(edge, "to"), text(edge, "id")))
            .collect();
        let (vertices, drawn) = graph(&std::fs::read_to_string(dot).unwrap());
        assert_eq!(drawn, edges, "{case}");
        for node in nodes {
            assert!(vertices.contains(&format!("node/{}", node["node"].as_str().unwrap())), "{case}: {node}");
        }
        compared += edges.len();
    }
    assert!(compared > 50, "{compared} edges");
}

/// A name cannot leave its quotes, or write a word of the graph.
#[test]
fn names_are_only_names_for_graphviz() {
    let hostile = [r#"a"b"#, r"back\slash", r"end\", r#"x\"]; evil -> y; "#, "<b>tag</b>", "line\nbreak"];
    let rbac = "rbac.authorization.k8s.io";
    let granted = |name: &str, rule: Value, subject: Value| {
        let metadata = json!({"name": name});
        let role = json!({"apiGroup": rbac, "kind": "ClusterRole", "name": name});
        let version = format!("{rbac}/v1");
        [
            json!({"apiVersion": version, "kind": "ClusterRole", "metadata": metadata, "rules": [rule]}),
            json!({
                "apiVersion": version, "kind": "ClusterRoleBinding", "metadata": metadata, "roleRef": role,
                "subjects": [subject],
            }),
        ]
    };
    let impersonate = json!({
        "apiGroups": [""], "resources": ["users", "groups"], "verbs": ["impersonate"],
        "resourceNames": ([&["u"], &hostile[..]].concat()),
    });
    let mut objects = vec![json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "a", "name": "p"},
        "spec": {"nodeName": "n", "serviceAccountName": "x", "containers": [{"name": "c"}]},
    })];
    objects.extend(granted(
        "i",
        impersonate,
        json!({"kind": "ServiceAccount", "namespace": "a", "name": "x"}),
    ));
    objects.extend(granted(
        "u",
        json!({"nonResourceURLs": ["/x"], "verbs": ["get"]}),
        json!({"kind": "User", "name": "u"}),
    ));
    // A secret behind each group, so that a path leads through it.
    for (number, group) in hostile.iter().enumerate() {
        let secret = format!("s{number}");
        objects.push(
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "b", "name": secret}}),
        );
        let read =
            json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": [secret]});
        objects.extend(granted(&secret, read, json!({"kind": "Group", "name": group})));
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    let scratch = Scratch::new();
    let state = scratch.write("state.json", list.to_string());
    let run = program!().run(["reach", "--state", state.to_str().unwrap(), "-o", "dot", "--paths", "1000"]);
    let (vertices, edges) = graph(&run.stdout);
    assert!(!vertices.contains("evil") && !vertices.contains("y"), "{vertices:?}");
    let groups = vertices.iter().filter(|name| name.starts_with("group/")).count();
    assert_eq!(groups, hostile.len(), "{vertices:?} {edges:?}");
}
