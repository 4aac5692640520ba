//! Machine objects of all APIs (NB-120 to NB-127).

use portcullis_policy::approval::machine::{
    AddressKind, Config, Machine, MachineKind, MachinePool, Member, Node, Outcome, Reason,
    lacking_internal_dns, of_cluster, read,
};
use serde_json::{Value, json};

use super::support::*;

fn changed(kind: MachineKind, change: impl FnOnce(&mut Value)) -> Machine {
    let mut object = machine_json(kind, &worker());
    change(&mut object);
    Machine::from_json(kind, &object.to_string()).unwrap()
}

#[test]
fn the_same_facts_are_read_from_all_apis_nb_123() {
    for kind in MachineKind::ALL {
        let machine = changed(kind, |object| {
            object["status"]["nodeRef"] = match kind {
                MachineKind::ClusterV1Beta2 => json!({"name": "worker-0"}),
                _ => json!({"kind": "Node", "name": "worker-0", "uid": "u", "apiVersion": "v1"}),
            };
            object["status"]["unknown"] = json!({"deeply": [1, 2]});
            object["spec"]["bootstrap"] = json!({"dataSecretName": "x"});
        });
        assert_eq!((machine.name.as_str(), machine.namespace.as_str()), ("mine-worker-0", "machines"));
        assert_eq!(machine.created, Some(at(0)));
        assert_eq!(machine.provider_id.as_deref(), Some("cloud:///zone/worker-0"));
        assert_eq!(machine.node_ref.as_deref(), Some("worker-0"));
        assert_eq!(machine.labels, [("role".to_owned(), "worker".to_owned())]);
        let kinds: Vec<_> = machine.addresses.iter().map(|address| address.kind).collect();
        assert_eq!(
            kinds,
            [
                AddressKind::InternalDns,
                AddressKind::InternalDns,
                AddressKind::ExternalDns,
                AddressKind::Hostname,
                AddressKind::InternalIp,
                AddressKind::ExternalIp
            ]
        );
        let own = if kind == MachineKind::OpenShiftV1Beta1 { "" } else { "mine" };
        assert_eq!(machine.cluster_name, own);
        assert!(!machine.is_deleting && !machine.has_failed());
        let deleting = changed(kind, |o| o["metadata"]["deletionTimestamp"] = CREATED.into());
        assert!(deleting.is_deleting);
    }
}

#[test]
fn a_node_reference_without_a_name_is_none_only_where_the_api_says_so_nb_123() {
    let reference = |kind, value: Value| changed(kind, |o| o["status"]["nodeRef"] = value).node_ref;
    for kind in MachineKind::ALL {
        assert_eq!(reference(kind, Value::Null), None);
        let empty = reference(kind, json!({}));
        assert_eq!(empty.is_none(), kind == MachineKind::ClusterV1Beta2, "{kind:?}");
    }
}

#[test]
fn a_provider_id_counts_up_to_512_bytes_nb_123() {
    for kind in MachineKind::ALL {
        for (length, counts) in [(0, false), (1, true), (512, true), (513, false)] {
            let machine = changed(kind, |o| o["spec"]["providerID"] = "x".repeat(length).into());
            assert_eq!(machine.provider_id.is_some(), counts, "{length}");
        }
        assert_eq!(changed(kind, |o| o["spec"]["providerID"] = Value::Null).provider_id, None);
    }
}

#[test]
fn progress_is_read_where_each_api_has_it_nb_123() {
    let phase = |phase: &str| changed(MachineKind::OpenShiftV1Beta1, |o| o["status"]["phase"] = phase.into());
    for (name, infrastructure) in
        [("Provisioning", false), ("Provisioned", true), ("Running", true), ("Failed", false)]
    {
        let machine = phase(name);
        assert_eq!((machine.is_bootstrapped, machine.has_infrastructure), (true, infrastructure), "{name}");
    }
    let old = |status: Value| changed(MachineKind::ClusterV1Beta1, |o| o["status"] = status);
    let new = |status: Value| changed(MachineKind::ClusterV1Beta2, |o| o["status"] = status);
    assert!(old(json!({"bootstrapReady": true})).is_bootstrapped);
    assert!(old(json!({"infrastructureReady": true})).has_infrastructure);
    assert!(new(json!({"initialization": {"bootstrapDataSecretCreated": true}})).is_bootstrapped);
    assert!(new(json!({"initialization": {"infrastructureProvisioned": true}})).has_infrastructure);
    assert!(!new(json!({"bootstrapReady": true, "infrastructureReady": true})).is_bootstrapped);
}

#[test]
fn conditions_of_the_native_style_win_and_unknown_is_not_true_nb_124() {
    let condition = |name: &str, status: &str| json!([{"type": name, "status": status}]);
    let old = |native: &str, new: &str| {
        changed(MachineKind::ClusterV1Beta1, |o| {
            o["status"] = json!({
                "bootstrapReady": true,
                "conditions": condition("BootstrapReady", native),
                "v1beta2": {"conditions": condition("BootstrapConfigReady", new)},
            });
        })
        .is_bootstrapped
    };
    assert!(old("True", "False"));
    assert!(!old("False", "True"));
    assert!(!old("Unknown", "True"));
    let new = |native: &str, old: &str| {
        changed(MachineKind::ClusterV1Beta2, |o| {
            o["status"] = json!({
                "initialization": {"bootstrapDataSecretCreated": true},
                "conditions": condition("BootstrapConfigReady", native),
                "deprecated": {"v1beta1": {"conditions": condition("BootstrapReady", old)}},
            });
        })
        .is_bootstrapped
    };
    assert!(new("True", "False"));
    assert!(!new("False", "True"));
    assert!(!new("Unknown", "True"));
    let other_style = changed(MachineKind::ClusterV1Beta2, |o| {
        o["status"] = json!({"deprecated": {"v1beta1": {"conditions": condition("BootstrapReady", "True")}}});
    });
    assert!(other_style.is_bootstrapped);
}

#[test]
fn a_machine_is_ready_with_its_node_nb_123() {
    for kind in MachineKind::ALL {
        let ready = |change: &dyn Fn(&mut Value)| {
            changed(kind, |object| {
                object["status"]["phase"] = "Running".into();
                object["status"]["nodeRef"] = json!({"name": "worker-0"});
                object["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
                change(object);
            })
            .is_ready
        };
        assert!(ready(&|_| {}));
        assert!(!ready(&|object| object["status"]["nodeRef"] = Value::Null));
        if kind == MachineKind::OpenShiftV1Beta1 {
            assert!(!ready(&|object| object["status"]["phase"] = "Provisioned".into()));
        } else {
            assert!(!ready(&|object| object["spec"]["providerID"] = Value::Null));
            assert!(!ready(&|object| object["status"]["conditions"][0]["status"] = "Unknown".into()));
        }
    }
}

#[test]
fn a_machine_without_a_time_of_creation_never_matches_nb_126() {
    for kind in MachineKind::ALL {
        for time in [Value::Null, "".into(), "yesterday".into(), "0001-01-01T00:00:00Z".into()] {
            let machine = changed(kind, |o| o["metadata"]["creationTimestamp"] = time);
            assert_eq!(machine.created, None);
            let world = World::with([machine]);
            assert_eq!(world.answer(&client_request()).1, Reason::MachineNotFound);
        }
    }
}

#[test]
fn machines_of_another_cluster_never_match_nb_122() {
    for kind in [MachineKind::ClusterV1Beta1, MachineKind::ClusterV1Beta2] {
        for other in ["theirs", "", "Mine"] {
            let world = World::with([changed(kind, |o| o["spec"]["clusterName"] = other.into())]);
            assert_eq!(world.answer(&client_request()).1, Reason::MachineNotFound, "{other}");
        }
    }
}

#[test]
fn without_a_configured_cluster_machines_count_only_while_they_are_of_one_nb_122() {
    let kind = MachineKind::ClusterV1Beta2;
    let config = Config::parse("machineAPIs: [cluster.x-k8s.io]", yaml).unwrap();
    let mine = changed(kind, |_| {});
    let theirs = changed(kind, |o| o["spec"]["clusterName"] = "theirs".into());
    assert_eq!(of_cluster(std::slice::from_ref(&mine), &config).len(), 1);
    assert!(of_cluster(&[mine.clone(), theirs], &config).is_empty());
    assert!(of_cluster(&[mine], &Config::default()).is_empty(), "the group is not configured (NB-120)");
}

#[test]
fn machines_of_another_namespace_never_match_nb_121() {
    for (namespace, found) in [("machines", Reason::ClientApproved), ("other", Reason::MachineNotFound)] {
        for mut world in World::all() {
            world.set_config(&format!("machineNamespace: {namespace}"));
            assert_eq!(world.answer(&client_request()).1, found);
        }
    }
}

#[test]
fn objects_are_told_apart_by_their_type_nb_120() {
    let of = |api: &str, kind: &str| read(&json!({"apiVersion": api, "kind": kind}).to_string()).unwrap();
    for kind in MachineKind::ALL {
        assert!(
            matches!(of(kind.api_version(), "Machine"), Some(Member::Machine(machine)) if machine.kind == kind)
        );
        assert!(of(kind.api_version(), "MachineSet").is_none());
    }
    assert!(matches!(of("cluster.x-k8s.io/v1beta2", "MachinePool"), Some(Member::Pool(_))));
    assert!(of("machine.openshift.io/v1beta1", "MachinePool").is_none());
    for api in ["v1", "machine.openshift.io/v1", "cluster.x-k8s.io/v1alpha4", "evil.example.com/v1beta1"] {
        assert!(of(api, "Machine").is_none(), "{api}");
    }
}

#[test]
fn a_damaged_machine_is_an_error_and_never_half_read() {
    let kind = MachineKind::ClusterV1Beta1;
    for damaged in [
        "",
        "[]",
        "null",
        r#"{"status":[]}"#,
        r#"{"status":{"addresses":"x"}}"#,
        r#"{"status":{"addresses":[["InternalDNS","worker-0"]]}}"#,
        r#"{"status":{"nodeRef":"worker-0"}}"#,
        r#"{"metadata":{"labels":["a"]}}"#,
        r#"{"spec":{"clusterName":1}}"#,
        r#"{"spec":{"clusterName":"a","clusterName":"b"}}"#,
    ] {
        assert!(Machine::from_json(kind, damaged).is_err(), "{damaged}");
    }
}

#[test]
fn a_pool_names_its_nodes_nb_127() {
    let pool = MachinePool::from_json(
        r#"{"metadata":{"name":"p","namespace":"n"},"spec":{"clusterName":"mine","providerIDList":["a","b"]},
            "status":{"nodeRefs":[{"name":"one"},{"name":"two"},{}]}}"#,
    )
    .unwrap();
    assert_eq!((pool.node_refs, pool.provider_ids), (strings(&["one", "two"]), strings(&["a", "b"])));
}

#[test]
fn a_node_says_where_its_kubelet_listens_nb_110() {
    let node = Node::from_json(
        r#"{"metadata":{"name":"n"},"status":{"addresses":[{"type":"Hostname","address":"n"},
            {"type":"InternalIP","address":"10.0.0.1"},{"type":"InternalIP","address":"fd00::1"}],
            "daemonEndpoints":{"kubeletEndpoint":{"Port":10250}}}}"#,
    )
    .unwrap();
    assert_eq!((node.internal_ips, node.kubelet_port), (strings(&["10.0.0.1", "fd00::1"]), 10250));
    assert_eq!(Node::from_json(r#"{"metadata":{"name":"n"}}"#).unwrap().kubelet_port, 0);
    for port in ["-1", "65536", "99999999999"] {
        let text = format!(r#"{{"status":{{"daemonEndpoints":{{"kubeletEndpoint":{{"Port":{port}}}}}}}}}"#);
        assert_eq!(Node::from_json(&text).unwrap().kubelet_port, 0);
    }
    assert!(Node::from_json("[]").is_err());
}

#[test]
fn machines_that_cannot_become_nodes_are_found_nb_89() {
    let world = World::with([
        changed(MachineKind::OpenShiftV1Beta1, |_| {}),
        changed(MachineKind::OpenShiftV1Beta1, |o| o["status"]["addresses"] = json!([])),
    ]);
    let machines = world.machines.clone().unwrap();
    assert_eq!(lacking_internal_dns(&machines, &world.config).len(), 1);
    assert_eq!(world.decide(&client_request()).outcome, Outcome::Approve);
}
