//! Manifests of old API versions keep their meaning in `v1` (RB-121 to RB-124).

use portcullis_kinds::resources::rbac::legacy::{downgrade_to_v1alpha1, upgrade};
use serde_json::json;

#[test]
fn v1alpha1_subjects_and_references_lose_what_v1_has_no_place_for_rb_121() {
    let mut binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1alpha1",
        "kind": "RoleBinding",
        "metadata": {"name": "b", "namespace": "ns"},
        "roleRef": {"apiVersion": "rbac.authorization.k8s.io/v1alpha1", "kind": "Role", "namespace": "x", "name": "r"},
        "subjects": [
            {"kind": "User", "name": "jane"},
            {"kind": "Group", "apiVersion": "nonsense/v7", "name": "g"},
            {"kind": "ServiceAccount", "apiVersion": "v1", "name": "sa", "namespace": "ns"},
            {"kind": "Robot", "apiVersion": "robots.example/v1", "name": "r2"},
        ],
    });
    assert!(upgrade(&mut binding));
    assert_eq!(
        binding,
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "b", "namespace": "ns"},
            "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [
                {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "jane"},
                {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "g"},
                {"kind": "ServiceAccount", "apiGroup": "", "name": "sa", "namespace": "ns"},
                {"kind": "Robot", "apiGroup": "robots.example", "name": "r2"},
            ],
        })
    );
    let mut role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1alpha1",
        "kind": "Role",
        "rules": [{"verbs": ["get"], "attributeRestrictions": {"kind": "x"}, "apiGroups": [""], "resources": ["pods"]}],
    });
    assert!(upgrade(&mut role));
    assert_eq!(role["rules"], json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]));
}

#[test]
fn the_wildcard_user_is_everybody_in_v1alpha1_only_rb_124() {
    let binding = |version: &str| {
        let mut binding = json!({
            "apiVersion": format!("rbac.authorization.k8s.io/{version}"),
            "subjects": [{"kind": "User", "name": "*"}],
        });
        let changed = upgrade(&mut binding);
        (changed, binding["subjects"][0]["kind"].clone(), binding["subjects"][0]["name"].clone())
    };
    assert_eq!(binding("v1alpha1"), (true, json!("Group"), json!("system:authenticated")));
    assert_eq!(binding("v1beta1"), (true, json!("User"), json!("*")));
    assert_eq!(binding("v1"), (false, json!("User"), json!("*")));
}

#[test]
fn writing_v1alpha1_gives_subjects_their_versions_rb_123() {
    let mut binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "subjects": [
            {"kind": "ServiceAccount", "name": "sa", "namespace": "ns"},
            {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "g"},
            {"kind": "Robot", "apiGroup": "robots.example", "name": "r"},
        ],
    });
    assert!(downgrade_to_v1alpha1(&mut binding));
    assert_eq!(
        binding,
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1alpha1",
            "subjects": [
                {"kind": "ServiceAccount", "apiVersion": "v1", "name": "sa", "namespace": "ns"},
                {"kind": "Group", "apiVersion": "rbac.authorization.k8s.io/v1alpha1", "name": "g"},
                {"kind": "Robot", "apiVersion": "robots.example/", "name": "r"},
            ],
        })
    );
}
