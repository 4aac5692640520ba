//! Schemas of endpoint slices.

use crate::schema::Shape::{Bool, Int32, List, Map, Object, Text};
use crate::schema::core::references::OBJECT_REFERENCE;
use crate::schema::table::{always, types, unless_zero, when_set};
use crate::schema::values;

types! {
    "discovery/v1";
    EndpointSlice ENDPOINT_SLICE object {
        always("addressType", 4, Text).one_of(values::ADDRESS_TYPES),
        always("endpoints", 2, List(&Object(&ENDPOINT))).optional(),
        always("ports", 3, List(&Object(&ENDPOINT_PORT))).optional(),
    }
    Endpoint ENDPOINT {
        always("addresses", 1, List(&Text)).owned_as_set(),
        always("conditions", 2, Object(&ENDPOINT_CONDITIONS)),
        when_set("hostname", 3, Text),
        when_set("targetRef", 4, Object(&OBJECT_REFERENCE)),
        unless_zero("deprecatedTopology", 5, Map(&Text)),
        when_set("nodeName", 6, Text),
        when_set("zone", 7, Text),
        when_set("hints", 8, Object(&ENDPOINT_HINTS)),
    }
    EndpointPort ENDPOINT_PORT atomic {
        when_set("name", 1, Text),
        when_set("protocol", 2, Text).one_of(values::PROTOCOLS),
        when_set("port", 3, Int32),
        when_set("appProtocol", 4, Text),
    }
    EndpointConditions ENDPOINT_CONDITIONS {
        when_set("ready", 1, Bool),
        when_set("serving", 2, Bool),
        when_set("terminating", 3, Bool),
    }
    EndpointHints ENDPOINT_HINTS {
        unless_zero("forZones", 1, List(&Object(&FOR_ZONE))),
        unless_zero("forNodes", 2, List(&Object(&FOR_NODE))),
    }
    ForZone FOR_ZONE {
        always("name", 1, Text),
    }
    ForNode FOR_NODE {
        always("name", 1, Text),
    }
}
