//! Mirror pods (MP-1 to MP-20). The expected results were recorded from Kubernetes 1.36 over HTTP.

use portcullis_apimachinery::field_error::FieldError;
use serde_json::{Value, json};

use crate::Map;
use crate::resources::pods::{PODS, admission, validate_ephemeral_containers, validate_resize};

const PATH: &str = "metadata.annotations[kubernetes.io/config.mirror]";
const INVALID: (&str, &str) = (PATH, "FieldValueInvalid");
const FORBIDDEN: (&str, &str) = (PATH, "FieldValueForbidden");
const BARE_FORBIDDEN: (&str, &str) = ("[]", "FieldValueForbidden");

/// The spec of a pod on a node.
const BOUND: &str = r#"{"nodeName":"n0"}"#;
const UNBOUND: &str = "{}";

/// A pod as it is after defaults: `spec` with one container, where it has none, and the annotation with this value.
fn pod(annotation: Option<&str>, spec: &str) -> Map {
    let mut spec: Value = serde_json::from_str(spec).unwrap();
    let members = spec.as_object_mut().unwrap();
    members.entry("containers").or_insert_with(|| json!([{"name": "c", "image": "i"}]));
    let mut pod = json!({"metadata": {"name": "p", "namespace": "ns"}, "spec": spec});
    if let Some(value) = annotation {
        pod["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": value});
    }
    let mut pod = pod.as_object().unwrap().clone();
    (PODS.default)(&mut pod);
    (PODS.prepare_create)(&mut pod);
    pod
}

fn causes(errors: &[FieldError]) -> Vec<(&str, &'static str)> {
    errors.iter().map(|e| (e.field.as_str(), e.reason.as_str())).collect()
}

#[test]
fn an_unbound_mirror_pod_is_not_created_mp_4_m1_m2_m3() {
    assert_eq!(causes(&(PODS.validate_create)(&pod(Some("h"), UNBOUND))), [INVALID]);
    let errors = (PODS.validate_create)(&pod(Some(""), UNBOUND));
    assert_eq!(causes(&errors), [INVALID]);
    assert_eq!(errors[0].bad_value, "\"\"");
    assert_eq!((PODS.validate_create)(&pod(Some("h"), BOUND)), []);
    assert_eq!((PODS.validate_create)(&pod(None, UNBOUND)), []);
}

#[test]
fn the_annotation_of_a_mirror_pod_stays_mp_5_mp_7_mp_11_m8() {
    let [without, mirror, other, empty] =
        [None, Some("h"), Some("z"), Some("")].map(|value| pod(value, BOUND));
    for validate in [PODS.validate_update, PODS.validate_status] {
        for (new, old) in
            [(&without, &mirror), (&other, &mirror), (&empty, &mirror), (&without, &empty), (&mirror, &empty)]
        {
            assert_eq!(causes(&validate(new, old)), [FORBIDDEN], "{old:?} to {new:?}");
        }
        for same in [&mirror, &empty, &without] {
            assert_eq!(validate(same, same), []);
        }
    }
}

#[test]
fn no_pod_becomes_a_mirror_pod_mp_6_mp_7_mp_9_m9() {
    let (new, old) = (pod(Some("h"), UNBOUND), pod(None, UNBOUND));
    assert_eq!(causes(&(PODS.validate_update)(&new, &old)), [INVALID, FORBIDDEN, INVALID]);
    assert_eq!(causes(&(PODS.validate_status)(&new, &old)), [FORBIDDEN, INVALID]);
    let (new, old) = (pod(Some("h"), BOUND), pod(None, BOUND));
    assert_eq!(causes(&(PODS.validate_update)(&new, &old)), [FORBIDDEN]);
    assert_eq!(causes(&(PODS.validate_status)(&new, &old)), [FORBIDDEN]);
}

#[test]
fn mirror_pods_take_no_ephemeral_containers_and_no_resizing_mp_15_mp_16_m10() {
    let (mirror, ordinary) = (pod(Some("h"), BOUND), pod(None, BOUND));
    for validate in [validate_ephemeral_containers, validate_resize] {
        assert_eq!(causes(&validate(&mirror, &mirror)), [BARE_FORBIDDEN]);
        // Whatever else is wrong, the one error replaces it.
        assert_eq!(causes(&validate(&Map::new(), &mirror)), [BARE_FORBIDDEN]);
        assert_eq!(validate(&ordinary, &ordinary), []);
    }
}

#[test]
fn each_resource_claim_of_a_mirror_pod_is_an_error_mp_17_m7() {
    let claims = r#"{"nodeName":"n0","resourceClaims":[{"name":"a"},{"name":"b"}]}"#;
    let mirror = pod(Some("h"), claims);
    assert_eq!(causes(&(PODS.validate_create)(&mirror)), [BARE_FORBIDDEN, BARE_FORBIDDEN]);
    assert_eq!(causes(&(PODS.validate_update)(&mirror, &mirror)), [BARE_FORBIDDEN, BARE_FORBIDDEN]);
    let claims = r#"{"resourceClaims":[{"name":"a","resourceClaimName":"a"}]}"#;
    assert_eq!((PODS.validate_create)(&pod(None, claims)), []);
}

#[test]
fn a_token_needs_an_account_mp_18() {
    let token = r#"{"volumes":[{"name":"a","hostPath":{"path":"/a"}},{"name":"b","projected":{"sources":[
        {"configMap":{"name":"c"}},{"serviceAccountToken":{"path":"t"}}]}}]}"#;
    assert_eq!(
        causes(&(PODS.validate_create)(&pod(None, token))),
        [("spec.volumes[1].projected.sources[1].serviceAccountToken", "FieldValueForbidden")]
    );
    let with_account = token.replacen("{\"volumes\"", "{\"serviceAccountName\":\"a\",\"volumes\"", 1);
    assert_eq!((PODS.validate_create)(&pod(None, &with_account)), []);
}

#[test]
fn the_account_plugin_refuses_mirror_pods_with_secrets_mp_20_m4_m5_m6() {
    let refused = |spec: &str, mirror: bool| {
        let mut pod = pod(mirror.then_some("h"), spec);
        admission::admit_service_account(&mut pod, Some(&Map::new()), "abcde").is_err()
    };
    let container =
        r#"[{"name":"c","env":[{"name":"e","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}]}]"#;
    for spec in [
        r#"{"serviceAccountName":"default"}"#.to_owned(),
        r#"{"serviceAccount":"default"}"#.to_owned(),
        format!(r#"{{"containers":{container}}}"#),
        format!(r#"{{"initContainers":{container}}}"#),
        format!(r#"{{"ephemeralContainers":{container}}}"#),
        r#"{"volumes":[{"secret":{"secretName":"s"}}]}"#.to_owned(),
        r#"{"imagePullSecrets":[{"name":"s"}]}"#.to_owned(),
        r#"{"volumes":[{"projected":{"sources":[{"serviceAccountToken":{"path":"t"}}]}}]}"#.to_owned(),
    ] {
        assert!(refused(&spec, true), "{spec}");
        assert!(!refused(&spec, false), "{spec} of an ordinary pod");
    }
    for spec in [
        r#"{"volumes":[{"configMap":{"name":"c"}}]}"#,
        r#"{"volumes":[{"persistentVolumeClaim":{"claimName":"c"}}]}"#,
        r#"{"volumes":[{"csi":{"driver":"d"}}]}"#,
        r#"{"volumes":[{"projected":{"sources":[{"clusterTrustBundle":{"name":"b"}}]}}]}"#,
        r#"{"resourceClaims":[{"name":"a"}]}"#,
        r#"{"imagePullSecrets":[{"name":""}]}"#,
    ] {
        assert!(!refused(spec, true), "{spec}");
    }
}
