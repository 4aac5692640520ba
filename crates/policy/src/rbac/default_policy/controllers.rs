//! ClusterRoles of the controllers (RB-84): `system:controller:NAME`, each bound to the service account
//! `kube-system/NAME`.

use super::row::{APPS, CORE, EVENTS, READ, RoleRow, WATCH, allow, role};
use crate::features::Feature::{
    ClusterTrustBundle, DRADeviceTaintRules, DRADeviceTaints, DRAResourceClaimGranularStatusAuthorization,
    DRAResourcePoolStatus, DRAWorkloadResourceClaims, DynamicResourceAllocation, GenericWorkload,
    MultiCIDRServiceAllocator, PodCertificateRequest, SELinuxChangePolicy, StorageVersionAPI,
    StorageVersionMigrator, VolumeAttributesClass, WorkloadWithJob,
};

/// By name, which here is without its prefix.
pub(super) static CONTROLLER_ROLES: &[RoleRow] = &[
    role(
        "attachdetach-controller",
        &[
            allow(WATCH, CORE, "persistentvolumeclaims persistentvolumes"),
            allow(READ, CORE, "nodes"),
            allow("update patch", CORE, "nodes/status"),
            allow(WATCH, CORE, "pods"),
            EVENTS,
            allow("get list watch create delete", "storage.k8s.io", "volumeattachments"),
            allow(READ, "storage.k8s.io", "csidrivers"),
            allow(READ, "storage.k8s.io", "csinodes"),
        ],
    ),
    role(
        "certificate-controller",
        &[
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
        ],
    ),
    role(
        "clusterrole-aggregation-controller",
        &[allow("get list watch update patch escalate", "rbac.authorization.k8s.io", "clusterroles")],
    ),
    role(
        "cronjob-controller",
        &[
            allow("get list watch update", "batch", "cronjobs"),
            allow("get list watch create update patch delete", "batch", "jobs"),
            allow("update", "batch", "cronjobs/status"),
            allow("update", "batch", "cronjobs/finalizers"),
            allow("list watch delete", CORE, "pods"),
            EVENTS,
        ],
    ),
    role(
        "daemon-set-controller",
        &[
            allow(READ, APPS, "daemonsets"),
            allow("update", APPS, "daemonsets/status"),
            allow("update", APPS, "daemonsets/finalizers"),
            allow(WATCH, CORE, "nodes"),
            allow("list watch create patch delete", CORE, "pods"),
            allow("create", CORE, "pods/binding"),
            allow("get list watch create update patch delete", "apps", "controllerrevisions"),
            EVENTS,
        ],
    ),
    role(
        "deployment-controller",
        &[
            allow("get list watch update", APPS, "deployments"),
            allow("update", APPS, "deployments/status"),
            allow("update", APPS, "deployments/finalizers"),
            allow("get list watch create update patch delete", APPS, "replicasets"),
            allow("get list watch update", CORE, "pods"),
            EVENTS,
        ],
    ),
    role(
        "device-taint-eviction-controller",
        &[
            allow("get list watch delete", CORE, "pods"),
            allow("update patch", CORE, "pods/status"),
            allow(READ, "resource.k8s.io", "resourceclaims"),
            allow(READ, "resource.k8s.io", "resourceslices"),
            allow(READ, "resource.k8s.io", "deviceclasses"),
            EVENTS,
            allow("update patch", "resource.k8s.io", "devicetaintrules/status").when(&[DRADeviceTaintRules]),
            allow(READ, "resource.k8s.io", "devicetaintrules").when(&[DRADeviceTaintRules]),
        ],
    )
    .when(&[DynamicResourceAllocation, DRADeviceTaints]),
    role(
        "disruption-controller",
        &[
            allow(READ, APPS, "deployments"),
            allow(READ, APPS, "replicasets"),
            allow(READ, CORE, "replicationcontrollers"),
            allow(READ, "policy", "poddisruptionbudgets"),
            allow(READ, "apps", "statefulsets"),
            allow("update", "policy", "poddisruptionbudgets/status"),
            allow("update patch", CORE, "pods/status"),
            allow("get", "*", "*/scale"),
            EVENTS,
        ],
    ),
    role(
        "endpoint-controller",
        &[
            allow(READ, CORE, "pods services"),
            allow("get list watch create update delete", CORE, "endpoints"),
            allow("create", CORE, "endpoints/restricted"),
            EVENTS,
        ],
    ),
    role(
        "endpointslice-controller",
        &[
            allow(READ, CORE, "nodes pods services"),
            allow("update", CORE, "services/finalizers"),
            allow("get list watch create update delete", "discovery.k8s.io", "endpointslices"),
            EVENTS,
        ],
    ),
    role(
        "endpointslicemirroring-controller",
        &[
            allow(READ, CORE, "endpoints services"),
            allow("update", CORE, "services/finalizers"),
            allow("update", CORE, "endpoints/finalizers"),
            allow("get list watch create update delete", "discovery.k8s.io", "endpointslices"),
            EVENTS,
        ],
    ),
    role(
        "ephemeral-volume-controller",
        &[
            allow(READ, CORE, "pods"),
            allow("update", CORE, "pods/finalizers"),
            allow("get list watch create", CORE, "persistentvolumeclaims"),
            EVENTS,
        ],
    ),
    role(
        "expand-controller",
        &[
            allow("get list watch update patch", CORE, "persistentvolumes"),
            allow("update patch", CORE, "persistentvolumeclaims/status"),
            allow(READ, CORE, "persistentvolumeclaims"),
            EVENTS,
        ],
    ),
    role("generic-garbage-collector", &[allow("get list watch update patch delete", "*", "*"), EVENTS]),
    role(
        "horizontal-pod-autoscaler",
        &[
            allow(READ, "autoscaling", "horizontalpodautoscalers"),
            allow("update", "autoscaling", "horizontalpodautoscalers/status"),
            allow("get update", "*", "*/scale"),
            allow(WATCH, CORE, "pods"),
            allow(WATCH, "metrics.k8s.io", "pods"),
            allow(READ, "custom.metrics.k8s.io", "*"),
            allow(READ, "external.metrics.k8s.io", "*"),
            EVENTS,
        ],
    ),
    role(
        "job-controller",
        &[
            allow("get list watch update patch", "batch", "jobs"),
            allow("update", "batch", "jobs/status"),
            allow("update", "batch", "jobs/finalizers"),
            allow("list watch create patch delete", CORE, "pods"),
            EVENTS,
            allow("get list watch create update patch", "scheduling.k8s.io", "podgroups workloads")
                .when(&[WorkloadWithJob]),
        ],
    ),
    role(
        "kube-apiserver-serving-clustertrustbundle-publisher",
        &[
            allow("attest", "certificates.k8s.io", "signers").only("kubernetes.io/kube-apiserver-serving"),
            allow("list watch create update delete", "certificates.k8s.io", "clustertrustbundles"),
            EVENTS,
        ],
    )
    .when(&[ClusterTrustBundle]),
    role(
        "legacy-service-account-token-cleaner",
        &[
            allow("get", CORE, "configmaps").only("kube-apiserver-legacy-service-account-token-tracking"),
            allow("patch delete", CORE, "secrets"),
        ],
    ),
    role(
        "namespace-controller",
        &[
            allow("get list watch delete", CORE, "namespaces"),
            allow("update", CORE, "namespaces/finalize namespaces/status"),
            allow("get list watch delete deletecollection", "*", "*"),
        ],
    ),
    role(
        "node-controller",
        &[
            allow("get list watch update patch delete", CORE, "nodes"),
            allow("update patch", CORE, "nodes/status"),
            allow("update patch", CORE, "pods/status"),
            allow("get list watch delete", CORE, "pods"),
            EVENTS,
        ],
    ),
    role(
        "persistent-volume-binder",
        &[
            allow("get list watch create update delete", CORE, "persistentvolumes"),
            allow("update", CORE, "persistentvolumes/status"),
            allow("get list watch update", CORE, "persistentvolumeclaims"),
            allow("update", CORE, "persistentvolumeclaims/status"),
            allow("get list watch create delete", CORE, "pods"),
            allow(READ, "storage.k8s.io", "storageclasses"),
            allow(WATCH, CORE, "nodes"),
            EVENTS,
            allow("watch", CORE, "events"),
        ],
    ),
    role(
        "pod-garbage-collector",
        &[
            allow("list watch delete", CORE, "pods"),
            allow(READ, CORE, "nodes"),
            allow("patch", CORE, "pods/status"),
        ],
    ),
    role(
        "podcertificaterequestcleaner",
        &[allow("get list watch delete", "certificates.k8s.io", "podcertificaterequests")],
    )
    .when(&[PodCertificateRequest]),
    role(
        "podgroup-protection-controller",
        &[allow("get list watch update", "scheduling.k8s.io", "podgroups"), allow(READ, CORE, "pods")],
    )
    .when(&[GenericWorkload]),
    role("pv-protection-controller", &[allow("get list watch update", CORE, "persistentvolumes"), EVENTS]),
    role(
        "pvc-protection-controller",
        &[
            allow("get list watch update", CORE, "persistentvolumeclaims"),
            allow("update", CORE, "persistentvolumeclaims/status"),
            allow(READ, CORE, "pods"),
            EVENTS,
        ],
    ),
    role(
        "replicaset-controller",
        &[
            allow("get list watch update", APPS, "replicasets"),
            allow("update", APPS, "replicasets/status"),
            allow("update", APPS, "replicasets/finalizers"),
            allow("list watch create patch delete", CORE, "pods"),
            EVENTS,
        ],
    ),
    role(
        "replication-controller",
        &[
            allow("get list watch update", CORE, "replicationcontrollers"),
            allow("update", CORE, "replicationcontrollers/status"),
            allow("update", CORE, "replicationcontrollers/finalizers"),
            allow("list watch create patch delete", CORE, "pods"),
            EVENTS,
        ],
    ),
    role(
        "resource-claim-controller",
        &[
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
        ],
    )
    .when(&[DynamicResourceAllocation]),
    role(
        "resourcepoolstatusrequest-controller",
        &[
            allow("get list watch delete", "resource.k8s.io", "resourcepoolstatusrequests"),
            allow("update patch", "resource.k8s.io", "resourcepoolstatusrequests/status"),
            allow(READ, "resource.k8s.io", "resourceslices"),
            allow(READ, "resource.k8s.io", "resourceclaims"),
            EVENTS,
        ],
    )
    .when(&[DynamicResourceAllocation, DRAResourcePoolStatus]),
    role(
        "resourcequota-controller",
        &[allow(WATCH, "*", "*"), allow("update", CORE, "resourcequotas/status"), EVENTS],
    ),
    role("root-ca-cert-publisher", &[allow("create update", CORE, "configmaps"), EVENTS]),
    role("route-controller", &[allow(WATCH, CORE, "nodes"), allow("patch", CORE, "nodes/status"), EVENTS]),
    role(
        "selinux-warning-controller",
        &[
            EVENTS,
            allow(READ, CORE, "persistentvolumes"),
            allow(READ, CORE, "persistentvolumeclaims"),
            allow(READ, CORE, "pods"),
            allow(READ, "storage.k8s.io", "csidrivers"),
        ],
    )
    .when(&[SELinuxChangePolicy]),
    role("service-account-controller", &[allow("create", CORE, "serviceaccounts"), EVENTS]),
    role(
        "service-cidrs-controller",
        &[
            allow("get list watch update patch", "networking.k8s.io", "servicecidrs"),
            allow("update patch", "networking.k8s.io", "servicecidrs/finalizers"),
            allow("update patch", "networking.k8s.io", "servicecidrs/status"),
            allow(READ, "networking.k8s.io", "ipaddresses"),
            EVENTS,
        ],
    )
    .when(&[MultiCIDRServiceAllocator]),
    role(
        "service-controller",
        &[
            allow(READ, CORE, "services"),
            allow("update patch", CORE, "services/status"),
            allow(WATCH, CORE, "nodes"),
            EVENTS,
        ],
    ),
    role(
        "statefulset-controller",
        &[
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
        ],
    ),
    role(
        "storage-version-garbage-collector",
        &[
            allow(READ, "coordination.k8s.io", "leases"),
            allow("get list watch update patch delete", "internal.apiserver.k8s.io", "storageversions"),
            allow("get update patch", "internal.apiserver.k8s.io", "storageversions/status"),
        ],
    )
    .when(&[StorageVersionAPI]),
    role(
        "storage-version-migrator-controller",
        &[
            allow("list patch", "*", "*"),
            allow("get", "apiextensions.k8s.io", "customresourcedefinitions"),
            allow("patch", "apiextensions.k8s.io", "customresourcedefinitions/status"),
            allow("update", "storagemigration.k8s.io", "storageversionmigrations/status"),
        ],
    )
    .when(&[StorageVersionMigrator]),
    role("ttl-after-finished-controller", &[allow("get list watch delete", "batch", "jobs"), EVENTS]),
    role("ttl-controller", &[allow("list watch update patch", CORE, "nodes"), EVENTS]),
    role(
        "validatingadmissionpolicy-status-controller",
        &[
            allow(READ, "admissionregistration.k8s.io", "validatingadmissionpolicies"),
            allow("get update patch", "admissionregistration.k8s.io", "validatingadmissionpolicies/status"),
            EVENTS,
        ],
    ),
    role(
        "volumeattributesclass-protection-controller",
        &[
            allow(READ, CORE, "persistentvolumeclaims"),
            allow(READ, CORE, "persistentvolumes"),
            allow("get list watch update", "storage.k8s.io", "volumeattributesclasses"),
            EVENTS,
        ],
    )
    .when(&[VolumeAttributesClass]),
];
