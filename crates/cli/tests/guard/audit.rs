//! `portcullis audit kubelet-access` on a cluster and on the access log of a guard.

use std::fs;
use std::path::Path;

use portcullis_testkit::program;
use portcullis_testkit::tool::Finished;
use portcullis_testkit::wait::until;
use serde_json::Value;

use crate::guard::support::Guarded;

fn audit(kubeconfig: &Path, flags: &[&str]) -> Finished {
    let mut command = program!().command(["audit", "kubelet-access"]);
    Finished::of(command.args(flags).env("KUBECONFIG", kubeconfig))
}

#[test]
fn a_cluster_is_read_as_the_files_that_it_would_give() {
    let guarded = Guarded::start(&[]);
    guarded.grant("monitoring", "get", "nodes/proxy");
    guarded.grant("jane", "*", "*/proxy");
    let kubeconfig = guarded.data().join("admin.kubeconfig");
    let folder = guarded.scratch.path().join("state");
    fs::create_dir(&folder).unwrap();
    for plural in ["clusterroles", "clusterrolebindings", "roles", "rolebindings"] {
        let list = guarded.admin(200, "GET", &format!("/apis/rbac.authorization.k8s.io/v1/{plural}"), None);
        fs::write(folder.join(format!("{plural}.json")), list.to_string()).unwrap();
    }
    let live = audit(&kubeconfig, &["-o", "json"]);
    let files = audit(&kubeconfig, &["-o", "json", "--state", folder.to_str().unwrap()]);
    assert_eq!(live.code, 1, "{}", live.stderr);
    assert_eq!(live.stdout, files.stdout);
    let names = audit(&kubeconfig, &["-o", "name"]).stdout;
    assert!(["monitoring", "jane", "system:masters"].iter().all(|name| names.contains(name)), "{names}");
}

#[test]
fn what_a_guard_wrote_down_becomes_the_rules_that_are_enough() {
    let guarded = Guarded::start(&[]);
    let log = guarded.scratch.path().join("access.log");
    let guard = guarded.another(&["--access-log-path", log.to_str().unwrap()]);
    guarded.grant("monitoring", "get", "nodes/proxy");
    let mut client = portcullis_testkit::https::Client::new(guard.address, &guarded.user("monitoring"));
    for path in ["/pods", "/healthz/ping", "/runningpods/"] {
        assert_eq!(client.ask("GET", path, None).unwrap().code, 200);
    }
    // Refused, and so no use that must go on.
    assert_eq!(client.ask("GET", "/metrics", None).unwrap().code, 403);
    // Nor is what nobody needs to be asked about, or what nobody known has asked for.
    for path in ["/nosuch", "/logs"] {
        client.ask("GET", path, None).unwrap();
    }
    portcullis_testkit::https::Client::new(guard.address, &guarded.nobody())
        .ask("GET", "/configz", None)
        .unwrap();
    until("it is written", || fs::read_to_string(&log).unwrap().lines().count() == 7);
    let kubeconfig = guarded.data().join("admin.kubeconfig");
    let flags = ["--access-log", log.to_str().unwrap(), "--ignore-group", "system:masters", "-o", "yaml"];
    let yaml = audit(&kubeconfig, &flags).stdout;
    let documents: Vec<Value> = yaml
        .split("\n---\n")
        .filter_map(|text| serde_saphyr::from_str::<Value>(text).ok())
        .filter(|object| {
            object["kind"] == "ClusterRole" && object["metadata"]["name"].to_string().contains("monitoring")
        })
        .collect();
    assert_eq!(documents.len(), 1, "{yaml}");
    let mut resources: Vec<String> = documents[0]["rules"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|rule| {
            assert_eq!(rule["verbs"], serde_json::json!(["get"]), "{yaml}");
            rule["resources"].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned())
        })
        .collect();
    resources.sort_unstable();
    assert_eq!(resources, ["nodes/healthz", "nodes/pods"], "{yaml}");
}

#[test]
fn without_a_cluster_or_files_it_says_where_it_looked() {
    let scratch = portcullis_testkit::scratch::Scratch::new();
    let nowhere = audit(&scratch.path().join("none"), &[]);
    let said = nowhere.stderr;
    assert_eq!(nowhere.code, 2, "{said}");
    assert!(said.contains("--state") && said.contains("KUBECONFIG"), "{said}");
    assert!(nowhere.stdout.is_empty());
}
