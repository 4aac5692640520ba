//! A release of the chart: installed, changed and removed by Helm, and by kubectl from what Helm renders.

use std::collections::{BTreeMap, BTreeSet};

use portcullis_testkit::wait::until;
use serde_json::json;

use crate::deploy::support::{
    apply, deploy, everything, helm, kustomize, labelled, objects, prune, template, with_all,
};
use crate::kubectl::support::Served;

/// The names of all objects of the server.
fn names(served: &Served) -> BTreeSet<[String; 3]> {
    everything(served).into_keys().collect()
}

#[test]
fn helm_installs_changes_and_removes_a_release_and_leaves_nothing() {
    let served = Served::start(&[]);
    let kubeconfig = served.data().join("admin.kubeconfig");
    let run = |line: &str, values: &serde_json::Value| helm(line, &kubeconfig, values);
    let before = names(&served);
    let all: BTreeSet<[String; 3]> = objects(&template(&with_all())).into_keys().collect();

    let said = run("install portcullis CHART", &with_all()).ok();
    assert!(said.contains("STATUS: deployed\nREVISION: 1\n"), "{said}");
    let installed = everything(&served);
    let new: BTreeSet<[String; 3]> = installed.keys().filter(|key| !before.contains(*key)).cloned().collect();
    assert!(all.is_subset(&new), "{:?}", all.difference(&new));
    assert_eq!(labelled(&served).len(), all.len());

    // The same once more changes nothing.
    run("upgrade portcullis CHART", &with_all()).ok();
    assert_eq!(everything(&served), installed);

    // Names are fixed: a second release is refused, and changes nothing.
    let refused = run("install other CHART", &with_all());
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("cannot be imported into the current release"), "{refused:?}");
    assert_eq!(everything(&served), installed);

    // More webhooks, and no guard.
    let mut changed = with_all();
    changed["webhook"]["replicas"] = json!(3);
    changed["guard"]["enabled"] = json!(false);
    run("upgrade portcullis CHART", &changed).ok();
    let guard: BTreeSet<[String; 3]> = objects(&kustomize(&deploy("guard"))).into_keys().collect();
    let upgraded = everything(&served);
    let expected: BTreeSet<[String; 3]> =
        installed.keys().filter(|key| !guard.contains(*key)).cloned().collect();
    assert_eq!(upgraded.keys().cloned().collect::<BTreeSet<_>>(), expected);
    let differ: Vec<&[String; 3]> =
        upgraded.iter().filter(|(key, revision)| installed[*key] != **revision).map(|(key, _)| key).collect();
    assert_eq!(differ, [&["Deployment", "portcullis-system", "portcullis-webhook"].map(str::to_owned)]);

    run("uninstall portcullis", &json!({})).ok();
    // Helm does not wait for namespaces to be empty.
    until("everything is gone", || names(&served) == before);
    assert_eq!(served.ok("get secrets -A -l owner=helm -o name"), "");
}

#[test]
fn kubectl_applies_changes_and_deletes_what_helm_renders() {
    let served = Served::start(&[]);
    let before = names(&served);
    let first = template(&with_all());
    let number = objects(&first).len();
    let counts = |said: &BTreeMap<String, Vec<String>>| -> BTreeMap<String, usize> {
        said.iter().map(|(word, objects)| (word.clone(), objects.len())).collect()
    };
    let said = apply(&served, "-f -", &first);
    assert_eq!(counts(&said), [("created".to_owned(), number)].into());
    // kubectl sends the selector of a PodDisruptionBudget again, whatever it is.
    let installed = everything(&served);
    let said = apply(&served, "-f -", &first);
    assert_eq!(said["configured"], ["poddisruptionbudget.policy/portcullis-webhook"]);
    assert_eq!(everything(&served), installed);

    let mut changed = with_all();
    changed["approve"]["replicas"] = json!(1);
    changed["approve"]["tolerations"] = json!([{"operator": "Exists"}]);
    changed["audit"]["suspend"] = json!(true);
    changed["audit"]["extraVolumes"] = json!([{"name": "more", "emptyDir": {}}]);
    changed["audit"]["extraVolumeMounts"] = json!([{"name": "more", "mountPath": "/more"}]);
    changed["audit"]["extraEnv"] = json!([{"name": "MORE", "value": "1"}]);
    changed["guard"]["enabled"] = json!(false);
    let second = template(&changed);
    let said = apply(&served, &format!("-f - {}", prune()), &second);
    let expected = [
        "cronjob.batch/portcullis-audit",
        "deployment.apps/portcullis-approver",
        "poddisruptionbudget.policy/portcullis-webhook",
    ];
    assert_eq!(said["configured"].iter().map(String::as_str).collect::<BTreeSet<_>>(), expected.into());
    let guard = objects(&kustomize(&deploy("guard"))).len();
    assert_eq!(said["pruned"].len(), guard, "{said:?}");
    assert_eq!(labelled(&served).len(), number - guard);

    served.ok_with("delete -f -", &second);
    assert_eq!(names(&served), before);
}
