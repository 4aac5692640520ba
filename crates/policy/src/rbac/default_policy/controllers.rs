//! ClusterRoles of the controllers (RB-84): `system:controller:NAME`, each bound to the service account
//! `kube-system/NAME`.

use super::row::{APPS, CORE, EVENTS, READ, RoleRow, WATCH, allow, role};
use crate::features::Feature::{
    ClusterTrustBundle, DRADeviceTaintRules, DRADeviceTaints, DRAResourceClaimGranularStatusAuthorization,
    DRAResourcePoolStatus, DRAWorkloadResourceClaims, DynamicResourceAllocation, GenericWorkload,
    MultiCIDRServiceAllocator, PodCertificateRequest, SELinuxChangePolicy, StorageVersionAPI,
    StorageVersionMigrator, VolumeAttributesClass, WorkloadWithJob,
};

/// Sorted by name, without the prefix.
pub(super) static CONTROLLER_ROLES: &[RoleRow] = &[
    role("attachdetach-controller").rules(&[
        allow(WATCH, CORE, "persistentvolumeclaims persistentvolumes"),
        allow(READ, CORE, "nodes"),
        allow("update patch", CORE, "nodes/status"),
        allow(WATCH, CORE, "pods"),
        EVENTS,
        allow("get list watch create delete", "storage.k8s.io", "volumeattachments"),
        allow(READ, "storage.k8s.io", "csidrivers"),
        allow(READ, "storage.k8s.io", "csinodes"),
    ]),
    role("certificate-controller").rules(&[
        allow("get list watch delete", "certificates.k8s.io", "certificatesigningrequests"),
        allow(
            "update",
            "certificates.k8s.io",
            "certificatesigningrequests/approval \
               certificatesigningrequests/status",
        ),
        allow("approve", "certificates.k8s.io", "signers").only(
            "\
               kubernetes.io/kube-apiserver-client-kubelet",
        ),
        allow("sign", "certificates.k8s.io", "signers").only(
            "kubernetes.io/kube-apiserver-client \
               kubernetes.io/kube-apiserver-client-kubelet kubernetes.io/kubelet-serving \
               kubernetes.io/legacy-unknown",
        ),
        allow("create", "authorization.k8s.io", "subjectaccessreviews"),
        EVENTS,
    ]),
    role("clusterrole-aggregation-controller").rules(&[allow(
        "get list watch update patch escalate",
        "rbac.authorization.k8s.io",
        "clusterroles",
    )]),
    role("cronjob-controller").rules(&[
        allow("get list watch update", "batch", "cronjobs"),
        allow("get list watch create update patch delete", "batch", "jobs"),
        allow("update", "batch", "cronjobs/status"),
        allow("update", "batch", "cronjobs/finalizers"),
        allow("list watch delete", CORE, "pods"),
        EVENTS,
    ]),
    role("daemon-set-controller").rules(&[
        allow(READ, APPS, "daemonsets"),
        allow("update", APPS, "daemonsets/status"),
        allow("update", APPS, "daemonsets/finalizers"),
        allow(WATCH, CORE, "nodes"),
        allow("list watch create patch delete", CORE, "pods"),
        allow("create", CORE, "pods/binding"),
        allow("get list watch create update patch delete", "apps", "controllerrevisions"),
        EVENTS,
    ]),
    role("deployment-controller").rules(&[
        allow("get list watch update", APPS, "deployments"),
        allow("update", APPS, "deployments/status"),
        allow("update", APPS, "deployments/finalizers"),
        allow("get list watch create update patch delete", APPS, "replicasets"),
        allow("get list watch update", CORE, "pods"),
        EVENTS,
    ]),
    role("device-taint-eviction-controller").when(&[DynamicResourceAllocation, DRADeviceTaints]).rules(&[
        allow("get list watch delete", CORE, "pods"),
        allow("update patch", CORE, "pods/status"),
        allow(READ, "resource.k8s.io", "resourceclaims"),
        allow(READ, "resource.k8s.io", "resourceslices"),
        allow(READ, "resource.k8s.io", "deviceclasses"),
        EVENTS,
        allow("update patch", "resource.k8s.io", "devicetaintrules/status").when(&[DRADeviceTaintRules]),
        allow(READ, "resource.k8s.io", "devicetaintrules").when(&[DRADeviceTaintRules]),
    ]),
    role("disruption-controller").rules(&[
        allow(READ, APPS, "deployments"),
        allow(READ, APPS, "replicasets"),
        allow(READ, CORE, "replicationcontrollers"),
        allow(READ, "policy", "poddisruptionbudgets"),
        allow(READ, "apps", "statefulsets"),
        allow("update", "policy", "poddisruptionbudgets/status"),
        allow("update patch", CORE, "pods/status"),
        allow("get", "*", "*/scale"),
        EVENTS,
    ]),
    role("endpoint-controller").rules(&[
        allow(READ, CORE, "pods services"),
        allow("get list watch create update delete", CORE, "endpoints"),
        allow("create", CORE, "endpoints/restricted"),
        EVENTS,
    ]),
    role("endpointslice-controller").rules(&[
        allow(READ, CORE, "nodes pods services"),
        allow("update", CORE, "services/finalizers"),
        allow("get list watch create update delete", "discovery.k8s.io", "endpointslices"),
        EVENTS,
    ]),
    role("endpointslicemirroring-controller").rules(&[
        allow(READ, CORE, "endpoints services"),
        allow("update", CORE, "services/finalizers"),
        allow("update", CORE, "endpoints/finalizers"),
        allow("get list watch create update delete", "discovery.k8s.io", "endpointslices"),
        EVENTS,
    ]),
    role("ephemeral-volume-controller").rules(&[
        allow(READ, CORE, "pods"),
        allow("update", CORE, "pods/finalizers"),
        allow("get list watch create", CORE, "persistentvolumeclaims"),
        EVENTS,
    ]),
    role("expand-controller").rules(&[
        allow("get list watch update patch", CORE, "persistentvolumes"),
        allow("update patch", CORE, "persistentvolumeclaims/status"),
        allow(READ, CORE, "persistentvolumeclaims"),
        EVENTS,
    ]),
    role("generic-garbage-collector").rules(&[allow("get list watch update patch delete", "*", "*"), EVENTS]),
    role("horizontal-pod-autoscaler").rules(&[
        allow(READ, "autoscaling", "horizontalpodautoscalers"),
        allow("update", "autoscaling", "horizontalpodautoscalers/status"),
        allow("get update", "*", "*/scale"),
        allow(WATCH, CORE, "pods"),
        allow(WATCH, "metrics.k8s.io", "pods"),
        allow(READ, "custom.metrics.k8s.io", "*"),
        allow(READ, "external.metrics.k8s.io", "*"),
        EVENTS,
    ]),
    role("job-controller").rules(&[
        allow("get list watch update patch", "batch", "jobs"),
        allow("update", "batch", "jobs/status"),
        allow("update", "batch", "jobs/finalizers"),
        allow("list watch create patch delete", CORE, "pods"),
        EVENTS,
        allow("get list watch create update patch", "scheduling.k8s.io", "podgroups workloads")
            .when(&[WorkloadWithJob]),
    ]),
    role("kube-apiserver-serving-clustertrustbundle-publisher").when(&[ClusterTrustBundle]).rules(&[
        allow("attest", "certificates.k8s.io", "signers").only("kubernetes.io/kube-apiserver-serving"),
        allow("list watch create update delete", "certificates.k8s.io", "clustertrustbundles"),
        EVENTS,
    ]),
    role("legacy-service-account-token-cleaner").rules(&[
        allow("get", CORE, "configmaps").only("kube-apiserver-legacy-service-account-token-tracking"),
        allow("patch delete", CORE, "secrets"),
    ]),
    role("namespace-controller").rules(&[
        allow("get list watch delete", CORE, "namespaces"),
        allow("update", CORE, "namespaces/finalize namespaces/status"),
        allow("get list watch delete deletecollection", "*", "*"),
    ]),
    role("node-controller").rules(&[
        allow("get list watch update patch delete", CORE, "nodes"),
        allow("update patch", CORE, "nodes/status"),
        allow("update patch", CORE, "pods/status"),
        allow("get list watch delete", CORE, "pods"),
        EVENTS,
    ]),
    role("persistent-volume-binder").rules(&[
        allow("get list watch create update delete", CORE, "persistentvolumes"),
        allow("update", CORE, "persistentvolumes/status"),
        allow("get list watch update", CORE, "persistentvolumeclaims"),
        allow("update", CORE, "persistentvolumeclaims/status"),
        allow("get list watch create delete", CORE, "pods"),
        allow(READ, "storage.k8s.io", "storageclasses"),
        allow(WATCH, CORE, "nodes"),
        EVENTS,
        allow("watch", CORE, "events"),
    ]),
    role("pod-garbage-collector").rules(&[
        allow("list watch delete", CORE, "pods"),
        allow(READ, CORE, "nodes"),
        allow("patch", CORE, "pods/status"),
    ]),
    role("podcertificaterequestcleaner").when(&[PodCertificateRequest]).rules(&[allow(
        "get list watch delete",
        "certificates.k8s.io",
        "podcertificaterequests",
    )]),
    role("podgroup-protection-controller").when(&[GenericWorkload]).rules(&[
        allow("get list watch update", "scheduling.k8s.io", "podgroups"),
        allow(READ, CORE, "pods"),
    ]),
    role("pv-protection-controller")
        .rules(&[allow("get list watch update", CORE, "persistentvolumes"), EVENTS]),
    role("pvc-protection-controller").rules(&[
        allow("get list watch update", CORE, "persistentvolumeclaims"),
        allow("update", CORE, "persistentvolumeclaims/status"),
        allow(READ, CORE, "pods"),
        EVENTS,
    ]),
    role("replicaset-controller").rules(&[
        allow("get list watch update", APPS, "replicasets"),
        allow("update", APPS, "replicasets/status"),
        allow("update", APPS, "replicasets/finalizers"),
        allow("list watch create patch delete", CORE, "pods"),
        EVENTS,
    ]),
    role("replication-controller").rules(&[
        allow("get list watch update", CORE, "replicationcontrollers"),
        allow("update", CORE, "replicationcontrollers/status"),
        allow("update", CORE, "replicationcontrollers/finalizers"),
        allow("list watch create patch delete", CORE, "pods"),
        EVENTS,
    ]),
    role("resource-claim-controller").when(&[DynamicResourceAllocation]).rules(&[
        allow(READ, CORE, "pods"),
        allow("update", CORE, "pods/finalizers"),
        allow("get list watch create delete", "resource.k8s.io", "resourceclaims"),
        allow("update patch", "resource.k8s.io", "resourceclaims resourceclaims/status"),
        allow("update patch", CORE, "pods/status"),
        EVENTS,
        allow(READ, "scheduling.k8s.io", "podgroups").when(&[DRAWorkloadResourceClaims]),
        allow("update patch", "scheduling.k8s.io", "podgroups/status").when(&[DRAWorkloadResourceClaims]),
        allow("update patch", "resource.k8s.io", "resourceclaims/binding")
            .when(&[DRAResourceClaimGranularStatusAuthorization]),
    ]),
    role("resourcepoolstatusrequest-controller")
        .when(&[DynamicResourceAllocation, DRAResourcePoolStatus])
        .rules(&[
            allow("get list watch delete", "resource.k8s.io", "resourcepoolstatusrequests"),
            allow("update patch", "resource.k8s.io", "resourcepoolstatusrequests/status"),
            allow(READ, "resource.k8s.io", "resourceslices"),
            allow(READ, "resource.k8s.io", "resourceclaims"),
            EVENTS,
        ]),
    role("resourcequota-controller").rules(&[
        allow(WATCH, "*", "*"),
        allow("update", CORE, "resourcequotas/status"),
        EVENTS,
    ]),
    role("root-ca-cert-publisher").rules(&[allow("create update", CORE, "configmaps"), EVENTS]),
    role("route-controller").rules(&[
        allow(WATCH, CORE, "nodes"),
        allow("patch", CORE, "nodes/status"),
        EVENTS,
    ]),
    role("selinux-warning-controller").when(&[SELinuxChangePolicy]).rules(&[
        EVENTS,
        allow(READ, CORE, "persistentvolumes"),
        allow(READ, CORE, "persistentvolumeclaims"),
        allow(READ, CORE, "pods"),
        allow(READ, "storage.k8s.io", "csidrivers"),
    ]),
    role("service-account-controller").rules(&[allow("create", CORE, "serviceaccounts"), EVENTS]),
    role("service-cidrs-controller").when(&[MultiCIDRServiceAllocator]).rules(&[
        allow("get list watch update patch", "networking.k8s.io", "servicecidrs"),
        allow("update patch", "networking.k8s.io", "servicecidrs/finalizers"),
        allow("update patch", "networking.k8s.io", "servicecidrs/status"),
        allow(READ, "networking.k8s.io", "ipaddresses"),
        EVENTS,
    ]),
    role("service-controller").rules(&[
        allow(READ, CORE, "services"),
        allow("update patch", CORE, "services/status"),
        allow(WATCH, CORE, "nodes"),
        EVENTS,
    ]),
    role("statefulset-controller").rules(&[
        allow(WATCH, CORE, "pods"),
        allow(READ, "apps", "statefulsets"),
        allow("update", "apps", "statefulsets/status"),
        allow("update", "apps", "statefulsets/finalizers"),
        allow("get create update patch delete", CORE, "pods"),
        allow("get list watch create update patch delete", "apps", "controllerrevisions"),
        allow("get list watch create", CORE, "persistentvolumeclaims"),
        allow("update delete", CORE, "persistentvolumeclaims"),
        allow("update", CORE, "pods/finalizers"),
        EVENTS,
    ]),
    role("storage-version-garbage-collector").when(&[StorageVersionAPI]).rules(&[
        allow(READ, "coordination.k8s.io", "leases"),
        allow("get list watch update patch delete", "internal.apiserver.k8s.io", "storageversions"),
        allow("get update patch", "internal.apiserver.k8s.io", "storageversions/status"),
    ]),
    role("storage-version-migrator-controller").when(&[StorageVersionMigrator]).rules(&[
        allow("list patch", "*", "*"),
        allow("get", "apiextensions.k8s.io", "customresourcedefinitions"),
        allow("patch", "apiextensions.k8s.io", "customresourcedefinitions/status"),
        allow("update", "storagemigration.k8s.io", "storageversionmigrations/status"),
    ]),
    role("ttl-after-finished-controller").rules(&[allow("get list watch delete", "batch", "jobs"), EVENTS]),
    role("ttl-controller").rules(&[allow("list watch update patch", CORE, "nodes"), EVENTS]),
    role("validatingadmissionpolicy-status-controller").rules(&[
        allow(READ, "admissionregistration.k8s.io", "validatingadmissionpolicies"),
        allow("get update patch", "admissionregistration.k8s.io", "validatingadmissionpolicies/status"),
        EVENTS,
    ]),
    role("volumeattributesclass-protection-controller").when(&[VolumeAttributesClass]).rules(&[
        allow(READ, CORE, "persistentvolumeclaims"),
        allow(READ, CORE, "persistentvolumes"),
        allow("get list watch update", "storage.k8s.io", "volumeattributesclasses"),
        EVENTS,
    ]),
];
