//! What nodes reach on one side alone (AU-112).

use portcullis_policy::Mode;
use serde_json::{Value, json};

use crate::diff::support::{Side, all, cluster_binding, cluster_role};

fn pod(name: &str, node: &str, secret: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "a", "name": name},
        "spec": {
            "nodeName": node, "serviceAccountName": name, "containers": [{"name": "c"}],
            "volumes": [{"name": "v", "secret": {"secretName": secret}}],
        },
    })
}

fn node_rbac(documents: Vec<Value>) -> Side {
    Side { modes: vec![Mode::Node, Mode::Rbac], documents, ..Side::default() }
}

#[test]
fn a_pod_that_moves_takes_its_secrets_with_it_au_112() {
    let old =
        node_rbac(vec![pod("web", "n1", "tls"), pod("db", "n2", "password"), pod("other", "n3", "key")]);
    let new =
        node_rbac(vec![pod("web", "n1", "tls"), pod("db", "n1", "password"), pod("other", "n3", "key")]);
    let report = all(&old, &new);
    let moved = json!({"pods": ["a/db"], "secrets": ["a/password"], "serviceaccounts": ["a/db"]});
    let accounts = json!({"serviceaccounts": ["a/db"]});
    let document = serde_json::to_value(&report.reach).unwrap();
    let nodes = document["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 2, "{document:#}");
    let (first, second) = (&nodes[0], &nodes[1]);
    assert_eq!((&first["node"], &first["gained"], &first["lost"]), (&json!("n1"), &moved, &json!({})));
    assert_eq!((&first["closure"]["gained"], &first["closure"]["lost"]), (&accounts, &json!({})));
    assert_eq!(first["closure"]["was"]["pods"], json!({"count": 1, "ofOthers": 0}));
    assert_eq!(first["closure"]["now"]["pods"], json!({"count": 2, "ofOthers": 0}));
    // Nothing names n2 any more.
    assert_eq!((&second["node"], &second["gained"], &second["lost"]), (&json!("n2"), &json!({}), &moved));
    assert_eq!((&second["closure"]["now"], &second["closure"]["lost"]), (&Value::Null, &accounts));
    assert_eq!((report.is_gain(), report.is_loss()), (true, true));
    assert!(report.gained.is_empty() && report.lost.is_empty(), "what belongs to nodes is no row");
}

#[test]
fn a_right_of_an_account_changes_what_its_node_reaches_in_the_end_au_112() {
    let account = json!([{"kind": "ServiceAccount", "namespace": "a", "name": "web"}]);
    let rules = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
    let pods = [pod("web", "n1", "tls"), pod("db", "n2", "password")];
    let full = [cluster_role("full", rules), cluster_binding("full", "full", account)];
    let (old, new) = (node_rbac(pods.to_vec()), node_rbac([pods, full].concat()));
    let report = all(&old, &new);
    assert_eq!((report.is_gain(), report.is_loss()), (true, false));
    let names: Vec<&str> = report.reach.nodes.iter().map(|node| node.node.as_str()).collect();
    assert_eq!(names, ["n1"], "the other node has no pod of this account");
    let closure = &report.reach.nodes[0].closure;
    let admin =
        |totals: &Option<portcullis_policy::audit::diff::Totals>| totals.as_ref().unwrap().cluster_admin;
    assert_eq!((admin(&closure.was), admin(&closure.now)), ("no", "yes"));
    assert!(report.reach.nodes[0].gained.is_empty(), "by itself it reaches what it has reached");
    let back = all(&new, &old);
    assert_eq!((back.is_gain(), back.is_loss()), (false, true));
}

#[test]
fn the_same_state_does_not_differ_from_itself_and_what_it_lacks_is_said_once_au_22() {
    let side = node_rbac(vec![pod("web", "n1", "tls"), cluster_role("r", json!([]))]);
    let report = all(&side, &side);
    assert!(report.gained.is_empty() && report.lost.is_empty() && report.reach.nodes.is_empty());
    let inputs: Vec<(&str, &str)> = report
        .incomplete
        .iter()
        .map(|missing| (missing.input.as_str(), missing.rules[0]))
        .filter(|(_, rule)| *rule == "diff")
        .collect();
    assert_eq!(inputs, [("clusterrolebindings", "diff"), ("rolebindings", "diff"), ("roles", "diff")]);
    assert!(report.incomplete.iter().all(|missing| missing.detail.starts_with("both states: ")));
}
