//! Reconciliation at start restores the default policy of Kubernetes 1.36, and removes nothing that others have
//! written.
#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a test stops where its own set-up fails")]

use std::collections::BTreeMap;

use portcullis_policy::FeatureGates;
use portcullis_policy::objects::Kind;
use portcullis_policy::objects::rbac::{Binding, PolicyRule, Role};
use portcullis_policy::rbac::reconcile::{Action, Map, Plan, plan};
use portcullis_policy::rbac::{ClusterRoles, covers};
use portcullis_testkit::recorded;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

/// A store of roles and bindings.
#[derive(Clone, Debug, Default, PartialEq)]
struct Store(BTreeMap<(Kind, String, String), Map>);

impl Store {
    fn plan(&self) -> Plan {
        plan(FeatureGates::default(), self.0.iter().map(|((kind, ..), object)| (*kind, object))).unwrap()
    }

    /// Does what the plan says; an action that does not fit what is there is a fault.
    fn carry_out(&mut self, plan: &Plan) {
        for change in &plan.changes {
            let key = (change.kind, change.namespace.clone(), change.name.clone());
            let old = self.0.insert(key, change.object.clone());
            assert_eq!(old.is_none(), change.action == Action::Create, "{change:?}");
        }
    }

    /// A cluster after its first start.
    fn started() -> Self {
        let mut store = Self::default();
        store.carry_out(&store.plan());
        store
    }

    fn object(&mut self, kind: Kind, name: &str) -> &mut Map {
        self.0.get_mut(&(kind, String::new(), name.to_owned())).unwrap()
    }
}

fn annotate(object: &mut Map, key: &str, value: &str) {
    object["metadata"]["annotations"][key] = json!(value);
}

fn role(object: &Map) -> Role {
    serde_json::from_value(Value::Object(object.clone())).unwrap()
}

fn binding(object: &Map) -> Binding {
    serde_json::from_value(Value::Object(object.clone())).unwrap()
}

const AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

#[test]
fn a_new_cluster_gets_the_recorded_policy_rb_80_to_rb_86_rb_102() {
    let mut store = Store::started();
    assert_eq!(store.0.len(), 31 + 12 + 38 + 38 + 7 + 7);
    let mut cluster_roles = ClusterRoles::default();
    let mut due = BTreeMap::new();
    for ((kind, ..), object) in &store.0 {
        if *kind == Kind::ClusterRole {
            due.extend(cluster_roles.apply(role(object)).due.into_iter().map(|due| (due.name, due.rules)));
        }
    }
    for (name, rules) in due {
        store
            .object(Kind::ClusterRole, &name)
            .insert("rules".to_owned(), serde_json::to_value(rules).unwrap());
    }
    let mut compared = 0;
    for line in recorded::lines("http/rbac-default-policy.jsonl") {
        let body = &line["expect"]["body"];
        let kind = Kind::of(body["apiVersion"].as_str().unwrap_or(""), body["kind"].as_str().unwrap_or(""));
        // Namespaces are no part of the policy.
        let Some(kind) = kind.filter(|kind| *kind != Kind::Namespace) else { continue };
        let text = |key: &str| body["metadata"][key].as_str().unwrap_or_default().to_owned();
        let ours = &store.0[&(kind, text("namespace"), text("name"))];
        assert_eq!(&Value::Object(ours.clone()), body);
        compared += 1;
    }
    assert!(compared > 30, "{compared}");
    assert_eq!(
        Store::default().plan().namespaces().into_iter().collect::<Vec<_>>(),
        ["kube-public", "kube-system"]
    );
}

#[test]
fn a_protected_object_is_left_alone_and_said_to_lack_what_it_lacks_rb_106() {
    let mut store = Store::started();
    let dns = store.object(Kind::ClusterRole, "system:kube-dns");
    annotate(dns, AUTOUPDATE, "false");
    dns.insert("rules".to_owned(), json!([]));
    let bound = store.object(Kind::ClusterRoleBinding, "system:basic-user");
    annotate(bound, AUTOUPDATE, "false");
    bound["roleRef"]["name"] = json!("view");
    let plan = store.plan();
    assert_eq!(plan.changes, []);
    assert_eq!(plan.warnings.len(), 2);
    assert!(
        plan.warnings.iter().any(|w| w.contains("system:kube-dns") && w.contains("endpoints")),
        "{plan:?}"
    );
    // Any other value means reconcile.
    annotate(store.object(Kind::ClusterRole, "system:kube-dns"), AUTOUPDATE, "False");
    assert_eq!(store.plan().changes.len(), 1);
}

#[test]
fn missing_permissions_are_appended_one_by_one_rb_103() {
    let mut store = Store::started();
    let dns = store.object(Kind::ClusterRole, "system:kube-dns");
    let own = json!({"verbs": ["list"], "apiGroups": [""], "resources": ["endpoints", "secrets"]});
    dns.insert("rules".to_owned(), json!([own]));
    let plan = store.plan();
    let one =
        |resource: &str, verb: &str| json!({"verbs": [verb], "apiGroups": [""], "resources": [resource]});
    let expected = json!([own, one("endpoints", "watch"), one("services", "list"), one("services", "watch")]);
    assert_eq!(plan.changes[0].object["rules"], expected);
    assert_eq!((plan.changes.len(), plan.changes[0].action), (1, Action::Update));
}

#[test]
fn a_role_that_should_not_aggregate_stops_and_selectors_that_lack_are_added_rb_103() {
    let mut store = Store::started();
    let selector = json!({"matchLabels": {"a": "b"}});
    for name in ["system:kube-dns", "view"] {
        let rule = json!({"clusterRoleSelectors": [selector]});
        store.object(Kind::ClusterRole, name).insert("aggregationRule".to_owned(), rule);
    }
    store.carry_out(&store.plan());
    assert!(!store.object(Kind::ClusterRole, "system:kube-dns").contains_key("aggregationRule"));
    let own = json!({"matchLabels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}});
    let view = store.object(Kind::ClusterRole, "view");
    assert_eq!(view["aggregationRule"]["clusterRoleSelectors"], json!([selector, own]));
}

#[test]
fn a_binding_of_another_role_is_made_anew_without_its_subjects_rb_105() {
    let mut store = Store::started();
    let expected = store.object(Kind::ClusterRoleBinding, "system:basic-user").clone();
    let bound = store.object(Kind::ClusterRoleBinding, "system:basic-user");
    bound["roleRef"]["name"] = json!("view");
    bound["subjects"] = json!([{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "eve"}]);
    let plan = store.plan();
    assert_eq!((plan.changes.len(), plan.changes[0].action), (1, Action::Recreate));
    assert_eq!(plan.changes[0].object, expected);
}

#[test]
fn an_administrators_rules_move_to_the_feeding_role_when_aggregation_comes_rb_107() {
    let mut store = Store::started();
    let own = json!({"verbs": ["get"], "apiGroups": ["example.com"], "resources": ["widgets"]});
    for name in ["admin", "edit", "view"] {
        store.0.remove(&(Kind::ClusterRole, String::new(), format!("system:aggregate-to-{name}")));
        let role = store.object(Kind::ClusterRole, name);
        role.remove("aggregationRule");
        role.insert("rules".to_owned(), json!([own]));
        role["metadata"].as_object_mut().unwrap().insert("uid".to_owned(), json!("1"));
    }
    let mut half = store.clone();
    let rule = json!({"clusterRoleSelectors": [{}]});
    half.object(Kind::ClusterRole, "admin").insert("aggregationRule".to_owned(), rule);
    store.carry_out(&store.plan());
    for name in ["admin", "edit", "view"] {
        let feeder = store.object(Kind::ClusterRole, &format!("system:aggregate-to-{name}"));
        assert_eq!(feeder["rules"][0], own);
        assert_eq!(feeder["metadata"].get("uid"), None);
        assert_eq!(
            feeder["metadata"]["labels"][format!("rbac.authorization.k8s.io/aggregate-to-{name}")],
            "true"
        );
        assert!(store.object(Kind::ClusterRole, name).contains_key("aggregationRule"));
    }
    // One that aggregates already ends the migration.
    half.carry_out(&half.plan());
    assert_ne!(half.object(Kind::ClusterRole, "system:aggregate-to-view")["rules"][0], own);
}

#[test]
fn who_was_kept_from_discovery_is_kept_from_what_split_off_rb_108() {
    let mut store = Store::started();
    store.0.remove(&(Kind::ClusterRoleBinding, String::new(), "system:public-info-viewer".to_owned()));
    let discovery = store.object(Kind::ClusterRoleBinding, "system:discovery");
    annotate(discovery, AUTOUPDATE, "false");
    let subjects =
        json!([{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:authenticated"}]);
    discovery["subjects"] = subjects.clone();
    store.carry_out(&store.plan());
    let viewer = store.object(Kind::ClusterRoleBinding, "system:public-info-viewer");
    assert_eq!(viewer["subjects"], subjects);
    assert_eq!(viewer["metadata"]["annotations"][AUTOUPDATE], "false");
    assert_eq!(viewer["roleRef"]["name"], "system:public-info-viewer");
}

#[test]
fn what_cannot_be_read_is_left_as_it_is() {
    let mut store = Store::started();
    store.object(Kind::ClusterRole, "system:kube-dns").insert("rules".to_owned(), json!("none"));
    let plan = store.plan();
    assert_eq!((plan.changes.len(), plan.warnings.len()), (0, 1));
    assert!(plan.warnings[0].contains("system:kube-dns"));
}

/// What somebody may have done to an object since the first start.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Delete,
    DropList,
    DropItem(Index),
    AddItem,
    DropLabels,
    OtherLabelValue,
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        Just(Deed::Delete),
        Just(Deed::DropList),
        any::<Index>().prop_map(Deed::DropItem),
        Just(Deed::AddItem),
        Just(Deed::DropLabels),
        Just(Deed::OtherLabelValue),
    ]
}

fn extra_rule() -> PolicyRule {
    let one = |text: &str| vec![text.to_owned()];
    PolicyRule { verbs: one("x"), api_groups: one("x"), resources: one("x"), ..PolicyRule::default() }
}

fn extra_subject() -> Value {
    json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "extra"})
}

fn is_role(kind: Kind) -> bool {
    matches!(kind, Kind::Role | Kind::ClusterRole)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn once_reconciled_all_of_the_policy_holds_and_nothing_is_lost_rb_102_to_rb_104(
        deeds in prop::collection::vec((any::<Index>(), deed()), 0..30),
    ) {
        let started = Store::started();
        let mut store = started.clone();
        for (which, deed) in deeds {
            let Some(key) = store.0.keys().nth(which.index(store.0.len())).cloned() else { break };
            let list = if is_role(key.0) { "rules" } else { "subjects" };
            let object = store.0.get_mut(&key).unwrap();
            match deed {
                Deed::Delete => _ = store.0.remove(&key),
                Deed::DropList => _ = object.remove(list),
                Deed::DropItem(at) => {
                    let items = object.get_mut(list).and_then(Value::as_array_mut).filter(|l| !l.is_empty());
                    if let Some(items) = items {
                        items.remove(at.index(items.len()));
                    }
                }
                Deed::AddItem => {
                    let extra = if is_role(key.0) { json!(extra_rule()) } else { extra_subject() };
                    match object.get_mut(list).and_then(Value::as_array_mut) {
                        Some(items) => items.insert(0, extra),
                        None => _ = object.insert(list.to_owned(), json!([extra])),
                    }
                }
                Deed::DropLabels => _ = object["metadata"].as_object_mut().unwrap().remove("labels"),
                Deed::OtherLabelValue => {
                    object["metadata"]["labels"] = json!({"kubernetes.io/bootstrapping": "other"});
                }
            }
        }
        let before = store.clone();
        let plan = store.plan();
        prop_assert_eq!(&plan.warnings, &Vec::<String>::new());
        store.carry_out(&plan);
        let again = store.plan();
        prop_assert_eq!(&again.changes, &vec![]);
        for (key, expected) in &started.0 {
            let now = store.0.get(key).unwrap_or_else(|| panic!("{key:?}"));
            if is_role(key.0) {
                prop_assert!(covers(&role(now).rules, &role(expected).rules).0, "{:?}", key);
                if let Some(before) = before.0.get(key) {
                    prop_assert!(role(now).rules.starts_with(&role(before).rules), "{:?}", key);
                }
            } else {
                let subjects = binding(now).subjects;
                prop_assert!(binding(expected).subjects.iter().all(|s| subjects.contains(s)), "{:?}", key);
                if let Some(before) = before.0.get(key) {
                    prop_assert!(subjects.starts_with(&binding(before).subjects), "{:?}", key);
                }
            }
            let label = &now["metadata"]["labels"]["kubernetes.io/bootstrapping"];
            // The binding that split off from that of discovery begins with its labels (RB-108).
            let origin = || {
                let (kind, namespace, name) = key;
                let from = (*kind, namespace.clone(), "system:discovery".to_owned());
                let is_split = *kind == Kind::ClusterRoleBinding && name == "system:public-info-viewer";
                before.0.get(&from).filter(|_| is_split)
            };
            let kept = before.0.get(key).or_else(origin).map(|b| b["metadata"]["labels"]["kubernetes.io/bootstrapping"].clone());
            let value = kept.filter(|value| !value.is_null()).unwrap_or_else(|| json!("rbac-defaults"));
            prop_assert_eq!(label, &value);
        }
    }
}
