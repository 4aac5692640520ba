//! RBAC: ways and near misses against a naive model that looks at every binding and every rule, as JSON.

use std::collections::BTreeSet;

use portcullis_policy::audit::explain::{Answer, MissKind, Needed, Verdict};
use portcullis_policy::rbac::rule_allows;
use portcullis_policy::{Mode, User};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

use crate::explain::fixes::Case;
use crate::explain::support::{ALL, Request, State, binding, modes, role, text, texts};

const NAMESPACES: [&str; 3] = ["", "a", "b"];

fn words(of: &'static [&'static str]) -> impl Strategy<Value = Vec<&'static str>> {
    subsequence(of, 1..=2)
}

fn any_rule() -> impl Strategy<Value = Value> {
    let names = prop_oneof![2 => Just(vec![]), 1 => words(&["x", "y", ""])];
    let resources = words(&["pods", "pods/log", "secrets", "*", "*/log", "pod"]);
    let of_resource = (words(&["get", "list", "*"]), words(&["", "apps", "*", "v1"]), resources, names);
    prop_oneof![
        4 => of_resource.prop_map(|(verbs, groups, resources, names)| json!({
            "verbs": verbs, "apiGroups": groups, "resources": resources, "resourceNames": names,
        })),
        1 => (words(&["get", "post", "*"]), words(&["/x", "/x*", "/y", "*"]))
            .prop_map(|(verbs, paths)| json!({"verbs": verbs, "nonResourceURLs": paths})),
    ]
}

const SUBJECTS: [&str; 6] =
    ["User/jane", "User/joe", "Group/ops", "Group/devs", "ServiceAccount//x", "ServiceAccount/b/x"];

fn objects() -> impl Strategy<Value = Vec<Value>> {
    let roles = (select(&NAMESPACES[..]), select(&["r", "s"][..]), prop::collection::vec(any_rule(), 0..4));
    let roles = roles.prop_map(|(namespace, name, rules)| role(namespace, name, json!(rules)));
    let role_ref = select(&["ClusterRole/r", "ClusterRole/s", "Role/r", "Role/gone", "ClusterRole/gone"][..]);
    let subjects = subsequence(&SUBJECTS[..], 0..=3).prop_shuffle();
    let bindings = (select(&NAMESPACES[..]), select(&["p", "q"][..]), role_ref, subjects);
    let bindings =
        bindings.prop_map(|(namespace, name, role, subjects)| binding(namespace, name, role, &subjects));
    let object = prop_oneof![roles, bindings];
    prop::collection::vec(object, 0..14).prop_map(|objects| {
        // Of two objects of one name the last one counts.
        let key = |object: &Value| {
            ["/kind", "/metadata/namespace", "/metadata/name"].map(|path| text(object, path).to_owned())
        };
        let by_key: std::collections::BTreeMap<_, Value> =
            objects.into_iter().map(|object| (key(&object), object)).collect();
        by_key.into_values().collect()
    })
}

fn users() -> impl Strategy<Value = User> {
    let names = select(&["jane", "jan", "system:serviceaccount:b:x", "system:serviceaccount:a:x"][..]);
    (names, subsequence(&["ops", "dev"][..], 0..=2)).prop_map(|(name, groups)| User::new(name, groups))
}

fn requests() -> Vec<Request> {
    let mut requests: Vec<Request> =
        ["get /x", "post /x", "get /x/y", "get /z"].iter().map(|question| Request::of(question)).collect();
    for verb in ["get", "list", "watch"] {
        for kind in ["pods", "pods/log", "pods/exec", "secrets", "pods.apps"] {
            for namespace in ["-", "a"] {
                for name in ["-", "x"] {
                    requests.push(Request::of(&format!("{verb} {kind} {namespace} {name}")));
                }
            }
        }
    }
    requests
}

/// RB-20 to RB-23
fn is_subject(subject: &Value, binding_namespace: &str, user: &User) -> bool {
    let name = text(subject, "/name");
    match text(subject, "/kind") {
        "User" => name == user.name,
        "Group" => user.groups.iter().any(|group| group == name),
        _ => {
            let own = text(subject, "/namespace");
            let namespace = if own.is_empty() { binding_namespace } else { own };
            !namespace.is_empty() && user.name == format!("system:serviceaccount:{namespace}:{name}")
        }
    }
}

fn shown(subject: &Value, binding_namespace: &str) -> String {
    let name = text(subject, "/name");
    match text(subject, "/kind") {
        "User" => format!("user/{name}"),
        "Group" => format!("group/{name}"),
        _ => {
            let own = text(subject, "/namespace");
            format!("serviceaccount/{}/{name}", if own.is_empty() { binding_namespace } else { own })
        }
    }
}

/// The factors in which a rule differs (RB-10 to RB-18). A resource with its subresource counts as one here.
fn differing(rule: &Value, request: &Request) -> Vec<&'static str> {
    let has = |field: &str, wanted: &[&str]| {
        texts(rule, field).iter().any(|word| word == "*" || wanted.contains(&word.as_str()))
    };
    let verb = ("verb", has("/verbs", &[&request.verb]));
    let checks = if request.path.is_empty() {
        let Request { resource, subresource, .. } = request;
        let keys = match subresource.as_str() {
            "" => [resource.clone(), resource.clone()],
            subresource => [format!("{resource}/{subresource}"), format!("*/{subresource}")],
        };
        let names = texts(rule, "/resourceNames");
        vec![
            verb,
            ("apiGroup", has("/apiGroups", &[&request.group])),
            ("resource", has("/resources", &[&keys[0], &keys[1]])),
            ("name", names.is_empty() || names.contains(&request.name)),
        ]
    } else {
        let covers = |entry: &String| {
            *entry == request.path
                || entry.strip_suffix('*').is_some_and(|prefix| request.path.starts_with(prefix))
        };
        vec![verb, ("path", texts(rule, "/nonResourceURLs").iter().any(covers))]
    };
    checks.into_iter().filter(|(_, fits)| !fits).map(|(factor, _)| factor).collect()
}

/// Whether one entry of a rule is wrong in its resource alone, or in its subresource alone.
fn is_one_part(rule: &Value, request: &Request) -> bool {
    texts(rule, "/resources").iter().any(|entry| {
        let (resource, subresource) = entry.split_once('/').unwrap_or((entry, ""));
        resource == request.resource || subresource == request.subresource || entry.starts_with("*/")
    })
}

/// A binding with its role.
struct Bound<'o> {
    binding: &'o Value,
    namespace: &'o str,
    rules: Option<&'o Vec<Value>>,
}

fn bindings(objects: &[Value]) -> impl Iterator<Item = Bound<'_>> {
    objects.iter().filter(|object| object.get("roleRef").is_some()).map(|binding| {
        let namespace = text(binding, "/metadata/namespace");
        let (kind, name) = (text(binding, "/roleRef/kind"), text(binding, "/roleRef/name"));
        let of = if kind == "Role" { namespace } else { "" };
        // A ClusterRoleBinding cannot refer to a Role.
        let is_resolvable = kind == "ClusterRole" || !namespace.is_empty();
        let role = objects.iter().find(|role| {
            is_resolvable
                && role["kind"] == kind
                && text(role, "/metadata/namespace") == of
                && text(role, "/metadata/name") == name
        });
        Bound { binding, namespace, rules: role.map(|role| role["rules"].as_array().unwrap()) }
    })
}

type Grant = (String, String, String, usize);

/// Every binding and rule that grants the request, and those of the user that differ in one factor.
fn model(objects: &[Value], user: &User, request: &Request) -> (BTreeSet<Grant>, BTreeSet<Grant>) {
    let (mut ways, mut misses) = (BTreeSet::new(), BTreeSet::new());
    for Bound { binding, namespace, rules } in bindings(objects) {
        let subjects = binding["subjects"].as_array().unwrap();
        let Some(subject) = subjects.iter().find(|subject| is_subject(subject, namespace, user)) else {
            continue;
        };
        let is_here = namespace.is_empty() || namespace == request.namespace;
        for (index, rule) in rules.into_iter().flatten().enumerate() {
            let name = text(binding, "/metadata/name").to_owned();
            let grant = (namespace.to_owned(), name, shown(subject, namespace), index);
            match (differing(rule, request).as_slice(), is_here) {
                ([], true) => drop(ways.insert(grant)),
                (["resource"], true) if !is_one_part(rule, request) => {}
                ([_], true) | ([], false) => drop(misses.insert(grant)),
                _ => {}
            }
        }
    }
    (ways, misses)
}

/// What an answer has of the same.
fn listed(entries: &Value) -> BTreeSet<Grant> {
    let entry = |entry: &Value| {
        let subject = match text(entry, "/subject/namespace") {
            "" => format!("{}/{}", text(entry, "/subject/kind").to_lowercase(), text(entry, "/subject/name")),
            namespace => format!("serviceaccount/{namespace}/{}", text(entry, "/subject/name")),
        };
        let of = |path: &str| text(entry, path).to_owned();
        let index = usize::try_from(entry["ruleIndex"].as_u64().unwrap()).unwrap();
        (of("/binding/namespace"), of("/binding/name"), subject, index)
    };
    entries.as_array().unwrap().iter().map(entry).collect()
}

/// The grants that remain when all bindings but one are removed.
fn only(objects: &[Value], (namespace, name, ..): &Grant) -> Vec<Value> {
    let is_kept = |object: &&Value| {
        object.get("roleRef").is_none()
            || (text(object, "/metadata/namespace") == namespace && text(object, "/metadata/name") == name)
    };
    objects.iter().filter(is_kept).cloned().collect()
}

/// The bindings and roles that would be enough with another subject, or with a binding: all rules of them that allow the request.
fn others(objects: &[Value], user: &User, request: &Request) -> (usize, usize, usize) {
    let is_here = |namespace: &str| namespace.is_empty() || namespace == request.namespace;
    let allowing =
        |rules: &Vec<Value>| rules.iter().filter(|rule| differing(rule, request).is_empty()).count();
    let (mut bound, mut dangling) = (0, 0);
    for Bound { binding, namespace, rules } in bindings(objects).filter(|bound| is_here(bound.namespace)) {
        let subjects = binding["subjects"].as_array().unwrap();
        // In a ClusterRoleBinding, an account without a namespace is nobody.
        let mut real = subjects
            .iter()
            .filter(|s| s["kind"] != "ServiceAccount" || s["namespace"] != "" || !namespace.is_empty());
        let is_own = subjects.iter().any(|subject| is_subject(subject, namespace, user));
        match rules {
            Some(rules) if !is_own && real.next().is_some() => bound += allowing(rules),
            None if is_own => dangling += 1,
            _ => {}
        }
    }
    let roles = objects.iter().filter(|object| object.get("rules").is_some());
    let unbound = roles.filter(|role| {
        let of = text(role, "/metadata/namespace");
        let is_counted = of.is_empty() || of == request.namespace;
        is_counted
            && !bindings(objects).filter(|bound| is_here(bound.namespace)).any(|bound| {
                let subjects = bound.binding["subjects"].as_array().unwrap();
                let is_somebody = |s: &Value| {
                    s["kind"] != "ServiceAccount" || s["namespace"] != "" || !bound.namespace.is_empty()
                };
                let is_role = bound.binding["roleRef"]["kind"] == role["kind"]
                    && bound.binding["roleRef"]["name"] == role["metadata"]["name"]
                    && (of.is_empty() || of == bound.namespace);
                is_role && subjects.iter().any(is_somebody)
            })
    });
    let unbound = unbound.map(|role| allowing(role["rules"].as_array().unwrap())).sum();
    (bound, unbound, dangling)
}

fn of_kind(answer: &Answer, kind: MissKind) -> usize {
    answer.misses.listed.iter().filter(|miss| miss.kind == kind).count()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    #[test]
    fn ways_and_misses_are_those_of_brute_force_au_100_au_101(objects in objects(), user in users()) {
        let config = modes(&[Mode::Rbac]);
        let state = State::new(config.clone(), &objects);
        for request in requests() {
            let answer = state.explain(&user, &request, ALL);
            let (ways, misses) = model(&objects, &user, &request);
            // No way is missing, and each is sound: it is enough alone.
            let document = serde_json::to_value(&answer).unwrap();
            prop_assert_eq!(listed(&document["ways"]["listed"]), ways.clone(), "{:?}", request);
            for way in &ways {
                let alone = State::new(config.clone(), &only(&objects, way));
                prop_assert!(alone.allows(&user, &request), "{:?} {:?}", way, request);
            }
            prop_assert!(answer.ways.listed.iter().filter(|way| way.is_first).count() <= 1);
            if answer.answer == Verdict::Yes {
                prop_assert!(answer.misses.is_empty() && answer.needed.is_empty());
                continue;
            }

            // The near misses are all there are, and each can be fixed as it says.
            let own: Vec<&Value> = document["misses"]["listed"].as_array().unwrap().iter()
                .filter(|miss| miss["kind"] == "ownGrant").collect();
            prop_assert_eq!(listed(&json!(own)), misses, "{:?}", request);
            let counts = [MissKind::OtherSubject, MissKind::UnboundRole, MissKind::DanglingBinding];
            let counts = counts.map(|kind| of_kind(&answer, kind));
            let (bound, unbound, dangling) = others(&objects, &user, &request);
            prop_assert_eq!(counts, [bound, unbound, dangling], "{:?} {:?}", request, document);
            let case = Case { objects: objects.clone(), user: user.clone(), request: request.clone() };
            for miss in &answer.misses.listed {
                for fixed in case.fixed(miss) {
                    let state = State::new(config.clone(), &fixed.objects);
                    prop_assert!(state.allows(&fixed.user, &fixed.request), "{:?} {:?}", miss, fixed);
                }
            }
            prop_assert!(answer.misses.listed.is_sorted_by_key(|miss| miss.kind));

            // What is needed is enough, and for no other request.
            let [needed @ Needed::Rule { rule, .. }] = &answer.needed[..] else { panic!("{document}") };
            let given = case.given(needed).unwrap();
            prop_assert!(State::new(config.clone(), &given.objects).allows(&user, &request));
            for other in requests() {
                let same = Request { namespace: request.namespace.clone(), ..other.clone() };
                // Without a name, a rule cannot say which object it is for.
                let allowed = rule_allows(rule, &other.attributes(&user));
                prop_assert!(!allowed || same == request || request.name.is_empty(), "{:?} {:?}", rule, other);
            }
        }
    }

    #[test]
    fn the_order_of_objects_changes_nothing_au_131(
        (objects, shuffled) in objects().prop_flat_map(|objects| (Just(objects.clone()), Just(objects).prop_shuffle())),
        user in users(),
    ) {
        let config = modes(&[Mode::Rbac]);
        let (one, other) = (State::new(config.clone(), &objects), State::new(config, &shuffled));
        for request in requests() {
            prop_assert_eq!(one.explain(&user, &request, ALL), other.explain(&user, &request, ALL));
        }
    }
}
