//! The discovery documents equal those of Kubernetes.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "runs another program")]
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot be set up must stop"
)]

use std::io::Write as _;
use std::process::Stdio;
use std::sync::LazyLock;

use portcullis_kinds::Kinds;
use portcullis_kinds::discovery::{Discovery, paths};
use portcullis_kinds::resources;
use portcullis_testkit::{recorded, tool};
use serde_json::{Value, json};

/// The hash as openssl computes it.
fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut openssl = tool::command("openssl")
        .args(["dgst", "-sha256", "-binary"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("openssl is installed");
    openssl.stdin.take().unwrap().write_all(bytes).unwrap();
    openssl.wait_with_output().unwrap().stdout.try_into().unwrap()
}

static DISCOVERY: LazyLock<Discovery> = LazyLock::new(|| Discovery::of(&current(), false, sha256));

/// The kinds in their stored versions.
fn current() -> Kinds {
    Kinds::built_in().only(|row| row.version_of.is_none())
}

fn document(discovery: &Discovery, path: &str) -> Option<Value> {
    discovery.documents().into_iter().find(|(known, _)| known == path).map(|(_, document)| document)
}

#[test]
fn the_documents_are_those_recorded_ap_100_to_ap_105() {
    let (mut whole, mut parts) = (0, 0);
    for line in recorded::lines("http/discovery.jsonl") {
        let path = line["path"].as_str().unwrap();
        let is_discovery = path.starts_with("/api") && line["method"] == "GET" && line["as"].is_null();
        let expected = &line["expect"];
        if !is_discovery || expected["code"] != 200 || expected["type"] != "application/json" {
            continue;
        }
        let path = path.trim_end_matches('/');
        let is_aggregated =
            line["headers"]["Accept"].as_str().is_some_and(|accept| accept.contains("apidiscovery"));
        let found = if is_aggregated {
            DISCOVERY.aggregated().into_iter().find(|(known, _)| *known == path).map(|(_, document)| document)
        } else {
            document(&DISCOVERY, path)
        };
        let found = found.unwrap_or_else(|| panic!("{path}"));
        match line["compare"].as_str() {
            None => {
                whole += 1;
                assert_eq!(found, expected["body"], "{path}");
            }
            Some("subset") => {
                parts += 1;
                assert!(recorded::is_within(&expected["body"], &found), "{path}: {found}");
            }
            Some("code") => {}
            Some(other) => panic!("{other}"),
        }
    }
    assert!(whole >= 10, "{whole}");
    assert!(parts >= 7, "{parts}");
}

#[test]
fn the_paths_are_those_of_the_documents_ap_100() {
    for kinds in [current(), Kinds::built_in()] {
        for with_old in [false, true] {
            let documents = Discovery::of(&kinds, with_old, |_| [0; 32]).documents();
            let expected = documents.into_iter().map(|(path, _)| path).collect();
            assert_eq!(paths(&kinds, with_old), expected);
        }
    }
}

#[test]
fn only_what_is_switched_on_is_there_ap_100() {
    for (path, is_there) in [
        ("/api/v1", true),
        ("/api/v2", false),
        ("/apis/authorization.k8s.io/v1", true),
        ("/apis/authorization.k8s.io/v1beta1", false),
        ("/apis/rbac.authorization.k8s.io/v1beta1", false),
        ("/apis/nope.example/v1", false),
    ] {
        assert_eq!(document(&DISCOVERY, path).is_some(), is_there, "{path}");
    }
    assert!(
        DISCOVERY.has_group("policy") && DISCOVERY.has_group("apps") && !DISCOVERY.has_group("extensions")
    );
    assert_eq!(document(&DISCOVERY, "/apis/authorization.k8s.io/v1beta1"), None);

    let old = Discovery::of(&current(), true, sha256);
    let group = document(&old, "/apis/authorization.k8s.io").unwrap();
    assert_eq!(group["preferredVersion"]["version"], "v1");
    assert_eq!(group["versions"][1]["groupVersion"], "authorization.k8s.io/v1beta1");
    let names = |version: &str| {
        let list = document(&old, &format!("/apis/authorization.k8s.io/{version}")).unwrap();
        list["resources"].as_array().unwrap().iter().map(|r| r["name"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(names("v1beta1"), names("v1"));
}

#[test]
fn verbs_and_names_follow_the_rules_ap_101_ap_102() {
    let list = document(&DISCOVERY, "/api/v1").unwrap();
    let resources = list["resources"].as_array().unwrap();
    let find = |name: &str| resources.iter().find(|r| r["name"] == name).unwrap_or_else(|| panic!("{name}"));
    let verbs = |name: &str| find(name)["verbs"].clone();
    assert_eq!(verbs("namespaces"), json!(["create", "delete", "get", "list", "patch", "update", "watch"]));
    assert_eq!(verbs("namespaces/finalize"), json!(["update"]));
    assert_eq!(verbs("pods/binding"), json!(["create"]));
    assert_eq!(verbs("bindings"), json!(["create"]));
    assert_eq!(verbs("pods/status"), json!(["get", "patch", "update"]));
    assert_eq!(verbs("pods/ephemeralcontainers"), json!(["get", "patch", "update"]));
    assert_eq!(verbs("pods/exec"), json!(["create", "get"]));
    assert_eq!(verbs("pods/log"), json!(["get"]));
    assert_eq!(verbs("nodes/proxy"), json!(["create", "delete", "get", "patch", "update"]));
    assert_eq!(
        (&find("pods/eviction")["group"], &find("pods/eviction")["version"]),
        (&json!("policy"), &json!("v1"))
    );
    assert_eq!(find("serviceaccounts/token")["group"], "authentication.k8s.io");
    assert_eq!(find("pods/log")["kind"], "Pod");
    for (name, short) in [
        ("configmaps", "cm"),
        ("limitranges", "limits"),
        ("replicationcontrollers", "rc"),
        ("resourcequotas", "quota"),
        ("endpoints", "ep"),
        ("events", "ev"),
        ("namespaces", "ns"),
        ("nodes", "no"),
        ("persistentvolumeclaims", "pvc"),
        ("persistentvolumes", "pv"),
        ("pods", "po"),
        ("serviceaccounts", "sa"),
        ("services", "svc"),
    ] {
        assert_eq!(find(name)["shortNames"], json!([short]), "{name}");
    }
    for resource in resources {
        let is_in_all =
            matches!(resource["name"].as_str(), Some("pods" | "replicationcontrollers" | "services"));
        assert_eq!(
            resource["categories"],
            if is_in_all { json!(["all"]) } else { Value::Null },
            "{resource}"
        );
        let is_below = resource["name"].as_str().unwrap().contains('/');
        assert_eq!(resource["singularName"] == "", is_below, "{resource}");
    }
    let names: Vec<&str> = resources.iter().map(|r| r["name"].as_str().unwrap()).collect();
    assert!(names.is_sorted(), "{names:?}");
    let events = |path: &str| {
        let list = document(&DISCOVERY, path).unwrap();
        let event =
            list["resources"].as_array().unwrap().iter().find(|r| r["name"] == "events").unwrap().clone();
        event["storageVersionHash"].clone()
    };
    assert_eq!(events("/api/v1"), events("/apis/events.k8s.io/v1"));
}

/// From discovery documents of Kubernetes: group and version, resource, short names, and the hash of what is stored.
const WORKLOADS: &[(&str, &str, &[&str], &str)] = &[
    ("/api/v1", "limitranges", &["limits"], "EBKMFVe6cwo="),
    ("/api/v1", "podtemplates", &[], "LIXB2x4IFpk="),
    ("/api/v1", "replicationcontrollers", &["rc"], "Jond2If31h0="),
    ("/api/v1", "resourcequotas", &["quota"], "8uhSgffRX6w="),
    ("/apis/apps/v1", "controllerrevisions", &[], "85nkx63pcBU="),
    ("/apis/apps/v1", "daemonsets", &["ds"], "dd7pWHUlMKQ="),
    ("/apis/apps/v1", "deployments", &["deploy"], "8aSe+NMegvE="),
    ("/apis/apps/v1", "replicasets", &["rs"], "P1RzHs8/mWQ="),
    ("/apis/apps/v1", "statefulsets", &["sts"], "H+vl74LkKdo="),
    ("/apis/batch/v1", "cronjobs", &["cj"], "sd5LIXh4Fjs="),
    ("/apis/batch/v1", "jobs", &[], "mudhfqk/qZY="),
    ("/apis/networking.k8s.io/v1", "ingresses", &["ing"], "39NQlfNR+bo="),
    ("/apis/networking.k8s.io/v1", "networkpolicies", &["netpol"], "YpfwF18m1G8="),
    ("/apis/policy/v1", "poddisruptionbudgets", &["pdb"], "EVWiDmWqyJw="),
    ("/apis/scheduling.k8s.io/v1", "priorityclasses", &["pc"], "1QwjyaZjj3Y="),
];

#[test]
fn workloads_are_described_as_by_kubernetes_ap_102_ap_105() {
    for (path, name, short_names, hash) in WORKLOADS {
        let list = document(&DISCOVERY, path).unwrap();
        let resources = list["resources"].as_array().unwrap();
        let found = resources.iter().find(|resource| resource["name"] == *name).unwrap();
        let expected = if short_names.is_empty() { Value::Null } else { json!(short_names) };
        assert_eq!((&found["shortNames"], &found["storageVersionHash"]), (&expected, &json!(hash)), "{name}");
    }
    let apps = document(&DISCOVERY, "/apis/apps/v1").unwrap()["resources"].clone();
    let scale = apps.as_array().unwrap().iter().find(|r| r["name"] == "deployments/scale").unwrap();
    assert_eq!(
        scale,
        &json!({
            "name": "deployments/scale", "singularName": "", "namespaced": true, "group": "autoscaling",
            "version": "v1", "kind": "Scale", "verbs": ["get", "patch", "update"],
        })
    );
    let with_old = Discovery::of(&Kinds::built_in(), false, sha256);
    let group = document(&with_old, "/apis/autoscaling").unwrap();
    assert_eq!(group["preferredVersion"]["groupVersion"], "autoscaling/v2");
    assert_eq!(group["versions"][1]["groupVersion"], "autoscaling/v1");
}

#[test]
fn both_forms_say_the_same_ap_100() {
    let mut aggregated = Vec::new();
    for (path, document) in DISCOVERY.aggregated() {
        for group in document["items"].as_array().unwrap() {
            let name = group["metadata"]["name"].as_str().unwrap_or_default();
            for version in group["versions"].as_array().unwrap() {
                let path =
                    format!("{path}/{name}/{}", version["version"].as_str().unwrap()).replace("//", "/");
                for resource in version["resources"].as_array().unwrap() {
                    let (plural, is_namespaced) =
                        (resource["resource"].as_str().unwrap(), resource["scope"] == "Namespaced");
                    let kind = resource["responseKind"]["kind"].clone();
                    aggregated.push((
                        path.clone(),
                        plural.to_owned(),
                        kind,
                        is_namespaced,
                        resource["verbs"].clone(),
                    ));
                    for below in resource["subresources"].as_array().into_iter().flatten() {
                        let name = format!("{plural}/{}", below["subresource"].as_str().unwrap());
                        let kind = below["responseKind"]["kind"].clone();
                        aggregated.push((path.clone(), name, kind, is_namespaced, below["verbs"].clone()));
                    }
                }
            }
        }
    }
    let mut plain = Vec::new();
    for (path, document) in DISCOVERY.documents() {
        for resource in document["resources"].as_array().into_iter().flatten() {
            let name = resource["name"].as_str().unwrap().to_owned();
            let is_namespaced = resource["namespaced"] == true;
            plain.push((
                path.clone(),
                name,
                resource["kind"].clone(),
                is_namespaced,
                resource["verbs"].clone(),
            ));
        }
    }
    let key = |(path, name, ..): &(String, String, Value, bool, Value)| (path.clone(), name.clone());
    plain.sort_by_key(key);
    aggregated.sort_by_key(key);
    assert_eq!(plain, aggregated);
    assert!(plain.len() > resources::ALL.len(), "{}", plain.len());
}

#[test]
fn old_versions_come_after_the_one_that_is_stored_ap_105() {
    let discovery = Discovery::of(&Kinds::built_in(), false, sha256);
    let group = document(&discovery, "/apis/rbac.authorization.k8s.io").unwrap();
    let versions: Vec<&str> =
        group["versions"].as_array().unwrap().iter().map(|v| v["version"].as_str().unwrap()).collect();
    assert_eq!(versions, ["v1", "v1beta1", "v1alpha1"]);
    assert_eq!(group["preferredVersion"]["version"], "v1");
    let list = |version: &str| {
        document(&discovery, &format!("/apis/rbac.authorization.k8s.io/{version}")).unwrap()["resources"]
            .clone()
    };
    assert_eq!(list("v1"), list("v1beta1"), "the hash is that of the stored version");
    assert_eq!(list("v1"), list("v1alpha1"));
}
