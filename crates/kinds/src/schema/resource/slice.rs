//! Schemas of resource slices.

use crate::schema::Shape::{Bool, Int64, List, Map, Object, Quantity, Text, Time};
use crate::schema::core::references::NODE_SELECTOR;
use crate::schema::table::{always, or_null, types, unless_zero, when_set};
use crate::schema::values;

types! {
    "resource/v1";
    ResourceSlice RESOURCE_SLICE object {
        always("spec", 2, Object(&RESOURCE_SLICE_SPEC)).required(),
    }
    ResourceSliceSpec RESOURCE_SLICE_SPEC {
        always("driver", 1, Text),
        always("pool", 2, Object(&RESOURCE_POOL)).required(),
        when_set("nodeName", 3, Text),
        when_set("nodeSelector", 4, Object(&NODE_SELECTOR)),
        when_set("allNodes", 5, Bool),
        unless_zero("devices", 6, List(&Object(&DEVICE))),
        when_set("perDeviceNodeSelection", 7, Bool),
        unless_zero("sharedCounters", 8, List(&Object(&COUNTER_SET))),
    }
    ResourcePool RESOURCE_POOL {
        always("name", 1, Text),
        always("generation", 2, Int64),
        always("resourceSliceCount", 3, Int64),
    }
    Device DEVICE {
        always("name", 1, Text),
        unless_zero("attributes", 2, Map(&Object(&DEVICE_ATTRIBUTE))),
        unless_zero("capacity", 3, Map(&Object(&DEVICE_CAPACITY))),
        unless_zero("consumesCounters", 4, List(&Object(&DEVICE_COUNTER_CONSUMPTION))),
        when_set("nodeName", 5, Text),
        when_set("nodeSelector", 6, Object(&NODE_SELECTOR)),
        when_set("allNodes", 7, Bool),
        unless_zero("taints", 8, List(&Object(&DEVICE_TAINT))),
        when_set("bindsToNode", 9, Bool),
        unless_zero("bindingConditions", 10, List(&Text)),
        unless_zero("bindingFailureConditions", 11, List(&Text)),
        when_set("allowMultipleAllocations", 12, Bool),
        unless_zero("nodeAllocatableResourceMappings", 13, Map(&Object(&NODE_ALLOCATABLE_RESOURCE_MAPPING))),
    }
    CounterSet COUNTER_SET {
        always("name", 1, Text),
        unless_zero("counters", 2, Map(&Object(&COUNTER))).required(),
    }
    DeviceAttribute DEVICE_ATTRIBUTE {
        when_set("int", 2, Int64),
        when_set("bool", 3, Bool),
        when_set("string", 4, Text),
        when_set("version", 5, Text),
        unless_zero("ints", 6, List(&Int64)),
        unless_zero("bools", 7, List(&Bool)),
        unless_zero("strings", 8, List(&Text)),
        unless_zero("versions", 9, List(&Text)),
    }
    DeviceCapacity DEVICE_CAPACITY {
        always("value", 1, Quantity).required(),
        when_set("requestPolicy", 2, Object(&CAPACITY_REQUEST_POLICY)),
    }
    DeviceCounterConsumption DEVICE_COUNTER_CONSUMPTION {
        always("counterSet", 1, Text),
        unless_zero("counters", 2, Map(&Object(&COUNTER))).required(),
    }
    DeviceTaint DEVICE_TAINT {
        always("key", 1, Text),
        unless_zero("value", 2, Text),
        always("effect", 3, Text).one_of(values::DEVICE_TAINT_EFFECTS),
        when_set("timeAdded", 4, Time),
    }
    NodeAllocatableResourceMapping NODE_ALLOCATABLE_RESOURCE_MAPPING {
        when_set("capacityKey", 1, Text),
        when_set("allocationMultiplier", 2, Quantity),
    }
    Counter COUNTER {
        always("value", 1, Quantity).required(),
    }
    CapacityRequestPolicy CAPACITY_REQUEST_POLICY {
        or_null("default", 1, Quantity),
        unless_zero("validValues", 3, List(&Quantity)),
        when_set("validRange", 4, Object(&CAPACITY_REQUEST_POLICY_RANGE)),
    }
    CapacityRequestPolicyRange CAPACITY_REQUEST_POLICY_RANGE {
        when_set("min", 1, Quantity).required(),
        when_set("max", 2, Quantity),
        when_set("step", 3, Quantity),
    }
}
