//! Properties for any input: the plugin never panics, and refuses what it cannot read (NR-113).

use portcullis_policy::restriction::Operation::{self, Connect, Create, Delete, Update};
use portcullis_policy::restriction::review::AdmissionReview;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::node_restriction::support::{World, node, write};

const FIELDS: [&str; 44] = [
    "apiVersion",
    "kind",
    "metadata",
    "spec",
    "status",
    "name",
    "namespace",
    "uid",
    "labels",
    "annotations",
    "ownerReferences",
    "controller",
    "nodeName",
    "volumes",
    "projected",
    "sources",
    "serviceAccountToken",
    "containers",
    "env",
    "valueFrom",
    "secretKeyRef",
    "taints",
    "timeAdded",
    "configSource",
    "configMap",
    "boundObjectRef",
    "audiences",
    "signerName",
    "request",
    "resources",
    "requests",
    "storage",
    "creationTimestamp",
    "generation",
    "resourceClaimStatuses",
    "extendedResourceClaimStatus",
    "kubernetes.io/config.mirror",
    "source",
    "host",
    "reportingInstance",
    "selector",
    "phase",
    "csi",
    "secret",
];

const RESOURCES: [(&str, &str, &str); 13] = [
    ("pods", "v1", "Pod"),
    ("pods/status", "v1", "Pod"),
    ("pods/eviction", "policy/v1", "Eviction"),
    ("nodes", "v1", "Node"),
    ("nodes/status", "v1", "Node"),
    ("persistentvolumeclaims/status", "v1", "PersistentVolumeClaim"),
    ("serviceaccounts/token", "authentication.k8s.io/v1", "TokenRequest"),
    ("podcertificaterequests.certificates.k8s.io", "certificates.k8s.io/v1beta1", "PodCertificateRequest"),
    ("leases.coordination.k8s.io", "coordination.k8s.io/v1", "Lease"),
    ("csinodes.storage.k8s.io", "storage.k8s.io/v1", "CSINode"),
    ("resourceslices.resource.k8s.io", "resource.k8s.io/v1", "ResourceSlice"),
    ("certificatesigningrequests.certificates.k8s.io", "certificates.k8s.io/v1", "CertificateSigningRequest"),
    ("events", "v1", "Event"),
];

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop_oneof![Just("n0"), Just(""), Just("v1"), Just("1Gi"), Just("2026-01-01T00:00:00Z")]
            .prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 5, |inner| {
        let key = prop_oneof![4 => (0..FIELDS.len()).prop_map(|i| FIELDS[i].to_owned()), 1 => ".{0,4}"];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(key, inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn any_operation() -> impl Strategy<Value = Operation> {
    prop_oneof![Just(Create), Just(Update), Just(Delete), Just(Connect)]
}

fn world() -> World {
    use portcullis_policy::features::Feature;
    let mut world = World::of(&[
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n0", "uid": "u"}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "n0", "namespace": "", "uid": "u"},
            "spec": {"nodeName": "n0"}}),
    ]);
    for feature in [Feature::PodCertificateRequest, Feature::PortcullisNodeEventSourceRestriction] {
        world.gates = world.gates.with(feature, true);
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn no_object_stops_the_plugin(
        operation in any_operation(),
        resource in 0..RESOURCES.len(),
        (mut object, mut old) in (any_json(), any_json()),
        typed in any::<bool>(),
        name in prop_oneof![Just("n0"), Just("")],
    ) {
        let (resource, version, kind) = RESOURCES[resource];
        if typed {
            for object in [&mut object, &mut old] {
                if let Some(object) = object.as_object_mut() {
                    object.insert("apiVersion".to_owned(), version.into());
                    object.insert("kind".to_owned(), kind.into());
                }
            }
        }
        let write = write(operation, resource, "kube-node-lease", name).with(&object).over(&old);
        let code = world().code(&write);
        prop_assert!([200, 403, 404, 500].contains(&code));
        let stranger = node("n9");
        prop_assert!(code != 404 || world().code(&write.clone().by(stranger)) != 200);
    }

    #[test]
    fn no_text_stops_the_plugin(resource in 0..RESOURCES.len(), text in ".{0,40}", operation in any_operation()) {
        let mut write = write(operation, RESOURCES[resource].0, "kube-node-lease", "n0");
        write.object = Some(text.clone());
        write.old_object = Some(text);
        let code = world().code(&write);
        prop_assert!(operation != Create || code == 403);
    }

    #[test]
    fn no_text_stops_the_reader_of_reviews(text in ".{0,80}", value in any_json()) {
        prop_assert!(AdmissionReview::parse(&text).is_err());
        let review = json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": value});
        prop_assert!(AdmissionReview::parse(&review.to_string()).is_err(), "it has no operation");
    }
}

#[test]
fn a_body_of_another_type_is_refused_everywhere_nr_113() {
    let world = world();
    for (resource, version, kind) in RESOURCES {
        for (object, what) in [
            (None, "nothing"),
            (Some(json!(null)), "null"),
            (Some(json!([])), "a list"),
            (Some(json!({})), "an untyped object"),
            (Some(json!({"kind": kind})), "an object without version"),
            (Some(json!({"apiVersion": version})), "an object without kind"),
            (
                Some(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "n0"}})),
                "a ConfigMap",
            ),
            (
                Some(
                    json!({"apiVersion": version, "kind": kind, "metadata": 1, "spec": 1, "status": 1, "source": 1}),
                ),
                "an object of numbers",
            ),
        ] {
            let right = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "n0"},
                "spec": {"nodeName": "n0"}});
            for operation in [Create, Update] {
                let mut write = write(operation, resource, "kube-node-lease", "n0").over(&right);
                write.object = object.as_ref().map(Value::to_string);
                let reads_body = operation == Create
                    || ["pods/status", "nodes", "nodes/status", "persistentvolumeclaims/status", "events"]
                        .contains(&resource);
                if reads_body {
                    assert_eq!(world.code(&write), 403, "{operation:?} {resource} with {what}");
                }
                if operation == Update && reads_body {
                    let write = write.clone().with(&right);
                    let swapped = crate::node_restriction::support::Write {
                        old_object: object.as_ref().map(Value::to_string),
                        ..write
                    };
                    assert_eq!(world.code(&swapped), 403, "{resource} over {what}");
                }
            }
        }
    }
}
