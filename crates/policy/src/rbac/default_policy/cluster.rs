//! ClusterRoles that people and components of the cluster have (RB-81), and who is bound to them.

use super::row::Who::{Account, Group, User};
use super::row::{ALL_VERBS, APPS, CORE, EVENTS, READ, RoleRow, Row, WATCH, WRITE, allow, role, urls};
use crate::features::Feature::{
    ClusterTrustBundle, ComponentFlagz, ComponentStatusz, DRADeviceTaintRules, DRAExtendedResource,
    DRAResourceClaimGranularStatusAuthorization, DynamicResourceAllocation, GenericWorkload,
    KubeletFineGrainedAuthz, KubeletServiceAccountTokenForCredentialProviders, MultiCIDRServiceAllocator,
    PodCertificateRequest,
};

/// What kubelets do, in the order of NA-104 (RB-95).
pub(super) const NODE_RULES: &[Row] = &[
    allow("create", "authentication.k8s.io", "tokenreviews"),
    allow("create", "authorization.k8s.io", "localsubjectaccessreviews subjectaccessreviews"),
    allow(READ, CORE, "services"),
    allow("get list watch create", CORE, "nodes"),
    allow("update patch", CORE, "nodes/status"),
    allow("update patch", CORE, "nodes"),
    EVENTS,
    allow(READ, CORE, "pods"),
    allow("create delete", CORE, "pods"),
    allow("update patch", CORE, "pods/status"),
    allow("create", CORE, "pods/eviction"),
    allow(READ, CORE, "configmaps secrets"),
    allow("get", CORE, "persistentvolumeclaims persistentvolumes"),
    allow("get", CORE, "endpoints"),
    allow("get list watch create", "certificates.k8s.io", "certificatesigningrequests"),
    allow("get create update patch delete", "coordination.k8s.io", "leases"),
    allow("get", "storage.k8s.io", "volumeattachments"),
    allow("create", CORE, "serviceaccounts/token"),
    allow("get update patch", CORE, "persistentvolumeclaims/status"),
    allow(READ, "storage.k8s.io", "csidrivers"),
    allow("get create update patch delete", "storage.k8s.io", "csinodes"),
    allow(READ, "node.k8s.io", "runtimeclasses"),
    allow("get", "resource.k8s.io", "resourceclaims").when(&[DynamicResourceAllocation]),
    allow("deletecollection", "resource.k8s.io", "resourceslices").when(&[DynamicResourceAllocation]),
    allow(READ, "certificates.k8s.io", "clustertrustbundles").when(&[ClusterTrustBundle]),
    allow("get", CORE, "serviceaccounts").when(&[KubeletServiceAccountTokenForCredentialProviders]),
    allow("get list watch create", "certificates.k8s.io", "podcertificaterequests")
        .when(&[PodCertificateRequest]),
];

/// By name. The labels and selectors of aggregation are those of RB-83.
pub(super) static CLUSTER_ROLES: &[RoleRow] = &[
    role("admin", &[]).collects("admin"),
    role("cluster-admin", &[allow("*", "*", "*"), urls("*", "*")]).bound_to(&[Group("system:masters")]),
    role("edit", &[]).feeds("admin").collects("edit"),
    role(
        "system:aggregate-to-admin",
        &[
            allow("create", "authorization.k8s.io", "localsubjectaccessreviews"),
            allow(ALL_VERBS, "rbac.authorization.k8s.io", "rolebindings roles"),
        ],
    )
    .feeds("admin"),
    role(
        "system:aggregate-to-edit",
        &[
            allow(READ, CORE, "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy"),
            allow("impersonate", CORE, "serviceaccounts"),
            allow(WRITE, CORE, "pods pods/attach pods/exec pods/portforward pods/proxy"),
            allow("create", CORE, "pods/eviction"),
            allow(
                WRITE,
                CORE,
                "configmaps persistentvolumeclaims replicationcontrollers \
               replicationcontrollers/scale secrets serviceaccounts services services/proxy",
            ),
            allow("create", CORE, "serviceaccounts/token"),
            allow(WRITE, "core events.k8s.io", "events"),
            allow(
                WRITE,
                "apps",
                "daemonsets deployments deployments/rollback deployments/scale replicasets \
               replicasets/scale statefulsets statefulsets/scale",
            ),
            allow(WRITE, "autoscaling", "horizontalpodautoscalers"),
            allow(WRITE, "batch", "cronjobs jobs"),
            allow(
                WRITE,
                "extensions",
                "daemonsets deployments deployments/rollback deployments/scale \
               ingresses networkpolicies replicasets replicasets/scale replicationcontrollers/scale",
            ),
            allow(WRITE, "policy", "poddisruptionbudgets"),
            allow(WRITE, "networking.k8s.io", "ingresses networkpolicies"),
            allow(ALL_VERBS, "coordination.k8s.io", "leases"),
            allow(WRITE, "resource.k8s.io", "resourceclaims resourceclaimtemplates")
                .when(&[DynamicResourceAllocation]),
            allow(WRITE, "scheduling.k8s.io", "podgroups workloads").when(&[GenericWorkload]),
        ],
    )
    .feeds("edit"),
    role(
        "system:aggregate-to-view",
        &[
            allow(
                READ,
                CORE,
                "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status \
               pods replicationcontrollers replicationcontrollers/scale serviceaccounts services \
               services/status",
            ),
            allow(
                READ,
                CORE,
                "bindings limitranges namespaces/status pods/log pods/status \
               replicationcontrollers/status resourcequotas resourcequotas/status",
            ),
            allow(READ, CORE, "namespaces"),
            allow(READ, "core events.k8s.io", "events"),
            allow(READ, "discovery.k8s.io", "endpointslices"),
            allow(
                READ,
                "apps",
                "controllerrevisions daemonsets daemonsets/status deployments \
               deployments/scale deployments/status replicasets replicasets/scale replicasets/status \
               statefulsets statefulsets/scale statefulsets/status",
            ),
            allow(READ, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
            allow(READ, "batch", "cronjobs cronjobs/status jobs jobs/status"),
            allow(
                READ,
                "extensions",
                "daemonsets daemonsets/status deployments deployments/scale \
               deployments/status ingresses ingresses/status networkpolicies replicasets \
               replicasets/scale replicasets/status replicationcontrollers/scale",
            ),
            allow(READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
            allow(READ, "networking.k8s.io", "ingresses ingresses/status networkpolicies"),
            allow(READ, "resource.k8s.io", "resourceclaims resourceclaims/status resourceclaimtemplates")
                .when(&[DynamicResourceAllocation]),
            allow(READ, "scheduling.k8s.io", "podgroups podgroups/status workloads").when(&[GenericWorkload]),
        ],
    )
    .feeds("view"),
    role(
        "system:auth-delegator",
        &[
            allow("create", "authentication.k8s.io", "tokenreviews"),
            allow("create", "authorization.k8s.io", "subjectaccessreviews"),
        ],
    ),
    role(
        "system:basic-user",
        &[
            allow("create", "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews"),
            allow("create", "authentication.k8s.io", "selfsubjectreviews"),
        ],
    )
    .bound_to(&[Group("system:authenticated")]),
    role(
        "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
        &[allow("create", "certificates.k8s.io", "certificatesigningrequests/nodeclient")],
    ),
    role(
        "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
        &[allow("create", "certificates.k8s.io", "certificatesigningrequests/selfnodeclient")],
    ),
    role(
        "system:certificates.k8s.io:kube-apiserver-client-approver",
        &[allow("approve", "certificates.k8s.io", "signers").only("kubernetes.io/kube-apiserver-client")],
    ),
    role(
        "system:certificates.k8s.io:kube-apiserver-client-kubelet-approver",
        &[allow("approve", "certificates.k8s.io", "signers").only(
            "\
               kubernetes.io/kube-apiserver-client-kubelet",
        )],
    ),
    role(
        "system:certificates.k8s.io:kubelet-serving-approver",
        &[allow("approve", "certificates.k8s.io", "signers").only("kubernetes.io/kubelet-serving")],
    ),
    role(
        "system:certificates.k8s.io:legacy-unknown-approver",
        &[allow("approve", "certificates.k8s.io", "signers").only("kubernetes.io/legacy-unknown")],
    ),
    role(
        "system:cluster-trust-bundle-discovery",
        &[allow(READ, "certificates.k8s.io", "clustertrustbundles")],
    )
    .when(&[ClusterTrustBundle])
    .bound_to(&[Group("system:serviceaccounts")]),
    role(
        "system:discovery",
        &[urls(
            "get",
            "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version \
               /version/",
        )],
    )
    .bound_to(&[Group("system:authenticated")]),
    role(
        "system:heapster",
        &[allow(READ, CORE, "events namespaces nodes pods"), allow(READ, "extensions", "deployments")],
    ),
    role("system:kube-aggregator", &[allow(READ, CORE, "endpoints services")]),
    role(
        "system:kube-controller-manager",
        &[
            EVENTS,
            allow("create", "coordination.k8s.io", "leases"),
            allow("get update", "coordination.k8s.io", "leases").only("kube-controller-manager"),
            allow("create", CORE, "secrets serviceaccounts"),
            allow("delete", CORE, "secrets"),
            allow("get", CORE, "configmaps namespaces secrets serviceaccounts"),
            allow("update", CORE, "secrets serviceaccounts"),
            allow("create", "authentication.k8s.io", "tokenreviews"),
            allow("create", "authorization.k8s.io", "subjectaccessreviews"),
            allow(WATCH, "*", "*"),
            allow("create", CORE, "serviceaccounts/token"),
        ],
    )
    .bound_to(&[User("system:kube-controller-manager")]),
    role("system:kube-dns", &[allow(WATCH, CORE, "endpoints services")]).bound_to(&[Account("kube-dns")]),
    role(
        "system:kube-scheduler",
        &[
            EVENTS,
            allow("create", "coordination.k8s.io", "leases"),
            allow("get list watch update", "coordination.k8s.io", "leases").only("kube-scheduler"),
            allow(ALL_VERBS, "coordination.k8s.io", "leasecandidates"),
            allow(READ, CORE, "nodes"),
            allow("get list watch delete", CORE, "pods"),
            allow("create", CORE, "bindings pods/binding"),
            allow("update patch", CORE, "pods/status"),
            allow(READ, CORE, "replicationcontrollers services"),
            allow(READ, APPS, "replicasets"),
            allow(READ, "apps", "statefulsets"),
            allow(READ, "policy", "poddisruptionbudgets"),
            allow(READ, CORE, "persistentvolumeclaims persistentvolumes"),
            allow("create", "authentication.k8s.io", "tokenreviews"),
            allow("create", "authorization.k8s.io", "subjectaccessreviews"),
            allow(READ, "storage.k8s.io", "csinodes"),
            allow(READ, "storage.k8s.io", "volumeattachments"),
            allow(READ, CORE, "namespaces"),
            allow(READ, "storage.k8s.io", "csidrivers"),
            allow(READ, "storage.k8s.io", "csistoragecapacities"),
            allow(READ, "resource.k8s.io", "deviceclasses").when(&[DynamicResourceAllocation]),
            allow("get list watch update patch", "resource.k8s.io", "resourceclaims")
                .when(&[DynamicResourceAllocation]),
            allow("get list watch update patch", "resource.k8s.io", "resourceclaims/status")
                .when(&[DynamicResourceAllocation]),
            allow("update", CORE, "pods/finalizers").when(&[DynamicResourceAllocation]),
            allow(READ, "resource.k8s.io", "resourceslices").when(&[DynamicResourceAllocation]),
            allow("create delete", "resource.k8s.io", "resourceclaims")
                .when(&[DynamicResourceAllocation, DRAExtendedResource]),
            allow(READ, "resource.k8s.io", "devicetaintrules")
                .when(&[DynamicResourceAllocation, DRADeviceTaintRules]),
            allow("update patch", "resource.k8s.io", "resourceclaims/binding")
                .when(&[DynamicResourceAllocation, DRAResourceClaimGranularStatusAuthorization]),
            allow(READ, "scheduling.k8s.io", "podgroups").when(&[GenericWorkload]),
            allow("update patch", "scheduling.k8s.io", "podgroups/status").when(&[GenericWorkload]),
        ],
    )
    .bound_to(&[User("system:kube-scheduler")]),
    role(
        "system:kubelet-api-admin",
        &[
            allow(READ, CORE, "nodes"),
            allow("proxy", CORE, "nodes"),
            allow("*", CORE, "nodes/log nodes/metrics nodes/proxy nodes/stats"),
            allow("*", CORE, "nodes/configz nodes/healthz nodes/pods").when(&[KubeletFineGrainedAuthz]),
        ],
    ),
    role(
        "system:monitoring",
        &[
            urls("get", "/healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/*")
                .with_urls(&[
                    (ComponentFlagz, "/flagz"),
                    (
                        ComponentStatusz,
                        "\
               /statusz",
                    ),
                ]),
            allow("get", CORE, "nodes/metrics"),
        ],
    )
    .bound_to(&[Group("system:monitoring")]),
    // RB-96: bound to nobody; the Node authorizer has these rules as its own (RB-95).
    role("system:node", NODE_RULES).bound_to(&[]),
    role(
        "system:node-bootstrapper",
        &[allow("get list watch create", "certificates.k8s.io", "certificatesigningrequests")],
    ),
    role(
        "system:node-problem-detector",
        &[allow("get", CORE, "nodes"), allow("patch", CORE, "nodes/status"), EVENTS],
    ),
    role(
        "system:node-proxier",
        &[
            allow(WATCH, CORE, "endpoints services"),
            allow(READ, CORE, "nodes"),
            EVENTS,
            allow(WATCH, "networking.k8s.io", "servicecidrs").when(&[MultiCIDRServiceAllocator]),
            allow(WATCH, "discovery.k8s.io", "endpointslices"),
        ],
    )
    .bound_to(&[User("system:kube-proxy")]),
    role(
        "system:persistent-volume-provisioner",
        &[
            allow("get list watch create delete", CORE, "persistentvolumes"),
            allow("get list watch update", CORE, "persistentvolumeclaims"),
            allow(READ, "storage.k8s.io", "storageclasses"),
            allow("watch", CORE, "events"),
            EVENTS,
        ],
    ),
    role("system:public-info-viewer", &[urls("get", "/healthz /livez /readyz /version /version/")])
        .bound_to(&[Group("system:authenticated"), Group("system:unauthenticated")]),
    role(
        "system:service-account-issuer-discovery",
        &[urls(
            "get",
            "/.well-known/openid-configuration /.well-known/openid-configuration/ \
               /openid/v1/jwks /openid/v1/jwks/",
        )],
    )
    .bound_to(&[Group("system:serviceaccounts")]),
    role(
        "system:volume-scheduler",
        &[
            allow("get list watch update patch", CORE, "persistentvolumes"),
            allow(READ, "storage.k8s.io", "storageclasses"),
            allow("get list watch update patch", CORE, "persistentvolumeclaims"),
        ],
    )
    .bound_to(&[User("system:kube-scheduler")]),
    role("view", &[]).feeds("edit").collects("view"),
];
