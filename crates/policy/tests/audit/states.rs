//! Random states: a few names, so that objects often meet.

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

pub(crate) const NODES: [&str; 3] = ["n1", "n2", "n3"];
pub(crate) const NAMESPACES: [&str; 3] = ["a", "b", "kube-system"];
const SECRETS: [&str; 3] = ["s1", "s2", "bootstrap-token-abcdef"];

/// Every name that an object of a state may have or refer to, whatever its kind.
pub(crate) fn names() -> Vec<String> {
    let fixed =
        ["s1", "s2", "bootstrap-token-abcdef", "x", "y", "default", "c1", "d1", "r1", "v1", "at1", "sl1"];
    let pods = (0..8).map(|number| format!("p{number}"));
    fixed.into_iter().map(str::to_owned).chain(pods).collect()
}

/// Rules that lead further, and some that look as if they did.
fn rules() -> Vec<Value> {
    let core = |resources: &[&str], verbs: &[&str]| json!({"apiGroups": [""], "resources": resources, "verbs": verbs});
    let rbac = |resources: &[&str], verbs: &[&str]| json!({"apiGroups": ["rbac.authorization.k8s.io"], "resources": resources, "verbs": verbs});
    let certificates = |resources: &[&str], verbs: &[&str]| json!({"apiGroups": ["certificates.k8s.io"], "resources": resources, "verbs": verbs});
    let admission = |resources: &[&str], verbs: &[&str]| json!({"apiGroups": ["admissionregistration.k8s.io"], "resources": resources, "verbs": verbs});
    let named = |mut rule: Value, names: &[&str]| {
        rule["resourceNames"] = json!(names);
        rule
    };
    vec![
        core(&["secrets"], &["get"]),
        named(core(&["secrets"], &["list", "get"]), &["s1"]),
        core(&["secrets"], &["watch", "create"]),
        named(core(&["secrets"], &["patch", "create"]), &["s2"]),
        core(&["pods/exec"], &["create"]),
        named(core(&["pods/attach"], &["get"]), &["p0", "p1"]),
        core(&["pods/*", "pods/log", "pods/portforward"], &["*"]),
        named(core(&["pods"], &["patch", "create"]), &["p2"]),
        core(&["pods"], &["create"]),
        core(&["pods/ephemeralcontainers"], &["update"]),
        core(&["pods/status"], &["patch"]),
        core(&["pods/binding"], &["create"]),
        json!({"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["create"], "resourceNames": ["d"]}),
        json!({"apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": ["patch"]}),
        json!({"apiGroups": ["*"], "resources": ["cronjobs"], "verbs": ["create"]}),
        core(&["serviceaccounts/token"], &["create"]),
        named(core(&["serviceaccounts/token"], &["create"]), &["x"]),
        core(&["users"], &["impersonate"]),
        named(core(&["users"], &["impersonate"]), &["jane", "system:node:n2"]),
        core(&["groups"], &["impersonate"]),
        named(core(&["groups"], &["impersonate"]), &["system:nodes", "team"]),
        core(&["serviceaccounts"], &["impersonate"]),
        rbac(&["clusterroles"], &["bind"]),
        named(rbac(&["clusterroles"], &["bind"]), &["full"]),
        named(rbac(&["clusterroles"], &["bind", "escalate"]), &["r0"]),
        rbac(&["clusterrolebindings"], &["create"]),
        rbac(&["clusterroles"], &["escalate"]),
        rbac(&["clusterroles"], &["create"]),
        named(rbac(&["clusterroles"], &["update"]), &["r0"]),
        rbac(&["rolebindings"], &["patch"]),
        rbac(&["roles"], &["bind"]),
        rbac(&["roles"], &["escalate", "update"]),
        core(&["nodes/proxy"], &["get"]),
        named(core(&["nodes/proxy"], &["create", "get"]), &["n2"]),
        core(&["nodes/*", "*/*"], &["*"]),
        core(&["*/proxy"], &["create"]),
        core(&["nodes/metrics"], &["get"]),
        core(&["nodes"], &["patch"]),
        named(core(&["nodes"], &["patch"]), &["n1"]),
        core(&["nodes/status"], &["update"]),
        core(&["persistentvolumes"], &["create"]),
        certificates(&["certificatesigningrequests"], &["create"]),
        certificates(&["certificatesigningrequests/approval"], &["update"]),
        certificates(&["certificatesigningrequests/nodeclient"], &["create"]),
        certificates(&["signers"], &["approve"]),
        named(certificates(&["signers"], &["approve"]), &["kubernetes.io/kube-apiserver-client-kubelet"]),
        admission(&["mutatingwebhookconfigurations"], &["patch"]),
        admission(&["mutatingadmissionpolicies", "mutatingadmissionpolicybindings"], &["create"]),
        json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["get"]}),
        json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"], "resourceNames": ["x"]}),
        json!({"nonResourceURLs": ["*"], "verbs": ["*"]}),
    ]
}

fn subjects() -> Vec<Value> {
    let account =
        |namespace: &str, name: &str| json!({"kind": "ServiceAccount", "namespace": namespace, "name": name});
    let other = |kind: &str, name: &str| json!({"kind": kind, "name": name});
    vec![
        account("a", "x"),
        account("a", "y"),
        account("b", "x"),
        account("kube-system", "default"),
        other("User", "jane"),
        other("User", "system:node:n1"),
        other("User", "system:serviceaccount:b:y"),
        other("Group", "team"),
        other("Group", "system:nodes"),
        other("Group", "system:bootstrappers"),
        other("Group", "system:serviceaccounts:a"),
        other("Group", "system:masters"),
    ]
}

fn volumes() -> Vec<Value> {
    let path = |name: &str, path: &str| json!({"name": name, "hostPath": {"path": path}});
    vec![
        json!({"name": "s", "secret": {"secretName": "s1"}}),
        json!({"name": "c", "persistentVolumeClaim": {"claimName": "d1"}}),
        json!({"name": "m", "configMap": {"name": "c1"}}),
        json!({"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}),
        json!({"name": "u", "projected": {"sources": [{"serviceAccountToken": {"path": "t", "audience": "vault"}}]}}),
        path("h", "/var/lib/kubelet"),
        path("l", "/var/log"),
    ]
}

fn pod_spec() -> impl Strategy<Value = Value> {
    (
        select(vec![json!(null), json!("x"), json!("y")]),
        select(vec![json!(null), json!(false), json!(true)]),
        subsequence(volumes(), 0..4),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.5),
    )
        .prop_map(|(account, automount, volumes, privileged, mounts)| {
            let mounted: Vec<Value> = volumes
                .iter()
                .filter(|_| mounts)
                .map(|volume| json!({"name": volume["name"], "mountPath": "/x", "readOnly": true}))
                .collect();
            json!({
                "serviceAccountName": account,
                "automountServiceAccountToken": automount,
                "volumes": volumes,
                "containers": [{
                    "name": "main",
                    "securityContext": {"privileged": privileged},
                    "volumeMounts": mounted,
                    "envFrom": [{"secretRef": {"name": if privileged { "s2" } else { "" }}}],
                }],
            })
        })
}

fn pod(number: usize) -> impl Strategy<Value = Value> {
    (
        pod_spec(),
        select(&NAMESPACES[..]),
        select(vec!["n1", "n1", "n2", "n3", ""]),
        select(vec!["none", "none", "ReplicaSet", "DaemonSet"]),
        prop::bool::weighted(0.15),
        prop::bool::weighted(0.5),
        prop::bool::weighted(0.1),
    )
        .prop_map(move |(mut spec, namespace, node, owner, is_mirror, has_uid, is_control)| {
            spec["nodeName"] = json!(node);
            if is_control {
                spec["containers"][0]["command"] = json!(["/usr/bin/etcd", "--x"]);
            }
            let mut metadata = json!({"namespace": namespace, "name": format!("p{number}")});
            if owner != "none" {
                metadata["ownerReferences"] =
                    json!([{"apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": "1", "controller": true}]);
            }
            if is_mirror {
                metadata["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
            }
            if has_uid {
                metadata["uid"] = json!("u");
            }
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        })
}

fn role(number: usize) -> impl Strategy<Value = Value> {
    subsequence(rules(), 1..5).prop_map(move |rules| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": format!("r{number}")},
            "rules": rules,
        })
    })
}

fn binding(number: usize) -> impl Strategy<Value = Value> {
    let roles =
        vec!["r0", "r1", "r2", "r3", "full", "collects", "missing", "signs", "joins", "scrapes", "places"];
    (subsequence(subjects(), 0..3), select(roles), select(vec!["", "", "a", "b"])).prop_map(
        move |(subjects, role, namespace)| {
            let mut metadata = json!({"name": format!("b{number}")});
            if !namespace.is_empty() {
                metadata["namespace"] = json!(namespace);
            }
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": if namespace.is_empty() { "ClusterRoleBinding" } else { "RoleBinding" },
                "metadata": metadata,
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                "subjects": subjects,
            })
        },
    )
}

/// Objects that are in a state or not.
fn others() -> Vec<Value> {
    let node = |name: &str, taints: Value| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"taints": taints}});
    let secret = |namespace: &str, name: &str, metadata: Value| {
        let mut secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata});
        secret["metadata"]["namespace"] = json!(namespace);
        secret["metadata"]["name"] = json!(name);
        secret
    };
    let daemon_set = |name: &str, account: &str, selector: Value| {
        json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"namespace": "b", "name": name},
            "spec": {"template": {"spec": {
                "serviceAccountName": account, "nodeSelector": selector,
                "containers": [{"name": "main", "envFrom": [{"secretRef": {"name": "s2"}}]}],
            }}},
        })
    };
    let namespace = |name: &str, level: &str| {
        json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "labels": {"pod-security.kubernetes.io/enforce": level}},
        })
    };
    vec![
        node("n1", json!([])),
        node("n2", json!([{"key": "k", "effect": "NoSchedule"}])),
        node("n3", json!([{"key": "k", "effect": "PreferNoSchedule"}])),
        namespace("a", "restricted"),
        namespace("b", "privileged"),
        namespace("kube-system", "baseline"),
        secret("a", "s1", json!({"annotations": {"kubernetes.io/service-account.name": "y"}})),
        secret(
            "b",
            "s2",
            json!({
                "annotations": {"kubernetes.io/service-account.name": "x"},
                "labels": {"kubernetes.io/legacy-token-invalid-since": "2026-01-01"},
            }),
        ),
        secret("kube-system", SECRETS[2], json!({})),
        daemon_set("f1", "y", json!({"dedicated": "x"})),
        daemon_set("f2", "x", json!({"node-restriction.kubernetes.io/x": "y"})),
        json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v1"},
            "spec": {
                "claimRef": {"namespace": "a", "name": "d1"},
                "csi": {"driver": "d", "nodeStageSecretRef": {"namespace": "kube-system", "name": "s1"}},
            },
        }),
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "at1"},
            "spec": {"nodeName": "n3"},
        }),
        json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "sl1"},
            "spec": {"nodeName": "n2"},
        }),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "b", "name": "c1"}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": "b", "name": "y"}}),
        json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": "a", "name": "x"},
            "automountServiceAccountToken": false,
        }),
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"namespace": "b", "name": "r1"}}),
        api_server("v1.36.2", "NodeRestriction"),
    ]
}

fn api_server(version: &str, plugins: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": "kube-system", "name": "p7", "uid": "u",
            "annotations": {"kubernetes.io/config.mirror": "x"},
        },
        "spec": {"nodeName": "n3", "containers": [{
            "name": "main", "image": format!("registry.k8s.io/kube-apiserver:{version}"),
            "command": ["kube-apiserver", format!("--enable-admission-plugins={plugins}")],
        }]},
    })
}

/// A random state, as documents.
pub(crate) fn documents() -> impl Strategy<Value = Vec<Value>> {
    let pods = prop::collection::vec(any::<()>(), 0..6)
        .prop_flat_map(|pods| pods.iter().enumerate().map(|(number, ())| pod(number)).collect::<Vec<_>>());
    let roles = (role(0), role(1), role(2), role(3));
    let bindings = prop::collection::vec(any::<()>(), 0..6)
        .prop_flat_map(|all| all.iter().enumerate().map(|(number, ())| binding(number)).collect::<Vec<_>>());
    let role = |name: &str, rules: Value| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
            "rules": rules,
        })
    };
    let certificates = |resources: &[&str], verbs: &[&str]| json!({"apiGroups": ["certificates.k8s.io"], "resources": resources, "verbs": verbs});
    // What takes several rules, which seldom meet by chance.
    let fixed = [
        role(
            "signs",
            json!([
                certificates(&["certificatesigningrequests"], &["create"]),
                certificates(&["certificatesigningrequests/approval"], &["patch"]),
                certificates(&["signers"], &["approve"]),
            ]),
        ),
        role(
            "joins",
            json!([certificates(
                &["certificatesigningrequests", "certificatesigningrequests/nodeclient"],
                &["create"],
            )]),
        ),
        role(
            "places",
            json!([{"apiGroups": [""], "resources": ["nodes", "persistentvolumes"], "verbs": ["create", "patch"]}]),
        ),
        role(
            "scrapes",
            json!([{"apiGroups": [""], "resources": ["nodes/metrics", "nodes/status"], "verbs": ["get", "patch"]}]),
        ),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "full"},
            "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "collects"},
            "rules": [],
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"to": "collects"}}]},
        }),
    ];
    (pods, roles, bindings, subsequence(others(), 0..19)).prop_map(move |(pods, roles, bindings, others)| {
        let roles = [roles.0, roles.1, roles.2, roles.3];
        pods.into_iter().chain(roles).chain(bindings).chain(others).chain(fixed.clone()).collect()
    })
}
