//! The expectations are those that Kubernetes 1.36 answered over HTTP.

use super::*;

fn pod(json: &str) -> Pod<'_> {
    serde_json::from_str(json).unwrap()
}

fn causes(errors: &[FieldError]) -> Vec<(&str, &'static str)> {
    errors.iter().map(|e| (e.field.as_str(), e.reason.as_str())).collect()
}

const PATH: &str = "metadata.annotations[kubernetes.io/config.mirror]";
const INVALID: (&str, &str) = (PATH, "FieldValueInvalid");
const FORBIDDEN: (&str, &str) = (PATH, "FieldValueForbidden");
const BARE_FORBIDDEN: (&str, &str) = ("[]", "FieldValueForbidden");

const MIRROR: &str =
    r#"{"metadata":{"annotations":{"kubernetes.io/config.mirror":"h"}},"spec":{"nodeName":"n0"}}"#;
const UNBOUND: &str = r#"{"spec":{}}"#;
const UNBOUND_MIRROR: &str = r#"{"metadata":{"annotations":{"kubernetes.io/config.mirror":"h"}},"spec":{}}"#;

#[test]
fn an_unbound_mirror_pod_is_not_created_mp_4_m1_m2_m3() {
    assert_eq!(causes(&validate_create(&pod(UNBOUND_MIRROR))), [INVALID]);
    let empty_value = pod(r#"{"metadata":{"annotations":{"kubernetes.io/config.mirror":""}}}"#);
    let errors = validate_create(&empty_value);
    assert_eq!(causes(&errors), [INVALID]);
    assert_eq!(errors[0].bad_value, "\"\"");
    assert_eq!(validate_create(&pod(MIRROR)), []);
    assert_eq!(validate_create(&pod(UNBOUND)), []);
}

#[test]
fn the_annotation_of_a_mirror_pod_stays_mp_5_mp_7_mp_11_m8() {
    let without = r#"{"spec":{"nodeName":"n0"}}"#;
    let other =
        r#"{"metadata":{"annotations":{"kubernetes.io/config.mirror":"z"}},"spec":{"nodeName":"n0"}}"#;
    let empty = r#"{"metadata":{"annotations":{"kubernetes.io/config.mirror":""}},"spec":{"nodeName":"n0"}}"#;
    for validate in [validate_update, validate_status_update] {
        for (new, old) in
            [(without, MIRROR), (other, MIRROR), (empty, MIRROR), (without, empty), (MIRROR, empty)]
        {
            assert_eq!(causes(&validate(&pod(new), &pod(old))), [FORBIDDEN], "{old} to {new}");
        }
        for same in [MIRROR, empty, without] {
            assert_eq!(validate(&pod(same), &pod(same)), []);
        }
    }
}

#[test]
fn no_pod_becomes_a_mirror_pod_mp_6_mp_7_mp_9_m9() {
    let (new, old) = (pod(UNBOUND_MIRROR), pod(UNBOUND));
    assert_eq!(causes(&validate_update(&new, &old)), [INVALID, FORBIDDEN, INVALID]);
    assert_eq!(causes(&validate_status_update(&new, &old)), [FORBIDDEN, INVALID]);
    let bound = pod(r#"{"spec":{"nodeName":"n0"}}"#);
    assert_eq!(causes(&validate_update(&pod(MIRROR), &bound)), [FORBIDDEN]);
    assert_eq!(causes(&validate_status_update(&pod(MIRROR), &bound)), [FORBIDDEN]);
}

#[test]
fn mirror_pods_take_no_ephemeral_containers_and_no_resizing_mp_15_mp_16_m10() {
    let error = refuse_on_mirror(&pod(MIRROR)).unwrap();
    assert_eq!(causes(&[error]), [BARE_FORBIDDEN]);
    assert_eq!(refuse_on_mirror(&pod(UNBOUND)), None);
}

#[test]
fn each_resource_claim_of_a_mirror_pod_is_an_error_mp_17_m7() {
    let claims = r#"{"metadata":{"annotations":{"kubernetes.io/config.mirror":"h"}},
        "spec":{"nodeName":"n0","resourceClaims":[{"name":"a"},{"name":"b"}]}}"#;
    assert_eq!(causes(&validate_create(&pod(claims))), [BARE_FORBIDDEN, BARE_FORBIDDEN]);
    assert_eq!(causes(&validate_update(&pod(claims), &pod(claims))), [BARE_FORBIDDEN, BARE_FORBIDDEN]);
    assert_eq!(validate_create(&pod(r#"{"spec":{"resourceClaims":[{"name":"a"}]}}"#)), []);
}

#[test]
fn a_template_is_judged_under_its_own_path_mp_10_m11() {
    let metadata = pod(MIRROR).metadata;
    let error = validate_template(&metadata, "", "spec.template").unwrap();
    assert_eq!(
        causes(&[error]),
        [("spec.template.annotations[kubernetes.io/config.mirror]", "FieldValueInvalid")]
    );
    assert_eq!(validate_template(&metadata, "n0", "spec.template"), None);
    assert_eq!(validate_template(&pod(UNBOUND).metadata, "", "spec.template"), None);
}

#[test]
fn a_token_needs_an_account_mp_18() {
    let token = r#"{"spec":{"volumes":[{"hostPath":{}},
        {"projected":{"sources":[{"downwardAPI":{}},{"serviceAccountToken":{"path":"t"}}]}}]}}"#;
    assert_eq!(
        causes(&validate_create(&pod(token))),
        [("spec.volumes[1].projected.sources[1].serviceAccountToken", "FieldValueForbidden")]
    );
    let with_account = token.replacen("{\"volumes\"", "{\"serviceAccountName\":\"a\",\"volumes\"", 1);
    assert_eq!(validate_create(&pod(&with_account)), []);
}

#[test]
fn the_account_plugin_refuses_mirror_pods_with_secrets_mp_20_m4_m5_m6() {
    let refused = |spec: &str, mirror: bool| {
        let annotations = if mirror { r#"{"kubernetes.io/config.mirror":"h"}"# } else { "{}" };
        let json = format!(r#"{{"metadata":{{"annotations":{annotations}}},"spec":{spec}}}"#);
        service_account_refusal(&pod(&json)).is_some()
    };
    let container = r#"[{"env":[{"valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}]}]"#;
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
