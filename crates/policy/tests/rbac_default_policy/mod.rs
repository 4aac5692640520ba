//! The default policy equals that of Kubernetes 1.36.
#![allow(clippy::disallowed_methods, reason = "reads files that Kubernetes printed")]
#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a test stops where its own set-up fails")]

use std::collections::{BTreeMap, BTreeSet};

use portcullis_policy::FeatureGates;
use portcullis_policy::features::Feature;
use portcullis_policy::objects::Object;
use portcullis_policy::objects::rbac::PolicyRule;
use portcullis_policy::rbac::{covers, default_policy};
use portcullis_testkit::recorded;
use serde_json::Value;

/// The objects of a file by kind, namespace and name, as Kubernetes has them.
fn reference(file: &str) -> Vec<Value> {
    let list: Value = serde_saphyr::from_str(&recorded::text(&format!("data/rbac/{file}"))).unwrap();
    list["items"].as_array().unwrap().clone()
}

fn objects(gates: FeatureGates, belongs: impl Fn(&str, &str) -> bool) -> Vec<Value> {
    let mut documents = default_policy::documents(gates).unwrap();
    documents.retain(|d| belongs(d["kind"].as_str().unwrap(), d["metadata"]["name"].as_str().unwrap()));
    let key = |d: &Value| (d["metadata"]["namespace"].to_string(), d["metadata"]["name"].to_string());
    documents.sort_by_key(key);
    documents
}

fn compare(file: &str, gates: FeatureGates, belongs: impl Fn(&str, &str) -> bool) {
    let mut theirs = reference(file);
    let key = |d: &Value| (d["metadata"]["namespace"].to_string(), d["metadata"]["name"].to_string());
    theirs.sort_by_key(key);
    let ours = objects(gates, belongs);
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs, "{file}");
    }
    assert_eq!(ours.len(), theirs.len(), "{file}");
}

fn is_controller(name: &str) -> bool {
    name.starts_with("system:controller:")
}

fn everything_on() -> FeatureGates {
    FeatureGates::parse("AllAlpha=true,AllBeta=true").unwrap()
}

#[test]
fn the_default_policy_is_that_of_1_36_rb_80_to_rb_86() {
    let gates = FeatureGates::default();
    compare("cluster-roles.yaml", gates, |kind, name| kind == "ClusterRole" && !is_controller(name));
    compare("controller-roles.yaml", gates, |kind, name| kind == "ClusterRole" && is_controller(name));
    compare("cluster-role-bindings.yaml", gates, |kind, name| {
        kind == "ClusterRoleBinding" && !is_controller(name)
    });
    compare("controller-role-bindings.yaml", gates, |kind, name| {
        kind == "ClusterRoleBinding" && is_controller(name)
    });
    compare("namespace-roles.yaml", gates, |kind, _| kind == "Role");
    compare("namespace-role-bindings.yaml", gates, |kind, _| kind == "RoleBinding");
}

#[test]
fn with_every_gate_on_the_cluster_roles_are_those_of_1_36_rb_92() {
    compare("cluster-roles-featuregates.yaml", everything_on(), |kind, name| {
        kind == "ClusterRole" && !is_controller(name)
    });
}

#[test]
fn the_sizes_are_those_of_the_specification_rb_81_rb_84() {
    let gates = FeatureGates::default();
    let count = |belongs: fn(&str, &str) -> bool| objects(gates, belongs).len();
    assert_eq!(count(|kind, name| kind == "ClusterRole" && !is_controller(name)), 31);
    assert_eq!(count(|kind, name| kind == "ClusterRole" && is_controller(name)), 38);
    assert_eq!(count(|kind, _| kind == "Role"), 7);
}

#[test]
fn each_gate_brings_and_takes_its_own_roles_and_nothing_else_rb_92() {
    use Feature::*;
    let names = |gates| -> Vec<String> {
        let mut names: Vec<String> =
            default_policy::objects(gates).iter().map(|o| format!("{:?} {}", o.kind(), o.key().1)).collect();
        names.sort();
        names
    };
    let gates = FeatureGates::default();
    // The controllers of RB-92 that a gate switches; each has a ClusterRole and a ClusterRoleBinding.
    let controllers: [(Feature, bool, &[&str]); 11] = [
        (
            DynamicResourceAllocation,
            false,
            &["resource-claim-controller", "device-taint-eviction-controller"],
        ),
        (DRADeviceTaints, false, &["device-taint-eviction-controller"]),
        (DRAResourcePoolStatus, true, &["resourcepoolstatusrequest-controller"]),
        (MultiCIDRServiceAllocator, false, &["service-cidrs-controller"]),
        (VolumeAttributesClass, false, &["volumeattributesclass-protection-controller"]),
        (SELinuxChangePolicy, false, &["selinux-warning-controller"]),
        (PodCertificateRequest, true, &["podcertificaterequestcleaner"]),
        (GenericWorkload, true, &["podgroup-protection-controller"]),
        (StorageVersionMigrator, true, &["storage-version-migrator-controller"]),
        (StorageVersionAPI, true, &["storage-version-garbage-collector"]),
        (ClusterTrustBundle, true, &["kube-apiserver-serving-clustertrustbundle-publisher"]),
    ];
    for (feature, on, switched) in controllers {
        let (without, with) = match on {
            true => (names(gates), names(gates.with(feature, true))),
            false => (names(gates.with(feature, false)), names(gates)),
        };
        let mut expected: Vec<String> = switched
            .iter()
            .flat_map(|name| {
                ["ClusterRole", "ClusterRoleBinding"].map(|kind| format!("{kind} system:controller:{name}"))
            })
            .collect();
        if feature == ClusterTrustBundle {
            expected.push("ClusterRole system:cluster-trust-bundle-discovery".into());
            expected.push("ClusterRoleBinding system:cluster-trust-bundle-discovery".into());
        }
        expected.sort();
        let added: Vec<String> = with.into_iter().filter(|name| !without.contains(name)).collect();
        assert_eq!(added, expected, "{feature:?}");
    }
}

#[test]
fn each_gate_changes_the_rules_that_it_names_and_only_adds_rb_92() {
    use Feature::*;
    let roles = |gates| -> BTreeMap<String, Vec<PolicyRule>> {
        let roles = default_policy::objects(gates).into_iter().filter_map(|object| match object {
            Object::ClusterRole(role) | Object::Role(role) => Some((role.metadata.name, role.rules)),
            _ => None,
        });
        roles.collect()
    };
    let (view, edit) = ("system:aggregate-to-view", "system:aggregate-to-edit");
    let (node, scheduler) = ("system:node", "system:kube-scheduler");
    let claims = "system:controller:resource-claim-controller";
    let taints = "system:controller:device-taint-eviction-controller";
    // The rows of RB-92 that change rules: the roles, and a word that each rule has which the gate adds.
    let rows: [(Feature, &[&str], &[&str]); 16] = [
        (ClusterTrustBundle, &[node], &["clustertrustbundles"]),
        (ComponentFlagz, &["system:monitoring"], &["/flagz"]),
        (ComponentStatusz, &["system:monitoring"], &["/statusz"]),
        (DRADeviceTaintRules, &[scheduler, taints], &["devicetaintrules", "devicetaintrules/status"]),
        (DRADeviceTaints, &[], &[]),
        (DRAExtendedResource, &[scheduler], &["resourceclaims"]),
        (DRAResourceClaimGranularStatusAuthorization, &[scheduler, claims], &["resourceclaims/binding"]),
        (DRAWorkloadResourceClaims, &[claims], &["podgroups", "podgroups/status"]),
        (GenericWorkload, &[view, edit, scheduler], &["podgroups", "podgroups/status"]),
        (KubeletFineGrainedAuthz, &["system:kubelet-api-admin"], &["nodes/pods"]),
        (KubeletServiceAccountTokenForCredentialProviders, &[node], &["serviceaccounts"]),
        (MultiCIDRServiceAllocator, &["system:node-proxier"], &["servicecidrs"]),
        (PodCertificateRequest, &[node], &["podcertificaterequests"]),
        (StorageVersionMigrator, &[], &[]),
        (WorkloadWithJob, &["system:controller:job-controller"], &["workloads"]),
        (AuthorizeWithSelectors, &[], &[]),
    ];
    for (feature, changed, words) in rows {
        let gates = FeatureGates::default();
        let (without, with) = (roles(gates.with(feature, false)), roles(gates.with(feature, true)));
        let mut found = BTreeSet::new();
        for (name, rules) in &with {
            let Some(before) = without.get(name).filter(|before| *before != rules) else { continue };
            found.insert(name.as_str());
            assert!(covers(rules, before).0, "{feature:?} only adds to {name}");
            for rule in rules.iter().filter(|rule| !before.contains(rule)) {
                let mut named = rule.resources.iter().chain(&rule.non_resource_urls);
                assert!(named.any(|word| words.contains(&word.as_str())), "{feature:?}, {name}: {rule:?}");
            }
        }
        assert_eq!(found, changed.iter().copied().collect(), "{feature:?}");
    }
    let gates = FeatureGates::default().with(DynamicResourceAllocation, false);
    for role in [view, edit, node, scheduler] {
        let rules = &roles(gates)[role];
        assert!(!rules.iter().any(|rule| rule.api_groups.contains(&"resource.k8s.io".to_owned())), "{role}");
    }
}

#[test]
fn the_rules_of_nodes_are_the_rows_of_na_104_in_order() {
    // The resources and the number of verbs of the 27 rows.
    let rows = [
        ("tokenreviews", 1),
        ("localsubjectaccessreviews,subjectaccessreviews", 1),
        ("services", 3),
        ("nodes", 4),
        ("nodes/status", 2),
        ("nodes", 2),
        ("events", 3),
        ("pods", 3),
        ("pods", 2),
        ("pods/status", 2),
        ("pods/eviction", 1),
        ("configmaps,secrets", 3),
        ("persistentvolumeclaims,persistentvolumes", 1),
        ("endpoints", 1),
        ("certificatesigningrequests", 4),
        ("leases", 5),
        ("volumeattachments", 1),
        ("serviceaccounts/token", 1),
        ("persistentvolumeclaims/status", 3),
        ("csidrivers", 3),
        ("csinodes", 5),
        ("runtimeclasses", 3),
        ("resourceclaims", 1),
        ("resourceslices", 1),
        ("clustertrustbundles", 3),
        ("serviceaccounts", 1),
        ("podcertificaterequests", 4),
    ];
    let found: Vec<(String, usize)> = default_policy::node_rules(everything_on())
        .iter()
        .map(|rule| (rule.resources.join(","), rule.verbs.len()))
        .collect();
    assert_eq!(found, rows.map(|(resources, verbs)| (resources.to_owned(), verbs)));
    assert_eq!(default_policy::node_rules(FeatureGates::default()).len(), 25);
}

#[test]
fn default_roles_in_namespaces_are_only_in_those_of_the_system_rb_87() {
    for object in default_policy::objects(everything_on()) {
        if let Object::Role(_) | Object::RoleBinding(_) = object {
            assert!(object.key().0.starts_with("kube-"), "{:?}", object.key());
        }
    }
}
