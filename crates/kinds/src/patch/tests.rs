//! Tests of rules without recordings, and properties. JSON patches and merge patches are compared with another
//! implementation of the standards.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::schema::core::node::NODE;
use crate::schema::core::pod::POD;
use crate::schema::core::small::CONFIG_MAP;

fn object(value: Value) -> Map {
    let Value::Object(object) = value else { panic!("{value} is no object") };
    object
}

fn patched(kind: PatchKind, current: &Value, patch: &Value) -> Result<Value, PatchError> {
    apply(kind, object(current.clone()), patch.to_string().as_bytes(), &POD).map(Value::Object)
}

/// The result, or the status code.
fn result(kind: PatchKind, current: &Value, patch: &Value) -> Result<Value, u16> {
    patched(kind, current, patch).map_err(|error| error.code())
}

#[test]
fn what_is_no_patch_is_a_bad_request_ap_61_ap_62_ap_64() {
    let code = |kind, patch: &str| apply(kind, Map::new(), patch.as_bytes(), &POD).map_err(|e| e.code());
    for kind in [PatchKind::Json, PatchKind::Merge, PatchKind::Strategic] {
        for patch in ["", "{", "1", "\"x\"", "true", "[{", "{} {}", "\u{0}"] {
            assert_eq!(code(kind, patch), Err(400), "{kind:?} {patch}");
        }
    }
    assert_eq!(code(PatchKind::Json, "{}"), Err(400));
    assert_eq!(code(PatchKind::Json, "[1]"), Err(400));
    assert_eq!(code(PatchKind::Json, r#"[{"op": 1}]"#), Err(400));
    assert_eq!(code(PatchKind::Merge, "[]"), Err(400));
    assert_eq!(code(PatchKind::Merge, "null"), Err(400));
    assert_eq!(code(PatchKind::Strategic, "[]"), Err(400));
    assert_eq!(code(PatchKind::Strategic, "null"), Ok(Map::new()));
    assert_eq!(code(PatchKind::Json, "[]"), Ok(Map::new()));
    assert_eq!(PatchKind::of_media_type("application/json"), None);
}

#[test]
fn json_patches_are_lenient_where_kubernetes_is_ap_61() {
    let current = json!({"data": {"a": "1", "n": null}, "list": ["x", "y", "z"]});
    let data = |data: Value| Ok(json!({"data": data, "list": ["x", "y", "z"]}));
    let list = |list: Value| Ok(json!({"data": {"a": "1", "n": null}, "list": list}));
    for (operation, expected) in [
        (json!({"op": "replace", "path": "/data/b", "value": 2}), data(json!({"a": "1", "b": 2, "n": null}))),
        (json!({"op": "add", "path": "/data/b"}), data(json!({"a": "1", "b": null, "n": null}))),
        (json!({"op": "test", "path": "/data/b", "value": null}), Ok(current.clone())),
        (json!({"op": "test", "path": "/data/b"}), Ok(current.clone())),
        (json!({"op": "test", "path": "/data/n", "value": null}), Ok(current.clone())),
        (json!({"op": "test", "path": "/data/a", "value": null}), Err(422)),
        (json!({"op": "test", "path": "/data/a"}), Err(422)),
        (json!({"op": "test", "path": "", "value": current}), Ok(current.clone())),
        (json!({"op": "remove", "path": "/list/-1"}), list(json!(["x", "y"]))),
        (json!({"op": "add", "path": "/list/-1", "value": "w"}), list(json!(["x", "y", "z", "w"]))),
        (json!({"op": "add", "path": "/list/-4", "value": "w"}), list(json!(["w", "x", "y", "z"]))),
        (json!({"op": "add", "path": "/list/-5", "value": "w"}), Err(422)),
        (json!({"op": "add", "path": "/list/3", "value": "w"}), list(json!(["x", "y", "z", "w"]))),
        (json!({"op": "add", "path": "/list/4", "value": "w"}), Err(422)),
        (json!({"op": "replace", "path": "/list/3", "value": "w"}), Err(422)),
        (json!({"op": "replace", "path": "/list/-", "value": "w"}), Err(422)),
        (json!({"op": "test", "path": "/list/3", "value": null}), Err(422)),
        (json!({"op": "replace", "path": "x/list/0", "value": "w"}), list(json!(["w", "y", "z"]))),
        (json!({"op": "remove", "path": "list"}), Err(422)),
        (json!({"op": "remove", "path": "/data/b"}), Err(422)),
        (json!({"op": "remove", "path": ""}), Err(422)),
        (json!({"op": "remove"}), Err(422)),
        (json!({"path": "/data"}), Err(422)),
        (json!(null), Err(422)),
        (json!({"op": "add", "path": "/none/b", "value": 1}), Err(422)),
        (json!({"op": "add", "path": "/data/a/b", "value": 1}), Err(422)),
        (json!({"op": "replace", "path": "", "value": {}}), Ok(json!({}))),
        (json!({"op": "replace", "path": "", "value": []}), Err(422)),
        (json!({"op": "replace", "path": ""}), Err(422)),
        (
            json!({"op": "copy", "from": "/data/b", "path": "/data/c"}),
            data(json!({"a": "1", "c": null, "n": null})),
        ),
        (json!({"op": "move", "from": "/data/b", "path": "/data/c"}), Err(422)),
        (json!({"op": "move", "from": "/data", "path": "/data/c"}), Err(422)),
    ] {
        assert_eq!(result(PatchKind::Json, &current, &json!([operation])), expected, "{operation}");
    }
    let halfway = json!([{"op": "add", "path": "/data/b", "value": 1}, {"op": "remove", "path": "/none"}]);
    assert_eq!(result(PatchKind::Json, &current, &halfway), Err(422));
    assert_eq!(
        patched(PatchKind::Json, &current, &json!([{"op": "replace", "path": "", "value": []}])),
        Err(PatchError::NotAnObject)
    );
}

#[test]
fn a_json_patch_cannot_grow_an_object_without_end_ap_61() {
    let test = json!({"op": "test", "path": "/a", "value": "1"});
    let current = json!({"a": "1"});
    let repeated = |count: usize| Value::from(vec![test.clone(); count]);
    assert_eq!(result(PatchKind::Json, &current, &repeated(MAX_OPERATIONS)), Ok(current.clone()));
    let too_many = patched(PatchKind::Json, &current, &repeated(MAX_OPERATIONS + 1));
    assert_eq!(too_many, Err(PatchError::TooManyOperations(MAX_OPERATIONS + 1)));
    assert_eq!(too_many.unwrap_err().code(), 413);

    let doubling: Vec<Value> =
        (0..64).map(|n| json!({"op": "copy", "from": "/a", "path": format!("/a/{n}")})).collect();
    assert_eq!(result(PatchKind::Json, &json!({"a": {"b": "c"}}), &doubling.into()), Err(422));

    let nesting: Vec<Value> = (0..3_000)
        .flat_map(|_| {
            [
                json!({"op": "add", "path": "/b", "value": {}}),
                json!({"op": "move", "from": "/a", "path": "/b/a"}),
                json!({"op": "move", "from": "/b", "path": "/a"}),
            ]
        })
        .collect();
    assert_eq!(result(PatchKind::Json, &json!({"a": {}}), &nesting.into()), Err(422));

    let back_and_forth: Vec<Value> = (0..3_000)
        .flat_map(|_| {
            [
                json!({"op": "move", "from": "/a", "path": "/b/c/d/e"}),
                json!({"op": "move", "from": "/b/c/d/e", "path": "/a"}),
            ]
        })
        .collect();
    let current = json!({"a": {"x": {"y": {}}}, "b": {"c": {"d": {}}}});
    assert_eq!(result(PatchKind::Json, &current, &back_and_forth.into()), Ok(current.clone()));
}

/// Every operation would move all of the long list.
#[test]
fn a_json_patch_cannot_move_a_long_list_ten_thousand_times_ap_61() {
    let fill = json!({"op": "add", "path": "/list", "value": vec![0; 60_000]});
    for operation in [
        json!({"op": "add", "path": "/list/0", "value": 0}),
        json!({"op": "remove", "path": "/list/0"}),
        json!({"op": "move", "from": "/list/0", "path": "/list/-"}),
    ] {
        let patch: Vec<Value> =
            std::iter::once(fill.clone()).chain(std::iter::repeat_n(operation, 9_999)).collect();
        assert_eq!(result(PatchKind::Json, &json!({}), &patch.into()), Err(422));
    }
    // At the end of the list there is nothing to move.
    let appended = json!({"op": "add", "path": "/list/-", "value": 0});
    let patch: Vec<Value> = std::iter::once(fill).chain(std::iter::repeat_n(appended, 9_999)).collect();
    let patched = result(PatchKind::Json, &json!({}), &patch.into()).unwrap();
    assert_eq!(patched["list"].as_array().map(Vec::len), Some(69_999));
}

/// Each of the entries is merged into the container that the ones before it made longer.
#[test]
fn a_strategic_merge_patch_cannot_name_an_entry_thousands_of_times_ap_63() {
    let patch = |count: i32| {
        let containers = (0..count).map(|port| json!({"name": "c", "ports": [{ "containerPort": port }]}));
        json!({"spec": {"containers": containers.collect::<Vec<_>>()}})
    };
    let current = json!({"spec": {"containers": [{"name": "c", "image": "i"}]}});
    let few = result(PatchKind::Strategic, &current, &patch(3)).unwrap();
    let containers = few["spec"]["containers"].as_array().unwrap();
    assert_eq!((containers.len(), containers[0]["ports"].as_array().map(Vec::len)), (1, Some(3)));
    assert_eq!(result(PatchKind::Strategic, &current, &patch(20_000)), Err(422));
}

#[test]
fn lists_with_keys_merge_and_new_entries_stand_in_front_ap_63() {
    let current = json!({"metadata": {"finalizers": ["a/a", "a/b"]}, "spec": {
        "containers": [{"name": "c", "image": "1", "args": ["x"]}, {"name": "d", "image": "1"}],
        "tolerations": [{"key": "t"}]}});
    let names = |patch: Value| {
        let result = result(PatchKind::Strategic, &current, &patch)?;
        let containers = result["spec"]["containers"].as_array().cloned().unwrap_or_default();
        Ok::<_, u16>(
            containers.iter().map(|c| c["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>().join(""),
        )
    };
    let containers = |containers: Value| json!({"spec": {"containers": containers}});
    let ordered = |order: &[&str], containers: Value| {
        let order: Vec<Value> = order.iter().map(|name| json!({ "name": name })).collect();
        json!({"spec": {"$setElementOrder/containers": order, "containers": containers}})
    };
    for (patch, expected) in [
        (containers(json!([{"name": "n"}])), Ok("ncd")),
        (containers(json!([{"name": "n"}, {"name": "m"}])), Ok("nmcd")),
        (containers(json!([{"name": "d"}])), Ok("cd")),
        (containers(json!([{"name": "d"}, {"name": "c"}])), Ok("dc")),
        (containers(json!([{"name": "d"}, {"name": "n"}])), Ok("cdn")),
        (containers(json!([{"name": "c", "$patch": "delete"}])), Ok("d")),
        (containers(json!([{"name": "z", "$patch": "delete"}])), Ok("cd")),
        (containers(json!([{"$patch": "replace"}, {"name": "n"}])), Ok("n")),
        (containers(json!([{"$patch": "replace"}])), Ok("")),
        (containers(json!([])), Ok("cd")),
        (containers(json!(null)), Ok("")),
        (ordered(&["d", "c"], json!([{"name": "d", "image": "2"}])), Ok("dc")),
        (ordered(&["c", "n", "d"], json!([{"name": "n"}])), Ok("cnd")),
        (ordered(&["n", "c"], json!([{"name": "n"}])), Ok("ncd")),
        (ordered(&["d"], json!([{"name": "c", "$patch": "delete"}])), Ok("d")),
        (json!({"spec": {"$setElementOrder/containers": [{"name": "d"}, {"name": "c"}]}}), Ok("dc")),
        (ordered(&["n"], json!([{"name": "m"}])), Err(500)),
        (ordered(&["n", "m"], json!([{"name": "m"}, {"name": "n"}])), Err(500)),
        (containers(json!([{"image": "x"}])), Err(500)),
        (containers(json!([{"$patch": "delete"}])), Err(500)),
        (containers(json!([{"name": "c", "$patch": "merge"}])), Err(500)),
        (containers(json!(["x"])), Err(500)),
        (containers(json!([[]])), Err(500)),
        (json!({"spec": {"$setElementOrder/containers": "c"}}), Err(500)),
        (json!({"spec": {"$setElementOrder/none": []}}), Err(500)),
        (json!({"spec": {"$setElementOrder": []}}), Err(400)),
        (json!({"spec": {"$deleteFromPrimitiveListX": []}}), Err(400)),
        (json!({"spec": {"$retainKeys": 1}}), Err(400)),
        (json!({"spec": {"$retainKeys": ["tolerations"], "containers": []}}), Err(400)),
        (json!({"spec": {"$retainKeys": ["tolerations"]}}), Ok("")),
        (json!({"spec": {"$retainKeys": ["containers"]}}), Ok("cd")),
        (json!({"spec": {"$patch": "delete"}}), Ok("")),
        (json!({"spec": {"$patch": "replace", "containers": [{"name": "n"}]}}), Ok("n")),
        (json!({"spec": {"$patch": "frob"}}), Err(500)),
        (json!({"metadata": {"labels": {"$patch": "frob"}}}), Ok("cd")),
    ] {
        assert_eq!(names(patch.clone()).as_deref(), expected.as_ref().copied(), "{patch}");
    }
    let whole = |patch: Value| result(PatchKind::Strategic, &current, &patch).unwrap();
    let merged = whole(containers(json!([{"name": "c", "image": "2", "args": ["y"], "stdin": null}])));
    assert_eq!(merged["spec"]["containers"][0], json!({"name": "c", "image": "2", "args": ["y"]}));
    let replaced = whole(json!({"spec": {"tolerations": [{"key": "u"}]}}));
    assert_eq!(replaced["spec"]["tolerations"], json!([{"key": "u"}]));
    let finalizers = |patch: Value| whole(json!({ "metadata": patch }))["metadata"]["finalizers"].clone();
    assert_eq!(finalizers(json!({"finalizers": ["a/c", "a/b"]})), json!(["a/c", "a/a", "a/b"]));
    assert_eq!(finalizers(json!({"$deleteFromPrimitiveList/finalizers": ["a/a"]})), json!(["a/b"]));
    assert_eq!(finalizers(json!({"finalizers": []})), json!(["a/a", "a/b"]));
    assert_eq!(
        finalizers(json!({"$setElementOrder/finalizers": ["a/c", "a/b", "a/a"], "finalizers": ["a/c"]})),
        json!(["a/c", "a/b", "a/a"])
    );
}

#[test]
fn a_kubelet_replaces_its_addresses_ap_64() {
    let current = json!({"status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}});
    let patch =
        json!({"status": {"addresses": [{"type": "Hostname", "address": "n"}, {"$patch": "replace"}]}});
    let result = apply(PatchKind::Strategic, object(current), patch.to_string().as_bytes(), &NODE).unwrap();
    assert_eq!(result["status"]["addresses"], json!([{"type": "Hostname", "address": "n"}]));
}

#[test]
fn keys_given_twice_and_members_of_no_operation_are_found_ap_14() {
    let found = |kind, patch: &str| {
        problems(kind, patch.as_bytes()).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let nothing: [&str; 0] = [];
    assert_eq!(found(PatchKind::Merge, r#"{"a": {"b": 1, "c": 2, "b": 3}}"#), [r#"duplicate field "a.b""#]);
    assert_eq!(
        found(PatchKind::Strategic, r#"{"a": [{"b": 1}, {"b": 1, "b": 2}]}"#),
        [r#"duplicate field "a[1].b""#]
    );
    assert_eq!(
        found(PatchKind::Json, r#"[{"op": "test", "path": "/a", "to": 1}]"#),
        [r#"unknown field "[0].to""#]
    );
    assert_eq!(found(PatchKind::Json, r#"[{"op": "add", "path": "/a", "value": {"to": 1}}]"#), nothing);
    assert_eq!(found(PatchKind::Json, "["), nothing);
}

fn any_value() -> impl Strategy<Value = Value> {
    let plain = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..3_i64).prop_map(Value::from),
        "[abc~/]{0,2}".prop_map(Value::from)
    ];
    plain.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[abc~/]{1,2}", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect()))
        ]
    })
}

fn any_object() -> impl Strategy<Value = Value> {
    proptest::collection::btree_map("[abc~/]{1,2}", any_value(), 0..4)
        .prop_map(|members| Value::Object(members.into_iter().collect()))
}

/// A strategic patch made of words from pods and directives.
fn any_pod_patch() -> impl Strategy<Value = Value> {
    let name = prop_oneof![
        Just("spec"),
        Just("metadata"),
        Just("containers"),
        Just("finalizers"),
        Just("name"),
        Just("ports"),
        Just("labels"),
        Just("$patch"),
        Just("$retainKeys"),
        Just("$setElementOrder/containers"),
        Just("$setElementOrder/finalizers"),
        Just("$deleteFromPrimitiveList/finalizers")
    ];
    let plain = prop_oneof![
        Just(json!(null)),
        Just(json!("replace")),
        Just(json!("delete")),
        Just(json!("c")),
        Just(json!(1)),
        Just(json!([])),
        Just(json!({"name": "c"}))
    ];
    plain.prop_recursive(5, 32, 4, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(name.clone().prop_map(str::to_owned), inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect()))
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_difference_of_two_objects_leads_from_one_to_the_other(a in any_object(), b in any_object()) {
        let patch = serde_json::to_value(json_patch::diff(&a, &b)).unwrap();
        prop_assert_eq!(patched(PatchKind::Json, &a, &patch), Ok(b));
    }

    #[test]
    fn what_another_implementation_applies_gives_the_same(
        a in any_object(),
        operations in proptest::collection::vec(
            ("add|replace|test|copy|move|remove", "(/[abc012-]{1,2}){1,2}", "(/[abc01]){1,2}", any_value()), 1..4
        )
    ) {
        let operations: Vec<Value> = operations
            .into_iter()
            .map(|(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value}))
            .collect();
        let patch = Value::from(operations);
        let parsed: json_patch::Patch = serde_json::from_value(patch.clone()).unwrap();
        let mut other = a.clone();
        // The crate's safe function rolls back on failure, and panics if it cannot.
        if json_patch::patch_unsafe(&mut other, &parsed).is_ok() && other.is_object() {
            prop_assert_eq!(patched(PatchKind::Json, &a, &patch), Ok(other), "{}", patch);
        }
    }

    #[test]
    fn merge_patches_are_those_of_the_standard_ap_62(a in any_object(), patch in any_object()) {
        fn without_nulls_in_lists(value: &Value) -> bool {
            match value {
                Value::Array(entries) => entries.iter().all(|entry| !has_null_members(entry)),
                Value::Object(members) => members.values().all(without_nulls_in_lists),
                _ => true,
            }
        }
        fn has_null_members(value: &Value) -> bool {
            match value {
                Value::Array(entries) => entries.iter().any(has_null_members),
                Value::Object(members) => members.values().any(|value| value.is_null() || has_null_members(value)),
                _ => false,
            }
        }
        // Kubernetes also drops nulls in lists, where the standard keeps them.
        prop_assume!(without_nulls_in_lists(&patch));
        let mut other = a.clone();
        json_patch::merge(&mut other, &patch);
        prop_assert_eq!(patched(PatchKind::Merge, &a, &patch), Ok(other));
    }

    #[test]
    fn without_lists_and_directives_strategic_and_merge_patches_are_alike_ap_63(
        a in proptest::collection::btree_map("[abc]", "[xy]?", 0..3),
        patch in proptest::collection::btree_map("[abc]", proptest::option::of("[xy]?"), 0..3)
    ) {
        let (a, patch) = (json!({"data": a}), json!({"data": patch}));
        let strategic = apply(PatchKind::Strategic, object(a.clone()), patch.to_string().as_bytes(), &CONFIG_MAP);
        prop_assert_eq!(strategic.map(Value::Object), patched(PatchKind::Merge, &a, &patch));
    }

    #[test]
    fn a_merged_list_has_every_entry_once_and_keeps_the_patchs_order_ap_63(
        stored in proptest::sample::subsequence(vec!["a", "b", "c", "d", "e"], 0..5).prop_shuffle(),
        wanted in proptest::sample::subsequence(vec!["c", "d", "e", "f", "g"], 1..5).prop_shuffle()
    ) {
        let list = |names: &[&str]| names.iter().map(|name| json!({ "name": name })).collect::<Vec<_>>();
        let current = json!({"spec": {"containers": list(&stored)}});
        let patch = json!({"spec": {"containers": list(&wanted)}});
        let result = patched(PatchKind::Strategic, &current, &patch).unwrap();
        let names: Vec<&str> =
            result["spec"]["containers"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
        let in_result = |of: &[&str]| {
            names.iter().copied().filter(|name| of.contains(name)).collect::<Vec<_>>()
        };
        prop_assert_eq!(in_result(&wanted), wanted.clone());
        let others: Vec<&str> = stored.iter().copied().filter(|name| !wanted.contains(name)).collect();
        prop_assert_eq!(in_result(&others), others.clone());
        prop_assert_eq!(names.len(), wanted.len() + others.len());
    }

    #[test]
    fn no_patch_of_a_pod_stops_the_server(current in any_pod_patch(), patch in any_pod_patch()) {
        if current.is_object() {
            let _ = patched(PatchKind::Strategic, &current, &patch);
            let _ = patched(PatchKind::Merge, &current, &patch);
        }
        let _ = problems(PatchKind::Json, patch.to_string().as_bytes());
    }
}
