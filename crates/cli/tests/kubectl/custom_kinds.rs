//! Custom kinds, by kubectl.

use portcullis_testkit::program::Running;
use portcullis_testkit::recorded::repository;
use serde_json::{Value, json};

use crate::kubectl::support::Served;

fn with_backups() -> Served {
    let served = Served::start(&[]);
    let folder = repository().join("examples/custom-kinds");
    for file in ["definition.yaml", "backup.yaml"] {
        served.ok(&format!("create -f {}", folder.join(file).display()));
        if file == "definition.yaml" {
            served.ok("wait --for=condition=Established crd/backups.store.example.com");
        }
    }
    served
}

fn nightly(served: &Served) -> Value {
    served.json("get backup nightly --show-managed-fields")
}

#[test]
fn the_page_about_custom_kinds_shows_what_happens() {
    let served = Served::start(&[]);
    served.types("docs/custom-kinds.md", &["kubectl"], &repository(), "");
}

#[test]
fn a_changed_definition_changes_the_objects_and_the_watches_that_are_open() {
    let served = with_backups();
    let mut watch = std::process::Command::new("kubectl");
    watch
        .args(["get", "backups", "-w", "-o", "jsonpath={.spec.keep} {.spec.zone}{\"\\n\"}"])
        .env("KUBECONFIG", served.data().join("admin.kubeconfig"))
        .env("HOME", served.scratch.path());
    let mut watch = Running::spawn(watch);
    assert_eq!(watch.line(), "7 \n");
    let zone = json!({"type": "string", "default": "north"});
    let patch = json!([{
        "op": "add",
        "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/zone",
        "value": zone,
    }]);
    served.ok(&format!("patch crd backups.store.example.com --type=json -p '{patch}'"));
    served.ok("patch backup nightly --type=merge -p '{\"spec\":{\"keep\":8}}'");
    assert_eq!(watch.line(), "8 north\n");
    served.ok("delete backup nightly");
    assert_eq!(watch.line(), "8 north\n");
    watch.kill();
}

#[test]
fn the_managers_of_a_custom_object_are_those_of_its_schema() {
    let served = with_backups();
    let logs = json!({
        "apiVersion": "store.example.com/v1",
        "kind": "Backup",
        "metadata": {"name": "nightly"},
        "spec": {"volumes": [{"name": "logs"}]},
    });
    served.ok_with("apply --server-side --field-manager=ops -f -", &logs.to_string());
    let object = nightly(&served);
    let managers = object["metadata"]["managedFields"].as_array().unwrap();
    let ops = managers.iter().find(|entry| entry["manager"] == "ops").unwrap();
    assert_eq!(ops["operation"], "Apply");
    let owned = json!({"f:spec": {"f:volumes": {"k:{\"name\":\"logs\"}": {".": {}, "f:name": {}}}}});
    assert_eq!(ops["fieldsV1"], owned);
    served.ok("scale backup nightly --replicas=2");
    let object = nightly(&served);
    let managers = object["metadata"]["managedFields"].as_array().unwrap();
    let scale = managers.iter().find(|entry| entry["subresource"] == "scale").unwrap();
    assert_eq!(scale["fieldsV1"], json!({"f:spec": {"f:keep": {}}}));
    assert_eq!(scale["apiVersion"], "store.example.com/v1");
}

#[test]
fn the_definitions_of_machines_are_installed_on_request_and_then_left_alone() {
    let flags = &["--install-crds=machines"];
    let served = Served::start(flags);
    let names = ["machines.cluster.x-k8s.io", "machines.machine.openshift.io"];
    for name in names {
        served.ok(&format!("wait --for=condition=Established crd/{name}"));
    }
    let mut machine = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Machine",
        "metadata": {"name": "node-a"},
        "spec": {"clusterName": "prod", "bootstrap": {"dataSecretName": "boot"}},
    });
    served.ok_with("create -f -", &machine.to_string());
    assert_eq!(served.json("get machines.cluster.x-k8s.io node-a")["spec"], machine["spec"]);
    machine["spec"]["clusterName"] = json!(7);
    machine["metadata"]["name"] = json!("node-b");
    let refused = served.kubectl_with("create -f -", &machine.to_string());
    assert!(refused.stderr.contains("spec.clusterName: Invalid value"), "{refused:?}");

    served.ok(&format!("annotate crd {} kept=yes", names[0]));
    served.ok(&format!("delete crd {}", names[1]));
    let served = served.restart(flags);
    assert_eq!(
        served.json(&format!("get crd {}", names[0]))["metadata"]["annotations"],
        json!({"kept": "yes"})
    );
    served.ok(&format!("get crd {}", names[1]));
    served.ok("get machines.cluster.x-k8s.io node-a");
    // The manifest is that of the flag.
    let manifest = repository().join("deploy/serve/machines.yaml");
    assert_eq!(served.kubectl(&format!("diff -f {}", manifest.display())).code, 0);
}
