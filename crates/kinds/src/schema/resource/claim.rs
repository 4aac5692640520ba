//! Schemas of resource claims.

use crate::schema::Shape::{Any, Bool, Int64, List, Map, Object, Quantity, Text, Time};
use crate::schema::core::references::NODE_SELECTOR;
use crate::schema::meta::{CONDITION, OBJECT_META};
use crate::schema::table::{always, types, unless_zero, when_set};
use crate::schema::values;

types! {
    "resource/v1";
    ResourceClaim RESOURCE_CLAIM object {
        always("spec", 2, Object(&RESOURCE_CLAIM_SPEC)).required(),
        always("status", 3, Object(&RESOURCE_CLAIM_STATUS)),
    }
    ResourceClaimTemplate RESOURCE_CLAIM_TEMPLATE object {
        always("spec", 2, Object(&RESOURCE_CLAIM_TEMPLATE_SPEC)).required(),
    }
    DeviceClass DEVICE_CLASS object {
        always("spec", 2, Object(&DEVICE_CLASS_SPEC)).required(),
    }
    ResourceClaimSpec RESOURCE_CLAIM_SPEC {
        always("devices", 1, Object(&DEVICE_CLAIM)),
    }
    ResourceClaimStatus RESOURCE_CLAIM_STATUS {
        when_set("allocation", 1, Object(&ALLOCATION_RESULT)),
        unless_zero("reservedFor", 2, List(&Object(&RESOURCE_CLAIM_CONSUMER_REFERENCE))).by_key("uid"),
        unless_zero("devices", 4, List(&Object(&ALLOCATED_DEVICE_STATUS))).keyed(&["driver", "device", "pool", "shareID"]),
    }
    ResourceClaimTemplateSpec RESOURCE_CLAIM_TEMPLATE_SPEC {
        always("metadata", 1, Object(&OBJECT_META)),
        always("spec", 2, Object(&RESOURCE_CLAIM_SPEC)).required(),
    }
    DeviceClassSpec DEVICE_CLASS_SPEC {
        unless_zero("selectors", 1, List(&Object(&DEVICE_SELECTOR))),
        unless_zero("config", 2, List(&Object(&DEVICE_CLASS_CONFIGURATION))),
        when_set("extendedResourceName", 4, Text),
    }
    DeviceClaim DEVICE_CLAIM {
        always("requests", 1, List(&Object(&DEVICE_REQUEST))).optional(),
        unless_zero("constraints", 2, List(&Object(&DEVICE_CONSTRAINT))),
        unless_zero("config", 3, List(&Object(&DEVICE_CLAIM_CONFIGURATION))),
    }
    AllocationResult ALLOCATION_RESULT {
        always("devices", 1, Object(&DEVICE_ALLOCATION_RESULT)),
        when_set("nodeSelector", 3, Object(&NODE_SELECTOR)),
        when_set("allocationTimestamp", 5, Time),
    }
    ResourceClaimConsumerReference RESOURCE_CLAIM_CONSUMER_REFERENCE {
        unless_zero("apiGroup", 1, Text),
        always("resource", 3, Text),
        always("name", 4, Text),
        always("uid", 5, Text),
    }
    AllocatedDeviceStatus ALLOCATED_DEVICE_STATUS {
        always("driver", 1, Text),
        always("pool", 2, Text),
        always("device", 3, Text),
        when_set("shareID", 7, Text),
        always("conditions", 4, List(&Object(&CONDITION))).keyed(&["type"]).optional(),
        when_set("data", 5, Any),
        when_set("networkData", 6, Object(&NETWORK_DEVICE_DATA)),
    }
    DeviceSelector DEVICE_SELECTOR {
        when_set("cel", 1, Object(&CEL_DEVICE_SELECTOR)),
    }
    DeviceClassConfiguration DEVICE_CLASS_CONFIGURATION {
        when_set("opaque", 1, Object(&OPAQUE_DEVICE_CONFIGURATION)).within(&[1]),
    }
    DeviceRequest DEVICE_REQUEST {
        always("name", 1, Text),
        when_set("exactly", 2, Object(&EXACT_DEVICE_REQUEST)),
        unless_zero("firstAvailable", 3, List(&Object(&DEVICE_SUB_REQUEST))),
    }
    DeviceConstraint DEVICE_CONSTRAINT {
        unless_zero("requests", 1, List(&Text)),
        when_set("matchAttribute", 2, Text),
        when_set("distinctAttribute", 3, Text),
    }
    DeviceClaimConfiguration DEVICE_CLAIM_CONFIGURATION {
        unless_zero("requests", 1, List(&Text)),
        when_set("opaque", 1, Object(&OPAQUE_DEVICE_CONFIGURATION)).within(&[2]),
    }
    DeviceAllocationResult DEVICE_ALLOCATION_RESULT {
        unless_zero("results", 1, List(&Object(&DEVICE_REQUEST_ALLOCATION_RESULT))),
        unless_zero("config", 2, List(&Object(&DEVICE_ALLOCATION_CONFIGURATION))),
    }
    NetworkDeviceData NETWORK_DEVICE_DATA {
        unless_zero("interfaceName", 1, Text),
        unless_zero("ips", 2, List(&Text)),
        unless_zero("hardwareAddress", 3, Text),
    }
    CELDeviceSelector CEL_DEVICE_SELECTOR {
        always("expression", 1, Text),
    }
    OpaqueDeviceConfiguration OPAQUE_DEVICE_CONFIGURATION {
        always("driver", 1, Text),
        always("parameters", 2, Any).required(),
    }
    ExactDeviceRequest EXACT_DEVICE_REQUEST {
        always("deviceClassName", 1, Text),
        unless_zero("selectors", 2, List(&Object(&DEVICE_SELECTOR))),
        unless_zero("allocationMode", 3, Text),
        unless_zero("count", 4, Int64),
        when_set("adminAccess", 5, Bool),
        unless_zero("tolerations", 6, List(&Object(&DEVICE_TOLERATION))),
        when_set("capacity", 7, Object(&CAPACITY_REQUIREMENTS)),
    }
    DeviceSubRequest DEVICE_SUB_REQUEST {
        always("name", 1, Text),
        always("deviceClassName", 2, Text),
        unless_zero("selectors", 3, List(&Object(&DEVICE_SELECTOR))),
        unless_zero("allocationMode", 4, Text),
        unless_zero("count", 5, Int64),
        unless_zero("tolerations", 6, List(&Object(&DEVICE_TOLERATION))),
        when_set("capacity", 7, Object(&CAPACITY_REQUIREMENTS)),
    }
    DeviceRequestAllocationResult DEVICE_REQUEST_ALLOCATION_RESULT {
        always("request", 1, Text),
        always("driver", 2, Text),
        always("pool", 3, Text),
        always("device", 4, Text),
        when_set("adminAccess", 5, Bool),
        unless_zero("tolerations", 6, List(&Object(&DEVICE_TOLERATION))),
        unless_zero("bindingConditions", 7, List(&Text)),
        unless_zero("bindingFailureConditions", 8, List(&Text)),
        when_set("shareID", 9, Text),
        unless_zero("consumedCapacity", 10, Map(&Quantity)),
    }
    DeviceAllocationConfiguration DEVICE_ALLOCATION_CONFIGURATION {
        always("source", 1, Text),
        unless_zero("requests", 2, List(&Text)),
        when_set("opaque", 1, Object(&OPAQUE_DEVICE_CONFIGURATION)).within(&[3]),
    }
    DeviceToleration DEVICE_TOLERATION {
        unless_zero("key", 1, Text),
        unless_zero("operator", 2, Text).one_of(values::DEVICE_TOLERATION_OPERATORS),
        unless_zero("value", 3, Text),
        unless_zero("effect", 4, Text).one_of(values::DEVICE_TAINT_EFFECTS),
        when_set("tolerationSeconds", 5, Int64),
    }
    CapacityRequirements CAPACITY_REQUIREMENTS {
        unless_zero("requests", 1, Map(&Quantity)),
    }
}
