//! Schemas of priority classes.

use crate::schema::Shape::{Bool, Int32, Text};
use crate::schema::table::{always, types, unless_zero, when_set};
use crate::schema::values;

types! {
    "scheduling/v1";
    PriorityClass PRIORITY_CLASS object {
        always("value", 2, Int32).optional(),
        unless_zero("globalDefault", 3, Bool),
        unless_zero("description", 4, Text),
        when_set("preemptionPolicy", 5, Text).one_of(values::PREEMPTION_POLICIES),
    }
}
