//! `can-i`: kubectl's way of asking, and the answers that the rules give.

use portcullis_testkit::scratch::Scratch;
use serde_json::Value;

use crate::command::support::{Finished, portcullis, text, with_input, words};

const CLUSTER: &str = "\
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: web}
spec:
  nodeName: n1
  serviceAccountName: web
  containers: [{name: web, image: registry.example.com/web}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec:
  claimRef: {namespace: shop, name: data}
  csi: {driver: csi.example.com, volumeHandle: disk, nodeStageSecretRef: {namespace: storage, name: key}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: developer}
rules:
- {apiGroups: [apps], resources: [deployments], verbs: [get, list]}
- {apiGroups: [''], resources: [pods, pods/log], verbs: [get]}
- {apiGroups: [metrics.k8s.io], resources: [pods], verbs: [list]}
- {apiGroups: [''], resources: [configmaps], resourceNames: [settings], verbs: [get, update]}
- {apiGroups: [''], resources: [namespaces], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {namespace: shop, name: developers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: developer}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: jane}
- {apiGroup: rbac.authorization.k8s.io, kind: Group, name: developers}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: watcher}
rules:
- {apiGroups: [''], resources: [nodes, pods], verbs: [list]}
- {nonResourceURLs: [/metrics, /logs/*], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: watchers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: watcher}
subjects:
- {kind: ServiceAccount, namespace: monitoring, name: watcher}
- {apiGroup: rbac.authorization.k8s.io, kind: Group, name: system:authenticated}
";

fn can_i(question: &str) -> Finished {
    let scratch = Scratch::new();
    let state = scratch.write("cluster.yaml", CLUSTER);
    portcullis([vec!["can-i", "--state", text(&state)], words(question)].concat())
}

#[track_caller]
fn assert_answer(question: &str, yes: bool) {
    let run = can_i(question);
    let first = run.stdout.split([' ', '\n']).next();
    assert_eq!(
        (run.code, first),
        (i32::from(!yes), Some(if yes { "yes" } else { "no" })),
        "{question}: {run:?}"
    );
}

#[test]
fn questions_are_read_as_kubectl_reads_them() {
    for question in [
        "get deployments -n shop",
        "get deployments/web -n shop",
        "get deployments web -n shop",
        "get deployments.apps -n shop",
        "get deployments.apps/web -n shop",
        "get deployments.v1.apps -n shop",
        "get deploy -n shop",
        "get deployment --namespace shop",
        "get Deployment --namespace=shop",
        "get po/web -n shop",
        "get pods web --subresource log -n shop",
        "list pods.metrics.k8s.io -n shop",
        "list pods.v1beta1.metrics.k8s.io -n shop",
        "get cm/settings -n shop",
        "update cm settings -n shop",
    ] {
        assert_answer(&format!("--as jane {question}"), true);
        assert_answer(&format!("{question} --as anybody --as-group developers"), true);
        assert_answer(&format!("{question} --as john"), false);
    }
    for question in [
        "get deployments",
        "get deployments -n else",
        "get deployments -A",
        "get deployments.extensions -n shop",
        "create deployments -n shop",
        "get pods.metrics.k8s.io -n shop",
        "get pods/web --subresource exec -n shop",
        "get cm -n shop",
        "get cm/other -n shop",
        "get configmaps --subresource settings -n shop",
    ] {
        assert_answer(&format!("--as jane {question}"), false);
    }
}

#[test]
fn paths_are_asked_for_by_their_method() {
    for (question, yes) in [
        ("get /metrics", true),
        ("get /logs/kubelet", true),
        ("get /logs/", true),
        ("get /logs", false),
        ("post /metrics", false),
        ("get /metrics/", false),
    ] {
        assert_answer(&format!("{question} --as someone --as-group system:authenticated"), yes);
    }
    // RB-34: a RoleBinding never allows a path, and a namespace changes nothing.
    assert_answer("get /metrics -n shop --as jane --exact-groups", false);
}

#[test]
fn the_groups_that_an_api_server_adds_are_added_and_told_an_124_an_125() {
    assert_answer("list nodes --as jane", true);
    assert_answer("list nodes --as jane --as-group developers", true);
    assert_answer("list nodes --as system:anonymous", false);
    assert_answer("list nodes --as jane --as-group system:unauthenticated", false);
    let told = |question: &str| can_i(question).stderr;
    assert!(told("list nodes --as jane").contains("system:authenticated"));
    let account = told("list nodes --as system:serviceaccount:shop:web");
    for group in ["system:serviceaccounts,", "system:serviceaccounts:shop,", "system:authenticated "] {
        assert!(account.contains(group), "{group}: {account}");
    }
    // With a group, an account gets no other ones (AN-124).
    assert!(!told("list nodes --as system:serviceaccount:shop:web --as-group x").contains("serviceaccounts"));
    for question in ["list nodes --as jane --as-group system:authenticated", "list nodes --as jane -q"] {
        assert_eq!(told(question), "", "{question}");
    }
}

#[test]
fn no_group_is_added_where_that_is_asked_for() {
    // Not system:authenticated for a name, not system:nodes for a node, not system:serviceaccounts for an account.
    assert_answer("list nodes --as jane --exact-groups", false);
    assert_answer("list nodes --as jane --as-group system:authenticated --exact-groups", true);
    assert_answer("list nodes --as jane --as-group developers --as-group system:authenticated", true);
    assert_answer("list nodes --as system:serviceaccount:monitoring:watcher --exact-groups", true);
    assert_answer("get nodes/n1 --as system:node:n1", false);
    assert_answer("get nodes/n1 --as system:node:n1 --as-group system:nodes", true);
    assert_answer("get nodes/n1 --as system:node:n2 --as-group system:nodes", false);
    assert_answer("delete nodes/n1 --as root --as-group system:masters", false);
}

#[test]
fn types_that_live_in_no_namespace_ignore_it() {
    let node = "--as system:node:n1 --as-group system:nodes";
    // NA-70: with the namespace the volume would not be found.
    assert_answer(&format!("get pv/disk {node}"), true);
    let run = can_i(&format!("get pv/disk -n shop {node}"));
    assert_eq!((run.code, &*run.stdout), (0, "yes\n"));
    assert!(run.stderr.starts_with("warning: persistentvolumes are cluster-scoped"), "{}", run.stderr);
    // AC-29: to the API server, the namespace of a namespace is itself.
    assert_answer("get namespaces/shop --as jane", true);
    assert_answer("get ns shop -n else --as jane", true);
    assert_answer("get ns/else -n shop --as jane", false);
}

#[test]
fn all_namespaces_take_a_cluster_role_binding_rb_35() {
    assert_answer("list pods -A --as system:serviceaccount:monitoring:watcher", true);
    assert_answer("list pods.metrics.k8s.io --all-namespaces --as jane", false);
}

#[test]
fn without_a_namespace_it_is_default() {
    let scratch = Scratch::new();
    let state = scratch.write("cluster.yaml", CLUSTER.replace("namespace: shop,", "namespace: default,"));
    let ask = |more: &[&str]| {
        portcullis([&["can-i", "get", "deploy", "--as", "jane", "--state", text(&state)], more].concat()).code
    };
    assert_eq!((ask(&[]), ask(&["-n", "default"]), ask(&["-n", "shop"]), ask(&["-A"])), (0, 0, 1, 1));
}

#[test]
fn quiet_says_it_by_the_exit_code() {
    for (question, code) in [("get deploy -n shop --as jane", 0), ("get deploy -n else --as jane", 1)] {
        for flag in ["-q", "--quiet"] {
            let run = can_i(&format!("{question} {flag}"));
            assert_eq!((run.code, &*run.stdout, &*run.stderr), (code, "", ""));
        }
    }
    can_i("get deploy --as jane -q --explain").refused(&["--explain"]);
}

#[test]
fn an_allowed_node_is_shown_the_path_by_which_it_reaches_the_object() {
    let run = can_i("get secrets/key -n storage --as system:node:n1 --as-group system:nodes --explain");
    assert_eq!(run.code, 0);
    let path = run.stdout.lines().find(|line| line.starts_with("Node: ")).unwrap();
    let mut rest = path;
    for step in [
        "nodes/n1",
        "pods/shop/web",
        "persistentvolumeclaims/shop/data",
        "persistentvolumes/disk",
        "secrets/storage/key",
    ] {
        let at = rest.find(step).unwrap_or_else(|| panic!("{step}: {path}"));
        rest = &rest[at + step.len()..];
    }
    assert!(!run.stdout.contains("RBAC"), "nobody was asked after the first yes: {}", run.stdout);
}

#[test]
fn a_refused_node_is_shown_who_reaches_the_object_and_what_is_needed() {
    let run = can_i("get secrets/key -n storage --as system:node:n2 --as-group system:nodes --explain");
    assert_eq!(run.code, 1);
    for part in ["secrets/storage/key", "needed: a pod on the node", "reached by n1", "RBAC:"] {
        assert!(run.stdout.contains(part), "{part}: {}", run.stdout);
    }
    let run = can_i("delete nodes/n1 --as system:node:n1 --as-group system:nodes --explain");
    assert_eq!(run.code, 1);
    let run = can_i("get secrets/key -n storage --as n1 --explain");
    assert!(run.stdout.contains("Node: the user is not a node"), "{}", run.stdout);
}

#[test]
fn an_allowed_user_is_shown_binding_role_and_rule() {
    let run = can_i("get deploy -n shop --as jane --explain");
    assert_eq!(run.code, 0);
    for part in [
        "RoleBinding \"developers/shop\"",
        "ClusterRole \"developer\"",
        "User \"jane\"",
        "rule 0",
        "deployments",
    ] {
        assert!(run.stdout.contains(part), "{part}: {}", run.stdout);
    }
}

#[test]
fn a_refused_user_is_shown_what_comes_nearest_and_what_is_needed() {
    for (question, near, needed) in [
        ("delete deploy/web -n shop", "other verb", "in namespace shop"),
        ("get deploy -n else", "other namespace", "in namespace else"),
        ("get cm/other -n shop", "other name", "ResourceNames:[\"other\"]"),
        ("get /metrics", "", "NonResourceURLs:[\"/metrics\"]"),
    ] {
        let run = can_i(&format!("{question} --as jane --exact-groups --explain"));
        assert_eq!(run.code, 1);
        assert!(run.stdout.contains(near), "{near}: {}", run.stdout);
        let line = run.stdout.lines().find(|line| line.trim().starts_with("needed: ")).unwrap();
        assert!(line.contains(needed), "{needed}: {line}");
    }
}

#[test]
fn what_is_said_to_be_needed_is_enough() {
    let scratch = Scratch::new();
    let role = "\
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {namespace: shop, name: needed}
rules: [{apiGroups: [apps], resources: [deployments], resourceNames: [web], verbs: [delete]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {namespace: shop, name: needed}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: needed}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: jane}]
";
    let ask = ["can-i", "delete", "deploy/web", "-n", "shop", "--as", "jane", "--explain", "--state"];
    let before = scratch.write("before.yaml", CLUSTER);
    let after = scratch.write("after.yaml", role);
    let refused = portcullis([&ask[..], &[text(&before)]].concat());
    let needed = r#"needed: {APIGroups:["apps"], Resources:["deployments"], ResourceNames:["web"], Verbs:["delete"]} by a RoleBinding in namespace shop"#;
    assert!(refused.stdout.contains(needed), "{}", refused.stdout);
    assert_eq!(portcullis([&ask[..], &[text(&before), "--state", text(&after)]].concat()).code, 0);
}

#[test]
fn abac_is_explained_by_its_lines() {
    let scratch = Scratch::new();
    let policy = scratch.write(
        "policy.jsonl",
        "# who may what\n\
         {\"apiVersion\":\"abac.authorization.kubernetes.io/v1beta1\",\"kind\":\"Policy\",\"spec\":{\"user\":\"bob\",\"namespace\":\"a\",\"resource\":\"pods\",\"readonly\":true}}\n",
    );
    let ask = |question: &str| {
        let flags = [
            "can-i",
            "--authorization-mode",
            "ABAC",
            "--authorization-policy-file",
            text(&policy),
            "--explain",
        ];
        portcullis([&flags[..], &words(question)].concat())
    };
    let run = ask("get pods -n a --as bob");
    assert_eq!((run.code, run.last_line()), (0, "ABAC: allowed by line 2 of the policy file"));
    for (question, what) in [
        ("create pods -n a --as bob", "line 2: "),
        ("get secrets -n a --as bob", "line 2: it is for another resource"),
        ("get pods -n a --as eve", "No policy matched."),
    ] {
        let run = ask(question);
        assert_eq!(run.code, 1);
        assert!(run.stdout.contains(what), "{what}: {}", run.stdout);
    }
}

#[test]
fn modes_are_asked_in_order_and_alone() {
    assert_answer("get anything --as x --authorization-mode AlwaysAllow", true);
    assert_answer("get deploy -n shop --as jane --authorization-mode AlwaysDeny", false);
    assert_answer("get deploy -n shop --as jane --authorization-mode AlwaysDeny,RBAC", true);
    assert_answer("get deploy -n shop --as jane --authorization-mode Node", false);
    assert_answer("get pv/disk --as system:node:n1 --as-group system:nodes --authorization-mode RBAC", false);
}

#[test]
fn the_default_policy_is_there_on_demand_only() {
    let ask = "get /version --as a --as-group system:authenticated";
    assert_answer(ask, false);
    assert_answer(&format!("{ask} --default-policy"), true);
}

#[test]
fn a_question_gets_the_answer_of_the_same_review() {
    let scratch = Scratch::new();
    let state = scratch.write("cluster.yaml", CLUSTER);
    for verb in ["get", "list", "update"] {
        for (kind, group, resource) in
            [("deploy", "apps", "deployments"), ("pods", "", "pods"), ("cm", "", "configmaps")]
        {
            for namespace in ["shop", "else"] {
                let review = serde_json::json!({
                    "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
                    "spec": {"user": "jane", "resourceAttributes": {
                        "verb": verb, "group": group, "resource": resource, "namespace": namespace, "name": "settings",
                    }},
                });
                let answered = with_input(["review", "--state", text(&state)], review.to_string().as_bytes())
                    .json_lines();
                // A review says the groups itself: nothing is added to them.
                let question = format!("{verb} {kind}/settings -n {namespace} --as jane --exact-groups");
                assert_answer(&question, answered[0]["status"]["allowed"] == Value::Bool(true));
            }
        }
    }
}

#[test]
fn questions_that_make_no_sense_are_refused() {
    for (question, parts) in [
        ("", &["--as", "VERB"] as &[&str]),
        ("get pods", &["--as"]),
        ("get --as a", &["TYPE"]),
        ("get pods/a b --as a", &["two names", "\"a\"", "\"b\""]),
        ("get pods/ --as a", &["empty"]),
        ("get /a b --as a", &["a path has neither"]),
        ("get /a --subresource log --as a", &["a path has neither"]),
        ("get pods -n a -A --as a", &["--namespace", "--all-namespaces"]),
        ("get pods a b --as a", &["'b'"]),
        ("get pods --as a --token x", &["--token"]),
        ("get pods --as a --authorization-mode node", &["--authorization-mode", "\"node\"", "Node"]),
    ] {
        can_i(question).refused(parts);
    }
    portcullis(["can-i", "get", "", "--as", "a"]).refused(&["empty"]);
}

#[test]
fn questions_that_were_hardly_meant_are_answered_with_a_warning() {
    for (question, warning) in [
        ("frobnicate pods --as a", "verb \"frobnicate\""),
        ("list /metrics --as a", "verb \"list\""),
        ("get widgets --as a", "resource type \"widgets\""),
        ("get pods/log --as a", "--subresource log"),
    ] {
        let run = can_i(&format!("{question} --exact-groups"));
        assert_eq!((run.code, &*run.stdout), (1, "no\n"));
        assert!(
            run.stderr.starts_with("warning: ") && run.stderr.contains(warning),
            "{warning}: {}",
            run.stderr
        );
    }
    let run = can_i("* * --as a --exact-groups");
    assert_eq!((run.code, &*run.stderr), (1, ""));
}
