//! Schemas of the registration of further API servers.

use crate::schema::Shape::{Bool, Bytes, Int32, List, Object, Text, Time};
use crate::schema::table::{always, types, unless_zero, when_set};

types! {
    "apiregistration/v1";
    APIService API_SERVICE object {
        always("spec", 2, Object(&API_SERVICE_SPEC)),
        always("status", 3, Object(&API_SERVICE_STATUS)),
    }
    APIServiceSpec API_SERVICE_SPEC {
        when_set("service", 1, Object(&SERVICE_REFERENCE)),
        unless_zero("group", 2, Text),
        unless_zero("version", 3, Text),
        unless_zero("insecureSkipTLSVerify", 4, Bool),
        unless_zero("caBundle", 5, Bytes),
        always("groupPriorityMinimum", 7, Int32),
        always("versionPriority", 8, Int32),
    }
    APIServiceStatus API_SERVICE_STATUS {
        unless_zero("conditions", 1, List(&Object(&API_SERVICE_CONDITION))).by_key("type"),
    }
    ServiceReference SERVICE_REFERENCE {
        unless_zero("namespace", 1, Text),
        unless_zero("name", 2, Text),
        when_set("port", 3, Int32),
    }
    APIServiceCondition API_SERVICE_CONDITION {
        always("type", 1, Text),
        always("status", 2, Text),
        always("lastTransitionTime", 3, Time),
        unless_zero("reason", 4, Text),
        unless_zero("message", 5, Text),
    }
}
