//! Properties of all pods: the recorded ones, and damaged copies of them.

use portcullis_testkit::mutate::{Random, mutate};
use portcullis_testkit::recorded;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::Map;
use crate::decode;
use crate::fields::Members;
use crate::resources::pods::{self, Deletion, PODS, admission};

const RECORDINGS: [&str; 6] =
    ["mirror-pods", "node-authorizer", "pods-create", "pods-invalid", "pods-update", "pods-volumes"];

/// Words that are significant in pods.
const WORDS: &[&str] = &[
    "activeDeadlineSeconds",
    "affinity",
    "claims",
    "clusterTrustBundle",
    "containerName",
    "divisor",
    "ephemeral",
    "ephemeralContainers",
    "fieldRef",
    "hostNetwork",
    "hostUsers",
    "hugepages-2Mi",
    "image",
    "labelSelector",
    "limits",
    "matchLabelKeys",
    "overhead",
    "podIPs",
    "requests",
    "resources",
    "restartPolicy",
    "schedulingGates",
    "securityContext",
    "serviceAccountToken",
    "tolerations",
    "volumeClaimTemplate",
    "windowsOptions",
];

fn bodies() -> Vec<Value> {
    let lines = RECORDINGS.iter().flat_map(|name| recorded::lines(&format!("http/{name}.jsonl")));
    lines.filter_map(|case| (case["body"]["kind"] == "Pod").then(|| case["body"].clone())).collect()
}

fn defaulted(object: Map) -> Map {
    let mut pod = object;
    (PODS.default)(&mut pod);
    pod
}

/// Recorded pods, and damaged copies that still decode.
fn pods() -> Vec<Map> {
    let bodies = bodies();
    let corpus: Vec<Vec<u8>> = bodies.iter().map(|body| body.to_string().into_bytes()).collect();
    let mut random = Random::new(1);
    let damaged = (0..20_000).map(|_| mutate(&mut random, &corpus, WORDS));
    let texts: Vec<Vec<u8>> = corpus.iter().cloned().chain(damaged).collect();
    let read = texts.iter().filter_map(|text| decode::json(text, PODS.schema).ok());
    let pods: Vec<Map> = read.map(|decoded| decoded.object).collect();
    assert!(pods.len() > 1_000, "only {} pods can be read", pods.len());
    pods
}

fn created(mut pod: Map) -> Map {
    admission::default_tolerations(&mut pod);
    (PODS.prepare_create)(&mut pod);
    pod
}

#[test]
fn defaults_are_applied_once_and_read_back_as_they_are() {
    for pod in pods() {
        let once = defaulted(pod);
        assert_eq!(defaulted(once.clone()), once);
        let read = decode::value(Value::Object(once.clone()), PODS.schema).unwrap().object;
        assert_eq!(read, once);
    }
}

#[test]
fn a_valid_pod_stays_valid_when_nothing_changes() {
    let mut valid = 0;
    for mut pod in pods() {
        // A class set by the client is kept, right or wrong.
        pod.remove("status");
        let pod = created(defaulted(pod));
        if !(PODS.validate_create)(&pod).is_empty() {
            continue;
        }
        valid += 1;
        for (prepare, validate) in [
            (PODS.prepare_update, PODS.validate_update),
            (PODS.prepare_status, PODS.validate_status),
            (
                pods::prepare_ephemeral_containers as fn(&mut Map, &Map),
                pods::validate_ephemeral_containers as _,
            ),
            (pods::prepare_resize, pods::validate_resize),
        ] {
            let mut new = pod.clone();
            prepare(&mut new, &pod);
            assert_eq!(new, pod, "an update that changes nothing");
            let errors = validate(&new, &pod);
            assert!(
                errors.iter().all(|error| error.field == portcullis_apimachinery::field_error::NO_FIELD),
                "{errors:?} in {}",
                Value::Object(pod)
            );
        }
    }
    assert!(valid > 300, "only {valid} pods are valid");
}

#[test]
fn a_pod_is_given_a_token_once_and_stays_valid_ap_110() {
    let account = Map::new();
    let mut mounted = 0;
    for pod in pods() {
        let mut pod = defaulted(pod);
        let Some(name) = admission::service_account(&pod).map(str::to_owned) else { continue };
        let was_valid = {
            let mut pod = pod.clone();
            for field in ["serviceAccount", "serviceAccountName"] {
                pod.object_mut("spec").unwrap().insert(field.to_owned(), name.as_str().into());
            }
            (PODS.validate_create)(&pod).is_empty()
        };
        admission::admit_service_account(&mut pod, Some(&account), "abcde").unwrap();
        let once = pod.clone();
        admission::admit_service_account(&mut pod, Some(&account), "fghij").unwrap();
        assert_eq!(pod, once);
        assert_eq!(defaulted(pod.clone()), once, "nothing is left to default");
        let volumes = pod.object_if_set("spec").unwrap().list("volumes");
        mounted += usize::from(volumes.iter().any(|volume| volume["name"] == "kube-api-access-abcde"));
        assert!(!was_valid || (PODS.validate_create)(&pod).is_empty(), "{}", Value::Object(pod));
    }
    assert!(mounted > 20, "only {mounted} pods have a token");
}

#[test]
fn no_pod_stops_any_function() {
    let all = pods();
    for (pod, other) in all.iter().zip(all.iter().rev()) {
        let mut pod = defaulted(pod.clone());
        let other = defaulted(other.clone());
        let account = json!({ "imagePullSecrets": [{ "name": "s" }] });
        let _ = admission::admit_service_account(&mut pod, account.as_object(), "abcde");
        let _ = admission::admit_priority(&mut pod, admission::built_in_priority);
        let _ = admission::admit_runtime_class(&mut pod, other.object_if_set("spec"));
        assert!((PODS.row)(&pod, 0).cells.len() == PODS.columns.len());
        for selectable in PODS.selectable {
            assert!((selectable.value)(&pod).len() < 10_000);
        }
        let mut errors = (PODS.validate_create)(&pod);
        errors.extend((PODS.validate_update)(&pod, &other));
        errors.extend((PODS.validate_status)(&pod, &other));
        errors.extend(pods::validate_ephemeral_containers(&pod, &other));
        errors.extend(pods::validate_resize(&pod, &other));
        assert!(errors.iter().all(|error| !error.field.is_empty() && !error.message().is_empty()));
        let mut new = pod.clone();
        pods::prepare_resize(&mut new, &other);
        pods::mark_evicted(&mut new, 0);
        if pods::bind(&mut new, &other, 0).is_ok() {
            assert!(
                pods::bind(&mut new, &other, 0).is_err()
                    || new.object_if_set("spec").unwrap().text("nodeName").is_empty()
            );
        }
    }
}

#[test]
fn no_map_at_all_stops_any_function() {
    let mut random = Random::new(2);
    let corpus: Vec<Vec<u8>> = bodies().iter().map(|body| body.to_string().into_bytes()).collect();
    let words = ["null", "0", "[]", "{}", "\"\"", "-1", "true"];
    let maps =
        (0..20_000).filter_map(|_| serde_json::from_slice::<Map>(&mutate(&mut random, &corpus, &words)).ok());
    for map in maps {
        // Not decoded: fields may have any type.
        let pod = created(defaulted(map.clone()));
        assert!((PODS.validate_update)(&pod, &map).len() < 10_000);
        assert!((PODS.validate_status)(&pod, &map).len() < 10_000);
        assert_eq!((PODS.row)(&map, 0).cells.len(), PODS.columns.len());
    }
}

proptest! {
    #[test]
    fn a_second_delete_never_lengthens_ap_55(
        own in proptest::option::of(-5_i64..100),
        first in proptest::option::of(-5_i64..100),
        second in proptest::option::of(-5_i64..100),
        later in 0_i64..50,
    ) {
        let mut pod = json!({ "spec": { "nodeName": "n" } }).as_object().unwrap().clone();
        if let Some(own) = own {
            pod.object_mut("spec").unwrap().insert("terminationGracePeriodSeconds".to_owned(), own.into());
        }
        let Deletion::After(period) = Deletion::of(&pod, first) else { panic!("the first delete counts") };
        prop_assert!(period >= 0);
        pods::terminate(&mut pod, period, 1_000);
        match Deletion::of(&pod, second) {
            Deletion::Pending => {}
            Deletion::After(shorter) => {
                prop_assert!(shorter < period);
                let before = pod.object_if_set("metadata").unwrap().text("deletionTimestamp").to_owned();
                pods::terminate(&mut pod, shorter, 1_000 + later);
                prop_assert!(pod.object_if_set("metadata").unwrap().text("deletionTimestamp") < before.as_str());
            }
        }
    }

    #[test]
    fn a_pod_that_is_not_bound_goes_at_once_ap_55(period in proptest::option::of(any::<i64>())) {
        let pod = json!({ "spec": { "terminationGracePeriodSeconds": 30 } });
        prop_assert_eq!(Deletion::of(pod.as_object().unwrap(), period), Deletion::After(0));
    }
}
