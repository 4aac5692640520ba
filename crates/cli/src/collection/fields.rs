//! The fields of each kind that are kept of a cluster: what the audit reads, and nothing else (AU-20). docs/collect.md names them.

use portcullis_policy::audit::inputs::{Form, Input};

use super::computed;
use super::keep::Keep;

/// The metadata. Of the annotations only those that the audit reads.
const METADATA: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.generateName",
    "metadata.uid",
    "metadata.creationTimestamp",
    "metadata.deletionTimestamp",
    "metadata.labels",
    "metadata.ownerReferences",
    "metadata.<annotations>",
];

/// The lists of containers in the spec of a pod.
const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

const CONTAINER: [&str; 23] = [
    "name",
    "image",
    "<command>",
    "<commandIsReduced>",
    "env.[].name",
    "env.[].valueFrom.configMapKeyRef",
    "env.[].valueFrom.secretKeyRef",
    "env.[].valueFrom.fieldRef",
    "env.[].valueFrom.resourceFieldRef",
    "env.[].valueFrom.fileKeyRef",
    "envFrom",
    "restartPolicy",
    "securityContext.allowPrivilegeEscalation",
    "securityContext.capabilities",
    "securityContext.privileged",
    "securityContext.procMount",
    "securityContext.readOnlyRootFilesystem",
    "securityContext.runAsGroup",
    "securityContext.runAsNonRoot",
    "securityContext.runAsUser",
    "securityContext.seccompProfile",
    "securityContext.windowsOptions.hostProcess",
    "volumeMounts",
];

const POD: [&str; 25] = [
    "affinity",
    "automountServiceAccountToken",
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "hostUsers",
    "imagePullSecrets",
    "nodeName",
    "nodeSelector",
    "priorityClassName",
    "resourceClaims",
    "restartPolicy",
    "runtimeClassName",
    "schedulerName",
    "securityContext.fsGroup",
    "securityContext.runAsGroup",
    "securityContext.runAsNonRoot",
    "securityContext.runAsUser",
    "securityContext.seccompProfile",
    "securityContext.supplementalGroups",
    "securityContext.sysctls",
    "securityContext.windowsOptions.hostProcess",
    "serviceAccount",
    "serviceAccountName",
    "tolerations",
];

/// Of sources of volumes what they refer to: no addresses, and no options of drivers.
const POD_VOLUME: [&str; 40] = [
    "name",
    "azureFile.secretName",
    "cephfs.secretRef",
    "cinder.secretRef",
    "configMap",
    "csi.driver",
    "csi.nodePublishSecretRef",
    "csi.readOnly",
    "ephemeral.volumeClaimTemplate.{}",
    "flexVolume.driver",
    "flexVolume.secretRef",
    "glusterfs.endpoints",
    "hostPath",
    "iscsi.secretRef",
    "persistentVolumeClaim",
    "projected.sources.[].clusterTrustBundle.name",
    "projected.sources.[].clusterTrustBundle.signerName",
    "projected.sources.[].configMap",
    "projected.sources.[].downwardAPI.{}",
    "projected.sources.[].podCertificate.signerName",
    "projected.sources.[].secret",
    "projected.sources.[].serviceAccountToken",
    "rbd.secretRef",
    "scaleIO.secretRef",
    "secret",
    "storageos.secretRef",
    "awsElasticBlockStore.{}",
    "azureDisk.{}",
    "downwardAPI.{}",
    "emptyDir.{}",
    "fc.{}",
    "flocker.{}",
    "gcePersistentDisk.{}",
    "gitRepo.{}",
    "image.{}",
    "nfs.{}",
    "photonPersistentDisk.{}",
    "portworxVolume.{}",
    "quobyte.{}",
    "vsphereVolume.{}",
];

const PERSISTENT_VOLUME: [&str; 34] = [
    "spec.accessModes",
    "spec.claimRef.kind",
    "spec.claimRef.namespace",
    "spec.claimRef.name",
    "spec.claimRef.uid",
    "spec.nodeAffinity",
    "spec.persistentVolumeReclaimPolicy",
    "spec.storageClassName",
    "spec.volumeMode",
    "spec.azureFile.secretName",
    "spec.azureFile.secretNamespace",
    "spec.cephfs.secretRef",
    "spec.cinder.secretRef",
    "spec.csi.driver",
    "spec.csi.controllerExpandSecretRef",
    "spec.csi.controllerPublishSecretRef",
    "spec.csi.nodeExpandSecretRef",
    "spec.csi.nodePublishSecretRef",
    "spec.csi.nodeStageSecretRef",
    "spec.flexVolume.driver",
    "spec.flexVolume.secretRef",
    "spec.glusterfs.endpoints",
    "spec.glusterfs.endpointsNamespace",
    "spec.hostPath",
    "spec.iscsi.secretRef",
    "spec.local",
    "spec.rbd.secretRef",
    "spec.scaleIO.secretRef",
    "spec.storageos.secretRef",
    "spec.awsElasticBlockStore.{}",
    "spec.azureDisk.{}",
    "spec.gcePersistentDisk.{}",
    "spec.portworxVolume.{}",
    "spec.vsphereVolume.{}",
];

const NODE: [&str; 10] = [
    "spec.taints",
    "spec.unschedulable",
    "status.addresses",
    "status.nodeInfo.architecture",
    "status.nodeInfo.containerRuntimeVersion",
    "status.nodeInfo.kernelVersion",
    "status.nodeInfo.kubeletVersion",
    "status.nodeInfo.operatingSystem",
    "status.nodeInfo.osImage",
    "status.daemonEndpoints",
];

const REQUEST: [&str; 11] = [
    "spec.expirationSeconds",
    "spec.groups",
    "spec.signerName",
    "spec.uid",
    "spec.usages",
    "spec.username",
    "spec.<requested>",
    "status.conditions.[].reason",
    "status.conditions.[].status",
    "status.conditions.[].type",
    "status.<issued>",
];

const WEBHOOKS: [&str; 12] = [
    "webhooks.[].name",
    "webhooks.[].clientConfig.service",
    "webhooks.[].failurePolicy",
    "webhooks.[].matchConditions",
    "webhooks.[].matchPolicy",
    "webhooks.[].namespaceSelector",
    "webhooks.[].objectSelector",
    "webhooks.[].reinvocationPolicy",
    "webhooks.[].rules",
    "webhooks.[].sideEffects",
    "webhooks.[].timeoutSeconds",
    "webhooks.[].admissionReviewVersions",
];

const POLICY: [&str; 6] = [
    "spec.failurePolicy",
    "spec.matchConditions",
    "spec.matchConstraints",
    "spec.paramKind",
    "spec.reinvocationPolicy",
    "spec.variables.[].name",
];

const POLICY_BINDING: [&str; 4] =
    ["spec.matchResources", "spec.paramRef", "spec.policyName", "spec.validationActions"];

/// What is kept of the objects of an input.
pub(super) fn of(input: &Input) -> Keep {
    let mut paths: Vec<String> = METADATA.iter().map(|path| (*path).to_owned()).collect();
    if input.form == Form::Metadata {
        // A server that gives more than was asked for is not to be helped.
        paths.push("type".to_owned());
        return Keep::of(paths, computed::field);
    }
    let (own, template): (&[&str], Option<&str>) = match input.resource {
        "pods" => (
            &["status.phase", "status.resourceClaimStatuses", "status.extendedResourceClaimStatus"],
            Some("spec"),
        ),
        "cronjobs" => (&["spec.suspend"], Some("spec.jobTemplate.spec.template")),
        "daemonsets" | "deployments" | "jobs" | "replicasets" | "replicationcontrollers" | "statefulsets" => {
            (&["spec.replicas", "spec.parallelism", "spec.suspend", "spec.selector"], Some("spec.template"))
        }
        "nodes" => (&NODE, None),
        "namespaces" => (&["status.phase"], None),
        "serviceaccounts" => (&["automountServiceAccountToken", "secrets.[].name", "imagePullSecrets"], None),
        "persistentvolumeclaims" => (
            &[
                "spec.accessModes",
                "spec.storageClassName",
                "spec.volumeMode",
                "spec.volumeName",
                "status.phase",
            ],
            None,
        ),
        "persistentvolumes" => (&PERSISTENT_VOLUME, None),
        "roles" => (&["rules"], None),
        "clusterroles" => (&["rules", "aggregationRule"], None),
        "rolebindings" | "clusterrolebindings" => (&["roleRef", "subjects"], None),
        "certificatesigningrequests" => (&REQUEST, None),
        "csidrivers" => (&["spec"], None),
        "volumeattachments" => {
            (&["spec.attacher", "spec.nodeName", "spec.source.persistentVolumeName", "status.attached"], None)
        }
        "resourceslices" => {
            (&["spec.allNodes", "spec.driver", "spec.nodeName", "spec.nodeSelector", "spec.pool.name"], None)
        }
        "resourceclaims" => (&["status.reservedFor"], None),
        "mutatingwebhookconfigurations" | "validatingwebhookconfigurations" => (&WEBHOOKS, None),
        "mutatingadmissionpolicies" | "validatingadmissionpolicies" => (&POLICY, None),
        "mutatingadmissionpolicybindings" | "validatingadmissionpolicybindings" => (&POLICY_BINDING, None),
        _ => (&[], None),
    };
    paths.extend(own.iter().map(|path| (*path).to_owned()));
    match template {
        Some("spec") => paths.extend(pod("spec")),
        Some(template) => {
            paths.push(format!("{template}.metadata.labels"));
            paths.extend(pod(&format!("{template}.spec")));
        }
        None => {}
    }
    Keep::of(paths, computed::field)
}

/// What is kept of the ConfigMap with the configuration of kubelets (AU-13).
pub(super) fn of_kubelet_config() -> Keep {
    Keep::of(METADATA.into_iter().chain(["data.<kubelet>"]), computed::field)
}

/// What is kept of the answer of `/version`.
pub(super) fn of_version() -> Keep {
    Keep::of(["major", "minor", "gitVersion", "platform"], computed::field)
}

/// What is kept of the spec of a pod at a path.
fn pod(spec: &str) -> impl Iterator<Item = String> {
    let plain = POD.iter().map(|path| (*path).to_owned());
    let volumes = POD_VOLUME.iter().map(|path| format!("volumes.[].{path}"));
    let containers =
        CONTAINERS.iter().flat_map(|list| CONTAINER.iter().map(move |path| format!("{list}.[].{path}")));
    let spec = spec.to_owned();
    plain.chain(volumes).chain(containers).map(move |path| format!("{spec}.{path}"))
}
