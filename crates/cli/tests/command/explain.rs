//! `explain`: the user and the question, the forms of answers, exit codes, and where the objects come from.

use std::fs;

use portcullis_testkit::recorded::repository;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::webhook::{Reply, WebhookService};
use serde_json::{Value, json};

use crate::command::support::{Finished, portcullis, text, words};
use crate::command::who_can::{CLUSTER, cluster, items, kubeconfig};

/// An object that plays no part.
const NOTHING: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: a, name: b}\n";

fn explain(question: &str) -> Finished {
    over("explain", CLUSTER, question)
}

fn over(command: &str, state: &str, question: &str) -> Finished {
    let scratch = Scratch::new();
    let state = scratch.write("cluster.yaml", state);
    portcullis([vec![command, "--state", text(&state)], words(question)].concat())
}

#[track_caller]
fn document(run: &Finished) -> Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run:#?}"))
}

#[test]
fn an_answer_is_that_of_can_i_au_4() {
    for who in [
        "--as jane",
        "--as jane --exact-groups",
        "--as system:serviceaccount:shop:web",
        "--as system:serviceaccount:shop:web --as-group x",
        "--as system:node:n1 --as-group system:nodes",
        "--as system:node:n2 --as-group system:nodes",
        "--as root --as-group system:masters",
    ] {
        for question in [
            "get secrets/db -n shop",
            "get secrets -n shop",
            "list secret -A",
            "get secrets db",
            "get /metrics",
            "create pods/eviction -n shop",
            "get nodes/n1",
        ] {
            for modes in ["Node,RBAC", "RBAC", "AlwaysDeny", "AlwaysAllow"] {
                let question = format!("{question} {who} --authorization-mode {modes}");
                let (asked, explained) = (over("can-i", CLUSTER, &question), explain(&question));
                assert!(asked.code < 2 && explained.code == asked.code, "{question}: {explained:?}");
                let first = |run: &Finished| run.stdout.split([' ', '\n']).next().unwrap().to_owned();
                assert_eq!(first(&explained), first(&asked), "{question}");
                assert_eq!(explained.stderr, asked.stderr, "{question}");
            }
        }
    }
}

#[test]
fn tables_are_for_people_and_wide_ones_have_the_rules() {
    let run =
        explain("get secrets/db -n shop --as jane --as-group system:serviceaccounts:shop --exact-groups");
    let expected = "\
yes

FIRST   SUBJECT                             THROUGH
*       group/system:serviceaccounts:shop   RBAC: ClusterRoleBinding readers -> ClusterRole reader rules[0]
        user/jane                           RBAC: RoleBinding shop/db -> Role shop/db rules[0]
";
    assert_eq!((run.code, run.stdout.as_str()), (0, expected));
    let question = "get secrets/db -n shop --as jane --exact-groups -o wide";
    let rule = r#"{APIGroups:[""], Resources:["secrets"], ResourceNames:["db"], Verbs:["get"]}"#;
    let line = format!("RBAC: RoleBinding shop/db -> Role shop/db rules[0] {rule}\n");
    assert!(explain(question).stdout.contains(&line));

    let run = explain("get secrets/dbs -n shop --as jane --exact-groups");
    let expected = r#"no

needed:
  {APIGroups:[""], Resources:["secrets"], ResourceNames:["dbs"], Verbs:["get"]} by a RoleBinding in namespace shop or by a ClusterRoleBinding

near misses:
NEAR MISS           FACTOR    IT HAS                              WANTED      HINT                       SUBJECT     WHERE
one factor          name      db                                  dbs         typing error: one letter   user/jane   RBAC: RoleBinding shop/db -> Role shop/db rules[0]
granted to others   subject   group/system:serviceaccounts:shop   user/jane                                          RBAC: ClusterRoleBinding readers -> ClusterRole reader rules[0]
"#;
    assert_eq!((run.code, run.stdout.as_str()), (1, expected));
    let run = explain("get secrets/dbs -n shop --as jane --exact-groups --misses 1");
    assert!(run.stdout.ends_with("rules[0]\nand 1 more: see --misses\n"), "{}", run.stdout);
}

#[test]
fn a_node_is_told_its_paths_or_what_it_lacks() {
    let node = |question: &str| explain(&format!("{question} --as-group system:nodes --exact-groups"));
    let run = node("get secrets/db -n shop --as system:node:n1");
    let expected = "\
yes

FIRST   SUBJECT   THROUGH
*       node/n1   Node: nodes/n1 <- pods/shop/web <- secrets/shop/db
";
    // What the state lacks follows.
    assert!(run.code == 0 && run.stdout.starts_with(expected), "{run:?}");
    let run = node("get secrets/db -n shop --as system:node:n1 --paths 0");
    assert!(run.code == 0 && run.stdout.contains("and 1 more: see --paths"), "{run:?}");
    let run = node("get secrets/db -n shop --as system:node:n2");
    for part in
        ["no\n\nneeded:\n  a pod on the node that refers to the secret", "node                node      n1"]
    {
        assert!(run.code == 1 && run.stdout.contains(part), "{part}: {}", run.stdout);
    }
    let run = node("update nodes/n1 --subresource status --as system:node:n1");
    assert!(run.stdout.contains("NodeRestriction checks what a node writes"), "{}", run.stdout);
}

#[test]
fn the_document_has_everything_and_yaml_the_same() {
    let question = "get secrets/dbs -n shop --as jane --exact-groups";
    let answer = document(&explain(&format!("{question} -o json")));
    let rule =
        json!({"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["dbs"]});
    let by = |kind: &str, namespace: Option<&str>, name: &str| match namespace {
        Some(namespace) => json!({"kind": kind, "namespace": namespace, "name": name}),
        None => json!({"kind": kind, "name": name}),
    };
    let nothing = json!({"listed": [], "leftOut": 0});
    let expected = json!({
        "answer": "no",
        "ways": nothing, "blocked": nothing, "pending": nothing,
        "needed": [{
            "by": "RBAC", "rule": rule, "namespace": "shop",
            "text": r#"{APIGroups:[""], Resources:["secrets"], ResourceNames:["dbs"], Verbs:["get"]}"#,
        }],
        "misses": {"leftOut": 0, "listed": [
            {
                "kind": "ownGrant", "factor": "name", "has": ["db"], "wanted": "dbs", "typingError": "oneLetter",
                "subject": {"kind": "User", "name": "jane"},
                "binding": by("RoleBinding", Some("shop"), "db"), "role": by("Role", Some("shop"), "db"),
                "ruleIndex": 0,
                "rule": r#"{APIGroups:[""], Resources:["secrets"], ResourceNames:["db"], Verbs:["get"]}"#,
            },
            {
                "kind": "otherSubject", "factor": "subject", "has": ["group/system:serviceaccounts:shop"],
                "wanted": "user/jane",
                "binding": by("ClusterRoleBinding", None, "readers"), "role": by("ClusterRole", None, "reader"),
                "ruleIndex": 0, "rule": r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}"#,
            },
        ]},
        "incomplete": [], "notes": [],
    });
    assert_eq!(answer, expected);
    let yaml: Value = serde_saphyr::from_str(&explain(&format!("{question} -o yaml")).stdout).unwrap();
    assert_eq!(yaml, answer);
    // A path of a node, and a role without a binding.
    let answer =
        document(&explain("get secrets/db -n shop --as system:node:n1 --as-group system:nodes -o json"));
    let way = &answer["ways"]["listed"][0];
    assert_eq!(
        *way,
        json!({
            "by": "Node", "path": "nodes/n1 <- pods/shop/web <- secrets/shop/db", "first": true,
            "subject": {"kind": "Node", "name": "n1"},
        })
    );
    let unbound = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: r}\n\
                   rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]\n";
    let answer = document(&over("explain", unbound, "get pods --as jane --exact-groups -o json"));
    assert_eq!(
        answer["misses"]["listed"][0],
        json!({
            "kind": "unboundRole", "factor": "subject", "has": [], "wanted": "user/jane",
            "role": {"kind": "ClusterRole", "name": "r"}, "ruleIndex": 0,
            "rule": r#"{APIGroups:[""], Resources:["pods"], Verbs:["get"]}"#,
        })
    );
}

#[test]
fn what_is_not_in_files_is_said_and_only_what_decides_au_23() {
    let inputs = |question: &str| -> Vec<String> {
        let answer = document(&over("explain", NOTHING, &format!("{question} -o json")));
        assert_eq!(answer["answer"], "no");
        let incomplete = answer["incomplete"].as_array().unwrap().iter();
        incomplete
            .map(|one| {
                assert_eq!((&one["why"], &one["rules"]), (&json!("not-given"), &json!(["explain"])));
                one["input"].as_str().unwrap().to_owned()
            })
            .collect()
    };
    let of_cluster = ["clusterrolebindings", "clusterroles"];
    assert_eq!(inputs("get nodes --as jane"), of_cluster);
    let of_namespace = ["clusterrolebindings", "clusterroles", "rolebindings", "roles"];
    assert_eq!(inputs("get secrets/db --as jane"), of_namespace);
    let of_node = [
        "clusterrolebindings",
        "clusterroles",
        "persistentvolumes",
        "pods",
        "resourceslices",
        "rolebindings",
        "roles",
        "volumeattachments",
    ];
    assert_eq!(inputs("get secrets/db --as system:node:n1 --as-group system:nodes"), of_node);
}

#[test]
fn what_is_not_known_is_unknown_and_no_yes_au_93() {
    let run = explain("get secrets/db -n shop --as jane --authorization-mode Webhook,RBAC");
    assert_eq!((run.code, run.stdout.lines().next()), (1, Some("unknown")), "{run:?}");
    assert!(run.stdout.contains("would allow it:\n"), "{}", run.stdout);
    assert!(run.stdout.contains("incomplete: authorization-webhook (unresolved)"), "{}", run.stdout);
    let run = explain("get secrets/db -n shop --as jane --authorization-mode RBAC,Webhook");
    assert_eq!((run.code, run.stdout.lines().next()), (0, Some("yes")), "{run:?}");
}

#[test]
fn questions_that_make_no_sense_are_refused() {
    for (question, parts) in [
        ("get secrets", &["--as"] as &[&str]),
        ("--as jane get", &["TYPE"]),
        ("--as jane get secrets/a b", &["two names"]),
        ("--as jane get secrets --paths many", &["--paths"]),
        ("--as jane get secrets --misses -1", &["-1"]),
        ("--as jane get secrets -o name", &["name"]),
        ("--as jane get secrets --as-user-extra x", &["KEY=VALUE"]),
        ("--as jane get secrets --authorization-mode ABAC", &["policy file"]),
        ("--as jane get secrets --kubeconfig x", &["--kubeconfig", "--state"]),
    ] {
        explain(question).refused(parts);
    }
    over("explain", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n", "get pods --as jane")
        .refused(&["cluster.yaml", "namespace"]);
}

#[test]
fn names_that_would_command_a_terminal_are_printed_without_effect() {
    let name = "evil\u{1b}[2J\nuser/root";
    let rbac = "rbac.authorization.k8s.io/v1";
    let rule = |verb: &str| json!({"verbs": [verb], "apiGroups": [""], "resources": ["secrets"]});
    let object = |kind: &str, rules: Value| json!({"apiVersion": rbac, "kind": kind, "metadata": {"name": name}, "rules": rules});
    let bound = |binding: &str, role: &str, subject: &str| {
        json!({"apiVersion": rbac, "kind": "ClusterRoleBinding", "metadata": {"name": format!("{name}{binding}")},
            "roleRef": {"kind": "ClusterRole", "name": role}, "subjects": [{"kind": "User", "name": subject}]})
    };
    let objects = [
        object("ClusterRole", json!([rule("get"), rule(name)])),
        bound("1", name, "jane"),
        bound("2", &format!("{name}2"), "jane"),
        bound("3", name, name),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "a", "name": name},
            "spec": {"nodeName": "n1", "volumes": [{"name": "v", "secret": {"secretName": "db"}}]}}),
    ];
    let state = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    for question in [
        "get secrets -n shop --as jane",
        "list secrets -n shop --as jane --misses 20",
        "get secrets -n shop --as joe --misses 20",
        "get secrets/db -n a --as system:node:n1 --as-group system:nodes",
        "get secrets/db -n b --as system:node:n1 --as-group system:nodes --misses 20",
    ] {
        for output in ["table", "wide", "json", "yaml"] {
            let run = over("explain", &state, &format!("{question} -o {output}"));
            assert!(run.code < 2 && run.stdout.contains("evil"), "{question}: {run:?}");
            let is_harmless = !run.stdout.contains('\u{1b}') && !run.stdout.contains("\nuser/root");
            assert!(is_harmless, "{output}: {}", run.stdout);
        }
    }
}

#[test]
fn a_cluster_is_read_and_what_it_refuses_is_unknown_au_9_au_21() {
    let scratch = Scratch::new();
    let live = |service: &WebhookService, question: &str| {
        let file = kubeconfig(service);
        portcullis([vec!["explain", "-o", "json", "--kubeconfig", text(&file)], words(question)].concat())
    };
    let service = cluster(&scratch, |plural| (200, items(plural)));
    let run = live(&service, "get secrets/db -n shop --as jane");
    assert_eq!((run.code, document(&run)["incomplete"].clone()), (0, json!([])));
    let asked: Vec<String> = service.asked().into_iter().map(|asked| asked.line).collect();
    // Jane is no node: nothing is asked for that belongs to nodes.
    assert!(asked.len() == 4 && asked.iter().all(|line| line.starts_with("GET /apis/rbac")), "{asked:?}");

    let refusing = Scratch::new();
    let service = cluster(&refusing, |plural| match plural {
        "rolebindings" => (403, Vec::new()),
        plural => (200, items(plural)),
    });
    let run = live(&service, "get secrets/db -n shop --as jane");
    let answer = document(&run);
    assert_eq!((run.code, &answer["answer"]), (1, &json!("unknown")), "{answer:#}");
    assert_eq!(
        (&answer["incomplete"][0]["input"], &answer["incomplete"][0]["why"]),
        (&json!("rolebindings"), &json!("refused"))
    );
    // A yes stays a yes.
    let run = live(&service, "get secrets/db -n shop --as system:serviceaccount:shop:web");
    assert_eq!((run.code, &document(&run)["answer"]), (0, &json!("yes")));

    let closed = Scratch::new();
    let service = WebhookService::start(closed.path(), |_, _| Reply::Close);
    let run = live(&service, "get secrets/db -n shop --as jane");
    assert_eq!((run.code, run.stdout.as_str()), (3, ""), "{run:?}");
}

/// Explanations are for whoever holds the state: what answers requests does not use them.
#[test]
fn no_server_uses_explanations_au_103() {
    let mut folders = vec![repository().join("crates/server/src"), repository().join("crates/client/src")];
    let mut count = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let code = fs::read_to_string(&path).unwrap();
            for word in [
                "audit::explain",
                ".explain(",
                "Explanation",
                "who_can",
                "::factor",
                ".every_path(",
                "reached_by",
            ] {
                assert!(!code.contains(word), "{}: {word}", path.display());
            }
            count += 1;
        }
    }
    assert!(count > 100, "the code of the servers was read: {count} files");
}
