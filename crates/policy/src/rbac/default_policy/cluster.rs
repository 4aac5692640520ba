//! ClusterRoles for users and cluster components (RB-81), and their subjects. What is granted on kubelets: KA-79 to
//! KA-81.

use super::row::Who::{Account, Group, User};
use super::row::{ALL_VERBS, APPS, CORE, EVENTS, READ, RoleRow, Row, WATCH, WRITE, allow, role, urls};
use crate::features::Feature::{
    ClusterTrustBundle, ComponentFlagz, ComponentStatusz, DRADeviceTaintRules, DRAExtendedResource,
    DRAResourceClaimGranularStatusAuthorization, DynamicResourceAllocation, GenericWorkload,
    KubeletFineGrainedAuthz, KubeletServiceAccountTokenForCredentialProviders, MultiCIDRServiceAllocator,
    PodCertificateRequest,
};

/// The rules of kubelets, in the order of NA-104 (RB-95).
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
    role("admin").collects("admin"),
    role("cluster-admin").bound_to(&[Group("system:masters")]).rules(&[allow("*", "*", "*"), urls("*", "*")]),
    role("edit").feeds("admin").collects("edit"),
    role("system:aggregate-to-admin").feeds("admin").rules(&[
        allow("create", "authorization.k8s.io", "localsubjectaccessreviews"),
        allow(ALL_VERBS, "rbac.authorization.k8s.io", "rolebindings roles"),
    ]),
    role("system:aggregate-to-edit").feeds("edit").rules(&[
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
    ]),
    role("system:aggregate-to-view").feeds("view").rules(&[
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
    ]),
    role("system:auth-delegator").rules(&[
        allow("create", "authentication.k8s.io", "tokenreviews"),
        allow("create", "authorization.k8s.io", "subjectaccessreviews"),
    ]),
    role("system:basic-user").bound_to(&[Group("system:authenticated")]).rules(&[
        allow("create", "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews"),
        allow("create", "authentication.k8s.io", "selfsubjectreviews"),
    ]),
    role("system:certificates.k8s.io:certificatesigningrequests:nodeclient").rules(&[allow(
        "create",
        "certificates.k8s.io",
        "certificatesigningrequests/nodeclient",
    )]),
    role("system:certificates.k8s.io:certificatesigningrequests:selfnodeclient").rules(&[allow(
        "create",
        "certificates.k8s.io",
        "certificatesigningrequests/selfnodeclient",
    )]),
    role("system:certificates.k8s.io:kube-apiserver-client-approver").rules(&[allow(
        "approve",
        "certificates.k8s.io",
        "signers",
    )
    .only("kubernetes.io/kube-apiserver-client")]),
    role("system:certificates.k8s.io:kube-apiserver-client-kubelet-approver").rules(&[allow(
        "approve",
        "certificates.k8s.io",
        "signers",
    )
    .only(
        "\
               kubernetes.io/kube-apiserver-client-kubelet",
    )]),
    role("system:certificates.k8s.io:kubelet-serving-approver").rules(&[allow(
        "approve",
        "certificates.k8s.io",
        "signers",
    )
    .only("kubernetes.io/kubelet-serving")]),
    role("system:certificates.k8s.io:legacy-unknown-approver").rules(&[allow(
        "approve",
        "certificates.k8s.io",
        "signers",
    )
    .only("kubernetes.io/legacy-unknown")]),
    role("system:cluster-trust-bundle-discovery")
        .when(&[ClusterTrustBundle])
        .bound_to(&[Group("system:serviceaccounts")])
        .rules(&[allow(READ, "certificates.k8s.io", "clustertrustbundles")]),
    role("system:discovery").bound_to(&[Group("system:authenticated")]).rules(&[urls(
        "get",
        "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version \
               /version/",
    )]),
    role("system:heapster").rules(&[
        allow(READ, CORE, "events namespaces nodes pods"),
        allow(READ, "extensions", "deployments"),
    ]),
    role("system:kube-aggregator").rules(&[allow(READ, CORE, "endpoints services")]),
    role("system:kube-controller-manager").bound_to(&[User("system:kube-controller-manager")]).rules(&[
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
    ]),
    role("system:kube-dns").bound_to(&[Account("kube-dns")]).rules(&[allow(
        WATCH,
        CORE,
        "endpoints services",
    )]),
    role("system:kube-scheduler").bound_to(&[User("system:kube-scheduler")]).rules(&[
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
    ]),
    role("system:kubelet-api-admin").rules(&[
        allow(READ, CORE, "nodes"),
        allow("proxy", CORE, "nodes"),
        allow("*", CORE, "nodes/log nodes/metrics nodes/proxy nodes/stats"),
        allow("*", CORE, "nodes/configz nodes/healthz nodes/pods").when(&[KubeletFineGrainedAuthz]),
    ]),
    role("system:monitoring").bound_to(&[Group("system:monitoring")]).rules(&[
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
    ]),
    // RB-96: bound to no subject; the Node authorizer has its own copy of these rules (RB-95).
    role("system:node").bound_to(&[]).rules(NODE_RULES),
    role("system:node-bootstrapper").rules(&[allow(
        "get list watch create",
        "certificates.k8s.io",
        "certificatesigningrequests",
    )]),
    role("system:node-problem-detector").rules(&[
        allow("get", CORE, "nodes"),
        allow("patch", CORE, "nodes/status"),
        EVENTS,
    ]),
    role("system:node-proxier").bound_to(&[User("system:kube-proxy")]).rules(&[
        allow(WATCH, CORE, "endpoints services"),
        allow(READ, CORE, "nodes"),
        EVENTS,
        allow(WATCH, "networking.k8s.io", "servicecidrs").when(&[MultiCIDRServiceAllocator]),
        allow(WATCH, "discovery.k8s.io", "endpointslices"),
    ]),
    role("system:persistent-volume-provisioner").rules(&[
        allow("get list watch create delete", CORE, "persistentvolumes"),
        allow("get list watch update", CORE, "persistentvolumeclaims"),
        allow(READ, "storage.k8s.io", "storageclasses"),
        allow("watch", CORE, "events"),
        EVENTS,
    ]),
    role("system:public-info-viewer")
        .bound_to(&[Group("system:authenticated"), Group("system:unauthenticated")])
        .rules(&[urls("get", "/healthz /livez /readyz /version /version/")]),
    role("system:service-account-issuer-discovery").bound_to(&[Group("system:serviceaccounts")]).rules(&[
        urls(
            "get",
            "/.well-known/openid-configuration /.well-known/openid-configuration/ \
               /openid/v1/jwks /openid/v1/jwks/",
        ),
    ]),
    role("system:volume-scheduler").bound_to(&[User("system:kube-scheduler")]).rules(&[
        allow("get list watch update patch", CORE, "persistentvolumes"),
        allow(READ, "storage.k8s.io", "storageclasses"),
        allow("get list watch update patch", CORE, "persistentvolumeclaims"),
    ]),
    role("view").feeds("edit").collects("view"),
];
