//! What goes into which list, and what is said beside them.

use std::collections::BTreeMap;

use portcullis_policy::abac::{AbacPolicyFile, Compatibility};
use portcullis_policy::audit::Why;
use portcullis_policy::audit::who_can::{Note, Scope, kinds};
use portcullis_policy::engine::EngineConfig;
use portcullis_policy::objects::Kind;
use portcullis_policy::{Attributes, Mode, ResourceRequest, User};
use serde_json::{Value, json};

use crate::who_can::support::{
    State, account, binding, cluster_binding, cluster_role, group, modes, named_rule, names, node_rbac, role,
    rule, through, user, with_names,
};

fn pod(namespace: &str, name: &str, node: &str, secret: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": name},
        "spec": {"nodeName": node, "serviceAccountName": "web", "volumes": [{"name": "v", "secret": {"secretName": secret}}]},
    })
}

#[test]
fn masters_are_listed_whatever_is_bound_to_them_au_91() {
    for config in [node_rbac(), modes(&[Mode::AlwaysDeny]), modes(&[Mode::Webhook])] {
        let answer = State::new(config, []).ask("delete nodes - n1");
        assert_eq!(names(&answer.lists.subjects), ["group/system:masters"]);
    }
    // By their binding too, if there is one.
    let objects = [
        cluster_role("all", json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}])),
        cluster_binding("all", "all", json!([group("system:masters")])),
    ];
    let answer = State::new(node_rbac(), &objects).ask("delete nodes - n1");
    let ways = through(&answer.lists.subjects, "group/system:masters");
    assert_eq!(ways.len(), 2, "{ways:?}");
    assert!(ways[1].starts_with("RBAC: ClusterRoleBinding all -> ClusterRole all rules[0] "), "{ways:?}");
}

#[test]
fn each_subject_is_asked_alone_and_shown_as_what_it_is_au_90() {
    let objects = [
        role("a", "read", json!([rule("list", "pods"), rule("get", "pods")])),
        binding(
            "a",
            "read",
            "Role/read",
            json!([
                user("jane"), group("readers"), account("", "x"), account("b", "y"), {"kind": "Robot", "name": "r"},
                user("system:serviceaccount:c:z"), user(""),
            ]),
        ),
    ];
    let answer = State::new(node_rbac(), &objects).ask("get pods a -");
    assert_eq!(
        names(&answer.lists.subjects),
        [
            "group/readers",
            "group/system:masters",
            "serviceaccount/a/x",
            "serviceaccount/b/y",
            "serviceaccount/c/z",
            "user/jane",
        ]
    );
    let way = through(&answer.lists.subjects, "user/jane");
    let expected = r#"RBAC: RoleBinding a/read -> Role a/read rules[1] {APIGroups:[""], Resources:["pods"], Verbs:["get"]}"#;
    assert_eq!(way, [expected]);
    let document = serde_json::to_value(&answer.lists.subjects[5]).unwrap();
    assert_eq!(
        document,
        json!({
            "kind": "User", "name": "jane",
            "through": [{
                "by": "RBAC",
                "binding": {"kind": "RoleBinding", "namespace": "a", "name": "read"},
                "role": {"kind": "Role", "namespace": "a", "name": "read"},
                "ruleIndex": 1,
                "rule": r#"{APIGroups:[""], Resources:["pods"], Verbs:["get"]}"#,
            }],
        })
    );
    // RB-35: nothing of it in another namespace, or in all of them.
    for question in ["get pods b -", "get pods - -"] {
        assert_eq!(State::new(node_rbac(), &objects).ask(question).lists.subjects.len(), 1, "{question}");
    }
}

#[test]
fn every_way_is_named_once_in_order_au_97() {
    let objects = [
        cluster_role("r", json!([rule("get", "pods"), rule("*", "*")])),
        cluster_binding("z", "r", json!([user("jane"), user("jane")])),
        cluster_binding("b", "r", json!([user("jane")])),
        binding("a", "a", "ClusterRole/r", json!([user("jane")])),
    ];
    let answer = State::new(node_rbac(), &objects).ask("get pods a -");
    let ways = through(&answer.lists.subjects, "user/jane");
    let starts: Vec<&str> = ways.iter().map(|way| way.split(" {").next().unwrap()).collect();
    assert_eq!(
        starts,
        [
            "RBAC: ClusterRoleBinding b -> ClusterRole r rules[0]",
            "RBAC: ClusterRoleBinding b -> ClusterRole r rules[1]",
            "RBAC: ClusterRoleBinding z -> ClusterRole r rules[0]",
            "RBAC: ClusterRoleBinding z -> ClusterRole r rules[1]",
            "RBAC: RoleBinding a/a -> ClusterRole r rules[0]",
            "RBAC: RoleBinding a/a -> ClusterRole r rules[1]",
        ]
    );
}

#[test]
fn accounts_that_can_through_a_group_are_added_on_demand_au_90() {
    let service_account = |namespace: &str, name: &str| json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": namespace, "name": name}});
    let objects = [
        cluster_role("r", json!([rule("get", "pods")])),
        cluster_binding("of-a", "r", json!([group("system:serviceaccounts:a"), account("b", "y")])),
        cluster_binding("others", "r", json!([group("readers")])),
        service_account("a", "x"),
        service_account("b", "y"),
        service_account("b", "z"),
    ];
    let state = State::new(node_rbac(), &objects);
    let base = names(&state.ask("get pods a -").lists.subjects);
    assert_eq!(
        base,
        ["group/readers", "group/system:masters", "group/system:serviceaccounts:a", "serviceaccount/b/y",]
    );
    let expanded = state.expand("get pods a -").lists.subjects;
    assert_eq!(names(&expanded), [&base[..3], &["serviceaccount/a/x".to_owned()], &base[3..]].concat());
    assert_eq!(through(&expanded, "serviceaccount/a/x"), ["group system:serviceaccounts:a"]);
}

#[test]
fn nodes_are_listed_with_their_path_and_all_of_them_as_one_group_au_92() {
    let objects = [
        pod("a", "web", "n1", "db"),
        pod("a", "web-2", "n1", "db"),
        pod("a", "other", "n2", "db"),
        pod("a", "unbound", "", "db"),
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n3"}}),
    ];
    let state = State::new(node_rbac(), &objects);
    let ask = |question: &str| state.ask(question).lists.subjects;
    let found = ask("get secrets a db");
    assert_eq!(names(&found), ["group/system:masters", "node/n1", "node/n2"]);
    assert_eq!(through(&found, "node/n1"), ["Node: nodes/n1 <- pods/a/web <- secrets/a/db"]);
    assert_eq!(found[1].admission, None);
    // A node without pods has its own Node, and so has one that is nowhere.
    for name in ["n3", "nowhere"] {
        let question = format!("get nodes - {name}");
        assert_eq!(names(&ask(&question)), ["group/system:masters", &format!("node/{name}")]);
    }
    let found = ask("create pods a -");
    assert_eq!(names(&found), ["group/system:masters", "group/system:nodes"]);
    assert_eq!((found[0].admission, found[1].admission), (None, Some("NodeRestriction")));
    let found = ask("get services a -");
    assert_eq!((names(&found).len(), found[1].admission), (2, None));
    assert_eq!(ask("create serviceaccounts/token a web")[1].admission, Some("NodeRestriction"));
    assert_eq!(names(&ask("get /healthz")), ["group/system:masters"]);
}

#[test]
fn other_modes_are_asked_for_whom_they_name_au_93() {
    let line = |spec: Value| {
        json!({"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": spec})
            .to_string()
    };
    let lines = [
        line(json!({"user": "bob", "namespace": "a", "resource": "pods", "readonly": true})),
        line(json!({"group": "ops", "namespace": "*", "resource": "*", "apiGroup": "*"})),
        line(json!({"user": "eve", "group": "ops", "namespace": "a", "resource": "pods"})),
        line(json!({"user": "*", "namespace": "a", "resource": "services"})),
    ];
    let file = AbacPolicyFile::parse("policy", lines.join("\n").as_bytes(), Compatibility::Strict, |_| {
        Err("no line is YAML".to_owned())
    });
    let config = EngineConfig { abac: Some(file.unwrap().into()), ..modes(&[Mode::Abac]) };
    let state = State::new(config, []);
    let answer = state.ask("get pods a -");
    assert_eq!(names(&answer.lists.subjects), ["group/ops", "group/system:masters", "user/bob"]);
    assert_eq!(through(&answer.lists.subjects, "user/bob"), ["ABAC: line 1"]);
    let [Note::AbacLine { line: 3, user, group }] = &answer.notes[..] else { panic!("{:?}", answer.notes) };
    assert_eq!((user.as_str(), group.as_str()), ("eve", "ops"));
    assert_eq!(names(&state.ask("create pods a -").lists.subjects), ["group/ops", "group/system:masters"]);
    let all = names(&state.ask("get services a -").lists.subjects);
    assert_eq!(all, ["group/ops", "group/system:authenticated", "group/system:masters"]);

    let everybody = State::new(modes(&[Mode::AlwaysAllow]), []).ask("delete nodes - n1").lists.subjects;
    let expected = ["group/system:authenticated", "group/system:masters", "group/system:unauthenticated"];
    assert_eq!(names(&everybody), expected);

    let super_user = EngineConfig { super_user: "root".to_owned(), ..node_rbac() };
    let found = State::new(super_user, []).ask("delete nodes - n1").lists.subjects;
    assert_eq!(names(&found), ["group/system:masters", "user/root"]);
}

#[test]
fn a_webhook_leaves_the_answer_incomplete_au_93() {
    let objects = [
        cluster_role("r", json!([rule("get", "pods")])),
        cluster_binding("b", "r", json!([user("jane")])),
        pod("a", "web", "n1", "db"),
    ];
    for (order, listed, undecided) in [
        (&[Mode::Node, Mode::Rbac, Mode::Webhook], &["node/n1", "user/jane"] as &[&str], &[] as &[&str]),
        (&[Mode::Node, Mode::Webhook, Mode::Rbac], &["node/n1"], &["user/jane"]),
        (&[Mode::Webhook, Mode::Node, Mode::Rbac], &[], &["node/n1", "user/jane"]),
    ] {
        let answer = State::new(modes(order), &objects).ask("get pods a web");
        assert_eq!(names(&answer.lists.subjects)[1..], *listed, "{order:?}");
        assert_eq!(names(&answer.lists.undecided), undecided, "{order:?}");
        let [incomplete] = &answer.incomplete[..] else { panic!("{:?}", answer.incomplete) };
        assert_eq!((incomplete.input.as_str(), incomplete.why), ("authorization-webhook", Why::Unresolved));
        assert_eq!(incomplete.rules, ["who-can"]);
        assert!(!incomplete.why.is_failure());
    }
}

#[test]
fn who_could_for_some_names_only_is_limited_au_94() {
    let objects = [
        role(
            "a",
            "some",
            json!([
                named_rule("get", "secrets", &["tls", "db"]),
                named_rule("get", "secrets", &["db", "key"]),
                named_rule("create", "secrets", &["db"]),
                rule("list", "secrets"),
            ]),
        ),
        binding("a", "some", "Role/some", json!([user("jane"), group("ops")])),
        role("a", "free", json!([rule("get", "secrets")])),
        binding("a", "free", "Role/free", json!([group("ops")])),
        role("a", "empty", json!([named_rule("get", "secrets", &["", "x"])])),
        binding("a", "empty", "Role/empty", json!([user("joe")])),
    ];
    let state = State::new(node_rbac(), &objects);
    let lists = state.ask("get secrets a -").lists;
    assert_eq!(names(&lists.subjects), ["group/ops", "group/system:masters", "user/joe"]);
    assert_eq!(
        with_names(&lists.limited),
        BTreeMap::from([("user/jane".to_owned(), ["db", "key", "tls"].map(str::to_owned).to_vec())])
    );
    // RB-15: a request to create has no name.
    assert_eq!(names(&state.ask("create secrets a -").lists.limited), ["group/ops", "user/jane"]);
    // With a name: free rules, and those that list it.
    for (name, who) in [
        ("db", &["group/ops", "group/system:masters", "user/jane"][..]),
        ("other", &["group/ops", "group/system:masters"]),
    ] {
        let lists = state.ask(&format!("get secrets a {name}")).lists;
        assert_eq!(names(&lists.subjects), who);
        assert!(lists.limited.is_empty());
    }
}

#[test]
fn what_the_aggregation_controller_is_to_add_is_pending_au_25() {
    let aggregated = |name: &str, feeds: &str, collects: &str, rules: Value| {
        let mut role = cluster_role(name, rules);
        role["metadata"]["labels"] = json!({"feeds": feeds});
        role["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"feeds": collects}}]});
        role
    };
    let mut piece =
        cluster_role("piece", json!([rule("delete", "pods"), named_rule("get", "secrets", &["db"])]));
    piece["metadata"]["labels"] = json!({"feeds": "edit"});
    let objects = [
        piece,
        aggregated("team-edit", "admin", "edit", json!([rule("delete", "nodes")])),
        aggregated("team-admin", "none", "admin", json!([])),
        cluster_binding("admins", "team-admin", json!([user("jane"), user("joe")])),
        cluster_role("pods", json!([rule("delete", "pods")])),
        cluster_binding("joe", "pods", json!([user("joe")])),
        binding("a", "editors", "ClusterRole/team-edit", json!([account("a", "x")])),
    ];
    // Mode Node allows every node to delete pods.
    let rbac = || modes(&[Mode::Rbac]);
    let state = State::new(rbac(), &objects);
    let lists = state.ask("delete pods a web").lists;
    // As the authorizer decides: by what is stored.
    assert_eq!(names(&lists.subjects), ["group/system:masters", "user/joe"]);
    assert_eq!(names(&lists.pending), ["serviceaccount/a/x", "user/jane"]);
    let ways = through(&lists.pending, "user/jane");
    let expected = r#"RBAC: ClusterRoleBinding admins -> ClusterRole team-admin to be added: {APIGroups:[""], Resources:["pods"], Verbs:["delete"]}"#;
    assert_eq!(ways, [expected]);
    let document = serde_json::to_value(&lists.pending[1].through[0]).unwrap();
    assert!(document.get("ruleIndex").is_none(), "{document}");
    let names = with_names(&state.ask("get secrets a -").lists.pending);
    assert_eq!(names["user/jane"], ["db"]);
    // What is stored and would be overwritten counts as it is, and with the default policy roles are aggregated (RB-79).
    assert_eq!(state.ask("delete nodes a n").lists.subjects.len(), 2);
    let config = EngineConfig { default_policy: true, ..rbac() };
    let lists = State::new(config, &objects).ask("delete pods a web").lists;
    assert!(lists.pending.is_empty(), "{:?}", lists.pending);
    assert!(lists.subjects.iter().any(|listed| listed.subject.to_string() == "user/jane"));
}

#[test]
fn bindings_to_missing_roles_are_noted_with_who_may_create_them_au_24() {
    let objects = [
        cluster_binding("b", "gone", json!([user("jane")])),
        cluster_binding("a", "gone", json!([user("joe"), group("ops")])),
        binding("a", "local", "Role/missing", json!([user("jane")])),
        binding("b", "elsewhere", "Role/missing", json!([user("jane")])),
        role(
            "a",
            "creator",
            json!([{"verbs": ["create"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"]}]),
        ),
        binding("a", "creators", "Role/creator", json!([user("carol")])),
    ];
    let answer = State::new(node_rbac(), &objects).ask("get pods a -");
    assert_eq!(names(&answer.lists.subjects), ["group/system:masters"]);
    let notes = serde_json::to_value(&answer.notes).unwrap();
    let of_cluster = |name: &str| json!({"kind": "ClusterRoleBinding", "name": name});
    assert_eq!(
        notes,
        json!([
            {
                "kind": "danglingBinding", "role": {"kind": "ClusterRole", "name": "gone"},
                "bindings": [of_cluster("a"), of_cluster("b")], "mayCreate": ["group/system:masters"],
            },
            {
                "kind": "danglingBinding", "role": {"kind": "Role", "namespace": "a", "name": "missing"},
                "bindings": [{"kind": "RoleBinding", "namespace": "a", "name": "local"}],
                "mayCreate": ["group/system:masters", "user/carol"],
            },
        ])
    );
    let [incomplete] = &answer.incomplete[..] else { panic!("{:?}", answer.incomplete) };
    assert_eq!((incomplete.input.as_str(), incomplete.why), ("clusterroles", Why::Unresolved));
    // With some ClusterRole in the state, the others are missing indeed.
    let some = cluster_role("some", json!([]));
    let answer = State::new(node_rbac(), objects.iter().chain([&some])).ask("get pods a -");
    assert!(answer.incomplete.is_empty());
}

#[test]
fn only_the_kinds_are_needed_that_the_answer_depends_on_au_23() {
    let rbac = [Kind::ClusterRole, Kind::ClusterRoleBinding];
    let of_namespace = [Kind::Role, Kind::RoleBinding];
    let graph = [Kind::Pod, Kind::PersistentVolume, Kind::VolumeAttachment, Kind::ResourceSlice];
    let user = User::default();
    let needed = |verb, resource, namespace, name, scope| {
        let request = ResourceRequest { resource, namespace, name, ..ResourceRequest::default() };
        let attributes = Attributes { user: &user, verb, path: "", resource: Some(request) };
        kinds(&node_rbac(), &attributes, scope).into_iter().collect::<Vec<_>>()
    };
    let sorted = |lists: &[&[Kind]]| {
        let mut kinds = lists.concat();
        kinds.sort();
        kinds
    };
    let plain = Scope::default();
    assert_eq!(needed("get", "secrets", "a", "db", plain), sorted(&[&rbac, &of_namespace, &graph]));
    assert_eq!(needed("get", "persistentvolumes", "", "v", plain), sorted(&[&rbac, &graph]));
    for (verb, resource, namespace) in
        [("get", "nodes", ""), ("delete", "nodes", ""), ("list", "secrets", "")]
    {
        assert_eq!(needed(verb, resource, namespace, "", plain), rbac, "{verb} {resource}");
    }
    assert_eq!(needed("get", "services", "a", "x", plain), sorted(&[&rbac, &of_namespace]));
    let all = Scope { expand: true, each_namespace: true };
    let more = [Kind::ServiceAccount, Kind::Namespace];
    assert_eq!(needed("get", "services", "a", "x", all), sorted(&[&rbac, &of_namespace, &more]));
    let path = Attributes { user: &user, verb: "get", path: "/metrics", resource: None };
    assert_eq!(kinds(&node_rbac(), &path, plain).into_iter().collect::<Vec<_>>(), rbac);

    let state = State::new(node_rbac(), &[cluster_role("r", json!([]))]);
    let missing = state.inventory.missing(&kinds(&node_rbac(), &path, plain));
    assert_eq!(missing, [Kind::ClusterRoleBinding]);
}

#[test]
fn the_namespaces_of_the_state_are_those_that_are_there_or_have_objects_au_95() {
    let objects = [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "empty"}}),
        pod("b", "web", "n1", "db"),
        role("a", "r", json!([])),
        cluster_role("r", json!([])),
    ];
    let state = State::new(node_rbac(), &objects);
    assert_eq!(state.inventory.namespaces().collect::<Vec<_>>(), ["a", "b", "empty"]);
}
