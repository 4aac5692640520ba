//! Schemas of storage classes, drivers, their capacity, and attachments.

use crate::schema::Shape::{Bool, Int32, Int64, List, Map, Object, Quantity, Text, Time};
use crate::schema::core::persistent_volume::PERSISTENT_VOLUME_SPEC;
use crate::schema::core::references::TOPOLOGY_SELECTOR_TERM;
use crate::schema::meta::LABEL_SELECTOR;
use crate::schema::table::{always, types, unless_zero, when_set};
use crate::schema::values;

types! {
    "storage/v1";
    StorageClass STORAGE_CLASS object {
        always("provisioner", 2, Text),
        unless_zero("parameters", 3, Map(&Text)),
        when_set("reclaimPolicy", 4, Text).one_of(values::RECLAIM_POLICIES),
        unless_zero("mountOptions", 5, List(&Text)),
        when_set("allowVolumeExpansion", 6, Bool),
        when_set("volumeBindingMode", 7, Text).one_of(values::VOLUME_BINDING_MODES),
        unless_zero("allowedTopologies", 8, List(&Object(&TOPOLOGY_SELECTOR_TERM))),
    }
    CSINode CSI_NODE object {
        always("spec", 2, Object(&CSI_NODE_SPEC)).required(),
    }
    CSIDriver CSI_DRIVER object {
        always("spec", 2, Object(&CSI_DRIVER_SPEC)).required(),
    }
    VolumeAttachment VOLUME_ATTACHMENT object {
        always("spec", 2, Object(&VOLUME_ATTACHMENT_SPEC)).required(),
        always("status", 3, Object(&VOLUME_ATTACHMENT_STATUS)),
    }
    CSIStorageCapacity CSI_STORAGE_CAPACITY object {
        when_set("nodeTopology", 2, Object(&LABEL_SELECTOR)),
        always("storageClassName", 3, Text),
        when_set("capacity", 4, Quantity),
        when_set("maximumVolumeSize", 5, Quantity),
    }
    VolumeAttributesClass VOLUME_ATTRIBUTES_CLASS object {
        always("driverName", 2, Text),
        unless_zero("parameters", 3, Map(&Text)),
    }
    CSINodeSpec CSI_NODE_SPEC {
        always("drivers", 1, List(&Object(&CSI_NODE_DRIVER))).by_key("name"),
    }
    CSIDriverSpec CSI_DRIVER_SPEC {
        when_set("attachRequired", 1, Bool),
        when_set("podInfoOnMount", 2, Bool),
        unless_zero("volumeLifecycleModes", 3, List(&Text)).owned_as_set(),
        when_set("storageCapacity", 4, Bool),
        when_set("fsGroupPolicy", 5, Text),
        unless_zero("tokenRequests", 6, List(&Object(&TOKEN_REQUEST))),
        when_set("requiresRepublish", 7, Bool),
        when_set("seLinuxMount", 8, Bool),
        when_set("nodeAllocatableUpdatePeriodSeconds", 9, Int64),
        when_set("serviceAccountTokenInSecrets", 10, Bool),
        when_set("preventPodSchedulingIfMissing", 11, Bool),
    }
    VolumeAttachmentSpec VOLUME_ATTACHMENT_SPEC {
        always("attacher", 1, Text),
        always("source", 2, Object(&VOLUME_ATTACHMENT_SOURCE)).required(),
        always("nodeName", 3, Text),
    }
    VolumeAttachmentStatus VOLUME_ATTACHMENT_STATUS {
        always("attached", 1, Bool),
        unless_zero("attachmentMetadata", 2, Map(&Text)),
        when_set("attachError", 3, Object(&VOLUME_ERROR)),
        when_set("detachError", 4, Object(&VOLUME_ERROR)),
    }
    CSINodeDriver CSI_NODE_DRIVER {
        always("name", 1, Text),
        always("nodeID", 2, Text),
        always("topologyKeys", 3, List(&Text)).optional(),
        when_set("allocatable", 4, Object(&VOLUME_NODE_RESOURCES)),
    }
    TokenRequest TOKEN_REQUEST {
        always("audience", 1, Text),
        when_set("expirationSeconds", 2, Int64),
    }
    VolumeAttachmentSource VOLUME_ATTACHMENT_SOURCE {
        when_set("persistentVolumeName", 1, Text),
        when_set("inlineVolumeSpec", 2, Object(&PERSISTENT_VOLUME_SPEC)),
    }
    VolumeError VOLUME_ERROR {
        always("time", 1, Time),
        unless_zero("message", 2, Text),
        when_set("errorCode", 3, Int32),
    }
    VolumeNodeResources VOLUME_NODE_RESOURCES {
        when_set("count", 1, Int32),
    }
}
