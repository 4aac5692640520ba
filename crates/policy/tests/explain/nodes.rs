//! Mode Node: paths and near misses against a naive model, and the kinds of AU-101 (5) one after the other.

use std::collections::BTreeMap;

use portcullis_policy::audit::explain::{Limits, MissKind, Verdict};
use portcullis_policy::{Mode, User};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::explain::fixes::Case;
use crate::explain::support::{ALL, Request, State, metadata, modes, named, node, text, texts};

const MIRROR: &str = "kubernetes.io/config.mirror";

fn pod(namespace: &str, name: &str, on: &str, is_mirror: bool, secrets: &[&str], claims: &[&str]) -> Value {
    let volume = |field: &str, key: &str, name: &str| json!({"name": name, field: {key: name}});
    let volumes: Vec<Value> = secrets
        .iter()
        .map(|name| volume("secret", "secretName", name))
        .chain(claims.iter().map(|name| volume("persistentVolumeClaim", "claimName", name)))
        .collect();
    let mut metadata = metadata(namespace, name);
    if is_mirror {
        metadata["annotations"] = json!({MIRROR: "x"});
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": on, "volumes": volumes}})
}

fn volume(name: &str, claim: (&str, &str), secret: (&str, &str)) -> Value {
    let reference = |(namespace, name): (&str, &str)| json!({"namespace": namespace, "name": name});
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "claimRef": reference(claim),
            "csi": {"driver": "d", "volumeHandle": "h", "nodeStageSecretRef": reference(secret)},
        },
    })
}

fn case(objects: &[Value], user: User, question: &str) -> Case {
    Case { objects: objects.to_vec(), user, request: Request::of(question) }
}

/// What mode Node says of a refused request, each with what it would take to be allowed, which is tried.
fn misses(case: &Case) -> Vec<String> {
    let state = State::new(modes(&[Mode::Node]), &case.objects);
    let answer = state.explain(&case.user, &case.request, ALL);
    assert_eq!(answer.answer, Verdict::No, "{case:?}");
    let shown = answer.misses.listed.iter().map(|miss| {
        for fixed in case.fixed(miss) {
            let state = State::new(modes(&[Mode::Node]), &fixed.objects);
            assert!(state.allows(&fixed.user, &fixed.request), "{miss:?} {fixed:?}");
        }
        assert_eq!(miss.kind, MissKind::Node);
        let miss = serde_json::to_value(miss).unwrap();
        let has = texts(&miss, "/has").join("|");
        let place = miss["path"].as_str().map(|path| format!(" by {path}")).unwrap_or_default();
        let typed = if miss.get("typingError").is_some() { " typing error" } else { "" };
        format!("{}: {has} for {}{typed}{place}", text(&miss, "/factor"), text(&miss, "/wanted"))
    });
    shown.collect()
}

#[test]
fn every_path_is_a_way_and_the_shortest_come_first_au_65_au_100() {
    let objects = [
        pod("a", "z", "n1", false, &["s"], &[]),
        pod("a", "y", "n1", false, &["s"], &["c", "d"]),
        pod("a", "x", "n1", false, &[], &["d"]),
        pod("a", "w", "n2", false, &["s"], &[]),
        volume("v1", ("a", "d"), ("a", "s")),
        volume("v2", ("a", "c"), ("a", "s")),
    ];
    let state = State::new(modes(&[Mode::Node]), &objects);
    let ask = |paths: usize, question: &str| {
        let answer = state.explain(&node("n1"), &Request::of(question), Limits { paths, ..ALL });
        let ways: Vec<String> = answer.ways.listed.iter().map(|listed| listed.way.to_string()).collect();
        let marked = answer.ways.listed.iter().any(|listed| listed.is_first);
        (ways, answer.ways.left_out, marked)
    };
    let all = [
        "Node: nodes/n1 <- pods/a/y <- secrets/a/s",
        "Node: nodes/n1 <- pods/a/z <- secrets/a/s",
        "Node: nodes/n1 <- pods/a/x <- persistentvolumeclaims/a/d <- persistentvolumes/v1 <- secrets/a/s",
        "Node: nodes/n1 <- pods/a/y <- persistentvolumeclaims/a/d <- persistentvolumes/v1 <- secrets/a/s",
        "Node: nodes/n1 <- pods/a/y <- persistentvolumeclaims/a/c <- persistentvolumes/v2 <- secrets/a/s",
    ];
    // The graph counts paths and takes none first.
    assert_eq!(ask(9, "get secrets a s"), (all.map(str::to_owned).to_vec(), 0, false));
    assert_eq!(ask(3, "get secrets a s"), (all[..3].iter().map(|way| (*way).to_owned()).collect(), 2, false));
    // One path is the one.
    let one = "Node: nodes/n1 <- pods/a/y <- persistentvolumeclaims/a/c".to_owned();
    assert_eq!(ask(9, "get persistentvolumeclaims a c"), (vec![one], 0, true));
    // Every node may, whatever is bound to it: the pod that has this name plays no part.
    for question in ["create pods/eviction a y", "get services a y", "get nodes - n1"] {
        assert_eq!(ask(9, question), (vec!["Node: no object is needed".to_owned()], 0, true), "{question}");
    }
}

#[test]
fn an_object_of_other_nodes_is_named_with_them_au_101() {
    let objects = [
        pod("a", "x", "n2", false, &["s"], &[]),
        pod("a", "y", "n3", false, &["s"], &[]),
        pod("a", "z", "n1", false, &["t"], &[]),
    ];
    let of = |question: &str| misses(&case(&objects, node("n1"), question));
    assert_eq!(of("get secrets a s"), ["node: n2|n3 for n1"]);
    assert_eq!(of("get pods a x"), ["verb: create|delete for get", "node: n2 for n1"]);
    assert_eq!(of("get secrets a unknown"), [""; 0]);
}

#[test]
fn a_pod_that_does_not_count_is_named_au_101() {
    let objects = [
        pod("a", "mirror", "n1", true, &["s"], &["c"]),
        pod("a", "elsewhere", "n2", true, &["s"], &[]),
        pod("a", "waiting", "", false, &["s"], &[]),
        volume("v", ("a", "c"), ("b", "deep")),
    ];
    let of = |question: &str| misses(&case(&objects, node("n1"), question));
    assert_eq!(
        of("get secrets a s"),
        [
            "node:  for n1 by pods/a/waiting <- secrets/a/s",
            "annotation: kubernetes.io/config.mirror for  by pods/a/mirror <- secrets/a/s",
        ]
    );
    let deep = "annotation: kubernetes.io/config.mirror for  by pods/a/mirror <- persistentvolumeclaims/a/c <- \
                persistentvolumes/v <- secrets/b/deep";
    assert_eq!(of("get secrets b deep"), [deep]);
    // The pods themselves: a mirror pod is the node's own, and one that waits is nobody's.
    // Every node may create and delete pods by any name (NA-100).
    let verb = "verb: create|delete for get";
    assert_eq!(of("get pods a waiting"), [verb, "node:  for n1 by pods/a/waiting"]);
    assert_eq!(of("get pods a elsewhere"), [verb, "node: n2 for n1"]);
}

#[test]
fn verb_name_subresource_and_namespace_are_named_as_the_node_rules_want_them_au_101() {
    let objects = [pod("a", "x", "n1", false, &["s", "t"], &["c"]), volume("v", ("a", "c"), ("a", "s"))];
    for (question, expected) in [
        // NA-75 to NA-78
        ("update secrets a s", &["verb: get|list|watch for update"][..]),
        ("list secrets a -", &["name: s|t for "]),
        ("list secrets - s", &["namespace: a for "]),
        ("get secrets/status a s", &["subresource:  for status"]),
        // NA-79 to NA-82
        ("list persistentvolumeclaims a c", &["verb: get for list"]),
        (
            "get persistentvolumeclaims/status a c",
            &["subresource:  for status", "verb: patch|update for get"],
        ),
        ("get persistentvolumes a v", &["namespace:  for a"]),
        // NA-88, NA-89
        (
            "get leases.coordination.k8s.io kube-node-lease n2",
            &["name: n1 for n2 typing error", "verb: create for get"],
        ),
        ("get leases.coordination.k8s.io a n1", &["namespace: kube-node-lease for a"]),
        ("list csinodes.storage.k8s.io - n1", &["verb: create|delete|get|patch|update for list"]),
        // NA-94 to NA-97
        ("get nodes - other", &["name: n1 for other", "verb: create|patch|update for get"]),
        ("delete nodes - n1", &["verb: create|get|list|patch|update|watch for delete"]),
        ("get nodes/proxy - n1", &["subresource:  for proxy"]),
        // NA-98 to NA-103
        ("update pods a x", &["subresource: status for ", "verb: create|delete|get|list|watch for update"]),
        ("create pods/exec a x", &["subresource: |eviction for exec"]),
        // NA-104
        ("list endpoints a x", &["verb: get for list"]),
        ("get deployments.apps a x", &[]),
    ] {
        assert_eq!(misses(&case(&objects, node("n1"), question)), expected, "{question}");
    }
}

#[test]
fn who_has_the_name_of_a_node_alone_lacks_the_group_na_3() {
    let objects = [pod("a", "x", "n1", false, &["s"], &[])];
    let of = |user: User, question: &str| misses(&case(&objects, user, question));
    let expected = ["subject: system:nodes for "];
    assert_eq!(of(named("system:node:n1"), "get secrets a s"), expected);
    assert_eq!(of(named("system:node:n2"), "get secrets a s"), [""; 0]);
    assert_eq!(of(named("n1"), "get secrets a s"), [""; 0]);
    assert_eq!(of(node(""), "get secrets a s"), [""; 0]);
}

const NAMES: [&str; 2] = ["s", "t"];

fn any_object() -> impl Strategy<Value = Value> {
    let namespace = || select(&["a", "b"][..]);
    let names = |of: &'static [&'static str]| prop::sample::subsequence(of, 0..=2);
    let pods = (
        namespace(),
        select(&NAMES[..]),
        select(&["n1", "n2", ""][..]),
        any::<bool>(),
        names(&NAMES),
        names(&["c", "d"]),
    );
    let pods = pods.prop_map(|(namespace, name, on, is_mirror, secrets, claims)| {
        pod(namespace, name, on, is_mirror, &secrets, &claims)
    });
    let volumes =
        (select(&["v", "w"][..]), namespace(), select(&["c", "d"][..]), namespace(), select(&NAMES[..]));
    let volumes = volumes.prop_map(|(name, at, claim, of, secret)| volume(name, (at, claim), (of, secret)));
    prop_oneof![2 => pods, 1 => volumes]
}

/// Every path by which a node reaches an object, in order (NA-64, NA-65, AU-65): by going through all pods and volumes. Each is
/// with the objects that it depends on.
fn paths(objects: &[Value], on: &str, request: &Request) -> Vec<(String, Vec<Value>)> {
    let Request { resource, namespace, name, .. } = request;
    if name.is_empty() {
        return Vec::new();
    }
    let mut found = Vec::new();
    let pods = objects.iter().filter(|object| object["kind"] == "Pod" && object["spec"]["nodeName"] == on);
    for pod in pods {
        let at = text(pod, "/metadata/namespace");
        let step = format!("pods/{at}/{}", text(pod, "/metadata/name"));
        if resource == "pods" && step == format!("pods/{namespace}/{name}") {
            found.push((vec![step.clone()], vec![pod.clone()]));
        }
        if text(pod, "/metadata/annotations/kubernetes.io~1config.mirror") == "x" {
            continue;
        }
        for source in pod["spec"]["volumes"].as_array().unwrap() {
            let secret = text(source, "/secret/secretName");
            if resource == "secrets" && at == namespace && secret == name {
                found.push((vec![step.clone(), format!("secrets/{at}/{name}")], vec![pod.clone()]));
            }
            let claim = text(source, "/persistentVolumeClaim/claimName");
            let claim_step = format!("persistentvolumeclaims/{at}/{claim}");
            if resource == "persistentvolumeclaims" && claim == name && at == namespace {
                found.push((vec![step.clone(), claim_step.clone()], vec![pod.clone()]));
            }
            let of_claim = objects.iter().filter(|volume| {
                volume["kind"] == "PersistentVolume"
                    && text(volume, "/spec/claimRef/namespace") == at
                    && text(volume, "/spec/claimRef/name") == claim
            });
            for volume in of_claim {
                let volume_name = text(volume, "/metadata/name");
                let mut steps =
                    vec![step.clone(), claim_step.clone(), format!("persistentvolumes/{volume_name}")];
                let secret = ["namespace", "name"]
                    .map(|field| text(volume, &format!("/spec/csi/nodeStageSecretRef/{field}")));
                let is_volume =
                    resource == "persistentvolumes" && namespace.is_empty() && volume_name == name;
                let is_secret = resource == "secrets" && secret == [namespace.as_str(), name.as_str()];
                if is_secret {
                    steps.push(format!("secrets/{namespace}/{name}"));
                }
                if is_secret || is_volume {
                    found.push((steps, vec![pod.clone(), volume.clone()]));
                }
            }
        }
    }
    found.sort_by_key(|(steps, _)| (steps.len(), steps.iter().rev().cloned().collect::<Vec<_>>()));
    let shown = |(steps, objects): (Vec<String>, Vec<Value>)| {
        (format!("Node: nodes/{on} <- {}", steps.join(" <- ")), objects)
    };
    found.into_iter().map(shown).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(96) })]

    #[test]
    fn paths_are_those_of_brute_force_and_each_is_enough_alone_au_100(objects in prop::collection::vec(any_object(), 0..10)) {
        let key = |object: &Value| ["/kind", "/metadata/namespace", "/metadata/name"].map(|path| text(object, path).to_owned());
        let by_key: BTreeMap<_, Value> = objects.into_iter().map(|object| (key(&object), object)).collect();
        let objects: Vec<Value> = by_key.into_values().collect();
        let state = State::new(modes(&[Mode::Node]), &objects);
        let mut questions = Vec::new();
        for (kind, namespaces, names) in [
            ("secrets", &["a", "b", "-"][..], &["s", "t", "-", "n1"][..]),
            ("pods", &["a", "b"], &["s", "t", "-"]),
            ("persistentvolumeclaims", &["a", "b"], &["c", "d"]),
            ("persistentvolumes", &["-", "a"], &["v", "w", "-"]),
        ] {
            for namespace in namespaces {
                for name in names {
                    questions.extend(["get", "list", "delete"].map(|verb| format!("{verb} {kind} {namespace} {name}")));
                }
            }
        }
        for question in questions {
            for on in ["n1", "n2", "n3"] {
                let (user, request) = (node(on), Request::of(&question));
                let answer = state.explain(&user, &request, ALL);
                if answer.answer == Verdict::Yes {
                    let ways: Vec<String> = answer.ways.listed.iter().map(|listed| listed.way.to_string()).collect();
                    if ways == ["Node: no object is needed"] {
                        prop_assert!(State::new(modes(&[Mode::Node]), []).allows(&user, &request), "{}", question);
                        continue;
                    }
                    let expected = paths(&objects, on, &request);
                    prop_assert_eq!(&ways, &expected.iter().map(|(path, _)| path.clone()).collect::<Vec<_>>(), "{}", question);
                    for (path, needed) in expected {
                        let alone = State::new(modes(&[Mode::Node]), &needed);
                        prop_assert!(alone.allows(&user, &request), "{} {}", question, path);
                    }
                    continue;
                }
                let case = Case { objects: objects.clone(), user, request };
                for miss in &answer.misses.listed {
                    for fixed in case.fixed(miss) {
                        let state = State::new(modes(&[Mode::Node]), &fixed.objects);
                        prop_assert!(state.allows(&fixed.user, &fixed.request), "{} {:?} {:?}", question, miss, fixed);
                    }
                }
                // No pod that waits, and no mirror pod, is left out: bound, or a common pod, it would be enough.
                if case.request.verb == "get" {
                    let document = serde_json::to_value(&answer.misses.listed).unwrap();
                    let count = |factor: &str| {
                        let misses = document.as_array().unwrap().iter();
                        misses.filter(|miss| miss["factor"] == factor && miss.get("path").is_some()).count()
                    };
                    let waiting = hidden(&objects, |pod| text(pod, "/spec/nodeName").is_empty());
                    prop_assert_eq!(count("node"), paths(&waiting, "", &case.request).len(), "{}", question);
                    let mirrors = hidden(&objects, |pod| pod["metadata"].get("annotations").is_some());
                    prop_assert_eq!(count("annotation"), paths(&mirrors, on, &case.request).len(), "{}", question);
                }
            }
        }
    }
}

/// The volumes, and these pods without annotations.
fn hidden(objects: &[Value], is_kept: impl Fn(&Value) -> bool) -> Vec<Value> {
    let kept = objects.iter().filter(|object| object["kind"] != "Pod" || is_kept(object));
    let mut kept: Vec<Value> = kept.cloned().collect();
    for object in &mut kept {
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("annotations");
        }
    }
    kept
}
