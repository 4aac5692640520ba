//! Rules of the core group that no recording shows, as Kubernetes' documentation and release notes state them.

#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a test may stop")]

use std::collections::BTreeSet;
use std::sync::LazyLock;

use portcullis_apimachinery::field_error::FieldError;
use portcullis_kinds::decode;
use portcullis_kinds::resource::Resource;
use portcullis_kinds::resource::{Deletion, Refusal};
use portcullis_kinds::resources::core::namespaces::{self, NAMESPACES};
use portcullis_kinds::resources::core::persistent_volume_claims::{self as claims, PERSISTENT_VOLUME_CLAIMS};
use portcullis_kinds::resources::core::persistent_volumes::{self, PERSISTENT_VOLUMES};
use portcullis_kinds::resources::core::services::{FreePool, SERVICES, ServiceRanges, allocate};
use portcullis_kinds::resources::core::{
    endpoints::ENDPOINTS, events, nodes::NODES, service_accounts::SERVICE_ACCOUNTS,
};
use portcullis_kinds::resources::pods::PODS;
use portcullis_kinds::resources::{self, core::secrets::SECRETS};
use portcullis_kinds::{Kinds, Map};
use proptest::prelude::*;
use serde_json::{Value, json};

fn decoded(resource: &Resource, document: Value) -> Map {
    let mut object = decode::value(document, resource.schema).unwrap().object;
    (resource.default)(&mut object);
    object
}

/// An object after all that a create does to it before validation.
fn prepared(resource: &Resource, document: Value) -> Map {
    let mut object = decoded(resource, document);
    (resource.prepare_create)(&mut object);
    object
}

fn updated(resource: &Resource, document: Value, old: &Map) -> Map {
    let mut object = decoded(resource, document);
    (resource.prepare_update)(&mut object, old);
    object
}

/// The default ranges of kube-apiserver.
static RANGES: LazyLock<ServiceRanges> = LazyLock::new(ServiceRanges::default);

/// The faults as `field reason`, in order of the text.
fn faults(errors: &[FieldError]) -> Vec<String> {
    let mut faults: Vec<String> = errors
        .iter()
        .map(|error| format!("{} {}", error.field, error.reason.as_str().trim_start_matches("FieldValue")))
        .collect();
    faults.sort();
    faults
}

fn creation_faults(resource: &Resource, document: Value) -> Vec<String> {
    faults(&(resource.validate_create)(&prepared(resource, document)))
}

fn service(spec: Value) -> Value {
    json!({ "metadata": { "name": "s", "namespace": "n" }, "spec": spec })
}

fn pool(services: &[Map]) -> FreePool<'static> {
    FreePool::of(&RANGES, services.iter())
}

fn created(spec: Value) -> Map {
    let mut object = prepared(&SERVICES, service(spec));
    allocate(&mut object, None, &mut pool(&[])).unwrap();
    assert_eq!(faults(&(SERVICES.validate_create)(&object)), Vec::<String>::new());
    object
}

#[test]
fn rows_are_in_order_and_found_by_their_names() {
    let names: Vec<_> = resources::ALL.iter().map(|row| (row.group, row.plural)).collect();
    assert!(names.is_sorted());
    let kinds = Kinds::built_in();
    for row in resources::ALL {
        assert!(std::ptr::eq(kinds.find(row.group, row.version, row.plural).unwrap(), *row));
        assert_eq!(row.schema.name, row.kind);
        assert!(row.subresources.is_sorted_by_key(|subresource| subresource.name), "{}", row.plural);
    }
}

#[test]
fn ap_59_the_first_delete_of_a_namespace_only_begins() {
    let mut namespace = prepared(&NAMESPACES, json!({ "metadata": { "name": "a" } }));
    let Deletion::Begins(marked) = (NAMESPACES.delete)(&namespace, None, 0) else { panic!("it begins") };
    namespace["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:00:00Z");
    namespace["status"]["phase"] = json!("Terminating");
    assert_eq!(namespace, marked);
    assert_eq!((NAMESPACES.delete)(&namespace, None, 1), Deletion::Waits);
    assert!((NAMESPACES.is_held)(&namespace));
    namespace["spec"] = json!({});
    assert_eq!((NAMESPACES.delete)(&namespace, None, 1), Deletion::Proceeds);
    assert!(!(NAMESPACES.is_held)(&namespace));
}

#[test]
fn ap_58_the_phase_of_a_namespace_follows_its_deletion() {
    let mut namespace = prepared(&NAMESPACES, json!({ "metadata": { "name": "a" } }));
    assert_eq!((NAMESPACES.validate_status)(&namespace, &namespace), []);
    namespace["status"]["phase"] = json!("Terminating");
    assert_eq!(faults(&(NAMESPACES.validate_status)(&namespace, &namespace)), ["status.Phase Invalid"]);
    namespace["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!((NAMESPACES.validate_status)(&namespace, &namespace), []);
}

#[test]
fn ap_58_finalizers_of_a_namespace_are_qualified_or_kubernetes_own() {
    let document = json!({ "metadata": { "name": "a" }, "spec": { "finalizers": ["x", "a.b/c", "orphan"] } });
    assert_eq!(creation_faults(&NAMESPACES, document.clone()), ["spec.finalizers Invalid"]);
    assert_eq!(
        faults(&namespaces::validate_finalize(&prepared(&NAMESPACES, document))),
        ["spec.finalizers[0] Invalid"]
    );
}

#[test]
fn ap_131_a_node_has_one_range_of_each_family() {
    let node = |ranges: Value| json!({ "metadata": { "name": "a" }, "spec": { "podCIDRs": ranges } });
    let cases: [(Value, &[&str]); 8] = [
        (json!(["10.1.0.0/24", "fd00::/64"]), &[]),
        (json!(["10.1.0.5/24", "fd00::/64"]), &["spec.podCIDRs[0] Invalid"]),
        (
            json!(["x", "fd00::/64"]),
            &["spec.podCIDRs InternalError", "spec.podCIDRs Invalid", "spec.podCIDRs[0] Invalid"],
        ),
        (json!(["10.1.0.0/24", "10.2.0.0/24"]), &["spec.podCIDRs Invalid"]),
        (json!(["10.1.0.0/24", "10.1.0.0/24"]), &["spec.podCIDRs Invalid", "spec.podCIDRs[1] Duplicate"]),
        (json!(["10.1.0.0/24", "fd00::/64", "fd01::/64"]), &["spec.podCIDRs Invalid"]),
        // Since 1.36 neither leading zeros nor bits beyond the prefix.
        (json!(["010.1.0.0/24"]), &["spec.podCIDRs[0] Invalid"]),
        (json!(["10.1.0.5/24"]), &["spec.podCIDRs[0] Invalid"]),
    ];
    for (ranges, wanted) in cases {
        assert_eq!(creation_faults(&NODES, node(ranges.clone())), wanted, "{ranges}");
    }
}

#[test]
fn ap_131_the_single_range_of_a_node_wins_over_the_list() {
    let spec =
        |spec: Value| decoded(&NODES, json!({ "metadata": { "name": "a" }, "spec": spec }))["spec"].clone();
    let (one, other) = ("10.1.0.0/24", "10.2.0.0/24");
    assert_eq!(spec(json!({ "podCIDR": one })), json!({ "podCIDR": one, "podCIDRs": [one] }));
    assert_eq!(spec(json!({ "podCIDRs": [one] })), json!({ "podCIDR": one, "podCIDRs": [one] }));
    assert_eq!(
        spec(json!({ "podCIDR": one, "podCIDRs": [other] })),
        json!({ "podCIDR": one, "podCIDRs": [one] })
    );
}

#[test]
fn ap_131_amounts_of_a_node_are_not_negative_and_whole_where_counted() {
    let node = json!({ "metadata": { "name": "a" }, "status": {
        "capacity": { "cpu": "500m", "pods": "1500m", "example.com/gpu": "500m", "memory": "-1" },
        "allocatable": { "cpu": "1" }
    } });
    let wanted = [
        "status.capacity.example.com/gpu Invalid",
        "status.capacity.memory Invalid",
        "status.capacity.pods Invalid",
    ];
    assert_eq!(creation_faults(&NODES, node), wanted);
}

#[test]
fn what_a_node_can_give_is_its_capacity_unless_it_says_so() {
    let status = |status: Value| {
        decoded(&NODES, json!({ "metadata": { "name": "a" }, "status": status }))["status"].clone()
    };
    assert_eq!(status(json!({ "capacity": { "cpu": "2" } }))["allocatable"], json!({ "cpu": "2" }));
    let said = status(json!({ "capacity": { "cpu": "2" }, "allocatable": { "cpu": "1" } }));
    assert_eq!(said["allocatable"], json!({ "cpu": "1" }));
    // Finer than thousandths is rounded up.
    assert_eq!(status(json!({ "capacity": { "cpu": "100u" } }))["capacity"], json!({ "cpu": "1m" }));
}

#[test]
fn ap_22_faults_of_taints_are_told_twice_on_update() {
    let old = prepared(&NODES, json!({ "metadata": { "name": "a" } }));
    let taints = json!([{ "key": "a", "effect": "Maybe" }]);
    let node = updated(&NODES, json!({ "metadata": { "name": "a" }, "spec": { "taints": taints } }), &old);
    let wanted = ["metadata.taints[0].effect NotSupported"; 2];
    assert_eq!(faults(&(NODES.validate_update)(&node, &old)), wanted);
}

#[test]
fn ap_132_typed_secrets_need_their_keys() {
    let secret =
        |kind: &str, data: Value| json!({ "metadata": { "name": "a" }, "type": kind, "stringData": data });
    let cases: [(Value, &[&str]); 8] = [
        (secret("kubernetes.io/ssh-auth", json!({})), &["data[ssh-privatekey] Required"]),
        (
            secret("kubernetes.io/ssh-auth", json!({ "ssh-privatekey": "" })),
            &["data[ssh-privatekey] Required"],
        ),
        (secret("kubernetes.io/basic-auth", json!({ "username": "" })), &[]),
        (secret("kubernetes.io/tls", json!({})), &["data[tls.crt] Required", "data[tls.key] Required"]),
        (secret("kubernetes.io/dockercfg", json!({})), &["data[.dockercfg] Required"]),
        (secret("kubernetes.io/dockercfg", json!({ ".dockercfg": "{}" })), &[]),
        (secret("kubernetes.io/dockercfg", json!({ ".dockercfg": "[]" })), &["data[.dockercfg] Invalid"]),
        (secret("example.com/own", json!({ "..": "x" })), &["data[..] Invalid"]),
    ];
    for (document, wanted) in cases {
        assert_eq!(creation_faults(&SECRETS, document.clone()), wanted, "{document}");
    }
}

#[test]
fn of_the_secrets_of_an_account_only_names_are_kept() {
    let secrets = json!([{ "name": "s", "namespace": "x", "uid": "u" }]);
    let account = prepared(&SERVICE_ACCOUNTS, json!({ "metadata": { "name": "a" }, "secrets": secrets }));
    assert_eq!(account["secrets"], json!([{ "name": "s" }]));
}

#[test]
fn endpoints_are_not_at_special_addresses() {
    let of = |ip: &str| {
        let subsets = json!([{ "addresses": [{ "ip": ip }], "ports": [{ "port": 1 }] }]);
        creation_faults(&ENDPOINTS, json!({ "metadata": { "name": "a" }, "subsets": subsets }))
    };
    for ip in ["10.0.0.1", "fd00::1"] {
        assert_eq!(of(ip), Vec::<String>::new(), "{ip}");
    }
    for ip in ["127.0.0.1", "0.0.0.0", "169.254.1.1", "224.0.0.1", "::", "::1", "fe80::1", "ff02::1"] {
        assert_eq!(of(ip), ["subsets[0].addresses[0].ip Invalid"], "{ip}");
    }
    // A text that is no address breaks two rules.
    assert_eq!(of("x"), ["subsets[0].addresses[0].ip Invalid"; 2]);
}

#[test]
fn ap_134_new_style_events_say_who_and_what() {
    let event = json!({
        "metadata": { "name": "a", "namespace": "n" },
        "involvedObject": { "namespace": "n" },
        "eventTime": "2026-01-01T00:00:00.000000Z"
    });
    let wanted = [
        "action Required",
        "reason Required",
        "reportingComponent Invalid",
        "reportingComponent Invalid",
        "reportingComponent Required",
        "reportingInstance Required",
    ];
    assert_eq!(creation_faults(&events::CORE_EVENTS, event), wanted);
}

#[test]
fn ap_134_through_the_new_group_only_the_series_of_an_event_changes() {
    let document = |note: &str, series: Value| {
        json!({
            "metadata": { "name": "a", "namespace": "n" }, "regarding": { "namespace": "n" },
            "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "c", "reportingInstance": "i",
            "action": "A", "reason": "R", "type": "Normal", "note": note, "series": series
        })
    };
    let row = &events::EVENTS;
    let old = prepared(row, document("x", Value::Null));
    let series = json!({ "count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z" });
    let counted = updated(row, document("x", series), &old);
    assert_eq!((row.validate_update)(&counted, &old), []);
    let changed = updated(row, document("y", json!({ "count": 1 })), &old);
    let wanted = ["message Invalid", "series.count Invalid", "series.lastObservedTime Required"];
    assert_eq!(faults(&(row.validate_update)(&changed, &old)), wanted);
}

fn claim(spec: Value) -> Value {
    json!({ "metadata": { "name": "a" }, "spec": spec })
}

fn bound(size: &str) -> Map {
    let mut old = prepared(
        &PERSISTENT_VOLUME_CLAIMS,
        claim(json!({
            "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": size } },
            "storageClassName": "fast", "volumeName": "v"
        })),
    );
    old["status"] = json!({ "phase": "Bound", "capacity": { "storage": "5Gi" } });
    old
}

#[test]
fn ap_133_a_bound_claim_grows_where_its_class_lets_it() {
    let old = bound("5Gi");
    let mut spec = old["spec"].clone();
    spec["resources"]["requests"]["storage"] = json!("6Gi");
    let grown = updated(&PERSISTENT_VOLUME_CLAIMS, claim(spec), &old);
    assert_eq!(claims::growth_refusal(&grown, &old, |class| class == "fast"), None);
    assert!(claims::growth_refusal(&grown, &old, |_| false).is_some());
    assert_eq!((PERSISTENT_VOLUME_CLAIMS.validate_update)(&grown, &old), []);
    let mut unbound = old.clone();
    unbound["status"]["phase"] = json!("Pending");
    assert!(claims::growth_refusal(&grown, &unbound, |_| true).is_some());
}

#[test]
fn ap_133_a_claim_does_not_shrink_below_what_it_has() {
    let old = bound("8Gi");
    let shrunk = |size: &str| {
        let mut spec = old["spec"].clone();
        spec["resources"]["requests"]["storage"] = json!(size);
        updated(&PERSISTENT_VOLUME_CLAIMS, claim(spec), &old)
    };
    let of = |size: &str| faults(&(PERSISTENT_VOLUME_CLAIMS.validate_update)(&shrunk(size), &old));
    // The same size in bytes.
    assert_eq!(of("8589934592"), Vec::<String>::new());
    assert_eq!(of("6Gi"), Vec::<String>::new());
    assert_eq!(of("5Gi"), ["spec.resources.requests.storage Forbidden"]);
}

#[test]
fn ap_113_the_newest_default_class_is_taken() {
    let class = |name: &str, created: &str, mark: &str| {
        let annotations = json!({ "storageclass.kubernetes.io/is-default-class": mark });
        let metadata = json!({ "name": name, "creationTimestamp": created, "annotations": annotations });
        json!({ "metadata": metadata }).as_object().unwrap().clone()
    };
    let classes = [
        class("old", "2026-01-01T00:00:00Z", "true"),
        class("b", "2026-01-02T00:00:00Z", "true"),
        class("a", "2026-01-02T00:00:00Z", "true"),
        class("none", "2026-01-03T00:00:00Z", "false"),
    ];
    assert_eq!(claims::default_class(classes.iter()), Some("a"));
    assert_eq!(claims::default_class(classes[3..].iter()), None);
    assert!(claims::takes_default_class(&decoded(&PERSISTENT_VOLUME_CLAIMS, claim(json!({})))));
    let named = claim(json!({ "storageClassName": "" }));
    assert!(!claims::takes_default_class(&decoded(&PERSISTENT_VOLUME_CLAIMS, named)));
}

#[test]
fn a_claim_says_its_data_source_in_both_fields() {
    let of = |spec: Value| prepared(&PERSISTENT_VOLUME_CLAIMS, claim(spec))["spec"].clone();
    let source = json!({ "apiGroup": null, "kind": "PersistentVolumeClaim", "name": "p" });
    for member in ["dataSource", "dataSourceRef"] {
        let spec = of(json!({ member: source }));
        assert_eq!((&spec["dataSource"], &spec["dataSourceRef"]), (&source, &source), "{member}");
    }
    let other = json!({ "apiGroup": "example.com", "kind": "K", "name": "p" });
    assert_eq!(of(json!({ "dataSource": other })).get("dataSource"), None);
    assert_eq!(of(json!({ "dataSourceRef": other }))["dataSource"], other);
}

#[test]
fn ap_113_volumes_note_when_their_phase_changes() {
    let mut volume = prepared(&PERSISTENT_VOLUMES, json!({ "metadata": { "name": "a" } }));
    persistent_volumes::stamp_phase(&mut volume, None, "2026-01-01T00:00:00Z");
    assert_eq!(volume["status"]["lastPhaseTransitionTime"], "2026-01-01T00:00:00Z");
    let mut same = volume.clone();
    persistent_volumes::stamp_phase(&mut same, Some(&volume), "2026-01-02T00:00:00Z");
    assert_eq!(same, volume);
    let mut bound = volume.clone();
    bound["status"]["phase"] = json!("Bound");
    persistent_volumes::stamp_phase(&mut bound, Some(&volume), "2026-01-02T00:00:00Z");
    assert_eq!(bound["status"]["lastPhaseTransitionTime"], "2026-01-02T00:00:00Z");
}

#[test]
fn ap_133_faults_of_sources_of_volumes_have_their_paths() {
    let of = |source: Value| {
        let mut spec = json!({ "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"] });
        spec.as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
        creation_faults(&PERSISTENT_VOLUMES, json!({ "metadata": { "name": "a" }, "spec": spec }))
    };
    let cases: [(Value, &[&str]); 8] = [
        (json!({ "nfs": { "server": "s", "path": "p" } }), &["spec.nfs.path Invalid"]),
        (json!({ "hostPath": { "path": "/a/../b" } }), &["spec.hostPath.path Invalid"]),
        (json!({ "local": { "path": "/a" } }), &["spec.nodeAffinity Required"]),
        (
            json!({ "hostPath": { "path": "/" }, "persistentVolumeReclaimPolicy": "Recycle" }),
            &["spec.persistentVolumeReclaimPolicy Forbidden"],
        ),
        (
            json!({ "csi": { "driver": "d", "volumeHandle": "h", "nodePublishSecretRef": { "name": "s" } } }),
            &["spec.csi.nodePublishSecretRef.namespace Required"],
        ),
        (
            json!({ "iscsi": { "targetPortal": "p", "iqn": "iqn.2001.x:y", "lun": 256 } }),
            &["spec.iscsi.iqn Invalid", "spec.iscsi.lun Invalid"],
        ),
        (json!({ "iscsi": { "targetPortal": "p", "iqn": "eui.0123456789abcdef", "lun": 1 } }), &[]),
        (
            json!({ "rbd": { "monitors": [], "image": "" } }),
            &["spec.rbd.image Required", "spec.rbd.monitors Required"],
        ),
    ];
    for (source, wanted) in cases {
        assert_eq!(of(source.clone()), wanted, "{source}");
    }
}

#[test]
fn services_get_addresses_and_ports_of_nodes() {
    let ports = json!([{ "port": 80 }]);
    let plain = created(json!({ "ports": ports }));
    assert_eq!(plain["spec"]["clusterIPs"], json!([plain["spec"]["clusterIP"]]));
    assert_eq!(plain["spec"]["ipFamilies"], json!(["IPv4"]));
    let external = created(json!({ "type": "ExternalName", "externalName": "example.com." }));
    assert_eq!(external["spec"].get("clusterIP"), None);
    let node_port = created(json!({ "type": "NodePort", "ports": ports }));
    assert!((30_000..=32_767).contains(&node_port["spec"]["ports"][0]["nodePort"].as_i64().unwrap()));
    let open = created(json!({ "clusterIP": "None" }));
    assert_eq!(open["spec"]["ipFamilies"], json!(["IPv4", "IPv6"]));
    assert_eq!(open["spec"]["ipFamilyPolicy"], "RequireDualStack");
    let balanced =
        created(json!({ "type": "LoadBalancer", "ports": ports, "externalTrafficPolicy": "Local" }));
    assert_ne!(balanced["spec"]["healthCheckNodePort"], balanced["spec"]["ports"][0]["nodePort"]);
}

#[test]
fn services_of_a_dual_stack_cluster_have_an_address_of_each_family_that_they_want() {
    let ranges =
        |text: &str| ServiceRanges { addresses: text.parse().unwrap(), ports: "80-90".parse().unwrap() };
    let ranges = [ranges("10.96.0.0/12,fd00::/112"), ranges("fd00::/112,10.96.0.0/12"), ranges("fd00::/112")];
    let [v4_first, v6_first, v6_only] = &ranges;
    let made = |ranges: &ServiceRanges, spec: Value| {
        let mut object = prepared(&SERVICES, service(spec));
        allocate(&mut object, None, &mut FreePool::of(ranges, [].iter())).map(|()| {
            assert_eq!(faults(&(SERVICES.validate_create)(&object)), Vec::<String>::new());
            object
        })
    };
    let families_and_addresses = |service: &Map| {
        let spec = &service["spec"];
        assert_eq!(spec["clusterIP"], spec["clusterIPs"][0]);
        (spec["ipFamilies"].clone(), spec["clusterIPs"].clone())
    };
    let of = |ranges, mut spec: Value| {
        spec["ports"] = json!([{ "port": 80 }]);
        families_and_addresses(&made(ranges, spec).unwrap())
    };
    let (four, six) = ("10.96.1.1", "fd00::101");
    assert_eq!(of(v4_first, json!({})), (json!(["IPv4"]), json!([four])));
    assert_eq!(of(v6_first, json!({})), (json!(["IPv6"]), json!([six])));
    assert_eq!(of(v6_only, json!({})), (json!(["IPv6"]), json!([six])));
    assert_eq!(of(v4_first, json!({ "ipFamilies": ["IPv6"] })), (json!(["IPv6"]), json!([six])));
    assert_eq!(of(v4_first, json!({ "clusterIP": "fd00::5" })), (json!(["IPv6"]), json!(["fd00::5"])));
    for policy in ["PreferDualStack", "RequireDualStack"] {
        let spec = json!({ "ipFamilyPolicy": policy });
        assert_eq!(of(v4_first, spec.clone()), (json!(["IPv4", "IPv6"]), json!([four, six])));
        assert_eq!(of(v6_first, spec), (json!(["IPv6", "IPv4"]), json!([six, four])));
        let spec = json!({ "ipFamilyPolicy": policy, "ipFamilies": ["IPv6"], "clusterIP": "fd00::5" });
        assert_eq!(of(v4_first, spec), (json!(["IPv6", "IPv4"]), json!(["fd00::5", four])));
    }
    let spec = json!({ "ipFamilyPolicy": "PreferDualStack" });
    assert_eq!(of(v6_only, spec), (json!(["IPv6"]), json!([six])));

    // A service can gain the other family, and lose it again.
    let ports = json!([{ "port": 80 }]);
    let single = made(v4_first, json!({ "ports": ports })).unwrap();
    let change = |old: &Map, spec: Value| {
        let mut new = updated(&SERVICES, service(spec), old);
        allocate(&mut new, Some(old), &mut FreePool::of(v4_first, std::iter::once(old))).unwrap();
        assert_eq!((SERVICES.validate_update)(&new, old), []);
        new
    };
    let both = change(&single, json!({ "ports": ports, "ipFamilyPolicy": "RequireDualStack" }));
    assert_eq!(families_and_addresses(&both), (json!(["IPv4", "IPv6"]), json!([four, six])));
    assert_eq!(change(&both, both["spec"].clone()), both);
    let again = change(&both, json!({ "ports": ports, "ipFamilyPolicy": "SingleStack" }));
    assert_eq!(families_and_addresses(&again), (json!(["IPv4"]), json!([four])));

    // The ports are those of the cluster, too.
    let node_port = made(v4_first, json!({ "type": "NodePort", "ports": ports })).unwrap();
    assert_eq!(node_port["spec"]["ports"][0]["nodePort"], 80);
    let wanted = json!([{ "port": 80, "nodePort": 30_000 }]);
    let Err(Refusal::Invalid(errors)) = made(v4_first, json!({ "type": "NodePort", "ports": wanted })) else {
        panic!("a node port outside the range was accepted");
    };
    assert_eq!(faults(&errors), ["spec.ports[0].nodePort Invalid"]);
    assert!(errors[0].message().ends_with("The range of valid ports is 80-90"), "{}", errors[0].message());
}

#[test]
fn what_a_service_cannot_have_is_told_alone() {
    let of = |spec: Value| match allocate(&mut prepared(&SERVICES, service(spec)), None, &mut pool(&[])) {
        Err(Refusal::Invalid(errors)) => faults(&errors),
        other => panic!("{other:?}"),
    };
    let ports = json!([{ "port": 80 }]);
    assert_eq!(of(json!({ "clusterIP": "10.9.0.1", "ports": ports })), ["spec.clusterIPs Invalid"]);
    assert_eq!(of(json!({ "clusterIP": "x", "ports": ports })), ["spec.clusterIPs[0] Invalid"]);
    assert_eq!(of(json!({ "ipFamilies": ["IPv6"], "ports": ports })), ["spec.ipFamilies[0] Invalid"]);
    assert_eq!(
        of(json!({ "ipFamilyPolicy": "RequireDualStack", "ports": ports })),
        ["spec.ipFamilyPolicy Invalid"]
    );
    let ports = json!([{ "port": 80, "nodePort": 80 }]);
    assert_eq!(of(json!({ "type": "NodePort", "ports": ports })), ["spec.ports[0].nodePort Invalid"]);
}

#[test]
fn sending_a_service_again_changes_nothing() {
    for spec in [
        json!({ "ports": [{ "port": 80 }] }),
        json!({ "type": "NodePort", "ports": [{ "name": "a", "port": 80 }, { "name": "b", "port": 81 }] }),
        json!({ "type": "LoadBalancer", "ports": [{ "port": 80 }], "externalTrafficPolicy": "Local" }),
        json!({ "clusterIP": "None", "selector": { "a": "b" } }),
    ] {
        let old = created(spec.clone());
        let mut again = updated(&SERVICES, service(spec), &old);
        allocate(&mut again, Some(&old), &mut pool(std::slice::from_ref(&old))).unwrap();
        assert_eq!(again, old);
        assert_eq!((SERVICES.validate_update)(&again, &old), []);
    }
}

#[test]
fn a_service_that_changes_its_type_drops_what_it_does_not_need() {
    let old = created(json!({ "type": "NodePort", "ports": [{ "port": 80 }] }));
    let mut spec = old["spec"].clone();
    spec["type"] = json!("ClusterIP");
    let plain = updated(&SERVICES, service(spec.clone()), &old);
    assert_eq!(plain["spec"]["ports"][0].get("nodePort"), None);
    assert_eq!(plain["spec"].get("externalTrafficPolicy"), None);
    assert_eq!((SERVICES.validate_update)(&plain, &old), []);
    spec["type"] = json!("ExternalName");
    spec["externalName"] = json!("example.com");
    let external = updated(&SERVICES, service(spec), &old);
    for member in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"] {
        assert_eq!(external["spec"].get(member), None, "{member}");
    }
    assert_eq!((SERVICES.validate_update)(&external, &old), []);
}

#[test]
fn the_address_of_a_service_stays() {
    let old = created(json!({ "ports": [{ "port": 80 }] }));
    let ports = json!([{ "port": 80 }]);
    let moved = updated(&SERVICES, service(json!({ "clusterIP": "10.0.0.200", "ports": ports })), &old);
    assert_eq!(faults(&(SERVICES.validate_update)(&moved, &old)), ["spec.clusterIPs[0] Invalid"]);
}

#[test]
fn faults_of_services_have_their_paths() {
    let of = |spec: Value| {
        let mut object = prepared(&SERVICES, service(spec));
        allocate(&mut object, None, &mut pool(&[])).unwrap();
        faults(&(SERVICES.validate_create)(&object))
    };
    let port = json!([{ "port": 80 }]);
    let cases: [(Value, &[&str]); 9] = [
        (json!({}), &["spec.ports Required"]),
        (
            json!({ "ports": [{ "port": 80 }, { "port": 80 }] }),
            &["spec.ports[0].name Required", "spec.ports[1] Duplicate", "spec.ports[1].name Required"],
        ),
        (
            json!({ "ports": [{ "port": 80, "protocol": "X", "targetPort": "-" }] }),
            &[
                "spec.ports[0].protocol NotSupported",
                "spec.ports[0].targetPort Invalid",
                "spec.ports[0].targetPort Invalid",
            ],
        ),
        (json!({ "ports": port, "sessionAffinity": "Maybe" }), &["spec.sessionAffinity NotSupported"]),
        (
            json!({ "ports": port, "sessionAffinity": "ClientIP", "sessionAffinityConfig": { "clientIP": { "timeoutSeconds": 0 } } }),
            &["spec.sessionAffinityConfig.clientIP.timeoutSeconds Invalid"],
        ),
        (json!({ "ports": port, "externalIPs": ["127.0.0.1"] }), &["spec.externalIPs[0] Invalid"]),
        (
            json!({ "ports": port, "loadBalancerSourceRanges": ["10.0.0.0/8"] }),
            &["spec.LoadBalancerSourceRanges Forbidden"],
        ),
        (json!({ "type": "ExternalName" }), &["spec.externalName Required"]),
        (json!({ "ports": port, "trafficDistribution": "Far" }), &["spec.trafficDistribution NotSupported"]),
    ];
    for (spec, wanted) in cases {
        assert_eq!(of(spec.clone()), wanted, "{spec}");
    }
}

/// Names of members that rows look at.
const MEMBERS: &[&str] = &[
    "accessModes",
    "addresses",
    "annotations",
    "capacity",
    "clusterIP",
    "clusterIPs",
    "csi",
    "data",
    "dataSource",
    "finalizers",
    "hostPath",
    "involvedObject",
    "ipFamilies",
    "iscsi",
    "labels",
    "loadBalancer",
    "metadata",
    "name",
    "nodeAffinity",
    "podCIDR",
    "podCIDRs",
    "ports",
    "regarding",
    "requests",
    "resources",
    "series",
    "spec",
    "status",
    "storage",
    "stringData",
    "subsets",
    "taints",
    "type",
];

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-zA-Z0-9./:é-]{0,8}".prop_map(Value::from),
        Just(json!("NodePort")),
        Just(json!("LoadBalancer")),
        Just(json!("10.0.0.7")),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        let name = prop::sample::select(MEMBERS).prop_map(str::to_owned);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name, inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn any_object() -> impl Strategy<Value = Map> {
    any_value().prop_map(|value| match value {
        Value::Object(members) => members,
        other => Map::from_iter([("spec".to_owned(), other)]),
    })
}

proptest! {
    #[test]
    fn no_object_is_too_strange(object in any_object(), old in any_object()) {
        for row in resources::ALL {
            let (mut new, mut changed, mut reported) = (object.clone(), object.clone(), object.clone());
            (row.default)(&mut new);
            (row.prepare_create)(&mut new);
            (row.validate_create)(&new);
            (row.prepare_update)(&mut changed, &old);
            (row.validate_update)(&changed, &old);
            (row.prepare_status)(&mut reported, &old);
            (row.validate_status)(&reported, &old);
            prop_assert_eq!((row.row)(&object, 0).cells.len(), row.columns.len());
            row.selectable.iter().for_each(|field| drop((field.value)(&object)));
        }
        let _ = allocate(&mut object.clone(), Some(&old), &mut pool(std::slice::from_ref(&old)));
        let _ = allocate(&mut object.clone(), None, &mut pool(&[old]));
    }

    #[test]
    fn defaults_are_filled_in_once(object in any_object()) {
        for row in resources::ALL {
            let Ok(decoded) = decode::value(Value::Object(object.clone()), row.schema) else { continue };
            let mut once = decoded.object;
            (row.default)(&mut once);
            let mut twice = once.clone();
            (row.default)(&mut twice);
            prop_assert_eq!(twice, once, "{}", row.plural);
        }
    }

    #[test]
    fn ap_134_an_event_comes_back_from_its_other_form(object in any_object()) {
        if let Ok(decoded) = decode::value(Value::Object(object), events::CORE_EVENTS.schema) {
            prop_assert_eq!(&events::to_core(events::from_core(decoded.object.clone())), &decoded.object);
        }
    }

    #[test]
    fn services_never_share_an_address(wanted in prop::collection::vec(0_u8..40, 1..60)) {
        let mut stored: Vec<Map> = Vec::new();
        for last in wanted {
            let ip = if last < 20 { json!(null) } else { json!(format!("10.0.0.{last}")) };
            let mut object = prepared(&SERVICES, service(json!({ "type": "NodePort", "clusterIP": ip, "ports": [{ "port": 1 }] })));
            if allocate(&mut object, None, &mut pool(&stored)).is_ok() {
                stored.push(object);
            }
        }
        let of = |member: &str| stored.iter().map(|it| it["spec"][member].to_string()).collect::<BTreeSet<_>>().len();
        prop_assert_eq!((of("clusterIP"), of("ports")), (stored.len(), stored.len()));
    }
}

#[test]
fn errors_of_many_entries_do_not_show_the_whole_list_each() {
    // Each error names the list, not its entry.
    let sources = vec![json!({}); 20_000];
    let container = json!({ "name": "c", "image": "i", "envFrom": sources });
    let pod = json!({ "metadata": { "name": "p", "namespace": "n" }, "spec": { "containers": [container] } });
    let errors = (PODS.validate_create)(&prepared(&PODS, pod));
    assert!(errors.told().1, "{}", errors.len());
    let longest = errors.iter().map(|error| error.to_string().len()).max().unwrap();
    assert!(longest < 2_000, "{longest}");

    let addresses: Vec<String> = (0..20_000).map(|i| format!("10.0.{}.{}", i / 250, i % 250)).collect();
    let ports = json!([{ "port": 80 }]);
    let of = |addresses: &[String]| {
        decoded(
            &SERVICES,
            service(json!({ "clusterIP": addresses[0], "clusterIPs": addresses, "ports": ports })),
        )
    };
    let (new, mut turned) = (of(&addresses), addresses.clone());
    turned.reverse();
    let errors = (SERVICES.validate_update)(&new, &of(&turned));
    // At most so many show the list, and a few more say what else is wrong with it.
    assert!((1_000..1_100).contains(&errors.len()), "{}", errors.len());
    let longest = errors.iter().map(|error| error.to_string().len()).max().unwrap();
    assert!(longest < 2_000, "{longest}");
}
