//! The near misses, one kind after the other, and their order (AU-101, AU-102).

use std::sync::Arc;

use portcullis_policy::abac::{AbacPolicyFile, Compatibility};
use portcullis_policy::audit::explain::{Limits, Miss, Verdict};
use portcullis_policy::engine::EngineConfig;
use portcullis_policy::{Mode, User};
use serde_json::{Value, json};

use crate::explain::support::{ALL, Request, State, binding, modes, named, role, rule, text, texts};

/// A miss as one line: its kind, the factor, both values, and the typing error.
fn line(miss: &Miss) -> String {
    let miss = serde_json::to_value(miss).unwrap();
    let words = ["/kind", "/factor"].map(|path| text(&miss, path).to_owned());
    let typed =
        miss.get("typingError").map(|error| format!(" {}", error.as_str().unwrap())).unwrap_or_default();
    let has = texts(&miss, "/has").join("|");
    format!("{}: {has} for {}{typed}", words.join(" "), text(&miss, "/wanted"))
}

fn lines(objects: &[Value], user: &User, question: &str) -> Vec<String> {
    let answer = State::new(modes(&[Mode::Rbac]), objects).ask(user, question);
    assert_eq!(answer.answer, Verdict::No, "{question}");
    answer.misses.listed.iter().map(line).collect()
}

/// A rule: verbs, groups, resources, names.
fn full(verbs: &[&str], groups: &[&str], resources: &[&str], names: &[&str]) -> Value {
    json!({"verbs": verbs, "apiGroups": groups, "resources": resources, "resourceNames": names})
}

/// The misses of Jane, to whom a role with this rule is bound in namespace shop.
fn of_rule(rule: Value, question: &str) -> Vec<String> {
    let objects = [role("shop", "r", json!([rule])), binding("shop", "b", "Role/r", &["User/jane"])];
    lines(&objects, &named("jane"), question)
}

#[test]
fn one_wrong_factor_of_an_own_rule_is_named_with_both_values_au_102() {
    let rule = || full(&["get", "list"], &["apps"], &["deployments", "deployments/scale"], &["web"]);
    for (question, expected) in [
        ("get deployments.apps shop db", "name: web for db"),
        ("get deployments.apps shop -", "name: web for "),
        ("get deployments.apps shop wed", "name: web for wed oneLetter"),
        (
            "get deployments.apps/status shop web",
            "subresource: deployments|deployments/scale for deployments/status",
        ),
        (
            "get deployments.apps/scales shop web",
            "subresource: deployments|deployments/scale for deployments/scales oneLetter",
        ),
        ("delete deployments.apps shop web", "verb: get|list for delete"),
        ("gets deployments.apps shop web", "verb: get|list for gets oneLetter"),
        ("get deployments.apps other web", "namespace: shop for other"),
        ("get deployments.apps shops web", "namespace: shop for shops oneLetter"),
        // A RoleBinding grants nothing beyond its namespace (RB-35).
        ("get deployments.apps - web", "namespace: shop for "),
        ("get deployments.extensions shop web", "apiGroup: apps for extensions"),
        ("get deployments.app shop web", "apiGroup: apps for app oneLetter"),
        ("get daemonsets.apps shop web", "resource: deployments for daemonsets"),
        ("get daemonsets.apps/scale shop web", "resource: deployments/scale for daemonsets/scale"),
        ("get deployment.apps shop web", "resource: deployments for deployment singular"),
    ] {
        assert_eq!(of_rule(rule(), question), [format!("ownGrant {expected}")], "{question}");
    }
}

#[test]
fn two_wrong_factors_are_no_near_miss_au_101() {
    let rule = || full(&["get"], &["apps"], &["deployments"], &["web"]);
    for question in [
        "delete deployments.apps shop db",
        "get deployments.apps other db",
        "get daemonsets.apps/scale shop web",
        "get pods shop web",
        "get /x",
    ] {
        assert_eq!(of_rule(rule(), question), [""; 0], "{question}");
    }
}

#[test]
fn what_looks_like_more_than_it_is_is_named_rb_12_rb_13() {
    let get = |groups: &[&str], resources: &[&str]| full(&["get"], groups, resources, &[]);
    for (rule, question, expected) in [
        // The resource alone does not cover its subresources, and neither does a star behind the slash.
        (get(&[""], &["pods"]), "get pods/log shop web", "subresource: pods for pods/log"),
        (get(&[""], &["pods/*"]), "get pods/log shop web", "subresource: pods/* for pods/log"),
        (get(&[""], &["pods/log"]), "get pods shop web", "subresource: pods/log for pods"),
        (get(&[""], &["*/log"]), "get pods/exec shop web", "subresource: */log for pods/exec"),
        // AU-102: a version is no group, and a kind or a singular no resource.
        (get(&["v1"], &["pods"]), "get pods shop web", "apiGroup: v1 for  versionAsGroup"),
        (
            get(&["apps/v1"], &["deployments"]),
            "get deployments.apps shop web",
            "apiGroup: apps/v1 for apps versionAsGroup",
        ),
        (get(&[""], &["pod"]), "get pods shop web", "resource: pod for pods singular"),
        (get(&[""], &["Pod", "secrets"]), "get pods shop web", "resource: Pod|secrets for pods singular"),
        (get(&[""], &["ingress"]), "get ingresses shop web", "resource: ingress for ingresses singular"),
    ] {
        assert_eq!(of_rule(rule, question), [format!("ownGrant {expected}")], "{question}");
    }
}

#[test]
fn paths_are_compared_as_paths_rb_17_rb_34() {
    let metrics = json!({"verbs": ["get"], "nonResourceURLs": ["/metrics"]});
    let objects = [role("", "r", json!([metrics])), binding("", "b", "ClusterRole/r", &["User/jane"])];
    for (question, expected) in [
        ("get /metrics/x", "path: /metrics for /metrics/x"),
        ("get /metric", "path: /metrics for /metric oneLetter"),
        ("post /metrics", "verb: get for post"),
    ] {
        assert_eq!(lines(&objects, &named("jane"), question), [format!("ownGrant {expected}")]);
    }
    // A RoleBinding never grants a path.
    let objects = [objects[0].clone(), binding("shop", "b", "ClusterRole/r", &["User/jane"])];
    let expected = ["ownGrant namespace: shop for ", "unboundRole subject:  for user/jane"];
    assert_eq!(lines(&objects, &named("jane"), "get /metrics"), expected);
}

#[test]
fn a_right_rule_of_others_is_named_with_its_subjects_au_101() {
    let with = |subjects: &[&str], user: &User| {
        let objects =
            [role("", "r", json!([rule("get", "pods")])), binding("shop", "b", "ClusterRole/r", subjects)];
        lines(&objects, user, "get pods shop web")
    };
    let jane = User::new("jane", ["devs"]);
    assert_eq!(
        with(&["User/joe", "Group/ops"], &jane),
        ["otherSubject subject: group/ops|user/joe for user/jane"]
    );
    assert_eq!(with(&["User/jan"], &jane), ["otherSubject subject: user/jan for user/jane oneLetter"]);
    // A group that the user lacks, by a letter; users and groups are told apart.
    assert_eq!(
        with(&["Group/dev", "User/devs"], &jane),
        ["otherSubject subject: group/dev|user/devs for group/devs oneLetter"]
    );
    let account = named("system:serviceaccount:shop:web");
    assert_eq!(
        with(&["ServiceAccount/shops/web"], &account),
        ["otherSubject subject: serviceaccount/shops/web for serviceaccount/shop/web oneLetter"]
    );
    // In another namespace two things are wrong.
    let objects =
        [role("", "r", json!([rule("get", "pods")])), binding("other", "b", "ClusterRole/r", &["User/joe"])];
    assert_eq!(lines(&objects, &jane, "get pods shop web"), ["unboundRole subject:  for user/jane"]);
}

#[test]
fn a_role_without_a_binding_counts_where_it_could_be_bound_au_101() {
    let rules = || json!([rule("list", "pods"), rule("get", "pods")]);
    let objects = [
        role("", "r", rules()),
        role("shop", "s", rules()),
        role("other", "t", rules()),
        // A binding without subjects binds nobody.
        binding("shop", "nobody", "Role/s", &[]),
    ];
    let answer = State::new(modes(&[Mode::Rbac]), &objects).ask(&named("jane"), "get pods shop web");
    let places: Vec<String> = answer.misses.listed.iter().map(|miss| miss.place.to_string()).collect();
    let rule = r#"rules[1] {APIGroups:[""], Resources:["pods"], Verbs:["get"]}"#;
    assert_eq!(places, [format!("RBAC: ClusterRole r {rule}"), format!("RBAC: Role shop/s {rule}")]);
    // A Role grants nothing outside of namespaces.
    let answer = State::new(modes(&[Mode::Rbac]), &objects).ask(&named("jane"), "get pods - web");
    assert_eq!(answer.misses.listed.len(), 1);
}

#[test]
fn a_binding_whose_role_does_not_exist_is_named_with_a_similar_one_au_101() {
    let objects = [
        role("", "view", json!([])),
        binding("shop", "a", "ClusterRole/veiw", &["User/jane"]),
        binding("shop", "b", "Role/view", &["User/jane"]),
        binding("other", "c", "ClusterRole/gone", &["User/jane"]),
        binding("shop", "d", "ClusterRole/gone", &["User/joe"]),
    ];
    let expected = ["danglingBinding role: veiw for view oneLetter", "danglingBinding role: view for "];
    assert_eq!(lines(&objects, &named("jane"), "get pods shop web"), expected);
}

#[test]
fn the_order_is_that_of_au_101_and_at_most_so_many_are_listed() {
    let own = |name: &str, rule: Value| {
        [role("shop", name, json!([rule])), binding("shop", name, &format!("Role/{name}"), &["User/jane"])]
    };
    let get = |resources: &[&str], names: &[&str]| full(&["get"], &[""], resources, names);
    // In the order of bytes, these names are the other way round.
    let mut objects: Vec<Value> = [
        own("z1", get(&["pods/log"], &["db"])),
        own("y2", get(&["pods"], &["web"])),
        own("x3", full(&["list"], &[""], &["pods/log"], &["web"])),
        own("v5", full(&["get"], &["apps"], &["pods/log"], &["web"])),
        own("u6", get(&["secrets/log"], &["web"])),
        // Of those with the same factor, a typing error comes first, and then the order is that of bytes.
        own("u7", get(&["pod/log"], &["web"])),
        own("u5", get(&["services/log"], &["web"])),
    ]
    .concat();
    objects.extend([
        role("", "right", json!([get(&["pods/log"], &[])])),
        binding("other", "w4", "ClusterRole/right", &["User/jane"]),
        binding("shop", "t7", "ClusterRole/right", &["User/joe"]),
        role("", "s8", json!([get(&["pods/log"], &[])])),
        binding("shop", "r9", "ClusterRole/gone", &["User/jane"]),
    ]);
    let expected = [
        "ownGrant name",
        "ownGrant subresource",
        "ownGrant verb",
        "ownGrant namespace",
        "ownGrant apiGroup",
        "ownGrant resource",
        "ownGrant resource",
        "ownGrant resource",
        "otherSubject subject",
        "unboundRole subject",
        "danglingBinding role",
    ];
    let found = lines(&objects, &named("jane"), "get pods/log shop web");
    let heads: Vec<&str> = found.iter().map(|line| line.split(':').next().unwrap()).collect();
    assert_eq!(heads, expected);
    let resources: Vec<&str> = found[5..8].iter().map(|line| line.split(": ").nth(1).unwrap()).collect();
    assert_eq!(
        resources,
        ["pod/log for pods/log singular", "services/log for pods/log", "secrets/log for pods/log"]
    );
    let state = State::new(modes(&[Mode::Rbac]), &objects);
    for most in [0, 1, 5, 11, 12] {
        let limits = Limits { misses: most, ..ALL };
        let misses = state.explain(&named("jane"), &Request::of("get pods/log shop web"), limits).misses;
        let shown: Vec<String> = misses.listed.iter().map(line).collect();
        assert_eq!(
            (shown.as_slice(), misses.left_out),
            (&found[..most.min(11)], 11_usize.saturating_sub(most))
        );
    }
    assert_eq!((Limits::default().misses, Limits::default().paths), (5, 20));
}

#[test]
fn nobody_is_near_anything_rb_24() {
    let objects = [
        role("", "r", json!([rule("list", "pods")])),
        binding("", "b", "ClusterRole/r", &["User/"]),
        binding("", "c", "ClusterRole/gone", &["User/"]),
    ];
    let answer = State::new(modes(&[Mode::Rbac]), &objects).ask(&User::default(), "get pods a web");
    assert!(answer.needed.is_empty() && answer.misses.is_empty(), "{answer:?}");
}

#[test]
fn lines_of_a_policy_file_are_near_like_rules_ab_45() {
    let spec = |user: &str, more: Value| {
        let mut spec = json!({"user": user, "namespace": "shop", "resource": "pods", "apiGroup": ""});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    let lines: String = [
        spec("jane", json!({"resource": "secrets"})),
        spec("jane", json!({"readonly": true, "resource": "pods"})),
        spec("jane", json!({"namespace": "shops"})),
        spec("jane", json!({"apiGroup": "v1"})),
        spec("jane", json!({"apiGroup": "v1", "namespace": "x"})),
        spec("jan", json!({})),
        spec("", json!({"group": "ops"})),
    ]
    .iter()
    .map(|spec| {
        let version = "abac.authorization.kubernetes.io/v1beta1";
        json!({"apiVersion": version, "kind": "Policy", "spec": spec}).to_string() + "\n"
    })
    .collect();
    let parse = |lines: &str| {
        let file =
            AbacPolicyFile::parse("policy", lines.as_bytes(), Compatibility::Strict, |_| Err(String::new()));
        EngineConfig { abac: Some(Arc::new(file.unwrap())), ..modes(&[Mode::Abac]) }
    };
    let jane = named("jane");
    let answer = State::new(parse(&lines), []).ask(&jane, "delete pods shop web");
    let found: Vec<String> =
        answer.misses.listed.iter().map(|miss| format!("{} {}", miss.place, line(miss))).collect();
    assert_eq!(
        found,
        [
            "ABAC: line 2 ownGrant verb: get|list|watch for delete",
            "ABAC: line 3 ownGrant namespace: shops for shop oneLetter",
            "ABAC: line 4 ownGrant apiGroup: v1 for  versionAsGroup",
            "ABAC: line 1 ownGrant resource: secrets for pods",
            "ABAC: line 6 otherSubject subject: user/jan for user/jane oneLetter",
            "ABAC: line 7 otherSubject subject: group/ops for user/jane",
        ]
    );
    // The line that is needed is enough, and for no other request.
    for (question, others) in [
        (
            "delete pods shop web",
            ["delete pods other web", "delete secrets shop web", "delete pods.apps shop web"],
        ),
        ("get pods - -", ["delete pods - -", "get pods shop -", "get /x"]),
        ("get /x", ["post /x", "get /x/y", "get pods - -"]),
    ] {
        let needed = State::new(parse(&lines), []).ask(&jane, question).needed;
        let needed = serde_json::to_value(&needed).unwrap();
        let state = State::new(parse(&needed[0]["line"].to_string()), []);
        assert!(state.allows(&jane, &Request::of(question)), "{question}: {needed}");
        for other in others {
            assert!(!state.allows(&jane, &Request::of(other)), "{question}: {needed}: {other}");
        }
        assert!(!state.allows(&named("joe"), &Request::of(question)));
    }
}
