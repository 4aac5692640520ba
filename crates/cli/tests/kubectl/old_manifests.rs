//! The authorization guide of Kubernetes 1.4, followed to the letter: its manifests apply as they stand there, in API
//! versions that have long been gone, and grant what the guide says (RB-120 to RB-124, WH-121).

use portcullis_testkit::recorded::folder;

use crate::kubectl::support::Served;

const OLD: &str = "rbac.authorization.k8s.io/v1alpha1=true,rbac.authorization.k8s.io/v1beta1=true,authorization.k8s.io/v1beta1=true";

fn manifest(name: &str) -> String {
    folder().join("manifests").join(name).to_str().unwrap().to_owned()
}

fn guide() -> Served {
    let served = Served::start(&["--runtime-config", OLD]);
    served.ok("create namespace development");
    served
}

fn may(served: &Served, words: &str) -> bool {
    let done = served.kubectl(&format!("auth can-i {words}"));
    match (done.code, done.stdout.trim_end()) {
        (0, "yes") => true,
        (1, "no") => false,
        _ => panic!("{words}: {done:?}"),
    }
}

#[test]
fn roles_and_bindings_apply_as_they_stand_and_grant_what_the_guide_says() {
    for verb in ["apply", "create"] {
        let served = guide();
        let rbac = "rbac.authorization.k8s.io";
        for (name, printed) in [
            ("pod-reader.yaml", format!("role.{rbac}/pod-reader created")),
            ("secret-reader.yaml", format!("clusterrole.{rbac}/secret-reader created")),
            ("read-pods.yaml", format!("rolebinding.{rbac}/read-pods created")),
            ("read-secrets-in-development.yaml", format!("rolebinding.{rbac}/read-secrets created")),
            ("read-secrets.yaml", format!("clusterrolebinding.{rbac}/read-secrets created")),
            ("pod-and-pod-logs-reader.yaml", format!("role.{rbac}/pod-and-pod-logs-reader created")),
        ] {
            assert_eq!(served.ok(&format!("{verb} -f {}", manifest(name))), printed);
            let version =
                || served.ok(&format!("get -f {} -o jsonpath={{.metadata.resourceVersion}}", manifest(name)));
            if verb == "apply" {
                let before = version();
                served.ok(&format!("apply -f {}", manifest(name)));
                assert_eq!(version(), before, "{name} says the same again");
            }
        }
        // "allows jane to read pods" in the namespace default
        for (words, expected) in [
            ("get pods -n default --as jane", true),
            ("list pods -n default --as jane", true),
            ("watch pods -n default --as jane", true),
            ("delete pods -n default --as jane", false),
            ("get pods -n development --as jane", false),
            ("get secrets -n default --as jane", false),
            // "dave will only be able read secrets in the development namespace"
            ("get secrets -n development --as dave", true),
            ("get secrets -n default --as dave", false),
            ("get secrets -A --as dave", false),
            // "any user in the group manager to read secrets in any namespace"
            ("get secrets -n default --as ann --as-group manager", true),
            ("get secrets -n development --as ann --as-group manager", true),
            ("list secrets -A --as ann --as-group manager", true),
            ("update secrets -A --as ann --as-group manager", false),
            ("get secrets -n default --as ann", false),
        ] {
            assert_eq!(may(&served, words), expected, "{words}");
        }
        // "to read both pods and pod logs"
        served.ok("create rolebinding logs --role=pod-and-pod-logs-reader --user=lou");
        assert!(may(&served, "get pods --subresource=log --as lou") && may(&served, "list pods --as lou"));
        assert!(!may(&served, "watch pods --as lou"));
        assert!(!may(&served, "get pods --subresource=log --as jane"));
    }
}

#[test]
fn what_was_written_in_an_old_version_is_stored_as_v1_and_shown_in_every_one() {
    let served = guide();
    for name in ["pod-reader.yaml", "read-pods.yaml"] {
        served.ok(&format!("apply -f {}", manifest(name)));
    }
    let binding = served.json("get rolebinding read-pods");
    assert_eq!(binding["apiVersion"], "rbac.authorization.k8s.io/v1");
    let user = serde_json::json!([{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "jane"}]);
    assert_eq!(binding["subjects"], user);
    let role =
        serde_json::json!({"kind": "Role", "apiGroup": "rbac.authorization.k8s.io", "name": "pod-reader"});
    assert_eq!(binding["roleRef"], role);

    let old = |version: &str| {
        served.json(&format!("get rolebindings.{version}.rbac.authorization.k8s.io read-pods"))
    };
    let alpha = old("v1alpha1");
    assert_eq!(alpha["apiVersion"], "rbac.authorization.k8s.io/v1alpha1");
    let subject = serde_json::json!([{"kind": "User", "apiVersion": "rbac.authorization.k8s.io/v1alpha1", "name": "jane"}]);
    assert_eq!(alpha["subjects"], subject);
    let beta = old("v1beta1");
    assert_eq!(
        (&beta["apiVersion"], &beta["subjects"]),
        (&"rbac.authorization.k8s.io/v1beta1".into(), &user)
    );
    let path = "/apis/rbac.authorization.k8s.io/v1alpha1/namespaces/default/rolebindings";
    let list: serde_json::Value = serde_json::from_str(&served.ok(&format!("get --raw {path}"))).unwrap();
    assert_eq!((&list["kind"], &list["items"][0]["subjects"]), (&"RoleBindingList".into(), &subject));
    assert_eq!(
        served.table("get rolebindings.v1alpha1.rbac.authorization.k8s.io")[1][..2],
        ["read-pods", "Role/pod-reader"]
    );

    // A change in the old form is a change of the object.
    served.ok("patch rolebindings.v1alpha1.rbac.authorization.k8s.io read-pods --type=json \
         -p '[{\"op\":\"replace\",\"path\":\"/subjects/0/name\",\"value\":\"john\"}]'");
    assert!(may(&served, "get pods --as john") && !may(&served, "get pods --as jane"));
    served.ok("label rolebindings.v1beta1.rbac.authorization.k8s.io read-pods a=b");
    assert_eq!(
        served.ok("get rolebinding -l a=b -o name"),
        "rolebinding.rbac.authorization.k8s.io/read-pods"
    );
    served.ok(&format!("delete -f {}", manifest("read-pods.yaml")));
    assert!(!may(&served, "get pods --as john"));
}

#[test]
fn subjects_of_every_form_are_bound() {
    let served = guide();
    let subjects = std::fs::read_to_string(manifest("subjects.yaml")).unwrap();
    let expected = [
        ("--as alice@example.com", "--as bob@example.com"),
        ("--as x --as-group frontend-admins", "--as frontend-admins"),
        ("--as system:serviceaccount:kube-system:default", "--as system:serviceaccount:qa:default"),
        (
            "--as system:serviceaccount:qa:x --as-group system:serviceaccounts:qa",
            "--as system:serviceaccount:qb:x",
        ),
        ("--as system:serviceaccount:any:x --as-group system:serviceaccounts", "--as any"),
    ];
    let examples: Vec<&str> = subjects.split("---\n").collect();
    assert_eq!(examples.len(), expected.len());
    for (subjects, (meant, other)) in examples.into_iter().zip(expected) {
        let head = "kind: ClusterRoleBinding\napiVersion: rbac.authorization.k8s.io/v1alpha1\nmetadata:\n  name: example\n\
                    roleRef:\n  kind: ClusterRole\n  name: view\n";
        served.ok_with("create -f -", &format!("{head}{subjects}"));
        assert!(may(&served, &format!("list pods -A {meant}")), "{subjects}");
        assert!(!may(&served, &format!("list pods -A {other}")), "{subjects}");
        served.ok("delete clusterrolebinding example");
    }
}

#[test]
fn reviews_are_created_as_they_stand_and_answered() {
    let served = guide();
    let reviews = ["review-of-pods.json", "review-of-a-path.json", "review-by-kubectl.json"];
    let allowed = || {
        reviews.map(|name| {
            let printed = served.ok(&format!("create -f {}", manifest(name)));
            assert_eq!(printed, "subjectaccessreview.authorization.k8s.io/<unknown> created");
            let answer = served.ok(&format!("create -f {} -o json", manifest(name)));
            let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
            assert_eq!(answer["apiVersion"], "authorization.k8s.io/v1beta1");
            assert_eq!(answer["spec"]["group"], serde_json::json!(["group1", "group2"]));
            answer["status"]["allowed"].as_bool().unwrap()
        })
    };
    assert_eq!(allowed(), [false; 3]);
    served.ok("create namespace kittensandponies");
    let roles = r#"
apiVersion: rbac.authorization.k8s.io/v1beta1
kind: ClusterRole
metadata: {name: getters}
rules:
- {apiGroups: ["*"], resources: [pods], verbs: [GET]}
- {nonResourceURLs: [/debug], verbs: [GET]}
---
apiVersion: rbac.authorization.k8s.io/v1beta1
kind: ClusterRoleBinding
metadata: {name: getters}
subjects: [{kind: Group, apiGroup: rbac.authorization.k8s.io, name: group2}]
roleRef: {kind: ClusterRole, apiGroup: rbac.authorization.k8s.io, name: getters}
"#;
    served.ok_with("apply -f -", roles);
    assert_eq!(allowed(), [true; 3]);
}

#[test]
fn old_versions_are_there_only_when_switched_on() {
    let served = Served::start(&[]);
    let refused = served.fails(&format!("apply -f {}", manifest("secret-reader.yaml")));
    assert!(
        refused.contains(
            "no matches for kind \"ClusterRole\" in version \"rbac.authorization.k8s.io/v1alpha1\""
        ),
        "{refused}"
    );
    let raw = served.fails("get --raw /apis/rbac.authorization.k8s.io/v1alpha1/clusterroles");
    assert!(raw.contains("NotFound"), "{raw}");
}
