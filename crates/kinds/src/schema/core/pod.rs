//! Schemas of pods.

use crate::schema::Shape::{Bool, Int32, Int64, List, Map, Object, Quantity, Text};
use crate::schema::core::container::{
    APP_ARMOR_PROFILE, CONTAINER, EPHEMERAL_CONTAINER, RESOURCE_REQUIREMENTS, SE_LINUX_OPTIONS,
    SECCOMP_PROFILE, WINDOWS_SECURITY_CONTEXT_OPTIONS,
};
use crate::schema::core::pod_status::POD_STATUS;
use crate::schema::core::references::{
    LOCAL_OBJECT_REFERENCE, NODE_SELECTOR, NODE_SELECTOR_TERM, TOLERATION,
};
use crate::schema::core::volume::VOLUME;
use crate::schema::meta::{LABEL_SELECTOR, OBJECT_META};
use crate::schema::table::{always, types, unless_zero, when_set};
use crate::schema::values;

types! {
    "core/v1";
    Pod POD object {
        always("spec", 2, Object(&POD_SPEC)),
        always("status", 3, Object(&POD_STATUS)),
    }
    PodTemplate POD_TEMPLATE object {
        always("template", 2, Object(&POD_TEMPLATE_SPEC)),
    }
    PodSpec POD_SPEC {
        unless_zero("volumes", 1, List(&Object(&VOLUME))).by_key_retaining("name"),
        unless_zero("initContainers", 20, List(&Object(&CONTAINER))).by_key("name"),
        always("containers", 2, List(&Object(&CONTAINER))).by_key("name"),
        unless_zero("ephemeralContainers", 34, List(&Object(&EPHEMERAL_CONTAINER))).by_key("name"),
        unless_zero("restartPolicy", 3, Text).one_of(values::RESTART_POLICIES),
        when_set("terminationGracePeriodSeconds", 4, Int64),
        when_set("activeDeadlineSeconds", 5, Int64),
        unless_zero("dnsPolicy", 6, Text).one_of(values::DNS_POLICIES),
        unless_zero("nodeSelector", 7, Map(&Text)).atomic(),
        unless_zero("serviceAccountName", 8, Text),
        unless_zero("serviceAccount", 9, Text),
        when_set("automountServiceAccountToken", 21, Bool),
        unless_zero("nodeName", 10, Text),
        unless_zero("hostNetwork", 11, Bool),
        unless_zero("hostPID", 12, Bool),
        unless_zero("hostIPC", 13, Bool),
        when_set("shareProcessNamespace", 27, Bool),
        when_set("securityContext", 14, Object(&POD_SECURITY_CONTEXT)),
        unless_zero("imagePullSecrets", 15, List(&Object(&LOCAL_OBJECT_REFERENCE))).by_key("name"),
        unless_zero("hostname", 16, Text),
        unless_zero("subdomain", 17, Text),
        when_set("affinity", 18, Object(&AFFINITY)),
        unless_zero("schedulerName", 19, Text),
        unless_zero("tolerations", 22, List(&Object(&TOLERATION))),
        unless_zero("hostAliases", 23, List(&Object(&HOST_ALIAS))).by_key("ip"),
        unless_zero("priorityClassName", 24, Text),
        when_set("priority", 25, Int32),
        when_set("dnsConfig", 26, Object(&POD_DNS_CONFIG)),
        unless_zero("readinessGates", 28, List(&Object(&POD_READINESS_GATE))),
        when_set("runtimeClassName", 29, Text),
        when_set("enableServiceLinks", 30, Bool),
        when_set("preemptionPolicy", 31, Text).one_of(values::PREEMPTION_POLICIES),
        unless_zero("overhead", 32, Map(&Quantity)),
        unless_zero("topologySpreadConstraints", 33, List(&Object(&TOPOLOGY_SPREAD_CONSTRAINT))).by_key("topologyKey").keyed(&["topologyKey", "whenUnsatisfiable"]),
        when_set("setHostnameAsFQDN", 35, Bool),
        when_set("os", 36, Object(&POD_OS)),
        when_set("hostUsers", 37, Bool),
        unless_zero("schedulingGates", 38, List(&Object(&POD_SCHEDULING_GATE))).by_key("name"),
        unless_zero("resourceClaims", 39, List(&Object(&POD_RESOURCE_CLAIM))).by_key_retaining("name"),
        when_set("resources", 40, Object(&RESOURCE_REQUIREMENTS)),
        when_set("hostnameOverride", 41, Text),
        when_set("schedulingGroup", 43, Object(&POD_SCHEDULING_GROUP)),
    }
    PodTemplateSpec POD_TEMPLATE_SPEC {
        always("metadata", 1, Object(&OBJECT_META)),
        always("spec", 2, Object(&POD_SPEC)),
    }
    PodSecurityContext POD_SECURITY_CONTEXT {
        when_set("seLinuxOptions", 1, Object(&SE_LINUX_OPTIONS)),
        when_set("windowsOptions", 8, Object(&WINDOWS_SECURITY_CONTEXT_OPTIONS)),
        when_set("runAsUser", 2, Int64),
        when_set("runAsGroup", 6, Int64),
        when_set("runAsNonRoot", 3, Bool),
        unless_zero("supplementalGroups", 4, List(&Int64)),
        when_set("supplementalGroupsPolicy", 12, Text).one_of(values::SUPPLEMENTAL_GROUPS_POLICIES),
        when_set("fsGroup", 5, Int64),
        unless_zero("sysctls", 7, List(&Object(&SYSCTL))),
        when_set("fsGroupChangePolicy", 9, Text).one_of(values::FS_GROUP_CHANGE_POLICIES),
        when_set("seccompProfile", 10, Object(&SECCOMP_PROFILE)),
        when_set("appArmorProfile", 11, Object(&APP_ARMOR_PROFILE)),
        when_set("seLinuxChangePolicy", 13, Text),
    }
    Affinity AFFINITY {
        when_set("nodeAffinity", 1, Object(&NODE_AFFINITY)),
        when_set("podAffinity", 2, Object(&POD_AFFINITY)),
        when_set("podAntiAffinity", 3, Object(&POD_ANTI_AFFINITY)),
    }
    HostAlias HOST_ALIAS {
        always("ip", 1, Text),
        unless_zero("hostnames", 2, List(&Text)),
    }
    PodDNSConfig POD_DNS_CONFIG {
        unless_zero("nameservers", 1, List(&Text)),
        unless_zero("searches", 2, List(&Text)),
        unless_zero("options", 3, List(&Object(&POD_DNS_CONFIG_OPTION))),
    }
    PodReadinessGate POD_READINESS_GATE {
        always("conditionType", 1, Text),
    }
    TopologySpreadConstraint TOPOLOGY_SPREAD_CONSTRAINT {
        always("maxSkew", 1, Int32),
        always("topologyKey", 2, Text),
        always("whenUnsatisfiable", 3, Text).one_of(values::UNSATISFIABLE_ACTIONS),
        when_set("labelSelector", 4, Object(&LABEL_SELECTOR)),
        when_set("minDomains", 5, Int32),
        when_set("nodeAffinityPolicy", 6, Text).one_of(values::NODE_INCLUSION_POLICIES),
        when_set("nodeTaintsPolicy", 7, Text).one_of(values::NODE_INCLUSION_POLICIES),
        unless_zero("matchLabelKeys", 8, List(&Text)),
    }
    PodOS POD_OS {
        always("name", 1, Text),
    }
    PodSchedulingGate POD_SCHEDULING_GATE {
        always("name", 1, Text),
    }
    PodResourceClaim POD_RESOURCE_CLAIM {
        always("name", 1, Text),
        when_set("resourceClaimName", 3, Text),
        when_set("resourceClaimTemplateName", 4, Text),
    }
    PodSchedulingGroup POD_SCHEDULING_GROUP {
        when_set("podGroupName", 1, Text),
    }
    Sysctl SYSCTL {
        always("name", 1, Text),
        always("value", 2, Text),
    }
    NodeAffinity NODE_AFFINITY {
        when_set("requiredDuringSchedulingIgnoredDuringExecution", 1, Object(&NODE_SELECTOR)),
        unless_zero("preferredDuringSchedulingIgnoredDuringExecution", 2, List(&Object(&PREFERRED_SCHEDULING_TERM))),
    }
    PodAffinity POD_AFFINITY {
        unless_zero("requiredDuringSchedulingIgnoredDuringExecution", 1, List(&Object(&POD_AFFINITY_TERM))),
        unless_zero("preferredDuringSchedulingIgnoredDuringExecution", 2, List(&Object(&WEIGHTED_POD_AFFINITY_TERM))),
    }
    PodAntiAffinity POD_ANTI_AFFINITY {
        unless_zero("requiredDuringSchedulingIgnoredDuringExecution", 1, List(&Object(&POD_AFFINITY_TERM))),
        unless_zero("preferredDuringSchedulingIgnoredDuringExecution", 2, List(&Object(&WEIGHTED_POD_AFFINITY_TERM))),
    }
    PodDNSConfigOption POD_DNS_CONFIG_OPTION {
        unless_zero("name", 1, Text),
        when_set("value", 2, Text),
    }
    PreferredSchedulingTerm PREFERRED_SCHEDULING_TERM {
        always("weight", 1, Int32),
        always("preference", 2, Object(&NODE_SELECTOR_TERM)).required(),
    }
    PodAffinityTerm POD_AFFINITY_TERM {
        when_set("labelSelector", 1, Object(&LABEL_SELECTOR)),
        unless_zero("namespaces", 2, List(&Text)),
        always("topologyKey", 3, Text),
        when_set("namespaceSelector", 4, Object(&LABEL_SELECTOR)),
        unless_zero("matchLabelKeys", 5, List(&Text)),
        unless_zero("mismatchLabelKeys", 6, List(&Text)),
    }
    WeightedPodAffinityTerm WEIGHTED_POD_AFFINITY_TERM {
        always("weight", 1, Int32),
        always("podAffinityTerm", 2, Object(&POD_AFFINITY_TERM)).required(),
    }
}
