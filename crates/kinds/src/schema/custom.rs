//! The schema that all custom kinds have in common: everything but the metadata is described by their definitions.

use crate::schema::Shape::Object;
use crate::schema::meta::OBJECT_META;
use crate::schema::table::{API_VERSION, KIND, REST, always, types};

types! {
    "custom";
    CustomObject CUSTOM {
        KIND,
        API_VERSION,
        always("metadata", 0, Object(&OBJECT_META)),
        REST,
    }
}
