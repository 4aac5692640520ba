//! What is listed, which way is marked as the first, and what is said beside the lists.

use std::sync::Arc;

use portcullis_policy::abac::{AbacPolicyFile, Compatibility};
use portcullis_policy::audit::Why;
use portcullis_policy::audit::explain::{Answer, Limits, List, Listed, Note, Verdict};
use portcullis_policy::deny::{DenyRules, LiveRules};
use portcullis_policy::engine::EngineConfig;
use portcullis_policy::{Mode, User};
use serde_json::{Value, json};

use crate::explain::support::{ALL, Request, State, binding, modes, named, node, role, rule};

/// The ways as text, the first one with a star.
fn shown(ways: &List<Listed>) -> Vec<String> {
    let star = |listed: &Listed| if listed.is_first { "* " } else { "" };
    ways.listed.iter().map(|listed| format!("{}{}", star(listed), listed.way)).collect()
}

fn rbac(objects: &[Value]) -> State {
    State::new(modes(&[Mode::Rbac]), objects)
}

const GET_PODS: &str = r#"{APIGroups:[""], Resources:["pods"], Verbs:["get"]}"#;
const ALL_PODS: &str = r#"{APIGroups:[""], Resources:["pods"], Verbs:["*"]}"#;

#[test]
fn every_rule_of_every_binding_is_a_way_and_the_subject_is_the_first_that_matches_au_100() {
    let objects = [
        role("", "r", json!([rule("list", "pods"), rule("get", "pods"), rule("*", "pods")])),
        binding("a", "y", "ClusterRole/r", &["Group/ops", "User/jane"]),
        binding("a", "x", "ClusterRole/r", &["User/joe", "User/jane", "Group/ops"]),
        // Of another namespace, and of others.
        binding("b", "z", "ClusterRole/r", &["User/jane"]),
        binding("a", "w", "ClusterRole/r", &["User/joe"]),
    ];
    let answer = rbac(&objects).ask(&User::new("jane", ["ops"]), "get pods a web");
    // RB-31: which of two RoleBindings is taken first is not determined.
    let expected = [
        format!("RBAC: RoleBinding a/x -> ClusterRole r rules[1] {GET_PODS}"),
        format!("RBAC: RoleBinding a/x -> ClusterRole r rules[2] {ALL_PODS}"),
        format!("RBAC: RoleBinding a/y -> ClusterRole r rules[1] {GET_PODS}"),
        format!("RBAC: RoleBinding a/y -> ClusterRole r rules[2] {ALL_PODS}"),
    ];
    assert_eq!(shown(&answer.ways), expected);
    let subjects: Vec<String> =
        answer.ways.listed.iter().map(|listed| listed.subject.as_ref().unwrap().to_string()).collect();
    assert_eq!(subjects, ["user/jane", "user/jane", "group/ops", "group/ops"]);
    assert!(answer.misses.is_empty() && answer.needed.is_empty());
    let document = serde_json::to_value(&answer.ways).unwrap();
    assert_eq!(document["leftOut"], 0);
    assert_eq!(
        document["listed"][0],
        json!({
            "by": "RBAC",
            "binding": {"kind": "RoleBinding", "namespace": "a", "name": "x"},
            "role": {"kind": "ClusterRole", "name": "r"},
            "ruleIndex": 1, "rule": GET_PODS,
            "subject": {"kind": "User", "name": "jane"},
        })
    );
}

#[test]
fn the_first_way_is_marked_where_it_is_determined_rb_31() {
    let marked = |objects: &[Value], user: &User| shown(&rbac(objects).ask(user, "get pods a web").ways);
    let jane = named("jane");
    let reader = role("", "r", json!([rule("get", "pods"), rule("*", "pods")]));
    let one = binding("a", "x", "ClusterRole/r", &["User/jane"]);
    let all = binding("", "x", "ClusterRole/r", &["User/jane"]);
    // The only RoleBinding: its first rule that matches.
    let ways = marked(&[reader.clone(), one.clone()], &jane);
    assert_eq!(ways.iter().filter(|way| way.starts_with("* ")).count(), 1);
    assert!(ways[0].starts_with("* RBAC: RoleBinding a/x -> ClusterRole r rules[0] "), "{ways:?}");
    // ClusterRoleBindings are asked before RoleBindings (RB-30).
    let ways = marked(&[reader.clone(), one, all.clone()], &jane);
    assert!(ways[0].starts_with("* RBAC: ClusterRoleBinding x -> ClusterRole r rules[0] "), "{ways:?}");
    assert!(ways[1..].iter().all(|way| !way.starts_with("* ")), "{ways:?}");
    // Two of them are asked in an order that nobody knows.
    let ways = marked(&[reader, all, binding("", "y", "ClusterRole/r", &["User/jane"])], &jane);
    assert!(ways.len() == 4 && ways.iter().all(|way| !way.starts_with("* ")), "{ways:?}");
}

#[test]
fn the_super_user_is_asked_for_before_bindings_rb_125() {
    let objects =
        [role("", "r", json!([rule("get", "pods")])), binding("", "x", "ClusterRole/r", &["User/root"])];
    let config = EngineConfig { super_user: "root".to_owned(), ..modes(&[Mode::Rbac]) };
    let answer = State::new(config, &objects).ask(&named("root"), "get pods a web");
    let ways = shown(&answer.ways);
    assert_eq!(ways.len(), 2);
    assert_eq!(ways[0], "* RBAC: the super-user");
}

#[test]
fn modes_are_listed_in_their_order_and_at_most_so_many_of_each_au_100() {
    let lines: String = ["jane", "jane", "joe", "jane"]
        .iter()
        .map(|user| {
            let spec = json!({"user": user, "resource": "pods", "namespace": "*"});
            let version = "abac.authorization.kubernetes.io/v1beta1";
            json!({"apiVersion": version, "kind": "Policy", "spec": spec}).to_string() + "\n"
        })
        .collect();
    let file =
        AbacPolicyFile::parse("policy", lines.as_bytes(), Compatibility::Strict, |_| Err(String::new()));
    let abac = Some(Arc::new(file.unwrap()));
    let config = EngineConfig { abac, ..modes(&[Mode::Abac, Mode::Rbac, Mode::AlwaysAllow]) };
    let objects = [
        role("", "r", json!([rule("get", "pods"), rule("*", "pods"), rule("get", "*")])),
        binding("", "x", "ClusterRole/r", &["User/jane"]),
    ];
    let state = State::new(config, &objects);
    let listed = |paths: usize| {
        let limits = Limits { paths, ..ALL };
        let ways = state.explain(&named("jane"), &Request::of("get pods a web"), limits).ways;
        (
            shown(&ways).iter().map(|way| way.chars().take(16).collect()).collect::<Vec<String>>(),
            ways.left_out,
        )
    };
    let rule = "RBAC: ClusterRol";
    let all = ["* ABAC: line 1", "ABAC: line 2", "ABAC: line 4", rule, rule, rule, "AlwaysAllow"];
    assert_eq!(listed(3), (all.map(str::to_owned).to_vec(), 0));
    let some = ["* ABAC: line 1", "ABAC: line 2", rule, rule, "AlwaysAllow"];
    assert_eq!(listed(2), (some.map(str::to_owned).to_vec(), 2));
    // A yes stays a yes if nothing of it is listed.
    assert_eq!(listed(0), (vec![], 7));
}

#[test]
fn members_of_system_masters_are_allowed_first_where_the_chain_says_so_ac_63() {
    let user = User::new("root", ["system:masters"]);
    let config = EngineConfig { masters_first: true, ..modes(&[Mode::Rbac]) };
    let answer = State::new(config, []).ask(&user, "get pods a web");
    assert_eq!(shown(&answer.ways), ["* members of system:masters are allowed everything"]);
    assert!(answer.notes.is_empty());
    // As by can-i, the group plays no part otherwise, and that is said.
    let answer = rbac(&[]).ask(&user, "get pods a web");
    assert_eq!((answer.answer, answer.notes), (Verdict::No, vec![Note::SystemMasters]));
}

#[test]
fn rules_that_a_role_is_to_get_are_listed_apart_au_25() {
    let mut collector = role("", "view", json!([]));
    collector["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"view": "yes"}}]});
    let mut feeder = role("", "view-pods", json!([rule("get", "pods"), rule("get", "nodes")]));
    feeder["metadata"]["labels"] = json!({"view": "yes"});
    let mut objects = vec![collector, feeder, binding("a", "x", "ClusterRole/view", &["User/jane"])];
    let answer = rbac(&objects).ask(&named("jane"), "get pods a web");
    // The authorizer decides by what is stored.
    assert_eq!(answer.answer, Verdict::No);
    let expected = format!("RBAC: RoleBinding a/x -> ClusterRole view to be added: {GET_PODS}");
    assert_eq!(shown(&answer.pending), [expected]);
    // Whether it is allowed by something else or not.
    objects.push(binding("", "y", "ClusterRole/view-pods", &["User/jane"]));
    let answer = rbac(&objects).ask(&named("jane"), "get pods a web");
    assert_eq!((answer.answer, answer.ways.listed.len(), answer.pending.listed.len()), (Verdict::Yes, 1, 1));
    // A rule that is stored already is not pending, and nothing is for others.
    assert!(rbac(&objects).ask(&named("joe"), "get pods a web").pending.is_empty());
    objects[0]["rules"] = json!([rule("get", "pods"), rule("get", "nodes")]);
    assert!(rbac(&objects).ask(&named("jane"), "get pods a web").pending.is_empty());
}

fn denying(order: &[Mode], selector: Value) -> EngineConfig {
    let rule = json!({
        "name": "no-pods", "subjects": [{"kind": "User", "name": "jane"}], "verbs": ["get"], "apiGroups": [""],
        "resources": ["pods"], "namespaceSelector": selector,
    });
    let document = json!({"apiVersion": "portcullis.dev/v1", "kind": "DenyRules", "rules": [rule]});
    let rules = DenyRules::parse(&document.to_string()).unwrap();
    EngineConfig { deny: Some(LiveRules::new(rules).into()), ..modes(order) }
}

/// Jane may get pods, by RBAC.
fn granted() -> [Value; 2] {
    [role("", "r", json!([rule("get", "pods")])), binding("", "x", "ClusterRole/r", &["User/jane"])]
}

fn asked(config: EngineConfig, objects: &[Value], user: &str) -> Answer {
    State::new(config, objects).ask(&named(user), "get pods a web")
}

#[test]
fn a_denial_is_said_with_what_it_keeps_from_allowing_bc_30() {
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a", "labels": {"x": "y"}}});
    let selector = json!({"matchLabels": {"x": "y"}});
    let objects = [&granted()[..], &[namespace]].concat();
    let answer = asked(denying(&[Mode::Deny, Mode::Rbac], selector.clone()), &objects, "jane");
    assert_eq!((answer.answer, answer.ways.listed.len()), (Verdict::No, 0));
    let [blocked] = &answer.blocked.listed[..] else { panic!("{answer:?}") };
    assert!(blocked.blocked_by.as_ref().unwrap().contains("no-pods") && !blocked.is_first, "{blocked:?}");
    // Nothing more is needed than that it is not denied.
    let misses = serde_json::to_value(&answer.misses.listed).unwrap();
    assert_eq!((misses.as_array().unwrap().len(), &misses[0]["kind"]), (1, &json!("denial")));
    assert_eq!(serde_json::to_value(&answer.needed).unwrap()[0]["by"], "Deny");
    assert!(answer.incomplete.is_empty());
    // A mode before it allows what it allows, and nobody else is denied.
    let before = asked(denying(&[Mode::Rbac, Mode::Deny], selector.clone()), &objects, "jane");
    assert_eq!(before.answer, Verdict::Yes);
    // Without a grant both are needed.
    let both = asked(denying(&[Mode::Deny, Mode::Rbac], selector.clone()), &objects[2..], "jane");
    let by: Vec<Value> = serde_json::to_value(&both.needed)
        .unwrap()
        .as_array()
        .unwrap()
        .iter()
        .map(|n| n["by"].clone())
        .collect();
    assert_eq!(by, ["Deny", "RBAC"]);
    assert_eq!(asked(denying(&[Mode::Deny, Mode::Rbac], selector), &objects, "joe").blocked.listed.len(), 0);
}

#[test]
fn what_is_not_known_is_no_plain_no_au_21() {
    let selector = json!({"matchLabels": {"x": "y"}});
    let config = || denying(&[Mode::Deny, Mode::Rbac], selector.clone());
    // Whether the rule selects the namespace is not known, and without it the request would be allowed.
    let answer = asked(config(), &granted(), "jane");
    assert_eq!((answer.answer, answer.blocked.listed.len()), (Verdict::Unknown, 1));
    let [missing] = &answer.incomplete[..] else { panic!("{answer:?}") };
    assert_eq!((missing.input.as_str(), missing.why), ("namespaces", Why::Unresolved));
    // Nothing allows it anyway.
    assert_eq!(asked(config(), &[], "jane").answer, Verdict::No);

    // A webhook may allow it, and deny what modes after it allow.
    let webhook = |order: &[Mode], objects: &[Value]| {
        let answer = asked(modes(order), objects, "jane");
        let inputs: Vec<String> = answer.incomplete.into_iter().map(|missing| missing.input).collect();
        assert_eq!(inputs, ["authorization-webhook"]);
        (answer.answer, answer.ways.listed.len(), answer.blocked.listed.len())
    };
    assert_eq!(webhook(&[Mode::Webhook, Mode::Rbac], &granted()), (Verdict::Unknown, 0, 1));
    assert_eq!(webhook(&[Mode::Webhook, Mode::Rbac], &[]), (Verdict::Unknown, 0, 0));
    assert_eq!(webhook(&[Mode::Rbac, Mode::Webhook], &granted()), (Verdict::Yes, 1, 0));
    // What is denied before the webhook is asked stays denied.
    let order = [Mode::Deny, Mode::Webhook, Mode::Rbac];
    let labels = json!({"name": "a", "labels": {"x": "y"}});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": labels});
    let answer = asked(denying(&order, selector), &[&granted()[..], &[namespace]].concat(), "jane");
    assert_eq!((answer.answer, answer.incomplete.len()), (Verdict::No, 0));

    // AU-24: the user is bound to a ClusterRole, and the state has none at all.
    let answer = asked(modes(&[Mode::Rbac]), &granted()[1..], "jane");
    assert_eq!((answer.answer, answer.incomplete[0].input.as_str()), (Verdict::Unknown, "clusterroles"));
    assert_eq!(asked(modes(&[Mode::Rbac]), &granted()[1..], "joe").answer, Verdict::No);
}

#[test]
fn node_restriction_is_named_where_it_may_refuse_au_92() {
    let state = State::new(modes(&[Mode::Node, Mode::Rbac]), []);
    let admission = |user: &User, question: &str| state.ask(user, question).admission;
    assert_eq!(admission(&node("n1"), "update nodes/status - n1"), Some("NodeRestriction"));
    assert_eq!(admission(&node("n1"), "get nodes - n1"), None);
    assert_eq!(admission(&named("jane"), "update nodes/status - n1"), None);
}
