//! The rules by plain traversal of JSON: slow, short, and without shared code with the index.

use std::collections::BTreeMap;

use serde_json::Value;

/// Kind, namespace, name.
pub(crate) type Key = (&'static str, String, String);

/// Every object of a small world as it is now.
#[derive(Clone, Debug, Default)]
pub(crate) struct World(pub(crate) BTreeMap<Key, Value>);

fn text<'v>(value: &'v Value, path: &str) -> &'v str {
    value.pointer(path).and_then(Value::as_str).unwrap_or("")
}

fn items<'v>(value: &'v Value, path: &str) -> impl Iterator<Item = &'v Value> + use<'v> {
    value.pointer(path).and_then(Value::as_array).into_iter().flatten()
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    ["/spec/initContainers", "/spec/containers", "/spec/ephemeralContainers"]
        .into_iter()
        .flat_map(|p| items(pod, p))
}

/// Does the pod refer to the object, by the tables of NA-58 to NA-62?
fn pod_refers(pod: &Value, kind: &str, name: &str) -> bool {
    if name.is_empty()
        || pod
            .pointer("/metadata/annotations")
            .is_some_and(|a| a.get("kubernetes.io/config.mirror").is_some())
    {
        return false;
    }
    let environment = |from: &str, key: &str| {
        containers(pod).any(|c| {
            items(c, "/envFrom").any(|e| text(e, &format!("/{from}/name")) == name)
                || items(c, "/env").any(|e| text(e, &format!("/valueFrom/{key}/name")) == name)
        })
    };
    let volume =
        |paths: &[&str]| items(pod, "/spec/volumes").any(|v| paths.iter().any(|p| text(v, p) == name));
    let projected = |path: &str| {
        items(pod, "/spec/volumes").any(|v| items(v, "/projected/sources").any(|s| text(s, path) == name))
    };
    match kind {
        "serviceaccounts" => text(pod, "/spec/serviceAccountName") == name,
        "secrets" => {
            items(pod, "/spec/imagePullSecrets").any(|s| text(s, "/name") == name)
                || environment("secretRef", "secretKeyRef")
                || projected("/secret/name")
                || volume(&[
                    "/azureFile/secretName",
                    "/cephfs/secretRef/name",
                    "/cinder/secretRef/name",
                    "/flexVolume/secretRef/name",
                    "/rbd/secretRef/name",
                    "/secret/secretName",
                    "/scaleIO/secretRef/name",
                    "/iscsi/secretRef/name",
                    "/storageos/secretRef/name",
                    "/csi/nodePublishSecretRef/name",
                ])
        }
        "configmaps" => {
            environment("configMapRef", "configMapKeyRef")
                || projected("/configMap/name")
                || volume(&["/configMap/name"])
        }
        "persistentvolumeclaims" => items(pod, "/spec/volumes").any(|v| {
            text(v, "/persistentVolumeClaim/claimName") == name
                || v.get("ephemeral").is_some()
                    && format!("{}-{}", text(pod, "/metadata/name"), text(v, "/name")) == name
        }),
        "resourceclaims" => {
            text(pod, "/status/extendedResourceClaimStatus/resourceClaimName") == name
                || items(pod, "/spec/resourceClaims").any(|c| match c.get("resourceClaimName") {
                    Some(direct) => direct.as_str() == Some(name),
                    None => {
                        c.get("resourceClaimTemplateName").is_some()
                            && items(pod, "/status/resourceClaimStatuses")
                                .find(|s| text(s, "/name") == text(c, "/name"))
                                .is_some_and(|s| text(s, "/resourceClaimName") == name)
                    }
                })
        }
        _ => false,
    }
}

/// Does the volume's source name the secret, by the table of NA-63?
fn volume_names_secret(volume: &Value, namespace: &str, name: &str) -> bool {
    let claim_namespace = text(volume, "/spec/claimRef/namespace");
    let is =
        |in_namespace: &str, secret: &str| !secret.is_empty() && secret == name && in_namespace == namespace;
    let or_claim = |namespace| if str::is_empty(namespace) { claim_namespace } else { namespace };
    let azure = "/spec/azureFile";
    if is(
        or_claim(text(volume, &format!("{azure}/secretNamespace"))),
        text(volume, &format!("{azure}/secretName")),
    ) {
        return true;
    }
    let referred = |path: &str, defaults: bool| {
        let (in_namespace, secret) =
            (text(volume, &format!("{path}/namespace")), text(volume, &format!("{path}/name")));
        is(if defaults { or_claim(in_namespace) } else { in_namespace }, secret)
    };
    ["cephfs", "flexVolume", "rbd", "scaleIO", "iscsi"]
        .iter()
        .any(|s| referred(&format!("/spec/{s}/secretRef"), true))
        || ["cinder", "storageos"].iter().any(|s| referred(&format!("/spec/{s}/secretRef"), false))
        || ["nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef"]
            .iter()
            .any(|s| referred(&format!("/spec/csi/{s}"), false))
}

impl World {
    fn of<'w>(&'w self, kind: &'static str) -> impl Iterator<Item = (&'w Key, &'w Value)> {
        self.0.iter().filter(move |(key, _)| key.0 == kind)
    }

    fn pod_here_refers(&self, kind: &str, namespace: &str, name: &str, node: &str) -> bool {
        self.of("pods").any(|(key, pod)| {
            key.1 == namespace && text(pod, "/spec/nodeName") == node && pod_refers(pod, kind, name)
        })
    }

    fn volume_is_here(&self, volume: &Value, node: &str) -> bool {
        volume.pointer("/spec/claimRef").is_some_and(|claim| {
            let (namespace, name) = (text(claim, "/namespace"), text(claim, "/name"));
            self.pod_here_refers("persistentvolumeclaims", namespace, name, node)
        })
    }

    /// NA-65: the closed form of reachability.
    pub(crate) fn related(&self, kind: &str, namespace: &str, name: &str, node: &str) -> bool {
        if node.is_empty() {
            return false;
        }
        match kind {
            "pods" | "volumeattachments" | "resourceslices" | "podcertificaterequests" => {
                self.0.iter().any(|(key, object)| {
                    key.0 == kind
                        && key.1 == namespace
                        && key.2 == name
                        && text(object, "/spec/nodeName") == node
                })
            }
            "persistentvolumes" => {
                namespace.is_empty()
                    && self
                        .of("persistentvolumes")
                        .any(|(key, volume)| key.2 == name && self.volume_is_here(volume, node))
            }
            "secrets" => {
                self.pod_here_refers(kind, namespace, name, node)
                    || self.of("persistentvolumes").any(|(_, volume)| {
                        self.volume_is_here(volume, node) && volume_names_secret(volume, namespace, name)
                    })
            }
            _ => self.pod_here_refers(kind, namespace, name, node),
        }
    }
}
