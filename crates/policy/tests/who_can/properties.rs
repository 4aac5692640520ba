//! Who can is whom the chain allows it, asked one by one, over random states and requests (AU-162).

use std::collections::{BTreeMap, BTreeSet};

use portcullis_policy::abac::{AbacPolicyFile, Compatibility};
use portcullis_policy::engine::EngineConfig;
use portcullis_policy::{Attributes, Mode, ResourceRequest, User};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

use crate::who_can::support::{State, binding, cluster_binding, cluster_role, modes, role, with_names};

const NAMESPACES: [&str; 2] = ["a", "b"];
const NAMES: [&str; 3] = ["x", "y", "z"];

fn words(of: &'static [&'static str], at_most: usize) -> impl Strategy<Value = Vec<&'static str>> {
    subsequence(of, 0..=at_most)
}

fn rule() -> impl Strategy<Value = Value> {
    (
        words(&["*", "get", "list", "create"], 2),
        words(&["*", "", "apps"], 2),
        words(&["*", "pods", "pods/log", "*/log", "secrets", "nodes"], 3),
        words(&["", "x", "y"], 2),
        words(&["*", "/x", "/x/*"], 1),
    )
        .prop_map(|(verbs, groups, resources, names, urls)| {
            json!({
                "verbs": verbs, "apiGroups": groups, "resources": resources, "resourceNames": names,
                "nonResourceURLs": urls,
            })
        })
}

fn rules() -> impl Strategy<Value = Value> {
    prop::collection::vec(rule(), 0..3).prop_map(Value::from)
}

fn subjects() -> impl Strategy<Value = Value> {
    let subject = prop_oneof![
        select(vec!["", "u", "v", "system:serviceaccount:a:x", "system:serviceaccount:b", "system:node:n0"])
            .prop_map(|name| json!({"kind": "User", "name": name})),
        select(vec!["", "g", "h", "system:nodes", "system:masters", "system:authenticated"])
            .prop_map(|name| json!({"kind": "Group", "name": name})),
        (select(vec!["", "a", "b"]), select(NAMES.to_vec())).prop_map(
            |(namespace, name)| json!({"kind": "ServiceAccount", "namespace": namespace, "name": name})
        ),
        Just(json!({"kind": "Robot", "name": "u"})),
    ];
    prop::collection::vec(subject, 0..4).prop_map(Value::from)
}

fn pod() -> impl Strategy<Value = Value> {
    (
        select(NAMESPACES.to_vec()),
        select(NAMES.to_vec()),
        select(vec!["", "n0", "n1"]),
        select(NAMES.to_vec()),
        any::<bool>(),
    )
        .prop_map(|(namespace, name, node, secret, is_mirror)| {
            let annotations = if is_mirror { json!({"kubernetes.io/config.mirror": ""}) } else { json!({}) };
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"namespace": namespace, "name": name, "annotations": annotations},
                "spec": {"nodeName": node, "serviceAccountName": secret,
                    "volumes": [{"name": "v", "secret": {"secretName": secret}}]},
            })
        })
}

fn object() -> impl Strategy<Value = Value> {
    let name = || select(NAMES.to_vec());
    let namespace = || select(NAMESPACES.to_vec());
    prop_oneof![
        2 => (name(), rules()).prop_map(|(name, rules)| cluster_role(name, rules)),
        2 => (namespace(), name(), rules()).prop_map(|(namespace, name, rules)| role(namespace, name, rules)),
        3 => (name(), name(), subjects()).prop_map(|(name, role, subjects)| cluster_binding(name, role, subjects)),
        3 => (namespace(), name(), select(vec!["Role", "ClusterRole", "Thing"]), name(), subjects()).prop_map(
            |(namespace, name, kind, role, subjects)| binding(namespace, name, &format!("{kind}/{role}"), subjects)
        ),
        2 => pod(),
        1 => select(vec!["n0", "n2"])
            .prop_map(|name| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})),
    ]
}

/// Lines of a policy file, each for one user, for one group, or for both.
fn lines() -> impl Strategy<Value = String> {
    let line = (
        select(vec!["", "u", "*"]),
        select(vec!["", "g", "*"]),
        any::<bool>(),
        select(vec!["*", "pods", ""]),
    )
        .prop_map(|(user, group, readonly, resource)| {
            let spec = json!({
                "user": user, "group": group, "readonly": readonly, "resource": resource, "apiGroup": "*",
                "namespace": "*", "nonResourcePath": "/x*",
            });
            let version = "abac.authorization.kubernetes.io/v1beta1";
            json!({"apiVersion": version, "kind": "Policy", "spec": spec}).to_string() + "\n"
        });
    prop::collection::vec(line, 0..4).prop_map(|lines| lines.concat())
}

fn configuration() -> impl Strategy<Value = EngineConfig> {
    let order = subsequence(vec![Mode::Abac, Mode::AlwaysDeny, Mode::Node, Mode::Rbac], 1..=4).prop_shuffle();
    (order, lines(), select(vec!["", "", "root"])).prop_map(|(order, lines, super_user)| {
        let file = AbacPolicyFile::parse("policy", lines.as_bytes(), Compatibility::Strict, |_| {
            Err("no line is YAML".to_owned())
        });
        let file = file.unwrap();
        let abac = order.contains(&Mode::Abac).then(|| file.into());
        EngineConfig { abac, super_user: super_user.to_owned(), ..modes(&order) }
    })
}

/// Every subject that is named somewhere, and some that are not.
fn named() -> Vec<(String, User)> {
    let mut named = Vec::new();
    for name in ["u", "v", "root", "*", "system:serviceaccount:b", "system:node:n0"] {
        named.push((format!("user/{name}"), User::new(name, Vec::<String>::new())));
    }
    for name in ["", "g", "h", "*", "system:nodes", "system:authenticated"] {
        named.push((format!("group/{name}"), User::new("somebody else", [name])));
    }
    for namespace in NAMESPACES {
        for name in NAMES {
            let user = User::new(format!("system:serviceaccount:{namespace}:{name}"), Vec::<String>::new());
            named.push((format!("serviceaccount/{namespace}/{name}"), user));
        }
    }
    named
}

/// The nodes of the states, and some that the states do not name.
const NODES: [&str; 5] = ["n0", "n1", "n2", "x", "unheard-of"];

fn requests() -> Vec<(&'static str, &'static str, Option<ResourceRequest<'static>>)> {
    let mut requests = Vec::new();
    for verb in ["get", "list", "create"] {
        requests.extend(["/x", "/x/y", "/z"].map(|path| (verb, path, None)));
        for (group, resource, subresource) in [
            ("", "pods", ""),
            ("", "pods", "log"),
            ("apps", "pods", ""),
            ("", "secrets", ""),
            ("", "nodes", ""),
            ("", "serviceaccounts", "token"),
            ("", "services", ""),
            ("", "events", ""),
        ] {
            for namespace in ["", "a"] {
                for name in ["", "x", "n0"] {
                    let request = ResourceRequest {
                        namespace,
                        group,
                        resource,
                        subresource,
                        name,
                        ..ResourceRequest::default()
                    };
                    requests.push((verb, "", Some(request)));
                }
            }
        }
    }
    requests
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(96) })]

    #[test]
    fn who_can_is_whom_the_chain_allows_it_asked_alone_au_162(
        objects in prop::collection::vec(object(), 0..24),
        config in configuration(),
    ) {
        // Of two objects of one name the last one counts.
        let key = |object: &Value| {
            let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
            (text("/kind"), text("/metadata/namespace"), text("/metadata/name"))
        };
        let objects: BTreeMap<_, Value> = objects.into_iter().map(|object| (key(&object), object)).collect();
        let has_node = config.modes.contains(&Mode::Node);
        let state = State::new(config, objects.values());
        let nodes = State::new(modes(&[Mode::Node]), objects.values());
        let (who_can, chain) = (state.who_can(), state.engine.chain());
        for (verb, path, resource) in requests() {
            let allows = |user: &User| chain.decide(&Attributes { user, verb, path, resource }).is_allow();
            let mut expected: BTreeSet<String> =
                named().into_iter().filter(|(_, user)| allows(user)).map(|(name, _)| name).collect();
            expected.insert("group/system:masters".to_owned());
            // A node is listed if mode Node allows it; all of them are one group if it allows it to any.
            let is_node_allowed = |name: &str| {
                let user = User::new(format!("system:node:{name}"), ["system:nodes"]);
                nodes.engine.chain().decide(&Attributes { user: &user, verb, path, resource }).is_allow()
            };
            if has_node && is_node_allowed("unheard-of") {
                expected.insert("group/system:nodes".to_owned());
            } else if has_node {
                expected.extend(NODES.iter().filter(|name| is_node_allowed(name)).map(|name| format!("node/{name}")));
            }
            let nobody = User::default();
            let lists = who_can.ask(&Attributes { user: &nobody, verb, path, resource }, false).lists;
            let found: BTreeSet<String> = lists.subjects.iter().map(|listed| listed.subject.to_string()).collect();
            prop_assert_eq!(&found, &expected, "{} {} {:?}", verb, path, resource);
            prop_assert!(lists.subjects.iter().all(|listed| !listed.through.is_empty()));

            // AU-94: who is limited cannot, and could with each of the names that are listed.
            let Some(request) = resource.filter(|request| request.name.is_empty()) else {
                prop_assert!(lists.limited.is_empty());
                continue;
            };
            let mut limited = BTreeMap::new();
            // Group system:nodes may be listed already, because every node can.
            let others = named().into_iter().filter(|(name, user)| !found.contains(name) && !allows(user));
            for (name, user) in others {
                let could = |name: &&&str| {
                    let resource = Some(ResourceRequest { name, ..request });
                    chain.decide(&Attributes { user: &user, verb, path, resource }).is_allow()
                };
                let names: Vec<String> = ["x", "y"].iter().filter(could).map(|name| (*name).to_owned()).collect();
                if !names.is_empty() {
                    limited.insert(name, names);
                }
            }
            prop_assert_eq!(with_names(&lists.limited), limited, "{} {:?}", verb, request);
        }
    }
}
