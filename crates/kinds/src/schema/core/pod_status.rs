//! Schemas of the pod status.

use crate::schema::Shape::{Bool, Int32, Int64, List, Map, Object, Quantity, Text, Time};
use crate::schema::core::container::RESOURCE_REQUIREMENTS;
use crate::schema::table::{always, types, unless_zero, when_set};
use crate::schema::values;

types! {
    "core/v1";
    PodStatus POD_STATUS {
        unless_zero("observedGeneration", 17, Int64),
        unless_zero("phase", 1, Text).one_of(values::POD_PHASES),
        unless_zero("conditions", 2, List(&Object(&POD_CONDITION))).by_key("type"),
        unless_zero("message", 3, Text),
        unless_zero("reason", 4, Text),
        unless_zero("nominatedNodeName", 11, Text),
        unless_zero("hostIP", 5, Text),
        unless_zero("hostIPs", 16, List(&Object(&HOST_IP))).by_key("ip").atomic(),
        unless_zero("podIP", 6, Text),
        unless_zero("podIPs", 12, List(&Object(&POD_IP))).by_key("ip"),
        when_set("startTime", 7, Time),
        unless_zero("initContainerStatuses", 10, List(&Object(&CONTAINER_STATUS))),
        unless_zero("containerStatuses", 8, List(&Object(&CONTAINER_STATUS))),
        unless_zero("qosClass", 9, Text).one_of(values::QOS_CLASSES),
        unless_zero("ephemeralContainerStatuses", 13, List(&Object(&CONTAINER_STATUS))),
        unless_zero("resize", 14, Text),
        unless_zero("resourceClaimStatuses", 15, List(&Object(&POD_RESOURCE_CLAIM_STATUS))).by_key_retaining("name"),
        when_set("extendedResourceClaimStatus", 18, Object(&POD_EXTENDED_RESOURCE_CLAIM_STATUS)),
        unless_zero("allocatedResources", 19, Map(&Quantity)),
        when_set("resources", 20, Object(&RESOURCE_REQUIREMENTS)),
        unless_zero("nodeAllocatableResourceClaimStatuses", 21, List(&Object(&NODE_ALLOCATABLE_RESOURCE_CLAIM_STATUS))),
    }
    PodCondition POD_CONDITION {
        always("type", 1, Text),
        unless_zero("observedGeneration", 7, Int64),
        always("status", 2, Text),
        always("lastProbeTime", 3, Time),
        always("lastTransitionTime", 4, Time),
        unless_zero("reason", 5, Text),
        unless_zero("message", 6, Text),
    }
    HostIP HOST_IP {
        always("ip", 1, Text),
    }
    PodIP POD_IP {
        always("ip", 1, Text),
    }
    ContainerStatus CONTAINER_STATUS {
        always("name", 1, Text),
        always("state", 2, Object(&CONTAINER_STATE)),
        always("lastState", 3, Object(&CONTAINER_STATE)),
        always("ready", 4, Bool),
        always("restartCount", 5, Int32),
        always("image", 6, Text),
        always("imageID", 7, Text),
        unless_zero("containerID", 8, Text),
        when_set("started", 9, Bool),
        unless_zero("allocatedResources", 10, Map(&Quantity)),
        when_set("resources", 11, Object(&RESOURCE_REQUIREMENTS)),
        unless_zero("volumeMounts", 12, List(&Object(&VOLUME_MOUNT_STATUS))).by_key("mountPath"),
        when_set("user", 13, Object(&CONTAINER_USER)),
        unless_zero("allocatedResourcesStatus", 14, List(&Object(&RESOURCE_STATUS))).by_key("name"),
        when_set("stopSignal", 15, Text),
    }
    PodResourceClaimStatus POD_RESOURCE_CLAIM_STATUS {
        always("name", 1, Text),
        when_set("resourceClaimName", 2, Text),
    }
    PodExtendedResourceClaimStatus POD_EXTENDED_RESOURCE_CLAIM_STATUS {
        always("requestMappings", 1, List(&Object(&CONTAINER_EXTENDED_RESOURCE_REQUEST))),
        always("resourceClaimName", 2, Text),
    }
    NodeAllocatableResourceClaimStatus NODE_ALLOCATABLE_RESOURCE_CLAIM_STATUS {
        always("resourceClaimName", 1, Text),
        unless_zero("containers", 2, List(&Text)),
        always("resources", 3, Map(&Quantity)),
    }
    ContainerState CONTAINER_STATE {
        when_set("waiting", 1, Object(&CONTAINER_STATE_WAITING)),
        when_set("running", 2, Object(&CONTAINER_STATE_RUNNING)),
        when_set("terminated", 3, Object(&CONTAINER_STATE_TERMINATED)),
    }
    VolumeMountStatus VOLUME_MOUNT_STATUS {
        always("name", 1, Text),
        always("mountPath", 2, Text),
        unless_zero("readOnly", 3, Bool),
        when_set("recursiveReadOnly", 4, Text),
        when_set("volumeStatus", 5, Object(&VOLUME_STATUS)),
    }
    ContainerUser CONTAINER_USER {
        when_set("linux", 1, Object(&LINUX_CONTAINER_USER)),
    }
    ResourceStatus RESOURCE_STATUS {
        always("name", 1, Text),
        unless_zero("resources", 2, List(&Object(&RESOURCE_HEALTH))).keyed(&["resourceID"]),
    }
    ContainerExtendedResourceRequest CONTAINER_EXTENDED_RESOURCE_REQUEST {
        always("containerName", 1, Text),
        always("resourceName", 2, Text),
        always("requestName", 3, Text),
    }
    ContainerStateWaiting CONTAINER_STATE_WAITING {
        unless_zero("reason", 1, Text),
        unless_zero("message", 2, Text),
    }
    ContainerStateRunning CONTAINER_STATE_RUNNING {
        always("startedAt", 1, Time),
    }
    ContainerStateTerminated CONTAINER_STATE_TERMINATED {
        always("exitCode", 1, Int32),
        unless_zero("signal", 2, Int32),
        unless_zero("reason", 3, Text),
        unless_zero("message", 4, Text),
        always("startedAt", 5, Time),
        always("finishedAt", 6, Time),
        unless_zero("containerID", 7, Text),
    }
    VolumeStatus VOLUME_STATUS {
        when_set("image", 1, Object(&IMAGE_VOLUME_STATUS)),
    }
    LinuxContainerUser LINUX_CONTAINER_USER {
        always("uid", 1, Int64),
        always("gid", 2, Int64),
        unless_zero("supplementalGroups", 3, List(&Int64)),
    }
    ResourceHealth RESOURCE_HEALTH {
        always("resourceID", 1, Text),
        unless_zero("health", 2, Text),
        when_set("message", 6, Text),
    }
    ImageVolumeStatus IMAGE_VOLUME_STATUS {
        unless_zero("imageRef", 1, Text).required(),
    }
}
