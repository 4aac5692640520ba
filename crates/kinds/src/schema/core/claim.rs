//! Schemas of persistent volume claims.

use crate::schema::Shape::{List, Map, Object, Quantity, Text, Time};
use crate::schema::core::references::{TYPED_LOCAL_OBJECT_REFERENCE, TYPED_OBJECT_REFERENCE};
use crate::schema::meta::{LABEL_SELECTOR, OBJECT_META};
use crate::schema::table::{always, types, unless_zero, when_set};
use crate::schema::values;

types! {
    "core/v1";
    PersistentVolumeClaim PERSISTENT_VOLUME_CLAIM object {
        always("spec", 2, Object(&PERSISTENT_VOLUME_CLAIM_SPEC)),
        always("status", 3, Object(&PERSISTENT_VOLUME_CLAIM_STATUS)),
    }
    PersistentVolumeClaimTemplate PERSISTENT_VOLUME_CLAIM_TEMPLATE {
        always("metadata", 1, Object(&OBJECT_META)),
        always("spec", 2, Object(&PERSISTENT_VOLUME_CLAIM_SPEC)).required(),
    }
    PersistentVolumeClaimSpec PERSISTENT_VOLUME_CLAIM_SPEC {
        unless_zero("accessModes", 1, List(&Text)).one_of(values::VOLUME_ACCESS_MODES),
        when_set("selector", 4, Object(&LABEL_SELECTOR)),
        always("resources", 2, Object(&VOLUME_RESOURCE_REQUIREMENTS)),
        unless_zero("volumeName", 3, Text),
        when_set("storageClassName", 5, Text),
        when_set("volumeMode", 6, Text).one_of(values::VOLUME_MODES),
        when_set("dataSource", 7, Object(&TYPED_LOCAL_OBJECT_REFERENCE)),
        when_set("dataSourceRef", 8, Object(&TYPED_OBJECT_REFERENCE)),
        when_set("volumeAttributesClassName", 9, Text),
    }
    PersistentVolumeClaimStatus PERSISTENT_VOLUME_CLAIM_STATUS {
        unless_zero("phase", 1, Text).one_of(values::CLAIM_PHASES),
        unless_zero("accessModes", 2, List(&Text)).one_of(values::VOLUME_ACCESS_MODES),
        unless_zero("capacity", 3, Map(&Quantity)),
        unless_zero("conditions", 4, List(&Object(&PERSISTENT_VOLUME_CLAIM_CONDITION))).by_key("type"),
        unless_zero("allocatedResources", 5, Map(&Quantity)),
        unless_zero("allocatedResourceStatuses", 7, Map(&Text)).one_of(values::CLAIM_RESIZES),
        when_set("currentVolumeAttributesClassName", 8, Text),
        when_set("modifyVolumeStatus", 9, Object(&MODIFY_VOLUME_STATUS)),
    }
    VolumeResourceRequirements VOLUME_RESOURCE_REQUIREMENTS {
        unless_zero("limits", 1, Map(&Quantity)),
        unless_zero("requests", 2, Map(&Quantity)),
    }
    PersistentVolumeClaimCondition PERSISTENT_VOLUME_CLAIM_CONDITION {
        always("type", 1, Text),
        always("status", 2, Text),
        always("lastProbeTime", 3, Time),
        always("lastTransitionTime", 4, Time),
        unless_zero("reason", 5, Text),
        unless_zero("message", 6, Text),
    }
    ModifyVolumeStatus MODIFY_VOLUME_STATUS {
        unless_zero("targetVolumeAttributesClassName", 1, Text),
        always("status", 2, Text).one_of(values::MODIFY_VOLUME_STATUSES),
    }
}
