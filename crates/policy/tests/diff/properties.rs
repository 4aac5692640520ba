//! The differences are those that asking about every class finds, over random states and modes (AU-110, AU-111, AU-162).

use std::collections::BTreeMap;

use portcullis_policy::Mode;
use portcullis_policy::audit::diff::{CannotCompare, Wanted};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

use crate::diff::brute_force::{self, Words, classes, listed};
use crate::diff::support::{Side, all, between, binding, cluster_binding, cluster_role, role};

const NAMES: [&str; 3] = ["x", "y", "z"];

fn words(of: &'static [&'static str], at_most: usize) -> impl Strategy<Value = Vec<&'static str>> {
    subsequence(of, 0..=at_most)
}

fn rule() -> impl Strategy<Value = Value> {
    (
        words(&["*", "get", "list", "create"], 2),
        words(&["*", "", "apps"], 2),
        words(&["*", "pods", "pods/log", "*/log", "pods/*", "secrets", "a/b/c", ""], 3),
        words(&["", "x", "*"], 1),
        words(&["*", "/x", "/x/*", "/x/y**", "/"], 2),
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
    let users = vec![
        "u",
        "system:serviceaccount:a:x",
        "system:serviceaccount:b",
        "system:node:n0",
        "system:anonymous",
    ];
    let groups = vec![
        "g",
        "system:nodes",
        "system:masters",
        "system:authenticated",
        "system:unauthenticated",
        "system:serviceaccounts",
        "system:serviceaccounts:a",
    ];
    let subject = prop_oneof![
        select(users).prop_map(|name| json!({"kind": "User", "name": name})),
        select(groups).prop_map(|name| json!({"kind": "Group", "name": name})),
        (select(vec!["", "a", "b"]), select(NAMES.to_vec())).prop_map(
            |(namespace, name)| json!({"kind": "ServiceAccount", "namespace": namespace, "name": name})
        ),
        Just(json!({"kind": "Robot", "name": "u"})),
    ];
    prop::collection::vec(subject, 0..3).prop_map(Value::from)
}

fn object() -> impl Strategy<Value = Value> {
    let name = || select(NAMES.to_vec());
    let namespace = || select(vec!["a", "b"]);
    prop_oneof![
        2 => (name(), rules()).prop_map(|(name, rules)| cluster_role(name, rules)),
        2 => (namespace(), name(), rules()).prop_map(|(namespace, name, rules)| role(namespace, name, rules)),
        3 => (name(), name(), subjects()).prop_map(|(name, role, subjects)| cluster_binding(name, role, subjects)),
        3 => (namespace(), name(), select(vec!["Role", "ClusterRole", "Thing"]), name(), subjects()).prop_map(
            |(namespace, name, kind, role, subjects)| binding(namespace, name, &format!("{kind}/{role}"), subjects)
        ),
    ]
}

fn line() -> impl Strategy<Value = Value> {
    (
        select(vec!["", "u", "*", "system:serviceaccount:a:x"]),
        select(vec!["", "g", "system:authenticated"]),
        any::<bool>(),
        select(vec!["*", "pods", "", "pods/log"]),
        select(vec!["*", "a", "c", ""]),
        select(vec!["", "/x*", "/x", "*"]),
    )
        .prop_map(|(user, group, readonly, resource, namespace, path)| {
            json!({
                "user": user, "group": group, "readonly": readonly, "resource": resource, "apiGroup": "*",
                "namespace": namespace, "nonResourcePath": path,
            })
        })
}

fn key(object: &Value) -> (String, String, String) {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    (text("/kind"), text("/metadata/namespace"), text("/metadata/name"))
}

fn modes() -> impl Strategy<Value = Vec<Mode>> {
    let several = subsequence(vec![Mode::Abac, Mode::AlwaysDeny, Mode::Rbac], 1..=3).prop_shuffle();
    prop_oneof![
        8 => Just(vec![Mode::Rbac]),
        4 => several,
        1 => select(vec![vec![Mode::AlwaysAllow], vec![Mode::Rbac, Mode::AlwaysAllow]]),
    ]
}

/// Two sides that have most objects in common.
fn sides() -> impl Strategy<Value = (Side, Side)> {
    let objects = prop::collection::vec((object(), 0..4_u8), 0..16);
    let lines = prop::collection::vec((line(), 0..4_u8), 0..4);
    let same = prop::bool::weighted(0.6);
    (objects, lines, modes(), modes(), same, select(vec!["", "", "root"])).prop_map(
        |(objects, lines, modes, other_modes, same, super_user)| {
            let of = |is_new: bool| {
                let is_here = |side: u8| side >= 2 || (side == 1) == is_new;
                let here = objects.iter().filter(|(_, side)| is_here(*side)).map(|(object, _)| object);
                let by_key: BTreeMap<_, Value> = here.map(|object| (key(object), object.clone())).collect();
                let lines = lines.iter().filter(|(_, side)| is_here(*side)).map(|(line, _)| line.clone());
                Side {
                    modes: if is_new && !same { other_modes.clone() } else { modes.clone() },
                    documents: by_key.into_values().collect(),
                    lines: lines.collect(),
                    super_user: if is_new { super_user.to_owned() } else { String::new() },
                }
            };
            (of(false), of(true))
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]

    #[test]
    fn the_rows_are_the_classes_that_one_side_alone_allows_au_111((old, new) in sides()) {
        let report = all(&old, &new);
        let expected = brute_force::differences(&old, &new);
        prop_assert_eq!(&listed(&report), &expected);
        prop_assert_eq!((report.is_gain(), report.is_loss()), (!expected.0.is_empty(), !expected.1.is_empty()));
        let is_sorted = |rows: &[portcullis_policy::audit::diff::Row]| {
            rows.is_sorted_by_key(|row| (row.subject.clone(), row.verbs.clone(), row.target.clone()))
        };
        prop_assert!(is_sorted(&report.gained) && is_sorted(&report.lost));
        prop_assert!(report.gained.iter().chain(&report.lost).all(|row| !row.through.ways.is_empty()));
        // The other way round everything that was gained is lost.
        let back = all(&new, &old);
        prop_assert_eq!(listed(&back), (expected.1, expected.0));
    }

    #[test]
    fn the_changes_say_the_same_in_short((old, new) in sides()) {
        let words = Words::of([&old, &new]);
        let report = all(&old, &new);
        let (gained, lost) = listed(&report);
        for (is_gain, classes) in [(true, gained), (false, lost)] {
            let changes: Vec<_> = report.changes.iter().filter(|change| change.is_gain == is_gain).collect();
            for change in &changes {
                let own = words.classes_of(change);
                prop_assert!(!own.is_empty() && own.is_subset(&classes), "{:?}", change);
            }
            // What is not said of a subject is said of a group.
            let said: Vec<_> = changes.iter().map(|change| (change, words.classes_of(change))).collect();
            for (subject, verb, target) in classes {
                let is_said = said.iter().any(|(change, own)| {
                    let name = change.subject.to_string();
                    (name == subject || name.starts_with("group/system:"))
                        && own.contains(&(name, verb.clone(), target.clone()))
                });
                prop_assert!(is_said, "{} {} {:?}", subject, verb, target);
            }
        }
    }

    #[test]
    fn neither_the_order_of_objects_nor_that_of_lines_matters((old, new) in sides(), turn in 0..7_usize) {
        let turned = |side: &Side| {
            let mut side = side.clone();
            side.documents.reverse();
            let count = side.documents.len().max(1);
            side.documents.rotate_left(turn % count);
            side
        };
        prop_assert_eq!(all(&old, &new), all(&turned(&old), &turned(&new)));
    }

    #[test]
    fn what_is_cut_is_a_part_and_said((old, new) in sides(), most in 0..6_usize) {
        let (whole, part) = (all(&old, &new), between(&old, &new, Wanted { most, rows: true }).unwrap());
        let cuts: Vec<_> = part.incomplete.iter().filter(|missing| missing.input == "comparison").collect();
        let mut left_out = Vec::new();
        for (whole, part) in [(&whole.gained, &part.gained), (&whole.lost, &part.lost)] {
            prop_assert!(part.len() <= most);
            let (whole, part) = (classes(whole), classes(part));
            prop_assert!(part.is_subset(&whole));
            left_out.push(whole.len() - part.len());
        }
        match cuts.as_slice() {
            [] => prop_assert_eq!(left_out, [0, 0]),
            [cut] => {
                let said = format!(
                    "{} more requests of different classes are gained and {} more lost than are listed",
                    left_out[0], left_out[1]
                );
                prop_assert_eq!(&cut.detail, &said);
            }
            more => prop_assert!(false, "{:?}", more),
        }
        prop_assert_eq!((part.is_gain(), part.is_loss()), (whole.is_gain() && most > 0, whole.is_loss() && most > 0));
    }
}

#[test]
fn mode_node_on_one_side_is_compared_by_what_it_allows_to_any_node_na_104() {
    let named =
        json!([{"kind": "User", "name": "system:node:n0"}, {"kind": "Group", "name": "system:nodes"}]);
    let documents = vec![
        cluster_role(
            "x",
            json!([{"verbs": ["get", "create"], "apiGroups": [""], "resources": ["nodes", "events"]}]),
        ),
        cluster_binding("x", "x", named),
    ];
    let side =
        |modes: &[Mode]| Side { modes: modes.to_vec(), documents: documents.clone(), ..Side::default() };
    let with = side(&[Mode::Node, Mode::Rbac]);
    for (old, new) in [(&with, &side(&[Mode::Rbac])), (&side(&[Mode::AlwaysDeny]), &with)] {
        let report = all(old, new);
        let expected = brute_force::differences(old, new);
        assert!(expected.0.len() + expected.1.len() > 100);
        assert_eq!(listed(&report), expected);
    }
}

#[test]
fn words_that_look_like_unused_ones_are_not_mistaken_for_them() {
    let hostile = json!([
        {"verbs": ["<other>"], "apiGroups": ["<other>"], "resources": ["<other>"], "resourceNames": ["<other>"]},
        {"verbs": ["get"], "nonResourceURLs": ["/x/*", "/x/<oth*"]},
    ]);
    let subjects = json!([{"kind": "User", "name": "u"}]);
    let old = Side::rbac(vec![]);
    let new = Side::rbac(vec![cluster_role("r", hostile), cluster_binding("b", "r", subjects)]);
    let gained = listed(&all(&old, &new)).0;
    let urls: Vec<&str> =
        gained.iter().filter(|class| class.2.len() == 1).map(|class| class.2[0].as_str()).collect();
    assert_eq!(urls, ["/x/", "/x/<oth", "/x/<oth←<other>", "/x/←<other>"].map(str::to_owned));
    // One class with names, in the namespace that nobody names and without one.
    let with_names: Vec<_> = gained.iter().filter(|class| class.2.len() == 5).collect();
    assert!(with_names.iter().all(|class| class.2[3] == "<other>" && class.1 == "<other>"), "{with_names:?}");
    assert_eq!(with_names.len(), 2);
}

#[test]
fn modes_that_cannot_be_compared_are_refused() {
    let wanted = Wanted { most: 1, rows: true };
    let rbac = Side::rbac(vec![]);
    let webhook = portcullis_policy::engine::EngineConfig {
        modes: vec![Mode::Webhook],
        webhooks: true,
        ..Default::default()
    };
    let webhook = portcullis_policy::audit::state::StateBuilder::new(webhook).unwrap().finish();
    let asked = portcullis_policy::audit::reach::Asked { is_expired: &|_| false };
    let refused = portcullis_policy::audit::diff::compare(&rbac.state(), &webhook, wanted, &asked);
    assert_eq!(refused, Err(CannotCompare::Webhook));
}
