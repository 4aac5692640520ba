//! Schemas of evictions.

use crate::schema::Shape::Object;
use crate::schema::meta::DELETE_OPTIONS;
use crate::schema::table::{types, when_set};

types! {
    "policy/v1";
    Eviction EVICTION object {
        when_set("deleteOptions", 2, Object(&DELETE_OPTIONS)),
    }
}
