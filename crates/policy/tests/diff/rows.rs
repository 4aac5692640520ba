//! Rows of hand-made states: by what, rules that are still to be aggregated, and what belongs to nodes.

use portcullis_policy::Mode;
use portcullis_policy::audit::diff::{CannotCompare, Wanted};
use serde_json::{Value, json};

use crate::diff::brute_force::listed;
use crate::diff::support::{Side, all, between, binding, cluster_binding, cluster_role};

fn user(name: &str) -> Value {
    json!([{"kind": "User", "name": name}])
}

fn rule(verb: &str, resource: &str) -> Value {
    json!([{"verbs": [verb], "apiGroups": [""], "resources": [resource]}])
}

#[test]
fn a_row_says_every_way_on_the_side_that_allows_it_au_111() {
    let reader = cluster_role("reader", rule("get", "pods"));
    let old = Side::rbac(vec![reader.clone()]);
    let new = Side::rbac(vec![
        reader,
        cluster_binding("all", "reader", json!([{"kind": "Group", "name": "system:authenticated"}])),
        binding("a", "own", "ClusterRole/reader", user("u")),
    ]);
    let report = all(&old, &new);
    let ways = |subject: &str, namespace: &str| -> Vec<String> {
        let rows = report.gained.iter().map(|row| serde_json::to_value(row).unwrap());
        let row =
            rows.into_iter().find(|row| row["subject"] == subject && row["namespace"] == namespace).unwrap();
        let ways = row["through"].as_array().unwrap().iter();
        ways.map(|way| {
            format!(
                "{} {}",
                way["binding"]["kind"].as_str().unwrap(),
                way["binding"]["name"].as_str().unwrap()
            )
        })
        .collect()
    };
    assert_eq!(ways("user/u", "a"), ["ClusterRoleBinding all", "RoleBinding own"]);
    assert_eq!(ways("user/u", ""), ["ClusterRoleBinding all"]);
    assert_eq!(ways("group/system:authenticated", "a"), ["ClusterRoleBinding all"]);
    // In short: what the user has as a member of the group alone is not repeated.
    let short: Vec<String> = report.changes.iter().map(|change| change.subject.to_string()).collect();
    assert_eq!((report.members, short.len()), (0, 3), "{short:?}");
}

#[test]
fn what_members_have_by_their_group_alone_is_said_of_the_group() {
    let documents = |verb: &str| {
        vec![
            cluster_role("reader", rule(verb, "pods")),
            cluster_role("writer", rule("create", "pods")),
            cluster_binding("all", "reader", json!([{"kind": "Group", "name": "system:authenticated"}])),
            cluster_binding("own", "writer", user("u")),
        ]
    };
    let report = all(&Side::rbac(documents("get")), &Side::rbac(documents("list")));
    let subjects: Vec<String> = report.changes.iter().map(|change| change.subject.to_string()).collect();
    assert_eq!(subjects, ["group/system:authenticated", "group/system:authenticated"]);
    assert_eq!(report.members, 1);
    assert!(report.gained.iter().any(|row| row.subject == "user/u"), "the rows say it of everybody");
}

#[test]
fn rules_that_are_still_to_be_aggregated_count_as_if_they_were_there_au_25() {
    let mut collector = cluster_role("view", rule("get", "pods"));
    collector["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"to": "view"}}]});
    let bound = cluster_binding("b", "view", user("u"));
    let mut part = cluster_role("part", rule("get", "secrets"));
    part["metadata"]["labels"] = json!({"to": "view"});
    let old = Side::rbac(vec![collector.clone(), bound.clone()]);
    let new = Side::rbac(vec![collector, bound, part]);
    let report = all(&old, &new);
    let verbs_and_resources: Vec<(String, String)> =
        listed(&report).0.into_iter().map(|(_, verb, target)| (verb, target[1].clone())).collect();
    assert!(!verbs_and_resources.is_empty());
    assert!(verbs_and_resources.iter().all(|(verb, resource)| verb == "get" && resource == "secrets"));
    assert!(report.lost.is_empty(), "what is stored is in force until the controller writes");
    let row = serde_json::to_value(&report.gained[0]).unwrap();
    assert_eq!(row["through"][0]["ruleIndex"], Value::Null, "the role does not have the rule yet");
}

#[test]
fn what_belongs_to_a_node_is_no_row_but_reach_au_112() {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "a", "name": "p"},
        "spec": {"nodeName": "n", "containers": [{"name": "c"}], "volumes": [{"name": "v", "secret": {"secretName": "s"}}]},
    });
    let named = [
        cluster_role(
            "r",
            json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["x"], "resourceNames": ["s"]}]),
        ),
        binding("a", "b", "ClusterRole/r", user("system:node:n")),
    ];
    let side =
        |documents: Vec<Value>| Side { modes: vec![Mode::Node, Mode::Rbac], documents, ..Side::default() };
    let old = side(named.to_vec());
    let new = side(named.iter().cloned().chain([pod]).collect());
    let report = all(&old, &new);
    assert!(report.gained.is_empty() && report.lost.is_empty(), "{:?}", report.gained);
    assert_eq!(report.reach.nodes[0].gained["secrets"], ["a/s"]);
    assert!(report.is_gain());
}

#[test]
fn mode_deny_is_compared_only_where_it_changes_nothing() {
    let wanted = Wanted { most: 1, rows: true };
    let deny = |modes: &[Mode]| {
        let scope = portcullis_policy::deny::NodeScope::new(&["a:x".to_owned()], &[]).unwrap();
        let config = portcullis_policy::engine::EngineConfig {
            modes: modes.to_vec(),
            node_scope: modes.contains(&Mode::Deny).then(|| scope.into()),
            ..Default::default()
        };
        portcullis_policy::audit::state::StateBuilder::new(config).unwrap().finish()
    };
    let asked = portcullis_policy::audit::reach::Asked { is_expired: &|_| false };
    let compare = |old: &[Mode], new: &[Mode]| {
        portcullis_policy::audit::diff::compare(&deny(old), &deny(new), wanted, &asked)
    };
    assert_eq!(compare(&[Mode::Rbac], &[Mode::Deny, Mode::Rbac]), Err(CannotCompare::Deny));
    assert_eq!(compare(&[Mode::Deny, Mode::Rbac], &[Mode::Rbac, Mode::Deny]), Err(CannotCompare::Deny));
    let same = compare(&[Mode::Deny, Mode::Rbac], &[Mode::Deny, Mode::Rbac]).unwrap();
    assert!(same.incomplete.iter().any(|missing| missing.input == "deny-rules"), "and it is said");
    let none = between(&Side::rbac(vec![]), &Side::rbac(vec![]), wanted).unwrap();
    assert!(!none.is_gain() && !none.is_loss() && !none.is_cut);
}
