//! Schemas of replication controllers.

use crate::schema::Shape::{Int32, Int64, List, Map, Object, Text, Time};
use crate::schema::core::pod::POD_TEMPLATE_SPEC;
use crate::schema::table::{always, types, unless_zero, when_set};

types! {
    "core/v1";
    ReplicationController REPLICATION_CONTROLLER object {
        always("spec", 2, Object(&REPLICATION_CONTROLLER_SPEC)),
        always("status", 3, Object(&REPLICATION_CONTROLLER_STATUS)),
    }
    ReplicationControllerSpec REPLICATION_CONTROLLER_SPEC {
        when_set("replicas", 1, Int32),
        unless_zero("minReadySeconds", 4, Int32),
        unless_zero("selector", 2, Map(&Text)).atomic(),
        when_set("template", 3, Object(&POD_TEMPLATE_SPEC)),
    }
    ReplicationControllerStatus REPLICATION_CONTROLLER_STATUS {
        always("replicas", 1, Int32),
        unless_zero("fullyLabeledReplicas", 2, Int32),
        unless_zero("readyReplicas", 4, Int32),
        unless_zero("availableReplicas", 5, Int32),
        unless_zero("observedGeneration", 3, Int64),
        unless_zero("conditions", 6, List(&Object(&REPLICATION_CONTROLLER_CONDITION))).by_key("type"),
    }
    ReplicationControllerCondition REPLICATION_CONTROLLER_CONDITION {
        always("type", 1, Text),
        always("status", 2, Text),
        always("lastTransitionTime", 3, Time),
        unless_zero("reason", 4, Text),
        unless_zero("message", 5, Text),
    }
}
