//! The files of `deploy/audit`: the role is what the audit asks for and nothing more, and a server takes them.

use std::collections::BTreeSet;
use std::fs;

use portcullis_testkit::recorded::repository;
use serde_json::{Value, json};

use crate::audit::archives::{collect, entry, manifest};
use crate::audit::collected::World;
use crate::audit::fake_cluster::{FakeCluster, objects, target, text};

fn file(name: &str) -> String {
    fs::read_to_string(repository().join("deploy/audit").join(name)).unwrap()
}

/// What the rules of a role grant: verb, group, resource, name.
fn granted(role: &Value) -> BTreeSet<[String; 4]> {
    let words = |rule: &Value, field: &str| -> Vec<String> {
        rule[field].as_array().map_or_else(
            || vec![String::new()],
            |words| words.iter().map(|word| word.as_str().unwrap().to_owned()).collect(),
        )
    };
    let mut all = BTreeSet::new();
    for rule in role["rules"].as_array().unwrap() {
        for verb in words(rule, "verbs") {
            for group in words(rule, "apiGroups") {
                for resource in words(rule, "resources") {
                    for name in words(rule, "resourceNames") {
                        all.insert([verb.clone(), group.clone(), resource.clone(), name]);
                    }
                }
            }
        }
    }
    all
}

fn grant(verb: &str, group: &str, resource: &str, name: &str) -> [String; 4] {
    [verb, group, resource, name].map(str::to_owned)
}

#[test]
fn the_roles_grant_what_is_asked_for_and_nothing_more_au_19() {
    let scratch = portcullis_testkit::scratch::Scratch::new();
    let cluster = FakeCluster::start(&[], |_, _, _| None);
    assert_eq!(collect(&cluster.kubeconfig(), &scratch.path().join("a"), &[]).code, 0);
    let lists: BTreeSet<[String; 4]> = cluster
        .asked()
        .iter()
        .filter_map(|asked| {
            let (path, _) = target(asked);
            match path.trim_start_matches('/').split('/').collect::<Vec<_>>().as_slice() {
                ["api", "v1", resource] => Some(grant("list", "", resource, "")),
                ["apis", group, _, resource] => Some(grant("list", group, resource, "")),
                _ => None,
            }
        })
        .collect();
    let manifests = objects(&file("rbac.yaml"));
    let role = |kind: &str| manifests.iter().find(|object| object["kind"] == kind).unwrap();
    // AU-19: get and list on all, no watch.
    let expected: BTreeSet<[String; 4]> = lists
        .into_iter()
        .flat_map(|[verb, group, resource, name]| {
            [[verb, group.clone(), resource.clone(), name.clone()], grant("get", &group, &resource, &name)]
        })
        .collect();
    let granted_here = granted(role("ClusterRole"));
    let urls: Vec<&Value> = role("ClusterRole")["rules"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|rule| rule.get("nonResourceURLs"))
        .collect();
    assert_eq!(urls, [&json!(["/version"])]);
    let of_objects: BTreeSet<[String; 4]> =
        granted_here.into_iter().filter(|[_, _, resource, _]| !resource.is_empty()).collect();
    assert_eq!(of_objects, expected);
    assert!(!of_objects.iter().any(|[_, _, resource, _]| resource == "secrets" || resource == "configmaps"));
    assert_eq!(granted(role("Role")), [grant("get", "", "configmaps", "kubelet-config")].into());
    assert_eq!(role("Role")["metadata"]["namespace"], "kube-system");
}

#[test]
fn a_server_takes_the_manifests_and_refuses_their_account_nothing_that_it_asks_for() {
    let world = World::new();
    let folder = repository().join("deploy");
    for name in ["namespace.yaml", "audit/rbac.yaml", "audit/cronjob.yaml"] {
        world.kubectl(&["create", "--validate=strict", "-f", text(&folder.join(name))]);
    }
    let user = "    as: system:serviceaccount:portcullis:portcullis-audit\n    as-groups: \
        [system:serviceaccounts, 'system:serviceaccounts:portcullis', system:authenticated]\n";
    let admin = fs::read_to_string(world.kubeconfig()).unwrap();
    let deployed = admin.replace("  user:\n", &format!("  user:\n{user}"));
    assert!(deployed.contains("as-groups"), "{deployed}");
    let kubeconfig = world.scratch.write("deployed.kubeconfig", deployed);
    let archive = world.path("archive");
    let run = collect(&kubeconfig, &archive, &[]);
    assert_eq!((run.code, &*run.stderr), (0, ""), "{run:#?}");
    let manifest = manifest(&archive);
    assert_eq!(entry(&manifest, "pods")["outcome"], "listed");
    // There is no such ConfigMap, and the account may know that.
    assert_eq!(manifest["objects"][1]["outcome"], "absent");
    // With more than the role the archive says what was refused.
    let run = collect(&kubeconfig, &world.path("more"), &["--secret-metadata"]);
    assert_eq!(run.code, 1, "{run:#?}");
    let more = crate::audit::archives::manifest(&world.path("more"));
    for resource in ["secrets", "configmaps"] {
        assert_eq!(
            (&entry(&more, resource)["outcome"], &entry(&more, resource)["code"]),
            (&json!("refused"), &json!(403))
        );
    }
}

#[test]
fn the_job_runs_an_audit_as_the_account_of_the_role() {
    let cronjob =
        objects(&file("cronjob.yaml")).into_iter().find(|object| object["kind"] == "CronJob").unwrap();
    let pod = &cronjob["spec"]["jobTemplate"]["spec"]["template"]["spec"];
    assert_eq!(pod["serviceAccountName"], "portcullis-audit");
    assert_eq!(pod["containers"][0]["args"][0], "audit");
    assert_eq!(pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"], true);
    for name in ["github-actions.yaml", "gitlab-ci.yaml"] {
        let text = file(name);
        serde_saphyr::from_str::<Value>(&text).unwrap();
        assert!(text.contains("portcullis audit --state manifests/"), "{name}");
    }
}
