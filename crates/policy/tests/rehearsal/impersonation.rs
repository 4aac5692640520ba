//! A request as somebody else: whoever may not impersonate any more is refused, whatever the other user may do.

use portcullis_policy::Engine;
use serde_json::{Value, json};

use crate::rehearsal::support::{counts, engine, rehearse, secret, with};

/// Jane may read the secret. John has these rules.
fn cluster(rules: &Value) -> Engine {
    let role = |name: &str, rules: &Value| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
            "rules": rules,
        })
    };
    let binding = |name: &str, user: &str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        })
    };
    let read = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}]);
    engine(&[role("read", &read), binding("read", "jane"), role("act", rules), binding("act", "john")])
}

/// John acts as Jane, who is in a group.
fn event(constraint: &str) -> Value {
    let jane = json!({"username": "jane", "groups": ["developers", "system:authenticated"]});
    let event = with(&secret("a", "john", "db", "allow"), "/impersonatedUser", jane);
    match constraint {
        "" => event,
        verb => with(&event, "/authenticationMetadata", json!({"impersonationConstraint": verb})),
    }
}

#[test]
fn the_legacy_verb_is_needed_for_the_user_and_each_group_an_123() {
    let rule = |resource: &str, name: &str| json!({"verbs": ["impersonate"], "apiGroups": [""], "resources": [resource], "resourceNames": [name]});
    let all = cluster(&json!([rule("users", "jane"), rule("groups", "developers")]));
    assert_eq!(counts(&rehearse(&all, &[event("")])), [1, 1, 0, 0, 0]);
    for (rules, missing) in [
        (json!([rule("users", "jane")]), "groups"),
        (json!([rule("groups", "developers")]), "users"),
        (json!([rule("users", "joan"), rule("groups", "developers")]), "users"),
    ] {
        let report = rehearse(&cluster(&rules), &[event("")]);
        assert_eq!(counts(&report), [1, 0, 1, 0, 0], "{report:#}");
        let row = &report["changed"][0];
        assert_eq!(row["subject"], json!({"kind": "User", "name": "john"}));
        assert_eq!((&row["verb"], &row["resource"]), (&json!("impersonate"), &json!(missing)));
    }
    // A request that was refused anyway.
    let refused = with(&event(""), "/annotations/authorization.k8s.io~1decision", json!("forbid"));
    assert_eq!(counts(&rehearse(&cluster(&json!([])), &[refused])), [1, 1, 0, 0, 0]);
}

#[test]
fn a_constrained_verb_is_needed_for_the_request_and_the_identity_an_143() {
    let verb = "impersonate:user-info";
    let identity =
        json!({"verbs": [verb], "apiGroups": ["authentication.k8s.io"], "resources": ["users", "groups"]});
    let request =
        json!({"verbs": ["impersonate-on:user-info:get"], "apiGroups": [""], "resources": ["secrets"]});
    let legacy = json!({"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users", "groups"]});
    for (rules, refused) in [
        (json!([identity, request]), 0),
        (json!([legacy]), 0),
        (json!([identity]), 1),
        (json!([request]), 1),
        (json!([]), 1),
    ] {
        let report = rehearse(&cluster(&rules), &[event(verb)]);
        assert_eq!(counts(&report), [1, 1 - refused, refused, 0, 0], "{rules}: {report:#}");
    }
}
