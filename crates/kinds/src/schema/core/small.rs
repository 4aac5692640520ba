//! Schemas of small core kinds.

use crate::schema::Shape::{Bool, Bytes, Int32, List, Map, MicroTime, Object, Text, Time};
use crate::schema::core::references::{LOCAL_OBJECT_REFERENCE, OBJECT_REFERENCE};
use crate::schema::table::{always, types, unless_zero, when_set};
use crate::schema::values;

types! {
    "core/v1";
    Namespace NAMESPACE object {
        always("spec", 2, Object(&NAMESPACE_SPEC)),
        always("status", 3, Object(&NAMESPACE_STATUS)),
    }
    Secret SECRET object {
        when_set("immutable", 5, Bool),
        unless_zero("data", 2, Map(&Bytes)),
        unless_zero("stringData", 4, Map(&Text)),
        unless_zero("type", 3, Text),
    }
    ConfigMap CONFIG_MAP object {
        when_set("immutable", 4, Bool),
        unless_zero("data", 2, Map(&Text)),
        unless_zero("binaryData", 3, Map(&Bytes)),
    }
    ServiceAccount SERVICE_ACCOUNT object {
        unless_zero("secrets", 2, List(&Object(&OBJECT_REFERENCE))).by_key("name"),
        unless_zero("imagePullSecrets", 3, List(&Object(&LOCAL_OBJECT_REFERENCE))),
        when_set("automountServiceAccountToken", 4, Bool),
    }
    Binding BINDING object {
        always("target", 2, Object(&OBJECT_REFERENCE)).required(),
    }
    Event EVENT object {
        always("involvedObject", 2, Object(&OBJECT_REFERENCE)).required(),
        unless_zero("reason", 3, Text),
        unless_zero("message", 4, Text),
        always("source", 5, Object(&EVENT_SOURCE)),
        always("firstTimestamp", 6, Time),
        always("lastTimestamp", 7, Time),
        unless_zero("count", 8, Int32),
        unless_zero("type", 9, Text),
        always("eventTime", 10, MicroTime),
        when_set("series", 11, Object(&EVENT_SERIES)),
        unless_zero("action", 12, Text),
        when_set("related", 13, Object(&OBJECT_REFERENCE)),
        always("reportingComponent", 14, Text).optional(),
        always("reportingInstance", 15, Text).optional(),
    }
    NamespaceSpec NAMESPACE_SPEC {
        unless_zero("finalizers", 1, List(&Text)),
    }
    NamespaceStatus NAMESPACE_STATUS {
        unless_zero("phase", 1, Text).one_of(values::NAMESPACE_PHASES),
        unless_zero("conditions", 2, List(&Object(&NAMESPACE_CONDITION))).by_key("type"),
    }
    EventSource EVENT_SOURCE {
        unless_zero("component", 1, Text),
        unless_zero("host", 2, Text),
    }
    EventSeries EVENT_SERIES {
        unless_zero("count", 1, Int32),
        always("lastObservedTime", 2, MicroTime),
    }
    NamespaceCondition NAMESPACE_CONDITION {
        always("type", 1, Text),
        always("status", 2, Text),
        always("lastTransitionTime", 4, Time),
        unless_zero("reason", 5, Text),
        unless_zero("message", 6, Text),
    }
}
