//! The reported holders of `nodes/proxy` are exactly the users that the RBAC authorizer allows to use it.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

use portcullis_policy::audit::Subject;
use portcullis_policy::audit::kubelet_access::{Evidence, Holder, Note, Objects, Report, replacements};
use portcullis_policy::kubelet_api::Settings;
use portcullis_policy::objects::{Kind, Object};
use portcullis_policy::rbac::RbacIndex;
use portcullis_policy::{Attributes, Authorizer, ResourceRequest, User};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

fn kind(object: &Value) -> Kind {
    Kind::of("rbac.authorization.k8s.io/v1", object["kind"].as_str().unwrap()).unwrap()
}

fn report(objects: &[Value]) -> Report {
    let mut taken = Objects::default();
    for object in objects {
        assert!(taken.take(Object::parse(kind(object), &object.to_string()).unwrap()));
    }
    taken.report()
}

fn index(objects: &[Value]) -> RbacIndex {
    let mut index = RbacIndex::default();
    for object in objects {
        assert!(index.apply(Object::parse(kind(object), &object.to_string()).unwrap()));
    }
    index
}

fn allows(index: &RbacIndex, user: &User, verb: &str, subresource: &str, node: &str) -> bool {
    let resource =
        ResourceRequest { resource: "nodes", subresource, name: node, ..ResourceRequest::default() };
    index.authorize(&Attributes { user, verb, path: "", resource: Some(resource) }).is_allow()
}

fn role(name: &str, rules: Value) -> Value {
    json!({"kind": "ClusterRole", "metadata": {"name": name}, "rules": rules})
}

fn binding(name: &str, role: &str, subjects: Value) -> Value {
    json!({
        "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"kind": "ClusterRole", "name": role}, "subjects": subjects,
    })
}

fn user(name: &str) -> Value {
    json!({"kind": "User", "name": name})
}

fn proxy(verbs: &[&str]) -> Value {
    json!({"apiGroups": [""], "resources": ["nodes/proxy"], "verbs": verbs})
}

/// The users to try, each in one way: by name, or as the member of one group.
fn people() -> Vec<(Subject, User)> {
    let by_name = ["u0", "u1", "system:serviceaccount:ns:sa", "system:serviceaccount:other:sa"];
    let by_group = ["g0", "system:authenticated", "system:masters"];
    let named = by_name.map(|name| (Subject::of_user(name), User::new(name, [""; 0])));
    let grouped =
        by_group.map(|name| (Subject::Group { name: name.to_owned() }, User::new("nobody", [name])));
    named.into_iter().chain(grouped).collect()
}

fn rule() -> impl Strategy<Value = Value> {
    let some = |words: Vec<&'static str>| proptest::collection::vec(select(words), 0..3);
    (
        some(vec!["", "", "*", "apps"]),
        some(vec!["nodes/proxy", "nodes/proxy", "*/proxy", "*", "nodes/*", "nodes", "*/*", "pods/proxy", "nodes/proxy/x"]),
        some(vec!["get", "create", "*", "list"]),
        select(vec![vec![], vec![], vec!["n1"], vec!["", "n2"], vec![""], vec!["n1", "n2"]]),
    )
        .prop_map(|(groups, resources, verbs, names)| {
            json!({"apiGroups": groups, "resources": resources, "verbs": verbs, "resourceNames": names})
        })
}

fn objects() -> impl Strategy<Value = Vec<Value>> {
    let subject = select(vec![
        user("u0"),
        user("u1"),
        user("system:serviceaccount:ns:sa"),
        json!({"kind": "ServiceAccount", "name": "sa", "namespace": "ns"}),
        json!({"kind": "ServiceAccount", "name": "sa", "namespace": "other"}),
        json!({"kind": "ServiceAccount", "name": "sa"}),
        json!({"kind": "Group", "name": "g0"}),
        json!({"kind": "Group", "name": "system:authenticated"}),
        json!({"kind": "Group", "name": "system:masters"}),
        json!({"kind": "Robot", "name": "u0"}),
    ]);
    let roles = proptest::collection::vec(proptest::collection::vec(rule(), 0..3), 1..4);
    let reference = (select(vec!["ClusterRole", "ClusterRole", "Role", ""]), 0usize..4);
    let bindings =
        proptest::collection::vec((any::<bool>(), reference, proptest::collection::vec(subject, 0..3)), 0..5);
    (roles, bindings).prop_map(|(roles, bindings)| {
        let mut objects = Vec::new();
        for (number, rules) in roles.iter().enumerate() {
            objects.push(role(&format!("r{number}"), json!(rules)));
            objects.push(json!({"kind": "Role", "metadata": {"name": format!("r{number}"), "namespace": "ns"}, "rules": rules}));
        }
        for (number, (is_cluster_wide, (kind, target), subjects)) in bindings.into_iter().enumerate() {
            let mut object = binding(&format!("b{number}"), &format!("r{target}"), json!(subjects));
            object["roleRef"]["kind"] = json!(kind);
            if !is_cluster_wide {
                object["kind"] = json!("RoleBinding");
                object["metadata"]["namespace"] = json!("ns");
            }
            objects.push(object);
        }
        objects
    })
}

/// Whether a report says that a subject may.
fn says(report: &Report, subject: &Subject, verb: &str, node: &str) -> bool {
    let of_subject = report.holders.iter().filter(|holder| holder.subject == *subject);
    of_subject.flat_map(|holder| &holder.grants).any(|grant| {
        grant.verbs.iter().any(|held| held == "*" || held == verb)
            && (grant.resource_names.is_empty() || grant.resource_names.iter().any(|name| name == node))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn a_subject_is_named_with_a_verb_and_a_node_if_and_only_if_rbac_allows_it(objects in objects()) {
        let (report, index) = (report(&objects), index(&objects));
        for (subject, user) in people() {
            for verb in ["get", "create", "list", "delete"] {
                for node in ["n1", "n2", "n3"] {
                    prop_assert_eq!(
                        says(&report, &subject, verb, node),
                        allows(&index, &user, verb, "proxy", node),
                        "{} {} {}", subject, verb, node
                    );
                }
            }
            for holder in report.holders.iter().filter(|holder| holder.subject == subject) {
                let may = |verb| ["n1", "n2", "n3"].iter().any(|node| allows(&index, &user, verb, "proxy", node));
                // KA-26: a WebSocket is a GET. Behind a guard what runs code needs `create`.
                prop_assert_eq!(holder.execution().at_bare_kubelet(), may("get") || may("create"));
                prop_assert_eq!(holder.execution().behind_guard, may("create"));
            }
        }
        let is_known = |holder: &&Holder| people().iter().all(|(subject, _)| *subject != holder.subject);
        prop_assert_eq!(report.holders.iter().find(is_known), None);
    }

    #[test]
    fn the_rules_that_are_guessed_grant_reading_and_no_more_than_the_holder_had(objects in objects()) {
        let report = report(&objects);
        for (holder, replacement) in report.holders.iter().zip(replacements(&report, None)) {
            prop_assert_eq!(&holder.subject, &replacement.subject);
            let granted: Vec<Value> = replacement.objects().iter().map(|object| {
                let mut object = object.clone();
                object.as_object_mut().unwrap().remove("apiVersion");
                object
            }).collect();
            let index = index(&granted);
            let (_, user) = people().into_iter().find(|(subject, _)| *subject == holder.subject).unwrap();
            let is_made_for_it = holder.grants.iter().any(|grant| {
                grant.resources.iter().any(|entry| entry != "*") && grant.verbs.iter().any(|verb| verb == "get" || verb == "*")
            });
            for node in ["n1", "n2", "n3"] {
                for subresource in ["pods", "healthz", "configz"] {
                    // KA-30 to KA-33: nodes/proxy grants what each of these grants. It may name more nodes than one rule.
                    let had = is_made_for_it && says(&report, &holder.subject, "get", node);
                    prop_assert!(is_made_for_it || !allows(&index, &user, "get", subresource, node));
                    prop_assert!(!had || allows(&index, &user, "get", subresource, node));
                }
                for subresource in ["proxy", "stats", "metrics", "log", "checkpoint"] {
                    prop_assert!(!allows(&index, &user, "get", subresource, node), "{}", subresource);
                }
                prop_assert!(!allows(&index, &user, "create", "pods", node));
            }
        }
    }
}

#[test]
fn rb_79_an_aggregated_role_counts_with_what_it_holds_and_with_what_it_will_collect() {
    let mut source = role("source", json!([proxy(&["get"])]));
    source["metadata"]["labels"] = json!({"to": "all"});
    let mut all = role("all", json!([{"apiGroups": [""], "resources": ["*/proxy"], "verbs": ["create"]}]));
    all["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"to": "all"}}]});
    let report = report(&[source, all, binding("b", "all", json!([user("u0")]))]);
    let [holder] = report.holders.as_slice() else { panic!("{report:?}") };
    let mut grants: Vec<_> =
        holder.grants.iter().map(|g| (g.verbs.join(","), g.rule, g.aggregated_from.join(","))).collect();
    grants.sort();
    assert_eq!(grants, [("create".into(), Some(0), String::new()), ("get".into(), None, "source".into())]);
}

#[test]
fn what_only_looks_like_a_grant_is_a_note() {
    let mut namespaced = binding("rb", "proxy", json!([user("u0")]));
    namespaced["kind"] = json!("RoleBinding");
    namespaced["metadata"]["namespace"] = json!("ns");
    let star = json!({"apiGroups": [""], "resources": ["nodes/*"], "verbs": ["*"]});
    let report = report(&[
        role("proxy", json!([proxy(&["get"])])),
        namespaced,
        role("star", json!([star])),
        binding("b", "star", json!([user("u0")])),
        binding("dangling", "nosuch", json!([user("u0")])),
    ]);
    assert_eq!(report.holders, []);
    let (namespace, name, role) = ("ns".to_owned(), "rb".to_owned(), "ClusterRole proxy".to_owned());
    let star = Note::NodesStar { role: "star".to_owned() };
    assert_eq!(report.notes, [Note::RoleBinding { namespace, name, role }, star, Note::Masters]);
}

#[test]
fn well_known_holders_are_left_out_by_name() {
    let rules = json!([proxy(&["*"])]);
    let masters = json!([{"kind": "Group", "name": "system:masters"}]);
    let report = report(&[
        role("system:kubelet-api-admin", rules.clone()),
        role("mine", rules),
        binding("a", "system:kubelet-api-admin", json!([user("apiserver"), user("u0")])),
        binding("b", "mine", masters),
        binding("c", "mine", json!([user("u0")])),
    ]);
    assert_eq!(report.holders.len(), 3);
    let names = |report: &Report| report.holders.iter().map(|h| h.subject.to_string()).collect::<Vec<_>>();
    let roles = ["system:kubelet-api-admin".to_owned()];
    assert_eq!(names(&report.clone().without(&[], &roles)), ["group/system:masters", "user/u0"]);
    let without_masters = report.clone().without(&["system:masters".to_owned()], &[]);
    assert_eq!(names(&without_masters), ["user/apiserver", "user/u0"]);
    assert!(report.notes.contains(&Note::Masters) && !without_masters.notes.contains(&Note::Masters));
}

/// The rules for one holder of `get nodes/proxy` and `create nodes/proxy`, by evidence: verbs and resources.
fn rules(evidence: &Evidence) -> Vec<(String, String)> {
    let report =
        report(&[role("r", json!([proxy(&["get", "create"])])), binding("b", "r", json!([user("u0")]))]);
    let replacements = replacements(&report, Some(evidence));
    replacements[0].rules.iter().map(|rule| (rule.verbs.join(","), rule.resources.join(","))).collect()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(verbs, resources)| ((*verbs).to_owned(), (*resources).to_owned())).collect()
}

#[test]
fn an_access_log_gives_the_rules_for_exactly_what_was_used() {
    let line = |user: &str, method: &str, path: &str, code: u16| json!({"user": user, "groups": ["g"], "method": method, "path": path, "verb": "x", "code": code});
    let mut evidence = Evidence::new(Settings::default());
    for (user, method, path, code) in [
        ("u0", "GET", "/pods?x=1", 200),
        ("u0", "GET", "/runningpods/", 200),
        ("u0", "GET", "/healthz/ping", 200),
        ("u0", "POST", "/stats/summary", 200),
        ("u0", "GET", "/configz", 403),
        ("u0", "GET", "/logs", 307),
        ("u0", "POST", "/pods", 405),
        ("u0", "GET", "/nosuch", 404),
        ("other", "GET", "/statusz", 200),
    ] {
        evidence.take_access(&line(user, method, path, code)).unwrap();
    }
    evidence.take_access(&json!({"user": null, "code": 401})).unwrap();
    assert_eq!(rules(&evidence), pairs(&[("create", "nodes/stats"), ("get", "nodes/healthz,nodes/pods")]));
    // A command by WebSocket needs both verbs, of nodes/proxy, for there is nothing finer; unless that is chosen.
    let exec = line("u0", "GET", "/exec/ns/p/c?command=id", 101);
    evidence.take_access(&exec).unwrap();
    assert!(rules(&evidence).contains(&("create,get".to_owned(), "nodes/proxy".to_owned())));
    let mut finer = Evidence::new(Settings { finer_subresources: true, ..Settings::default() });
    finer.take_access(&exec).unwrap();
    assert_eq!(rules(&finer), pairs(&[("create,get", "nodes/exec")]));
    for (line, field) in [
        (json!({"user": "u", "method": "GET", "path": "/pods"}), "code"),
        (json!({"user": 1, "method": "GET", "path": "/pods", "code": 200}), "user"),
        (json!({"user": "u", "method": "GET", "code": 200}), "path"),
        (json!({"user": "u", "method": "GET", "path": "/pods", "groups": "g", "code": 200}), "groups"),
    ] {
        assert!(evidence.take_access(&line).unwrap_err().starts_with(field), "{field}");
    }
}

#[test]
fn an_audit_log_gives_what_kubelets_asked_for_and_what_went_through_the_api_server() {
    let review = |subresource: &str, verb: &str| {
        json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "stage": "ResponseComplete", "verb": "create",
            "user": {"username": "system:node:n1"}, "objectRef": {"resource": "subjectaccessreviews"},
            "responseStatus": {"code": 201},
            "requestObject": {"spec": {"user": "u0", "groups": [], "resourceAttributes":
                {"verb": verb, "resource": "nodes", "subresource": subresource, "name": "n1", "version": "v1"}}},
        })
    };
    let proxied = |uri: &str, verb: &str| {
        json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "stage": "ResponseComplete", "verb": verb,
            "user": {"username": "u0", "groups": ["g"]}, "requestURI": uri, "responseStatus": {"code": 200},
            "objectRef": {"resource": "nodes", "name": "n1", "subresource": "proxy"},
        })
    };
    let mut evidence = Evidence::new(Settings::default());
    // KA-54: the fallback to proxy comes after what is finer, and is not counted.
    for event in [review("pods", "get"), review("proxy", "get"), review("metrics", "get")] {
        assert_eq!(evidence.take_audit(&event), Ok(true));
    }
    assert_eq!(rules(&evidence), pairs(&[("get", "nodes/metrics,nodes/pods")]));
    assert_eq!(evidence.take_audit(&review("proxy", "create")), Ok(true));
    assert!(rules(&evidence).contains(&("create".to_owned(), "nodes/proxy".to_owned())));
    let mut evidence = Evidence::new(Settings::default());
    for uri in
        ["/api/v1/nodes/n1/proxy/stats/summary?only_cpu=true", "/api/v1/nodes/https:n1:10250/proxy/logs/"]
    {
        assert_eq!(evidence.take_audit(&proxied(uri, "get")), Ok(true));
    }
    assert_eq!(rules(&evidence), pairs(&[("get", "nodes/log,nodes/stats")]));
    let mut early = proxied("/api/v1/nodes/n1/proxy/pods", "get");
    early["stage"] = json!("RequestReceived");
    let mut refused = proxied("/api/v1/nodes/n1/proxy/pods", "get");
    refused["responseStatus"]["code"] = json!(403);
    let mut human = review("pods", "get");
    human["user"]["username"] = json!("u0");
    for event in [early, refused, human] {
        assert_eq!(evidence.take_audit(&event), Ok(false));
    }
    let answered = |subresource: &str, is_allowed: bool| {
        let mut event = review(subresource, "get");
        event["responseObject"] = json!({"status": {"allowed": is_allowed}});
        event
    };
    let mut told = Evidence::new(Settings::default());
    for event in [answered("configz", false), answered("proxy", false), answered("stats", false)] {
        assert_eq!(told.take_audit(&event), Ok(true));
    }
    assert_eq!(rules(&told), [], "what was refused was not used");
    for event in [answered("healthz", false), answered("proxy", true), review("pods", "update")] {
        assert_eq!(told.take_audit(&event), Ok(true));
    }
    assert_eq!(rules(&told), pairs(&[("get", "nodes/healthz")]), "with update it could not be allowed");
    let mut bare = review("pods", "get");
    bare.as_object_mut().unwrap().remove("requestObject");
    assert!(evidence.take_audit(&bare).unwrap_err().contains("level Request"));
    assert!(evidence.take_audit(&json!({"kind": "Event", "apiVersion": "v1"})).is_err());
    assert_eq!(rules(&evidence), pairs(&[("get", "nodes/log,nodes/stats")]));
}
