//! Objects with a marker wherever somebody may keep a secret, and the search for it (AU-165).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

/// What must be in no archive, in whatever form.
pub(crate) const MARKER: &str = "Marker-of-a-secret-7391";

/// Objects with a marker wherever somebody may keep a secret or an address.
pub(crate) fn salted() -> Vec<Value> {
    let base64 = BASE64_STANDARD.encode(MARKER);
    let metadata = |namespace: &str, name: &str| {
        json!({
            "namespace": namespace, "name": name,
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": format!("{{\"data\":{{\"a\":\"{base64}\"}}}}"),
                "example.com/note": MARKER, "cni.example.com/pod-ip": "192.0.2.9",
            },
            "managedFields": [{"manager": MARKER, "operation": "Apply", "fieldsV1": {"f:data": {}}}],
        })
    };
    let spec = json!({
        "nodeName": "n1", "serviceAccountName": "web",
        "hostAliases": [{"ip": "192.0.2.9", "hostnames": ["a"]}],
        "containers": [{
            "name": "main", "image": "registry.example.com/web",
            "command": ["sh", "-c", MARKER], "args": [format!("--password={MARKER}")],
            "env": [
                {"name": "PASSWORD", "value": MARKER},
                {"name": "OTHER", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}},
            ],
            "livenessProbe": {"httpGet": {"port": 80, "httpHeaders": [{"name": "Authorization", "value": MARKER}]}},
            "lifecycle": {"preStop": {"exec": {"command": ["sh", MARKER]}}},
        }],
        "volumes": [
            {"name": "n", "nfs": {"server": "192.0.2.9", "path": "/"}},
            {"name": "c", "csi": {"driver": "d.example.com", "volumeAttributes": {"password": MARKER},
                "nodePublishSecretRef": {"name": "csi"}}},
        ],
    });
    let template = json!({"metadata": {"labels": {"a": "b"}, "annotations": {"x": MARKER}}, "spec": spec});
    let mut pod =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata("shop", "web"), "spec": spec});
    pod["status"] = json!({
        "phase": "Running", "podIP": "192.0.2.9", "podIPs": [{"ip": "192.0.2.9"}], "message": MARKER,
        "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 1, "message": MARKER}}}],
    });
    let service =
        json!({"clientConfig": {"url": "https://192.0.2.9/hook", "caBundle": base64}, "name": "a.b.c"});
    vec![
        pod,
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata("shop", "db"), "data": {"password": base64}, "type": "Opaque"}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata("shop", "cfg"),
            "data": {"kubelet": MARKER, "a": MARKER}, "binaryData": {"b": base64}}),
        json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata("", "n1"),
            "status": {"addresses": [{"type": "InternalIP", "address": "198.51.100.1"}], "nodeInfo": {"kubeletVersion": "v1.36.0"}}}),
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata("", "pv"),
            "spec": {"claimRef": {"namespace": "shop", "name": "data"}, "csi": {"driver": "d", "volumeHandle": MARKER,
                "volumeAttributes": {"key": MARKER}, "nodeStageSecretRef": {"namespace": "shop", "name": "stage"}}}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata("shop", "web"), "spec": {"template": template}}),
        json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata("shop", "night"),
            "spec": {"schedule": "@daily", "jobTemplate": {"spec": {"template": template}}}}),
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
            "metadata": metadata("", "hook"), "webhooks": [service]}),
        json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": metadata("", "csr"),
            "spec": {"request": base64, "signerName": "kubernetes.io/kube-apiserver-client", "username": "jane",
                "extra": {"x": [MARKER]}},
            "status": {"certificate": base64, "conditions": [{"type": "Approved", "status": "True", "message": MARKER}]}}),
    ]
}

/// No file has the marker, plain, in base64 at whatever offset, or in hex.
#[track_caller]
pub(crate) fn assert_clean(files: &[(String, String)]) {
    let hex: String = MARKER.bytes().map(|byte| format!("{byte:02x}")).collect();
    let mut forms = vec![MARKER.to_owned(), hex.to_uppercase(), hex];
    // The parts of each alignment that do not depend on what is before and after.
    for before in 0..3 {
        let encoded = BASE64_STANDARD.encode(format!("{}{MARKER}", "x".repeat(before)));
        forms.push(encoded.get(4..encoded.len() - 4).unwrap().to_owned());
    }
    for (name, text) in files {
        for form in &forms {
            assert!(!text.contains(form.as_str()), "{name} has {form}:\n{text}");
        }
        assert!(!text.contains("192.0.2."), "{name} has an address:\n{text}");
    }
}
