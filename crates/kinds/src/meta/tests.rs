//! Tests compare errors with recordings. Rules without a recording are tested as properties.

use portcullis_apimachinery::field_error::FieldErrorReason;
use portcullis_apimachinery::names::NameRule;
use portcullis_apimachinery::selector::{parse_field_selector, parse_label_selector};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::resource::{MetadataChecks, Selectable};

const NAMESPACED: Resource = Resource { kind: "ConfigMap", ..Resource::USUAL };
const LABELLED: Resource =
    Resource { kind: "Namespace", is_namespaced: false, names: NameRule::Label, ..Resource::USUAL };
const ROLE: Resource = Resource { kind: "Role", names: NameRule::PathSegment, ..Resource::USUAL };

fn object(metadata: Value) -> Map {
    let Value::Object(object) = json!({ "metadata": metadata }) else { panic!() };
    object
}

fn in_namespace(mut metadata: Value) -> Map {
    metadata["namespace"] = json!("ns");
    object(metadata)
}

fn causes(errors: &[FieldError]) -> Vec<(&str, FieldErrorReason)> {
    errors.iter().map(|error| (error.field.as_str(), error.reason)).collect()
}

#[test]
fn faults_of_new_objects_are_those_recorded_ap_34() {
    use FieldErrorReason::{Invalid, Required};
    let long = |length| "a".repeat(length);
    let owner = json!({"apiVersion": "v1", "kind": "X", "name": "n", "uid": "1", "controller": true});
    for (metadata, expected) in [
        (json!({}), vec![("metadata.name", Required)]),
        (json!({"name": "A"}), vec![("metadata.name", Invalid)]),
        (json!({"name": long(254)}), vec![("metadata.name", Invalid)]),
        (json!({"name": "n", "labels": {"a": "b c"}}), vec![("metadata.labels", Invalid)]),
        (json!({"name": "n", "labels": {"/a": "b"}}), vec![("metadata.labels", Invalid)]),
        (json!({"name": "n", "labels": {"a": long(64)}}), vec![("metadata.labels", Invalid)]),
        (json!({"name": "n", "annotations": {"a b": "c"}}), vec![("metadata.annotations", Invalid)]),
        (json!({"name": "n", "finalizers": ["nodomain"]}), vec![("metadata.finalizers[0]", Invalid)]),
        (
            json!({"name": "n", "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "n"}]}),
            vec![("metadata.ownerReferences.uid", Invalid)],
        ),
        (
            json!({"name": "n", "ownerReferences": [owner, owner]}),
            vec![("metadata.ownerReferences", Invalid)],
        ),
    ] {
        assert_eq!(causes(&validate(&in_namespace(metadata.clone()), &NAMESPACED)), expected, "{metadata}");
    }
    for name in ["a/b", "..", "ob-p%x", "."] {
        let errors = validate(&in_namespace(json!({ "name": name })), &ROLE);
        assert_eq!(causes(&errors), [("metadata.name", Invalid)], "{name}");
    }
    for name in ["A.b", "a.b"] {
        let errors = validate(&object(json!({ "name": name })), &LABELLED);
        assert_eq!(causes(&errors), [("metadata.name", Invalid)], "{name}");
    }
    let errors = validate(
        &object(json!({"name": long(64), "labels": {"kubernetes.io/metadata.name": long(64)}})),
        &LABELLED,
    );
    assert_eq!(causes(&errors), [("metadata.name", Invalid), ("metadata.labels", Invalid)]);
}

#[test]
fn rules_without_a_recording_hold_as_well_ap_34() {
    let fields = |metadata: Value| {
        let errors = validate(&in_namespace(metadata), &NAMESPACED);
        errors.into_iter().map(|error| error.field).collect::<Vec<_>>()
    };
    let nothing: [&str; 0] = [];
    assert_eq!(fields(json!({"name": "n", "finalizers": ["kubernetes", "a.b/c"]})), nothing);
    assert_eq!(fields(json!({"name": "n", "annotations": {"Example.Com/A": "x"}})), nothing);
    assert_eq!(fields(json!({"name": "n-", "generateName": "n-"})), ["metadata.name"]);
    assert_eq!(fields(json!({"name": "n", "generateName": "N_"})), ["metadata.generateName"]);
    assert_eq!(
        fields(json!({"name": "n", "finalizers": ["orphan", "foregroundDeletion"]})),
        ["metadata.finalizers"]
    );
    let value = "x".repeat(256 * 1024 - 1);
    assert_eq!(fields(json!({"name": "n", "annotations": {"a": value}})), nothing);
    assert_eq!(fields(json!({"name": "n", "annotations": {"ab": value}})), ["metadata.annotations"]);
    let event = json!({"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "u"});
    assert_eq!(fields(json!({"name": "n", "ownerReferences": [event]})), ["metadata.ownerReferences"]);
    assert_eq!(
        fields(json!({"name": "n", "ownerReferences": [{"apiVersion": "a/b/c"}]})),
        [
            "metadata.ownerReferences.apiVersion",
            "metadata.ownerReferences.kind",
            "metadata.ownerReferences.name",
            "metadata.ownerReferences.uid"
        ]
    );
    let errors = validate(&object(json!({"name": "n"})), &NAMESPACED);
    assert_eq!(causes(&errors), [("metadata.namespace", FieldErrorReason::Required)]);
    let errors = validate(&in_namespace(json!({"name": "n"})), &LABELLED);
    assert_eq!(causes(&errors), [("metadata.namespace", FieldErrorReason::Forbidden)]);
}

#[test]
fn faults_of_updates_come_as_often_as_recorded_ap_22() {
    use FieldErrorReason::{Forbidden, Invalid};
    let check = |new: Value, old: Value, is_status, expected: &[(&str, FieldErrorReason)]| {
        let (mut new, old) = (in_namespace(new), in_namespace(old));
        carry_over(&mut new, &old);
        assert_eq!(causes(&validate_update(&new, &old, &NAMESPACED, is_status)), expected, "{new:?}");
    };
    let old = json!({"name": "a", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 3});
    check(json!({"name": "a"}), old.clone(), false, &[]);
    check(json!({"name": "a", "uid": ""}), old.clone(), false, &[]);
    check(
        json!({"name": "a", "creationTimestamp": "2027-01-01T00:00:00Z", "generation": 1}),
        old.clone(),
        false,
        &[],
    );
    check(json!({"name": "a", "uid": "zz"}), old.clone(), false, &[("metadata.uid", Invalid); 2]);
    check(json!({"name": "a", "uid": "zz"}), old.clone(), true, &[("metadata.uid", Invalid); 2]);
    let labels = json!({"name": "a", "labels": {"a": "b c"}});
    check(labels, old.clone(), false, &[("metadata.labels", Invalid); 4]);
    let annotations = json!({"name": "a", "annotations": {"a~b": "v"}});
    check(annotations, old.clone(), false, &[("metadata.annotations", Invalid); 4]);
    let deleted = json!({"name": "a", "deletionTimestamp": "2027-01-01T00:00:00Z"});
    check(deleted, old, false, &[("metadata.deletionTimestamp", Invalid); 2]);

    let going = json!({"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 0, "finalizers": ["a.b/c"]});
    check(json!({"name": "a"}), going.clone(), false, &[]);
    check(json!({"name": "a", "finalizers": ["a.b/c"], "labels": {"a": "b"}}), going.clone(), false, &[]);
    let added = json!({"name": "a", "finalizers": ["a.b/c", "a.b/new"]});
    check(added, going, false, &[("metadata.finalizers", Forbidden); 2]);

    let lease = Resource {
        metadata_checks: MetadataChecks { alone: 0, as_update: 1, knows_finalizers: false },
        updates_unconditionally: false,
        ..NAMESPACED
    };
    let (new, old) =
        (in_namespace(json!({"name": "a", "finalizers": ["x"]})), in_namespace(json!({"name": "a"})));
    assert_eq!(validate_update(&new, &old, &lease, false), []);
    assert_eq!(missing_revision(&new, &lease).unwrap().field, "metadata.resourceVersion");
    assert_eq!(missing_revision(&new, &NAMESPACED), None);
    assert_eq!(missing_revision(&object(json!({"resourceVersion": "7"})), &lease), None);
}

#[test]
fn an_object_is_put_where_the_request_goes_ap_31() {
    let settle = |own: Value, requested: &str| {
        let mut object = object(json!({ "namespace": own }));
        settle_namespace(&mut object, requested).map(|()| namespace(&object).to_owned())
    };
    assert_eq!(settle(json!(null), "a").unwrap(), "a");
    assert_eq!(settle(json!(""), "a").unwrap(), "a");
    assert_eq!(settle(json!("a"), "a").unwrap(), "a");
    assert_eq!(settle(json!("b"), "a"), Err(OtherNamespace));
    assert_eq!(settle(json!("b"), "").unwrap(), "");
    let mut bare = Map::new();
    settle_namespace(&mut bare, "a").unwrap();
    assert_eq!(namespace(&bare), "a");
}

#[test]
fn what_a_client_says_of_the_servers_fields_is_dropped_ap_30() {
    let mut new = object(json!({"name": "a", "uid": "x", "creationTimestamp": "1", "deletionTimestamp": "2",
        "deletionGracePeriodSeconds": 3, "generation": 4, "selfLink": "/",
        "resourceVersion": "0"}));
    assert!(!has_revision(&new));
    begin(&mut new, "u", Instant::of_seconds(0));
    let expected = json!({"name": "a", "uid": "u", "creationTimestamp": "1970-01-01T00:00:00Z",
        "resourceVersion": "0"});
    assert_eq!(new, object(expected));
    assert!(has_revision(&object(json!({"resourceVersion": "12"}))));
}

proptest! {
    #[test]
    fn a_generated_name_keeps_its_prefix_and_is_a_name_ap_32(
        prefix in "[a-z]([a-z0-9-]{0,70}[a-z0-9-])?", random: u64
    ) {
        let mut new = object(json!({ "generateName": prefix }));
        generate_name(&mut new, random);
        let name = name(&new);
        let kept = prefix.get(..58).unwrap_or(&prefix);
        let end = name.strip_prefix(kept).unwrap();
        prop_assert_eq!(end.len(), 5);
        prop_assert!(end.chars().all(|c| "bcdfghjklmnpqrstvwxz2456789".contains(c)), "{}", end);
        prop_assert!(name.len() <= 63);
        prop_assert_eq!(NameRule::Label.errors(name), Vec::<String>::new());
        prop_assert_eq!(NameRule::Subdomain.prefix_errors(&prefix), Vec::<String>::new());
    }

    #[test]
    fn no_prefix_stops_the_naming(prefix in ".{0,70}", name in ".?", random: u64) {
        let mut new = object(json!({ "generateName": prefix, "name": name }));
        generate_name(&mut new, random);
        prop_assert!(name.is_empty() || super::name(&new) == name, "a name is kept");
        let before = object(json!({ "generateName": prefix, "name": name }));
        prop_assert!(may_be_named(&before, super::name(&new)) || super::name(&new).is_empty());
        prop_assert!(!may_be_named(&before, "another-name"));
        let _ = validate(&new, &NAMESPACED);
        for rule in [NameRule::Label, NameRule::PathSegment, NameRule::Subdomain] {
            let _ = rule.prefix_errors(&prefix);
        }
    }

    #[test]
    fn a_label_selector_and_its_opposite_never_agree_ap_73(
        key in "[ab]", value in "[xy1]?", label in proptest::option::of("[xy12]?")
    ) {
        let object = match &label {
            Some(label) => object(json!({"labels": {"a": label}})),
            None => object(json!({})),
        };
        let matches = |selector: String| labels_match(&parse_label_selector(&selector).unwrap(), &object);
        prop_assert_ne!(matches(format!("{key}={value}")), matches(format!("{key}!={value}")));
        prop_assert_ne!(matches(format!("{key} in ({value},z)")), matches(format!("{key} notin ({value},z)")));
        prop_assert_ne!(matches(key.clone()), matches(format!("!{key}")));
        prop_assert!(matches(String::new()));
        if label.is_none() || key == "b" {
            prop_assert!(matches(format!("{key}!={value}")), "without the key");
        }
    }
}

#[test]
fn labels_are_compared_as_numbers_only_where_they_are_some_ap_73() {
    let matches = |label: &str, selector: &str| {
        labels_match(&parse_label_selector(selector).unwrap(), &object(json!({"labels": {"a": label}})))
    };
    assert!(matches("10", "a>9"));
    assert!(!matches("9", "a>9"));
    assert!(matches("8", "a<9"));
    assert!(!matches("x", "a<9"));
    assert!(!matches("8", "b<9"));
    assert!(matches("", "a in ()"));
}

#[test]
fn fields_are_selected_as_recorded_ap_74_ap_75_ap_76() {
    const NODE: Resource = Resource {
        is_namespaced: false,
        selects_namespace: false,
        selectable: &[Selectable {
            name: "spec.unschedulable",
            value: |object| if object.contains_key("spec") { "true".into() } else { "false".into() },
        }],
        ..Resource::USUAL
    };
    let select = |selector: &str, resource: &Resource, object: &Map| {
        let selector = FieldSelector::new(&parse_field_selector(selector).unwrap(), resource)?;
        Ok::<bool, UnknownField>(selector.matches(object))
    };
    let a = in_namespace(json!({"name": "a"}));
    for (selector, expected) in [
        ("", true),
        ("metadata.name=a", true),
        ("metadata.name!=a", false),
        ("metadata.name=a,metadata.namespace=ns", true),
        ("metadata.name=a,metadata.name=b", false),
        ("metadata.namespace!=ns", false),
        ("metadata.name=a,", true),
    ] {
        assert_eq!(select(selector, &NAMESPACED, &a), Ok(expected), "{selector}");
    }
    for selector in ["data=x", "metadata.uid=u", "=x", "spec.nodeName=n"] {
        assert!(select(selector, &NAMESPACED, &a).is_err(), "{selector}");
    }
    let node = object(json!({"name": "n"}));
    assert_eq!(select("spec.unschedulable=false", &NODE, &node), Ok(true));
    assert_eq!(select("spec.unschedulable=zz-none", &NODE, &node), Ok(false));
    let error = select("metadata.namespace=zz-none", &NODE, &node).unwrap_err().to_string();
    assert_eq!(
        error,
        r#""metadata.namespace" is not a known field selector: only "metadata.name", "spec.unschedulable""#
    );
    let selector = parse_field_selector("metadata.namespace=x,metadata.name=y").unwrap();
    let selector = FieldSelector::new(&selector, &NAMESPACED).unwrap();
    assert_eq!((selector.name(), selector.namespace(), selector.is_empty()), (Some("y"), Some("x"), false));
}
