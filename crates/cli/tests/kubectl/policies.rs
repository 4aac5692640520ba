//! ValidatingAdmissionPolicies, by kubectl.

use std::fs;

use portcullis_testkit::recorded::repository;
use serde_json::{Value, json};

use crate::kubectl::support::Served;

const GROUP: &str = "admissionregistration.k8s.io/v1";

fn apply(served: &Served, object: &Value) {
    served.ok_with("apply --server-side -f -", &object.to_string());
}

/// A policy about pods, and its binding, which refuses.
fn enforce(served: &Served, name: &str, spec: &Value) {
    let policy = json!({
        "apiVersion": GROUP, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec,
    });
    apply(served, &policy);
    let binding = json!({
        "apiVersion": GROUP, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    });
    apply(served, &binding);
}

fn images(operations: &[&str]) -> Value {
    json!({
        "matchConstraints": {"resourceRules": [{
            "operations": operations, "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods", "pods/ephemeralcontainers"],
        }]},
        "variables": [{
            "name": "foreign",
            "expression": "object.spec.containers.filter(c, !c.image.startsWith('registry.example.com/')).map(c, c.image)",
        }],
        "validations": [{
            "expression": "variables.foreign.size() == 0",
            "messageExpression": "'images of other registries: ' + variables.foreign.join(', ')",
        }],
    })
}

#[test]
fn the_page_about_policies_shows_what_happens() {
    let served = Served::start(&[]);
    served.types("docs/policies.md", &["kubectl"], &repository(), "");
    let page = fs::read_to_string(repository().join("docs/policies.md")).unwrap();
    for file in ["replicas", "owner", "sealed"] {
        let file = repository().join(format!("examples/policies/{file}.yaml"));
        assert!(page.contains(&fs::read_to_string(&file).unwrap()), "{}", file.display());
    }
}

#[test]
fn kubectl_says_why_a_policy_refuses() {
    let served = Served::start(&[]);
    served.ok("run before --image=docker.io/before");
    enforce(&served, "images", &images(&["CREATE", "UPDATE"]));
    let why = "ValidatingAdmissionPolicy 'images' with binding 'images' denied request: images of other registries: ";
    let refused = served.fails("run web --image=docker.io/web");
    assert_eq!(refused, format!("The pods \"web\" is invalid: : {why}docker.io/web"));
    served.ok("run web --image=registry.example.com/web:1");
    let refused = served.fails("set image pod/web web=docker.io/web");
    assert!(refused.contains(why), "{refused}");
    served.ok("set image pod/web web=registry.example.com/web:2");
    // What is there stays, and can be deleted; it cannot be changed as it is.
    assert!(served.fails("label pod before a=b").contains(why));
    served.ok("delete pod before --wait=false");
    // A template is no pod.
    served.ok("create deployment more --image=docker.io/more");
    served.ok("delete validatingadmissionpolicybinding images");
    served.ok("run after --image=docker.io/after");

    let served = {
        apply(
            &served,
            &json!({
                "apiVersion": GROUP, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "again"},
                "spec": {"policyName": "images", "validationActions": ["Deny"]},
            }),
        );
        assert!(
            served.fails("run last --image=docker.io/last").contains("with binding 'again' denied request")
        );
        served.restart(&["--disable-admission-plugins=ValidatingAdmissionPolicy"])
    };
    served.ok("run last --image=docker.io/last");
    // The policies are kept, and count again with the plugin.
    let served = served.restart(&[]);
    assert!(served.fails("run next --image=docker.io/next").contains("with binding 'again' denied request"));
}
