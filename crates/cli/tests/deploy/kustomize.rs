//! The kustomizations of `deploy/`: made from its files, changed by the usual fields, applied, pruned and deleted by kubectl.

use std::collections::BTreeSet;
use std::fs;

use portcullis_testkit::program;
use portcullis_testkit::scratch::Scratch;
use serde_json::{Value, json};

use crate::deploy::support::{
    LABEL, Objects, PARTS, apply, copy_deploy, deploy, everything, kustomize, labelled, objects, prune,
    without_labels,
};
use crate::kubectl::support::Served;

/// The namespace of all parts but the webhook.
fn namespace() -> Objects {
    objects(&fs::read_to_string(deploy("namespace.yaml")).unwrap())
}

#[test]
fn each_part_has_the_objects_of_its_files() {
    for (part, left_out) in PARTS {
        let mut of_files = Objects::new();
        for entry in fs::read_dir(deploy(part)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.extension().is_some_and(|it| it == "yaml")
                && name != "kustomization.yaml"
                && !left_out.contains(&name)
            {
                of_files.extend(objects(&fs::read_to_string(&path).unwrap()));
            }
        }
        assert!(of_files.len() > 4, "{part}: {of_files:?}");
        let rendered = objects(&kustomize(&deploy(part)));
        for (key, object) in &rendered {
            assert_eq!(object["metadata"]["labels"]["app.kubernetes.io/part-of"], "portcullis", "{key:?}");
        }
        assert_eq!(without_labels(rendered, &["app.kubernetes.io/part-of"]), of_files, "{part}");
    }
}

#[test]
fn all_parts_together_are_those_of_the_parts_and_their_namespace() {
    let mut expected = namespace();
    for (part, _) in PARTS {
        for (key, object) in
            without_labels(objects(&kustomize(&deploy(part))), &["app.kubernetes.io/part-of"])
        {
            assert!(expected.insert(key.clone(), object).is_none(), "{key:?} is of two parts");
        }
    }
    let all = without_labels(objects(&kustomize(&deploy(""))), &["app.kubernetes.io/part-of"]);
    assert_eq!(all, expected);
}

#[test]
fn the_rights_of_the_webhook_are_those_that_it_asks_for() {
    let printed = program!().run(["webhook", "rbac"]).ok();
    let file = fs::read_to_string(deploy("webhook/rbac.yaml")).unwrap();
    assert_eq!(objects(&file), objects(&printed));
}

#[test]
fn image_namespace_and_replicas_are_changed_by_the_usual_fields() {
    let scratch = Scratch::new();
    copy_deploy(scratch.path());
    for (part, replicated) in [
        ("approve", "portcullis-approver"),
        ("attest", "portcullis-attest"),
        ("guard", ""),
        ("webhook", "portcullis-webhook"),
    ] {
        let mut overlay = json!({
            "resources": [format!("../deploy/{part}")],
            "namespace": "boundary",
            "images": [{"name": "portcullis", "newName": "example.com/portcullis", "newTag": "1.2.3"}],
        });
        if !replicated.is_empty() {
            overlay["replicas"] = json!([{"name": replicated, "count": 5}]);
        }
        scratch.write("overlay/kustomization.yaml", overlay.to_string());
        let changed = objects(&kustomize(&scratch.path().join("overlay")));
        let before = objects(&kustomize(&deploy(part)));
        assert_eq!(changed.len(), before.len(), "{part}");
        let mut workloads = 0;
        for ([kind, namespace, name], object) in &changed {
            let was = before.keys().find(|[k, _, n]| (k, n) == (kind, name) || k == "Namespace" && k == kind);
            let [_, old_namespace, _] = was.unwrap_or_else(|| panic!("{kind} {name} is new"));
            assert_eq!(namespace.is_empty(), old_namespace.is_empty(), "{kind} {name}");
            assert!(namespace.is_empty() || namespace == "boundary", "{kind} {name}");
            for subject in object["subjects"].as_array().into_iter().flatten() {
                let is_account = subject["kind"] == "ServiceAccount";
                assert!(!is_account || subject["namespace"] == "boundary", "{name}: {subject}");
            }
            let container = &object["spec"]["template"]["spec"]["containers"][0];
            if container.is_object() {
                workloads += 1;
                assert_eq!(container["image"], "example.com/portcullis:1.2.3");
                // The program learns its namespace from the pod.
                for argument in container["args"].as_array().unwrap() {
                    assert!(!argument.as_str().unwrap().contains("namespace=portcullis"), "{argument}");
                }
                let replicas = if replicated.is_empty() { Value::Null } else { json!(5) };
                assert_eq!(object["spec"]["replicas"], replicas, "{kind} {name}");
            }
        }
        assert_eq!(workloads, 1, "{part}");
    }
}

#[test]
fn a_server_takes_all_parts_and_changes_and_has_nothing_of_them_afterwards() {
    let served = Served::start(&[]);
    let before = everything(&served);
    copy_deploy(served.scratch.path());
    let all: BTreeSet<[String; 3]> = objects(&kustomize(&deploy(""))).into_keys().collect();

    let said = apply(&served, "-k deploy", "");
    assert_eq!(said.keys().collect::<Vec<_>>(), ["created"]);
    assert_eq!(said["created"].len(), all.len());
    assert_eq!(labelled(&served).len(), all.len());
    let installed = everything(&served);
    for key in &all {
        assert!(installed.contains_key(key), "{key:?}");
    }
    // Once more: nothing changes, though kubectl sends the selector of a PodDisruptionBudget again, whatever it is.
    let budget = "poddisruptionbudget.policy/portcullis-webhook";
    let said = apply(&served, "-k deploy", "");
    assert_eq!(said["configured"], [budget]);
    assert_eq!(said["unchanged"].len(), all.len() - 1);
    assert_eq!(everything(&served), installed);

    // An upgrade: another image for all, more webhooks, no guard.
    let overlay = "resources: [../deploy]\n\
        images: [{name: portcullis, newName: example.com/portcullis, newTag: 1.2.3}]\n\
        replicas: [{name: portcullis-webhook, count: 3}]\n\
        patches:\n\
        - target: {name: portcullis-guard.*}\n\
        \x20 patch: |\n\
        \x20   kind: Any\n\
        \x20   metadata: {name: any}\n\
        \x20   $patch: delete\n";
    served.scratch.write("overlay/kustomization.yaml", overlay);
    let said = apply(&served, &format!("-k overlay {}", prune()), "");
    assert_eq!(said.keys().collect::<Vec<_>>(), ["configured", "pruned", "unchanged"]);
    let configured: BTreeSet<&str> = said["configured"].iter().map(String::as_str).collect();
    let workloads = [
        "cronjob.batch/portcullis-audit",
        "deployment.apps/portcullis-approver",
        "deployment.apps/portcullis-attest",
        "deployment.apps/portcullis-webhook",
        budget,
    ];
    assert_eq!(configured, workloads.into());
    let guard: BTreeSet<[String; 3]> = objects(&kustomize(&deploy("guard"))).into_keys().collect();
    assert_eq!(said["pruned"].len(), guard.len(), "{:?}", said["pruned"]);
    let upgraded: BTreeSet<[String; 3]> =
        everything(&served).into_keys().filter(|key| all.contains(key)).collect();
    assert_eq!(upgraded, all.difference(&guard).cloned().collect());
    let deployment = served.json("get deployment portcullis-webhook -n portcullis-system");
    assert_eq!(deployment["spec"]["replicas"], 3);
    assert_eq!(
        deployment["spec"]["template"]["spec"]["containers"][0]["image"],
        "example.com/portcullis:1.2.3"
    );

    served.ok("delete -k overlay");
    assert_eq!(labelled(&served), BTreeSet::new());
    assert_eq!(everything(&served).keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
}

#[test]
fn a_part_comes_and_goes_alone_and_leaves_the_namespace_of_the_others() {
    let served = Served::start(&[]);
    served.ok(&format!("apply -f {}", deploy("namespace.yaml").display()));
    // What somebody else keeps there.
    served.ok("create secret generic portcullis-attest-ca -n portcullis --from-literal=tls.crt=x");
    for (part, _) in PARTS {
        let folder = deploy(part);
        let said = apply(&served, &format!("-k {}", folder.display()), "");
        assert_eq!(said.keys().collect::<Vec<_>>(), ["created"], "{part}");
        assert_eq!(labelled(&served).len(), said["created"].len(), "{part}: {LABEL}");
        served.ok(&format!("delete -k {}", folder.display()));
        assert_eq!(labelled(&served), BTreeSet::new(), "{part}");
    }
    served.ok("get secret portcullis-attest-ca -n portcullis");
}
