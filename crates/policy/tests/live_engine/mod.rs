//! An engine that follows changes of objects decides at all times as one that is built from the current objects.
#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a test stops where its own set-up fails")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use portcullis_policy::chain::{Chain, Mode};
use portcullis_policy::engine::{Builder, Engine, EngineConfig, LiveEngine};
use portcullis_policy::objects::{Kind, Object};
use portcullis_policy::rbac::RbacIndex;
use portcullis_policy::rbac::escalation::{RbacObject, RbacWrite};
use portcullis_policy::restriction::{AdmissionRequest, Operation};
use portcullis_policy::rules::RuleListing;
use portcullis_policy::{Attributes, ResourceRequest, User};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

fn config() -> EngineConfig {
    EngineConfig {
        modes: vec![Mode::Node, Mode::Rbac],
        masters_first: true,
        default_policy: true,
        admission: true,
        ..EngineConfig::default()
    }
}

/// Objects in the words of the requests below, each of several forms.
fn object(kind: Kind, namespace: &str, name: &str, form: u8) -> Value {
    let mut metadata = json!({"name": name, "uid": format!("{kind}-{name}-{form}")});
    if kind.is_namespaced() {
        metadata["namespace"] = json!(namespace);
    }
    let form = usize::from(form);
    let pick = |of: [&'static str; 4]| of.into_iter().cycle().nth(form).unwrap();
    let rule =
        json!({"verbs": ["get"], "apiGroups": [""], "resources": [pick(["pods", "nodes", "secrets", "*"])]});
    let subject = match pick(["User", "Group", "ServiceAccount", "User"]) {
        "ServiceAccount" => json!({"kind": "ServiceAccount", "name": "x", "namespace": "a"}),
        "Group" => json!({"kind": "Group", "name": "g"}),
        _ => json!({"kind": "User", "name": "u"}),
    };
    let role = pick(["x", "y", "view", "missing"]);
    match kind {
        Kind::ClusterRole => {
            let label = pick(["one", "two", "three", "none"]);
            metadata["labels"] = json!({"feeds": label});
            let mut role = json!({"metadata": metadata, "rules": [rule]});
            if name != "x" {
                // The roles select each other in chains and circles, and one selector means nothing.
                let operator = pick(["In", "In", "DoesNotExist", "Between"]);
                let values = if operator == "DoesNotExist" {
                    json!([])
                } else {
                    json!([pick(["three", "one", "two", "two"])])
                };
                let selector =
                    json!({"matchExpressions": [{"key": "feeds", "operator": operator, "values": values}]});
                role["aggregationRule"] = json!({"clusterRoleSelectors": [selector]});
            }
            role
        }
        Kind::Role => json!({"metadata": metadata, "rules": [rule]}),
        Kind::ClusterRoleBinding => json!({"metadata": metadata, "subjects": [subject],
            "roleRef": {"kind": "ClusterRole", "name": role}}),
        Kind::RoleBinding => json!({"metadata": metadata, "subjects": [subject],
            "roleRef": {"kind": pick(["Role", "ClusterRole", "Role", "Role"]), "name": role}}),
        Kind::Pod => json!({"metadata": metadata, "spec": {"nodeName": pick(["n", "m", "", "n"]),
            "serviceAccountName": "x", "volumes": [{"name": "v", "secret": {"secretName": role}},
            {"name": "c", "persistentVolumeClaim": {"claimName": "x"}}]}}),
        Kind::PersistentVolume => json!({"metadata": metadata, "spec": {
            "claimRef": {"namespace": "a", "name": pick(["x", "y", "x", "x"])},
            "csi": {"driver": "d", "nodeStageSecretRef": {"namespace": "b", "name": role}}}}),
        _ => json!({"metadata": metadata}),
    }
}

const KINDS: [Kind; 8] = [
    Kind::ClusterRole,
    Kind::Role,
    Kind::ClusterRoleBinding,
    Kind::RoleBinding,
    Kind::Pod,
    Kind::PersistentVolume,
    Kind::Node,
    Kind::ServiceAccount,
];

type Key = (Kind, &'static str, &'static str);

fn key() -> impl Strategy<Value = Key> {
    // `view` and `cluster-admin` are names of the default policy as well.
    (select(&KINDS[..]), select(&["a", "b"][..]), select(&["x", "y", "z", "view", "cluster-admin"][..]))
        .prop_map(|(kind, namespace, name)| (kind, if kind.is_namespaced() { namespace } else { "" }, name))
}

fn engine(objects: &BTreeMap<Key, String>) -> Engine {
    let mut builder = Builder::new(config()).unwrap();
    for ((kind, ..), text) in objects {
        builder.take(Object::parse(*kind, text).unwrap()).unwrap();
    }
    builder.finish()
}

fn users() -> Vec<User> {
    vec![
        User::new("u", ["g"]),
        User::new("v", ["g"]),
        User::new("system:serviceaccount:a:x", ["none"]),
        User::new("system:node:n", ["system:nodes"]),
        User::new("system:node:m", ["system:nodes"]),
        User::new("root", ["system:masters"]),
    ]
}

fn requests() -> Vec<ResourceRequest<'static>> {
    let mut requests = Vec::new();
    for namespace in ["", "a", "b"] {
        for resource in ["pods", "nodes", "secrets", "persistentvolumeclaims", "persistentvolumes"] {
            for name in ["x", "y", "view"] {
                requests.push(ResourceRequest { namespace, resource, name, ..ResourceRequest::default() });
            }
        }
    }
    requests
}

/// The rules, without order and each once.
fn listed(listing: RuleListing) -> Vec<String> {
    let mut rules: Vec<String> = listing.resource_rules.iter().map(|rule| format!("{rule:?}")).collect();
    rules.extend(listing.non_resource_rules.iter().map(|rule| format!("{rule:?}")));
    let mut errors = listing.errors;
    errors.sort();
    rules.extend(errors);
    rules.sort();
    rules
}

fn reasons(text: &str) -> Vec<&str> {
    let mut reasons: Vec<&str> =
        text.trim_start_matches("RBAC: ").trim_matches(['[', ']']).split(", ").collect();
    reasons.sort_unstable();
    reasons
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_live_engine_answers_as_one_built_from_what_remains_rb_79(
        events in prop::collection::vec((key(), prop::option::weighted(0.7, 0..7_u8)), 0..40),
    ) {
        let live = LiveEngine::new(&config()).unwrap();
        live.mark_complete();
        let mut objects = BTreeMap::new();
        for ((kind, namespace, name), form) in events {
            match form {
                Some(form @ 0..4) => {
                    let text = object(kind, namespace, name, form).to_string();
                    live.apply_json(kind, namespace, name, &text).unwrap();
                    objects.insert((kind, namespace, name), text);
                }
                // What cannot be the object of this place ends what was there.
                Some(form) => {
                    let text = match form {
                        4 => object(kind, namespace, "other", 0).to_string(),
                        5 => object(kind, namespace, name, 0).to_string() + "}",
                        _ => json!({"metadata": {"name": name, "namespace": "other"}}).to_string(),
                    };
                    prop_assert!(live.apply_json(kind, namespace, name, &text).is_err(), "{}", text);
                    objects.remove(&(kind, namespace, name));
                }
                None => {
                    live.delete(kind, namespace, name);
                    objects.remove(&(kind, namespace, name));
                }
            }
        }
        let built = engine(&objects);
        for user in users() {
            for request in requests() {
                let attributes = Attributes { user: &user, verb: "get", path: "", resource: Some(request) };
                let (ours, theirs) = (live.authorize(&attributes), built.authorize(&attributes));
                prop_assert_eq!(ours.is_allow(), theirs.is_allow(), "{:?}", attributes);
                if !ours.is_allow() {
                    let (ours, theirs) = (ours.reason(&attributes), theirs.reason(&attributes));
                    prop_assert_eq!(reasons(&ours), reasons(&theirs), "{:?}", attributes);
                }
                prop_assert_eq!(live.explain(&attributes).allowed, ours.is_allow());
            }
            for namespace in ["", "a", "b"] {
                let theirs = listed(built.rules_for(&user, namespace));
                prop_assert_eq!(listed(live.rules_for(&user, namespace)), theirs);
            }
        }
        // What a node may write depends on the objects by NR-21 and NR-61.
        let node = User::new("system:node:n", ["system:nodes"]);
        for namespace in ["a", "b"] {
            for name in ["x", "y", "z"] {
                let request = AdmissionRequest {
                    operation: Operation::Delete,
                    group: "",
                    resource: "pods",
                    subresource: "",
                    namespace,
                    name,
                    user: &node,
                    object: None,
                    old_object: None,
                };
                let theirs = built.admit(&request).map_err(|e| e.to_string());
                let ours = live.admit(&request).map_err(|e| e.to_string());
                prop_assert_eq!(ours, theirs);
            }
        }
        // Who may bind what (RB-60).
        let theirs = live_index_of(&objects);
        for user in users() {
            for form in 0..4 {
                let text = object(Kind::ClusterRoleBinding, "", "new", form).to_string();
                let new = Object::parse(Kind::ClusterRoleBinding, &text).unwrap();
                let Object::ClusterRoleBinding(binding) = &new else { continue };
                let write = RbacWrite {
                    user: &user,
                    namespace: "",
                    name: "",
                    object: RbacObject::ClusterRoleBinding(binding),
                    only_garbage_collection: false,
                };
                let may = |index: &RbacIndex, chain: &Chain| match write.question(index) {
                    Ok(Some(asked)) if !chain.decide(&asked).is_allow() => write.check_held(index).is_ok(),
                    Ok(_) => true,
                    Err(_) => false,
                };
                // Nobody holds the index while the chain is asked.
                let ours = match write.question(&live.index()) {
                    Ok(Some(asked)) => live.authorize(&asked).is_allow() || write.check_held(&live.index()).is_ok(),
                    Ok(None) => true,
                    Err(_) => false,
                };
                prop_assert_eq!(ours, may(&theirs.index(), built.chain()));
            }
        }
    }
}

/// A live engine that has seen no change, only the objects.
fn live_index_of(objects: &BTreeMap<Key, String>) -> LiveEngine {
    let live = LiveEngine::new(&config()).unwrap();
    for ((kind, ..), text) in objects {
        live.apply(Object::parse(*kind, text).unwrap()).unwrap();
    }
    live
}

#[test]
fn a_changed_feeder_changes_the_roles_that_aggregate_it_and_says_so_rb_79() {
    let live = LiveEngine::new(&EngineConfig { default_policy: false, ..config() }).unwrap();
    let apply = |kind, value: Value| {
        let text = value.to_string();
        live.apply(Object::parse(kind, &text).unwrap()).unwrap()
    };
    let rule = |resource: &str| json!({"verbs": ["get"], "apiGroups": [""], "resources": [resource]});
    let selector = json!({"clusterRoleSelectors": [{"matchLabels": {"to": "all"}}]});
    let feeder = |label: &str, resource| json!({"metadata": {"name": "feeder", "labels": {"to": label}}, "rules": [rule(resource)]});
    assert_eq!(
        apply(Kind::ClusterRole, json!({"metadata": {"name": "all"}, "aggregationRule": selector})),
        []
    );
    apply(
        Kind::ClusterRoleBinding,
        json!({"metadata": {"name": "b"}, "subjects": [{"kind": "User", "name": "u"}],
               "roleRef": {"kind": "ClusterRole", "name": "all"}}),
    );
    let user = User::new("u", ["g"]);
    let may_get = |resource| {
        let resource = Some(ResourceRequest { resource, ..ResourceRequest::default() });
        live.authorize(&Attributes { user: &user, verb: "get", path: "", resource }).is_allow()
    };
    let due = apply(Kind::ClusterRole, feeder("all", "pods"));
    assert_eq!(due.len(), 1);
    assert!(
        due.iter().all(|due| due.name == "all" && due.rules.iter().all(|rule| rule.resources == ["pods"]))
    );
    assert!(may_get("pods") && !may_get("nodes"));
    apply(Kind::ClusterRole, feeder("all", "nodes"));
    assert!(!may_get("pods") && may_get("nodes"));
    // Written back, nothing is due any more.
    let written = json!({"metadata": {"name": "all"}, "aggregationRule": selector, "rules": [rule("nodes")]});
    assert_eq!(apply(Kind::ClusterRole, written), []);
    // A label gone, a feeder gone: what was written is still in force, and is due to be taken away.
    let due = apply(Kind::ClusterRole, feeder("none", "nodes"));
    assert_eq!(due.iter().map(|due| (due.name.as_str(), due.rules.len())).collect::<Vec<_>>(), [("all", 0)]);
    assert!(may_get("nodes"));
    apply(Kind::ClusterRole, json!({"metadata": {"name": "all"}, "aggregationRule": selector}));
    assert!(!may_get("nodes"));
    assert_eq!(live.delete(Kind::ClusterRole, "", "feeder"), []);
}

#[test]
fn nothing_is_reached_before_the_store_was_read_once_na_13() {
    let live = LiveEngine::new(&config()).unwrap();
    let text = object(Kind::Pod, "a", "p", 0).to_string();
    live.apply(Object::parse(Kind::Pod, &text).unwrap()).unwrap();
    let user = User::new("system:node:n", ["system:nodes"]);
    let resource =
        ResourceRequest { namespace: "a", resource: "secrets", name: "x", ..ResourceRequest::default() };
    let attributes = Attributes { user: &user, verb: "get", path: "", resource: Some(resource) };
    assert!(!live.authorize(&attributes).is_allow());
    live.mark_complete();
    assert!(live.authorize(&attributes).is_allow());
}

#[test]
#[expect(clippy::disallowed_methods, reason = "objects change while others decide")]
fn what_stays_allowed_is_never_refused_while_other_objects_change() {
    let live = LiveEngine::new(&config()).unwrap();
    let user = User::new("u", ["g"]);
    let apply = |kind, name, form| {
        let text = object(kind, "a", name, form).to_string();
        live.apply(Object::parse(kind, &text).unwrap()).unwrap();
    };
    // Role `x` of form 3 allows everything in group "", and binding form 0 gives it to user `u`.
    apply(Kind::ClusterRole, "x", 3);
    apply(Kind::ClusterRoleBinding, "kept", 0);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 0..300_u32 {
                let form = u8::try_from(turn % 4).unwrap();
                apply(Kind::ClusterRoleBinding, "other", form);
                apply(Kind::ClusterRole, "y", form);
                live.delete(Kind::ClusterRole, "", "y");
                live.delete(Kind::ClusterRoleBinding, "", "other");
            }
            stop.store(true, Ordering::Relaxed);
        });
        let resource = ResourceRequest { resource: "pods", ..ResourceRequest::default() };
        let attributes = Attributes { user: &user, verb: "get", path: "", resource: Some(resource) };
        while !stop.load(Ordering::Relaxed) {
            assert!(live.authorize(&attributes).is_allow());
        }
    });
}

#[test]
fn the_place_of_a_webhook_denies_until_somebody_asks_it() {
    use portcullis_policy::engine::EngineError;

    let config = |modes: &[Mode], webhooks| EngineConfig {
        modes: modes.to_vec(),
        webhooks,
        ..EngineConfig::default()
    };
    let user = User::new("jane", ["system:authenticated"]);
    let attributes = Attributes { user: &user, verb: "get", path: "/version", resource: None };
    let before = LiveEngine::new(&config(&[Mode::Webhook, Mode::AlwaysAllow], true)).unwrap();
    let denied = before.authorize(&attributes);
    assert!(denied.is_deny() && denied.by == Some(Mode::Webhook));
    let after = LiveEngine::new(&config(&[Mode::AlwaysAllow, Mode::Webhook], true)).unwrap();
    assert!(after.authorize(&attributes).is_allow());
    // AC-90: only this mode may be there twice, and only where somebody asks.
    assert!(LiveEngine::new(&config(&[Mode::Webhook, Mode::Rbac, Mode::Webhook], true)).is_ok());
    assert_eq!(config(&[Mode::Webhook], false).errors(), [EngineError::Webhook]);
    assert!(matches!(
        config(&[Mode::Rbac, Mode::Webhook, Mode::Rbac], true).errors().as_slice(),
        [EngineError::RepeatedMode(_)]
    ));
    let listing = before.chain().rules_for(&user, "default");
    assert!(listing.incomplete && listing.evaluation_error().is_some());
}
