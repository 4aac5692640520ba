//! `who-can`: the words of questions, the forms of answers, and where the objects come from.

use std::path::Path;

use portcullis_testkit::program;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::webhook::{Reply, WebhookService};
use serde_json::{Value, json};

use crate::command::support::{Finished, portcullis, text, words};

pub(crate) const CLUSTER: &str = r#"
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: web}
spec:
  nodeName: n1
  serviceAccountName: web
  containers: [{name: web, image: registry.example.com/web}]
  volumes: [{name: v, secret: {secretName: db}}]
---
apiVersion: v1
kind: Namespace
metadata: {name: empty}
---
apiVersion: v1
kind: ServiceAccount
metadata: {namespace: shop, name: web}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules:
- {apiGroups: [""], resources: [secrets], verbs: [get, list]}
- {nonResourceURLs: [/metrics], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: readers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}
subjects: [{kind: Group, apiGroup: rbac.authorization.k8s.io, name: "system:serviceaccounts:shop"}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {namespace: shop, name: db}
rules: [{apiGroups: [""], resources: [secrets], resourceNames: [db], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {namespace: shop, name: db}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: db}
subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: jane}]
"#;

fn who_can(question: &str) -> Finished {
    over(CLUSTER, question)
}

fn over(state: &str, question: &str) -> Finished {
    let scratch = Scratch::new();
    let state = scratch.write("cluster.yaml", state);
    portcullis([vec!["who-can", "--state", text(&state)], words(question)].concat())
}

/// The names of those who can.
#[track_caller]
fn listed(question: &str) -> Vec<String> {
    let run = who_can(&format!("{question} -o name"));
    assert_eq!(run.code, 0, "{run:#?}");
    run.stdout.lines().map(str::to_owned).collect()
}

#[track_caller]
fn document(run: &Finished) -> Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run:#?}"))
}

const ALL: [&str; 4] = ["group/system:masters", "group/system:serviceaccounts:shop", "node/n1", "user/jane"];

#[test]
fn questions_are_read_as_can_i_reads_them_au_96() {
    for question in [
        "get secrets/db -n shop",
        "get secret/db -n shop",
        "get secrets db -n shop",
        "get Secret db --namespace shop",
        "get secrets.v1. db -n shop",
    ] {
        assert_eq!(listed(question), ALL, "{question}");
    }
    for (question, count) in [
        ("get secrets/db", 2),
        ("get secrets/db -A", 2),
        ("get secrets/db -n shop --subresource x", 1),
        ("get secrets.apps/db -n shop", 1),
        ("* secrets -n shop", 1),
        ("get /metrics", 2),
        ("get /metrics/x", 1),
        ("post /metrics", 1),
    ] {
        assert_eq!(listed(question).len(), count, "{question}");
    }
}

#[test]
fn questions_that_were_hardly_meant_are_answered_with_a_warning_au_95_au_96() {
    for (question, warning) in [
        ("frobnicate secrets", "verb \"frobnicate\""),
        ("get widgets", "resource type \"widgets\""),
        ("get pods/exec -n shop", "--subresource exec"),
        ("get nodes -n shop", "nodes are cluster-scoped: --namespace is ignored"),
        ("get nodes --each-namespace", "--each-namespace is ignored"),
        ("get /metrics --each-namespace", "--each-namespace is ignored"),
    ] {
        let run = who_can(question);
        assert_eq!(run.code, 0, "{run:?}");
        assert!(run.stdout.starts_with("SUBJECT\ngroup/system:masters\n"), "{}", run.stdout);
        assert!(
            run.stderr.starts_with("warning: ") && run.stderr.contains(warning),
            "{warning}: {}",
            run.stderr
        );
    }
}

#[test]
fn questions_that_make_no_sense_are_refused() {
    for (question, parts) in [
        ("", &["VERB"] as &[&str]),
        ("get", &["TYPE"]),
        ("get secrets/a b", &["two names"]),
        ("get secrets/", &["empty"]),
        ("get /a b", &["a path has neither"]),
        ("get secrets -n a -A", &["--all-namespaces"]),
        ("get secrets -n a --each-namespace", &["--each-namespace"]),
        ("get secrets -A --each-namespace", &["--each-namespace"]),
        ("get secrets -o xml", &["xml"]),
        ("get secrets --as jane", &["--as"]),
        ("get secrets --authorization-mode Node,Node", &["more than once"]),
        ("get secrets --authorization-mode ABAC", &["policy file"]),
        ("get secrets --deny-file x", &["x"]),
        ("get secrets --etcd-servers http://127.0.0.1:1", &["leave one of them out"]),
        ("get secrets --kubeconfig x", &["--kubeconfig", "--state"]),
    ] {
        who_can(question).refused(parts);
    }
    over("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n", "get secrets")
        .refused(&["cluster.yaml", "namespace"]);
    portcullis(["who-can", "get", "secrets", "--kubeconfig", "/nonexistent"])
        .refused(&["/nonexistent", "--state"]);
}

#[test]
fn the_document_has_all_lists_and_by_what_au_3_au_97() {
    let run = who_can("get secrets -n shop -o json");
    let answer = document(&run);
    assert_eq!(run.code, 0);
    let through = |binding: Value, role: Value, rule: &str| json!([{"by": "RBAC", "binding": binding, "role": role, "ruleIndex": 0, "rule": rule}]);
    let readers = through(
        json!({"kind": "ClusterRoleBinding", "name": "readers"}),
        json!({"kind": "ClusterRole", "name": "reader"}),
        r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}"#,
    );
    let db = through(
        json!({"kind": "RoleBinding", "namespace": "shop", "name": "db"}),
        json!({"kind": "Role", "namespace": "shop", "name": "db"}),
        r#"{APIGroups:[""], Resources:["secrets"], ResourceNames:["db"], Verbs:["get"]}"#,
    );
    assert_eq!(
        answer["subjects"],
        json!([
            {"kind": "Group", "name": "system:masters", "through": [{"by": "system:masters"}]},
            {"kind": "Group", "name": "system:serviceaccounts:shop", "through": readers},
        ])
    );
    assert_eq!(
        answer["limited"],
        json!([{"kind": "User", "name": "jane", "resourceNames": ["db"], "through": db}])
    );
    assert_eq!(
        (&answer["pending"], &answer["notes"], &answer["incomplete"]),
        (&json!([]), &json!([]), &json!([]))
    );
    // The same as YAML.
    let yaml: Value = serde_saphyr::from_str(&who_can("get secrets -n shop -o yaml").stdout).unwrap();
    assert_eq!(yaml, answer);
}

#[test]
fn tables_are_for_people_and_wide_ones_say_by_what_au_97() {
    let run = who_can("get secrets -n shop");
    let expected = "\
SUBJECT
group/system:masters
group/system:serviceaccounts:shop

for some names only:
SUBJECT     NAMES
user/jane   db

note: group/system:masters is everybody with a certificate for this group

note: group/system:serviceaccounts:shop is every service account of the namespace
";
    assert_eq!(run.stdout, expected);
    let run = who_can("get secrets/db -n shop -o wide");
    for line in [
        "group/system:serviceaccounts:shop   RBAC: ClusterRoleBinding readers -> ClusterRole reader rules[0] {APIGroups:",
        "node/n1                             Node: nodes/n1 <- pods/shop/web <- secrets/shop/db",
        "user/jane                           RBAC: RoleBinding shop/db -> Role shop/db rules[0] {",
    ] {
        assert!(run.stdout.contains(line), "{line}: {}", run.stdout);
    }
    let run = who_can("create pods -n shop");
    assert!(run.stdout.contains("SUBJECT                ADMISSION\n"), "{}", run.stdout);
    assert!(run.stdout.contains("group/system:nodes     NodeRestriction\n"), "{}", run.stdout);
}

#[test]
fn accounts_are_added_that_can_through_a_group_au_90() {
    assert_eq!(listed("list secrets -n other").len(), 2);
    let expanded = listed("list secrets -n other --expand");
    assert_eq!(expanded.last().unwrap(), "serviceaccount/shop/web");
    assert_eq!(expanded.len(), 3);
}

#[test]
fn every_namespace_of_the_state_is_answered_au_95() {
    let run = who_can("get secrets/db --each-namespace -o name");
    let expected = "\
empty\tgroup/system:masters
empty\tgroup/system:serviceaccounts:shop
shop\tgroup/system:masters
shop\tgroup/system:serviceaccounts:shop
shop\tnode/n1
shop\tuser/jane
";
    assert_eq!((run.code, run.stdout.as_str()), (0, expected));
    let answer = document(&who_can("get secrets/db --each-namespace -o json"));
    let [empty, shop] = &answer["namespaces"].as_array().unwrap()[..] else { panic!("{answer:#}") };
    assert_eq!((&empty["namespace"], &shop["namespace"]), (&json!("empty"), &json!("shop")));
    assert_eq!(
        (empty["subjects"].as_array().unwrap().len(), shop["subjects"].as_array().unwrap().len()),
        (2, 4)
    );
    assert_eq!((&empty["limited"], answer.get("subjects")), (&json!([]), None));
    let table = who_can("get secrets/db --each-namespace").stdout;
    assert!(table.starts_with("NAMESPACE   SUBJECT\nempty       group/system:masters\n"), "{table}");
}

#[test]
fn a_kind_without_an_object_in_files_is_not_given_au_23() {
    let rbac = CLUSTER
        .split("---")
        .filter(|part| part.contains("kind: ClusterRole"))
        .collect::<Vec<_>>()
        .join("---");
    let inputs = |question: &str| -> Vec<String> {
        let run = over(&rbac, &format!("{question} -o json"));
        // It is an answer all the same (AU-22).
        assert_eq!(run.code, 0, "{run:?}");
        let answer = document(&run);
        let incomplete = answer["incomplete"].as_array().unwrap().iter();
        incomplete
            .map(|one| {
                assert_eq!((&one["why"], &one["rules"]), (&json!("not-given"), &json!(["who-can"])));
                one["input"].as_str().unwrap().to_owned()
            })
            .collect()
    };
    assert_eq!(inputs("delete nodes"), Vec::<String>::new());
    assert_eq!(inputs("create deployments -n shop"), ["rolebindings", "roles"]);
    let graph = ["persistentvolumes", "pods", "resourceslices", "rolebindings", "roles", "volumeattachments"];
    assert_eq!(inputs("get secrets/db -n shop"), graph);
    assert_eq!(inputs("delete nodes --expand"), ["serviceaccounts"]);
    let table = over(&rbac, "create deployments -n shop").stdout;
    assert!(table.contains("\nincomplete: roles (not-given): the state has no Role"), "{table}");
}

#[test]
fn a_webhook_and_deny_rules_are_told_au_93_bc_30() {
    let answer = document(&who_can("get secrets/db -n shop --authorization-mode RBAC,Webhook -o json"));
    assert_eq!(answer["incomplete"][0]["input"], "authorization-webhook");
    let scratch = Scratch::new();
    let rules = json!({"apiVersion": "portcullis.dev/v1", "kind": "DenyRules", "rules": [{
        "name": "no-db", "subjects": [{"kind": "User", "name": "jane"}], "verbs": ["get"], "apiGroups": [""],
        "resources": ["secrets"], "resourceNames": ["db"],
    }]});
    let rules = scratch.write("deny.json", rules.to_string());
    let flags = format!("--authorization-mode Deny,Node,RBAC --deny-file {}", text(&rules));
    assert_eq!(listed(&format!("get secrets/db -n shop {flags}")), ALL[..3]);
    let table = who_can(&format!("get secrets/db -n shop {flags}")).stdout;
    assert!(table.contains("note: deny rule \"no-db\" is about this request"), "{table}");
}

#[test]
fn names_that_would_command_a_terminal_are_printed_without_effect() {
    let name = "evil\u{1b}[2J\nuser/root";
    let rbac = "rbac.authorization.k8s.io/v1";
    let rule =
        json!({"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": [name]});
    let objects = [
        json!({"apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": name}, "rules": [rule]}),
        json!({"apiVersion": rbac, "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"kind": "ClusterRole", "name": name}, "subjects": [{"kind": "User", "name": name}]}),
        json!({"apiVersion": rbac, "kind": "ClusterRoleBinding", "metadata": {"name": format!("{name}2")},
            "roleRef": {"kind": "ClusterRole", "name": format!("{name}2")}, "subjects": [{"kind": "User", "name": name}]}),
        json!({"apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": "free"},
            "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}]}),
        json!({"apiVersion": rbac, "kind": "ClusterRoleBinding", "metadata": {"name": "free"},
            "roleRef": {"kind": "ClusterRole", "name": "free"}, "subjects": [{"kind": "Group", "name": name}]}),
    ];
    let state = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    for output in ["table", "wide", "json", "yaml", "name"] {
        let run = over(&state, &format!("get secrets -n shop -o {output}"));
        assert_eq!(run.code, 0, "{run:?}");
        assert!(run.stdout.contains("evil"), "{}", run.stdout);
        assert!(
            !run.stdout.contains('\u{1b}') && !run.stdout.contains("\nuser/root"),
            "{output}: {}",
            run.stdout
        );
    }
}

/// An API server that answers each list so: the code, and the items.
pub(crate) fn cluster(
    scratch: &Scratch,
    lists: impl Fn(&str) -> (u16, Vec<Value>) + Send + Sync + 'static,
) -> WebhookService {
    WebhookService::start(scratch.path(), move |asked, _| {
        let target = asked.line.split(' ').nth(1).unwrap();
        let plural = target.split('?').next().unwrap().rsplit('/').next().unwrap();
        let (code, items) = lists(plural);
        let document = match code {
            200 => json!({"kind": "List", "metadata": {"resourceVersion": "1"}, "items": items}),
            code => {
                json!({"kind": "Status", "status": "Failure", "message": format!("{plural} are refused"), "code": code})
            }
        };
        Reply::Body(code, "application/json", document.to_string())
    })
}

pub(crate) fn kubeconfig(service: &WebhookService) -> std::path::PathBuf {
    service.kubeconfig_with(&format!("https://{}", service.address()), "certificate-authority: ca.pem")
}

fn live(kubeconfig: &Path, question: &str) -> Finished {
    portcullis([vec!["who-can", "--kubeconfig", text(kubeconfig)], words(question)].concat())
}

/// The items of a list of the cluster above.
pub(crate) fn items(plural: &str) -> Vec<Value> {
    let objects = CLUSTER.split("---").map(|part| serde_saphyr::from_str::<Value>(part).unwrap());
    objects
        .filter(|object| format!("{}s", object["kind"].as_str().unwrap().to_lowercase()) == plural)
        .collect()
}

#[test]
fn a_cluster_is_asked_for_what_the_answer_needs_au_9_au_10_au_17() {
    let scratch = Scratch::new();
    let service = cluster(&scratch, |plural| (200, items(plural)));
    let file = kubeconfig(&service);
    let run = live(&file, "get secrets/db -n shop -o name");
    assert_eq!(run.stdout.lines().collect::<Vec<_>>(), ALL, "{run:#?}");
    assert_eq!(run.code, 0);
    let asked = |service: &WebhookService| -> Vec<String> {
        let mut lines: Vec<String> = service.asked().into_iter().map(|asked| asked.line).collect();
        lines.sort();
        lines
    };
    assert_eq!(asked(&service).len(), 8, "{:?}", asked(&service));
    assert!(asked(&service).iter().all(|line| line.starts_with("GET ") && !line.contains("secrets")));
    // Nothing of a kind is no gap in an answer about a cluster.
    let answer = document(&live(&file, "get secrets/db -n shop -o json"));
    assert_eq!(answer["incomplete"], json!([]));
    // Pods and roles of namespaces say nothing about nodes.
    let before = service.asked().len();
    assert_eq!(live(&file, "delete nodes -o name").code, 0);
    let of_nodes: Vec<String> =
        service.asked().split_off(before).into_iter().map(|asked| asked.line).collect();
    assert!(of_nodes.len() == 2 && of_nodes.iter().all(|line| line.contains("/clusterrole")), "{of_nodes:?}");
}

#[test]
fn a_list_that_is_refused_leaves_the_answer_incomplete_au_21_au_22() {
    for (code, why) in [(403, "refused"), (401, "refused"), (404, "failed")] {
        let scratch = Scratch::new();
        let service = cluster(&scratch, move |plural| match plural {
            "pods" => (code, Vec::new()),
            plural => (200, items(plural)),
        });
        let file = kubeconfig(&service);
        let run = live(&file, "get secrets/db -n shop -o json");
        let answer = document(&run);
        assert_eq!((run.code, answer["subjects"].as_array().unwrap().len()), (1, 3), "{answer:#}");
        let incomplete = &answer["incomplete"];
        assert_eq!((&incomplete[0]["input"], &incomplete[0]["why"]), (&json!("pods"), &json!(why)));
        assert!(incomplete[0]["detail"].as_str().unwrap().contains("pods are refused"), "{incomplete}");
        assert_eq!(live(&file, "get secrets/db -n shop --allow-incomplete").code, 0);
    }
}

#[test]
fn an_object_that_cannot_be_read_leaves_the_answer_incomplete_au_21() {
    let scratch = Scratch::new();
    let service = cluster(&scratch, |plural| match plural {
        "clusterroles" => (200, vec![json!({"metadata": {"name": "broken"}, "rules": 7})]),
        plural => (200, items(plural)),
    });
    let run = live(&kubeconfig(&service), "get secrets/db -n shop -o json");
    let answer = document(&run);
    assert_eq!(run.code, 0, "what is missing is told: {run:?}");
    let incomplete = answer["incomplete"].as_array().unwrap();
    let whys: Vec<(&str, &str)> =
        incomplete.iter().map(|one| (one["input"].as_str().unwrap(), one["why"].as_str().unwrap())).collect();
    assert_eq!(whys, [("clusterroles", "undecodable"), ("clusterroles", "unresolved")]);
}

#[test]
fn a_cluster_that_cannot_be_reached_is_exit_code_3() {
    let scratch = Scratch::new();
    let service = WebhookService::start(scratch.path(), |_, _| Reply::Close);
    let run = live(&kubeconfig(&service), "get secrets/db -n shop");
    assert_eq!((run.code, run.stdout.as_str()), (3, ""), "{run:?}");
    assert!(run.stderr.contains("cannot reach https://127.0.0.1"), "{}", run.stderr);
    // So it is for the audit of kubelets, and there a refusal too: nobody is cleared by it.
    let service = cluster(&scratch, |_| (403, Vec::new()));
    let run = portcullis(["audit", "kubelet-access", "--kubeconfig", text(&kubeconfig(&service))]);
    assert_eq!((run.code, run.stdout.as_str()), (3, ""), "{run:?}");
    assert!(run.stderr.contains("are refused (403)"), "{}", run.stderr);
}

#[test]
fn a_running_server_answers_as_its_objects_in_files_do_au_9() {
    let scratch = Scratch::new();
    let state = scratch.write("cluster.yaml", CLUSTER);
    let data = scratch.path().join("data");
    let mut command = program!().serve_command(&data);
    command.args(["--state", text(&state)]);
    let _server = portcullis_testkit::program::Running::start(command);
    let file = data.join("admin.kubeconfig");
    let run = live(&file, "get secrets/db -n shop -o name");
    assert_eq!(run.code, 0, "{run:#?}");
    let names: Vec<&str> = run.stdout.lines().collect();
    assert!(ALL.iter().all(|name| names.contains(name)), "{names:?}");
    let kubelets = portcullis(["audit", "kubelet-access", "--kubeconfig", text(&file), "-o", "name"]);
    assert!(kubelets.stdout.contains("group/system:masters"), "{kubelets:?}");
}
