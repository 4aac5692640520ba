//! Schemas of runtime classes.

use crate::schema::Shape::{List, Map, Object, Quantity, Text};
use crate::schema::core::references::TOLERATION;
use crate::schema::table::{always, types, unless_zero, when_set};

types! {
    "node/v1";
    RuntimeClass RUNTIME_CLASS object {
        always("handler", 2, Text),
        when_set("overhead", 3, Object(&OVERHEAD)),
        when_set("scheduling", 4, Object(&SCHEDULING)),
    }
    Overhead OVERHEAD {
        unless_zero("podFixed", 1, Map(&Quantity)),
    }
    Scheduling SCHEDULING {
        unless_zero("nodeSelector", 1, Map(&Text)).atomic(),
        unless_zero("tolerations", 2, List(&Object(&TOLERATION))),
    }
}
