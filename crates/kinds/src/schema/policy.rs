//! The shapes of evictions.

use crate::schema::Shape::Object;
use crate::schema::meta::{DELETE_OPTIONS, OBJECT_META};
use crate::schema::table::{API_VERSION, KIND, always, types, when_set};

types! {
    "policy/v1";
    Eviction EVICTION {
        KIND,
        API_VERSION,
        always("metadata", 1, Object(&OBJECT_META)),
        when_set("deleteOptions", 2, Object(&DELETE_OPTIONS)),
    }
}
