//! Deny rules and node-scoped accounts (BC-30, BC-32): who is certainly denied is not listed, and where it depends, it is said on
//! what.

use portcullis_policy::audit::Why;
use portcullis_policy::audit::who_can::Note;
use portcullis_policy::deny::{DenyRules, LiveRules, NodeScope};
use portcullis_policy::engine::EngineConfig;
use portcullis_policy::{Attributes, Mode, ResourceRequest, User};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

use crate::who_can::support::{
    State, account, cluster_binding, cluster_role, group, modes, named_rule, names, rule, user, with_names,
};

fn denying(rules: Value) -> EngineConfig {
    let document = json!({"apiVersion": "portcullis.dev/v1", "kind": "DenyRules", "rules": rules});
    let rules = DenyRules::parse(&document.to_string()).unwrap();
    EngineConfig { deny: Some(LiveRules::new(rules).into()), ..modes(&[Mode::Deny, Mode::Rbac]) }
}

/// Everybody may get pods, secrets and nodes.
fn objects(subjects: Value) -> [Value; 2] {
    [
        cluster_role(
            "r",
            json!([rule("get", "pods"), rule("get", "nodes"), named_rule("get", "secrets", &["a", "b"])]),
        ),
        cluster_binding("b", "r", subjects),
    ]
}

/// A rule that denies to get pods.
fn no_pods(name: &str, more: Value) -> Value {
    let mut rule = json!({"name": name, "verbs": ["get"], "apiGroups": [""], "resources": ["pods"]});
    rule.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    rule
}

/// The lists of those who can, and of those who are undecided, with what it depends on.
fn asked(config: EngineConfig, objects: &[Value], question: &str) -> (Vec<String>, Vec<(String, String)>) {
    let lists = State::new(config, objects).ask(question).lists;
    let undecided = lists.undecided.iter();
    let undecided = undecided.map(|one| (one.subject.to_string(), one.depends.clone().unwrap())).collect();
    (names(&lists.subjects), undecided)
}

#[test]
fn who_is_certainly_denied_is_not_listed_bc_30() {
    let objects = objects(json!([user("jane"), user("joe"), group("ops"), account("a", "x")]));
    let all = ["group/ops", "group/system:masters", "serviceaccount/a/x", "user/jane", "user/joe"];
    for (subjects, gone) in [
        (json!([user("jane")]), &["user/jane"][..]),
        (json!([user("j*")]), &["user/jane", "user/joe"]),
        (json!([group("ops")]), &["group/ops"]),
        // Whoever is a service account is in these groups.
        (json!([group("system:serviceaccounts:a")]), &["serviceaccount/a/x"]),
        (
            json!([group("system:authenticated")]),
            &["group/ops", "serviceaccount/a/x", "user/jane", "user/joe"],
        ),
        (json!([user("*")]), &["group/ops", "serviceaccount/a/x", "user/jane", "user/joe"]),
        (json!([user("other")]), &[]),
    ] {
        let config = denying(json!([no_pods("no-pods", json!({"subjects": subjects}))]));
        let state = State::new(config, &objects);
        let answer = state.ask("get pods a web");
        let left: Vec<&str> = all.into_iter().filter(|name| !gone.contains(name)).collect();
        assert_eq!(names(&answer.lists.subjects), left, "{subjects}");
        assert!(answer.lists.undecided.is_empty());
        // Members of those who are listed may be denied all the same.
        let note = Note::DenyRule { rule: "no-pods".to_owned() };
        assert_eq!(answer.notes, if left.len() > 1 { vec![note] } else { vec![] }, "{subjects}");
        // Of other requests the rule says nothing.
        let answer = state.ask("get nodes - n1");
        assert_eq!((names(&answer.lists.subjects), answer.notes), (all.map(str::to_owned).to_vec(), vec![]));
    }
}

#[test]
fn a_mode_before_mode_deny_allows_what_it_allows() {
    let config = denying(json!([no_pods("no-pods", json!({"subjects": [user("*")]}))]));
    let config = EngineConfig { modes: vec![Mode::Rbac, Mode::Deny], ..config };
    let (can, _) = asked(config, &objects(json!([user("jane")])), "get pods a web");
    assert_eq!(can, ["group/system:masters", "user/jane"]);
}

#[test]
fn who_may_be_excepted_is_undecided_bc_30() {
    let objects =
        objects(json!([user("jane"), user("root"), group("ops"), group("on-call"), account("a", "x")]));
    let rule = |except: Value| {
        denying(json!([no_pods("no-pods", json!({"subjects": [group("*")], "except": except}))]))
    };
    let (can, undecided) = asked(rule(json!([group("on-call")])), &objects, "get pods a web");
    assert_eq!(can, ["group/on-call", "group/system:masters"]);
    let depends = "only who is excepted from deny rule \"no-pods\"".to_owned();
    // An account is in no further group.
    let expected = ["group/ops", "user/jane", "user/root"].map(|name| (name.to_owned(), depends.clone()));
    assert_eq!(undecided, expected);
    let (can, undecided) = asked(rule(json!([user("root")])), &objects, "get pods a web");
    assert_eq!(can, ["group/system:masters", "user/root"]);
    let expected = ["group/on-call", "group/ops"].map(|name| (name.to_owned(), depends.clone()));
    assert_eq!(undecided, expected);
    // A rule without exceptions beside it leaves nobody.
    let config = denying(json!([
        no_pods("no-pods", json!({"subjects": [group("*")], "except": [group("on-call")]})),
        no_pods("none", json!({"subjects": [group("ops"), user("jane")]})),
    ]));
    let (_, undecided) = asked(config, &objects, "get pods a web");
    assert_eq!(undecided, [("user/root".to_owned(), depends)]);
}

#[test]
fn a_namespace_whose_labels_are_not_known_leaves_it_open_bc_30() {
    let namespace = |name: &str, label: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"data": label}}});
    let rule = || {
        let selector =
            json!({"subjects": [user("*")], "namespaceSelector": {"matchLabels": {"data": "customers"}}});
        denying(json!([no_pods("customers", selector)]))
    };
    let [role, binding] = objects(json!([user("jane")]));
    let state = [role, binding, namespace("prod", "customers"), namespace("dev", "none")];
    assert_eq!(asked(rule(), &state, "get pods prod web"), (vec!["group/system:masters".to_owned()], vec![]));
    assert_eq!(asked(rule(), &state, "get pods dev web").0, ["group/system:masters", "user/jane"]);
    let answer = State::new(rule(), &state).ask("get pods unknown web");
    assert_eq!(names(&answer.lists.subjects), ["group/system:masters"]);
    let [jane] = &answer.lists.undecided[..] else { panic!("{:?}", answer.lists) };
    assert!(jane.depends.as_ref().unwrap().contains("\"customers\""), "{jane:?}");
    let [incomplete] = &answer.incomplete[..] else { panic!("{:?}", answer.incomplete) };
    assert_eq!((incomplete.input.as_str(), incomplete.why), ("namespaces", Why::Unresolved));
    assert!(incomplete.detail.contains("\"unknown\""), "{}", incomplete.detail);
}

#[test]
fn names_that_are_denied_are_no_limits_au_94() {
    let objects = objects(json!([user("jane"), user("joe"), user("ann")]));
    let no_secrets = |name: &str, who: &str, names: &[&str]| {
        json!({
            "name": name, "subjects": [user(who)], "verbs": ["get"], "apiGroups": [""], "resources": ["secrets"],
            "resourceNames": names,
        })
    };
    let config = denying(json!([no_secrets("one", "jane", &["a"]), no_secrets("two", "joe", &["a", "b"])]));
    let lists = State::new(config, &objects).ask("get secrets x -").lists;
    let limited = with_names(&lists.limited);
    assert_eq!(limited.keys().collect::<Vec<_>>(), ["user/ann", "user/jane"]);
    assert_eq!(
        (&limited["user/ann"][..], &limited["user/jane"][..]),
        (&["a".to_owned(), "b".to_owned()][..], &["b".to_owned()][..])
    );
}

#[test]
fn a_node_scoped_account_is_undecided_bc_32() {
    let scope = NodeScope::new(&["agents:*".to_owned()], &[]).unwrap();
    let config = EngineConfig { node_scope: Some(scope.into()), ..modes(&[Mode::Deny, Mode::Rbac]) };
    let objects = objects(json!([account("agents", "a"), account("other", "a")]));
    let (can, undecided) = asked(config.clone(), &objects, "get nodes - n1");
    assert_eq!(can, ["group/system:masters", "serviceaccount/other/a"]);
    let [(name, depends)] = &undecided[..] else { panic!("{undecided:?}") };
    assert_eq!(name, "serviceaccount/agents/a");
    assert!(depends.contains("token"), "{depends}");
}

fn subjects(of: &'static [&'static str]) -> impl Strategy<Value = Vec<Value>> {
    let subject = |name: &&str| {
        let (kind, name) = name.split_once('/').unwrap();
        json!({"kind": kind, "name": name})
    };
    subsequence(of, 0..=of.len()).prop_map(move |names| names.iter().map(subject).collect())
}

const WHO: [&str; 8] = [
    "User/jane",
    "User/*",
    "User/system:serviceaccount:a:x",
    "Group/ops",
    "Group/*",
    "Group/system:authenticated",
    "Group/system:serviceaccounts",
    "Group/on-call",
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    /// Who is listed is allowed it with the groups that an API server gives everybody, and who is left out is denied it whatever
    /// further groups they are in.
    #[test]
    fn who_is_left_out_is_denied_whatever_else_is_true_bc_30(
        rules in prop::collection::vec((subjects(&WHO), subjects(&WHO)), 0..4),
        further in subsequence(&["ops", "on-call", "strangers"][..], 0..=3),
        name in select(vec!["jane", "joe", "system:serviceaccount:a:x"]),
    ) {
        let rules = rules.into_iter().enumerate().filter(|(_, (subjects, _))| !subjects.is_empty());
        let rules: Vec<Value> = rules
            .map(|(at, (subjects, except))| {
                no_pods(&format!("rule-{at}"), json!({"subjects": subjects, "except": except}))
            })
            .collect();
        prop_assume!(!rules.is_empty());
        let objects = objects(json!([user("jane"), user("joe"), account("a", "x"), group("ops")]));
        let state = State::new(denying(json!(rules)), &objects);
        let lists = state.ask("get pods a web").lists;
        let is_account = name.starts_with("system:serviceaccount:");
        let subject = if is_account { "serviceaccount/a/x".to_owned() } else { format!("user/{name}") };
        let mut groups = vec!["system:authenticated"];
        if is_account {
            groups.extend(["system:serviceaccounts", "system:serviceaccounts:a"]);
        }
        let allows = |name: &str, groups: &[&str]| {
            let user = User::new(name, groups.iter().copied());
            let request =
                ResourceRequest { namespace: "a", resource: "pods", name: "web", ..ResourceRequest::default() };
            let attributes = Attributes { user: &user, verb: "get", path: "", resource: Some(request) };
            state.engine.chain().decide(&attributes).is_allow()
        };
        if names(&lists.subjects).contains(&subject) {
            prop_assert!(allows(name, &groups));
        } else if !names(&lists.undecided).contains(&subject) {
            // Accounts are in no further groups.
            let further = if is_account { &[][..] } else { &further[..] };
            prop_assert!(!allows(name, &[&groups[..], further].concat()));
        }
        // A member of the group, by any name and in any further groups.
        if !names(&lists.subjects).contains(&"group/ops".to_owned()) && !names(&lists.undecided).contains(&"group/ops".to_owned()) {
            for name in ["jane", "system:serviceaccount:a:x", "somebody"] {
                prop_assert!(!allows(name, &[&["ops", "system:authenticated"][..], &further].concat()), "{}", name);
            }
        }
    }
}
