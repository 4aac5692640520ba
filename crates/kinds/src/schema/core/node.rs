//! Schemas of nodes.

use crate::schema::Shape::{Bool, Int32, Int64, List, Map, Object, Quantity, Text, Time};
use crate::schema::core::references::TAINT;
use crate::schema::table::{always, types, unless_zero, when_set};
use crate::schema::values;

types! {
    "core/v1";
    Node NODE object {
        always("spec", 2, Object(&NODE_SPEC)),
        always("status", 3, Object(&NODE_STATUS)),
    }
    NodeSpec NODE_SPEC {
        unless_zero("podCIDR", 1, Text),
        unless_zero("podCIDRs", 7, List(&Text)).as_set(),
        unless_zero("providerID", 3, Text),
        unless_zero("unschedulable", 4, Bool),
        unless_zero("taints", 5, List(&Object(&TAINT))),
        when_set("configSource", 6, Object(&NODE_CONFIG_SOURCE)),
        unless_zero("externalID", 2, Text),
    }
    NodeStatus NODE_STATUS {
        unless_zero("capacity", 1, Map(&Quantity)),
        unless_zero("allocatable", 2, Map(&Quantity)),
        unless_zero("phase", 3, Text).one_of(values::NODE_PHASES),
        unless_zero("conditions", 4, List(&Object(&NODE_CONDITION))).by_key("type"),
        unless_zero("addresses", 5, List(&Object(&NODE_ADDRESS))).by_key("type"),
        always("daemonEndpoints", 6, Object(&NODE_DAEMON_ENDPOINTS)),
        always("nodeInfo", 7, Object(&NODE_SYSTEM_INFO)),
        unless_zero("images", 8, List(&Object(&CONTAINER_IMAGE))),
        unless_zero("volumesInUse", 9, List(&Text)),
        unless_zero("volumesAttached", 10, List(&Object(&ATTACHED_VOLUME))),
        when_set("config", 11, Object(&NODE_CONFIG_STATUS)),
        unless_zero("runtimeHandlers", 12, List(&Object(&NODE_RUNTIME_HANDLER))),
        when_set("features", 13, Object(&NODE_FEATURES)),
        unless_zero("declaredFeatures", 14, List(&Text)),
    }
    NodeConfigSource NODE_CONFIG_SOURCE {
        when_set("configMap", 2, Object(&CONFIG_MAP_NODE_CONFIG_SOURCE)),
    }
    NodeCondition NODE_CONDITION {
        always("type", 1, Text),
        always("status", 2, Text),
        always("lastHeartbeatTime", 3, Time),
        always("lastTransitionTime", 4, Time),
        unless_zero("reason", 5, Text),
        unless_zero("message", 6, Text),
    }
    NodeAddress NODE_ADDRESS {
        always("type", 1, Text),
        always("address", 2, Text),
    }
    NodeDaemonEndpoints NODE_DAEMON_ENDPOINTS {
        always("kubeletEndpoint", 1, Object(&DAEMON_ENDPOINT)),
    }
    NodeSystemInfo NODE_SYSTEM_INFO {
        always("machineID", 1, Text),
        always("systemUUID", 2, Text),
        always("bootID", 3, Text),
        always("kernelVersion", 4, Text),
        always("osImage", 5, Text),
        always("containerRuntimeVersion", 6, Text),
        always("kubeletVersion", 7, Text),
        always("kubeProxyVersion", 8, Text),
        always("operatingSystem", 9, Text),
        always("architecture", 10, Text),
        when_set("swap", 11, Object(&NODE_SWAP_STATUS)),
    }
    ContainerImage CONTAINER_IMAGE {
        always("names", 1, List(&Text)).optional(),
        unless_zero("sizeBytes", 2, Int64),
    }
    AttachedVolume ATTACHED_VOLUME {
        always("name", 1, Text),
        always("devicePath", 2, Text),
    }
    NodeConfigStatus NODE_CONFIG_STATUS {
        when_set("assigned", 1, Object(&NODE_CONFIG_SOURCE)),
        when_set("active", 2, Object(&NODE_CONFIG_SOURCE)),
        when_set("lastKnownGood", 3, Object(&NODE_CONFIG_SOURCE)),
        unless_zero("error", 4, Text),
    }
    NodeRuntimeHandler NODE_RUNTIME_HANDLER {
        always("name", 1, Text).optional(),
        when_set("features", 2, Object(&NODE_RUNTIME_HANDLER_FEATURES)),
    }
    NodeFeatures NODE_FEATURES {
        when_set("supplementalGroupsPolicy", 1, Bool),
    }
    ConfigMapNodeConfigSource CONFIG_MAP_NODE_CONFIG_SOURCE {
        always("namespace", 1, Text),
        always("name", 2, Text),
        unless_zero("uid", 3, Text),
        unless_zero("resourceVersion", 4, Text),
        always("kubeletConfigKey", 5, Text),
    }
    DaemonEndpoint DAEMON_ENDPOINT {
        always("Port", 1, Int32),
    }
    NodeSwapStatus NODE_SWAP_STATUS {
        when_set("capacity", 1, Int64),
    }
    NodeRuntimeHandlerFeatures NODE_RUNTIME_HANDLER_FEATURES {
        when_set("recursiveReadOnlyMounts", 1, Bool),
        when_set("userNamespaces", 2, Bool),
    }
}
