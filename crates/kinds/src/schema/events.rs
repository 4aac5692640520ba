//! Schemas of events in `events.k8s.io`.

use crate::schema::Shape::{Int32, MicroTime, Object, Text, Time};
use crate::schema::core::references::OBJECT_REFERENCE;
use crate::schema::core::small::EVENT_SOURCE;
use crate::schema::table::{always, types, unless_zero, when_set};

types! {
    "events/v1";
    Event EVENT object {
        always("eventTime", 2, MicroTime),
        when_set("series", 3, Object(&EVENT_SERIES)),
        unless_zero("reportingController", 4, Text),
        unless_zero("reportingInstance", 5, Text),
        unless_zero("action", 6, Text),
        unless_zero("reason", 7, Text),
        always("regarding", 8, Object(&OBJECT_REFERENCE)),
        when_set("related", 9, Object(&OBJECT_REFERENCE)),
        unless_zero("note", 10, Text),
        unless_zero("type", 11, Text),
        always("deprecatedSource", 12, Object(&EVENT_SOURCE)),
        always("deprecatedFirstTimestamp", 13, Time),
        always("deprecatedLastTimestamp", 14, Time),
        unless_zero("deprecatedCount", 15, Int32),
    }
    EventSeries EVENT_SERIES {
        always("count", 1, Int32),
        always("lastObservedTime", 2, MicroTime).required(),
    }
}
