//! Updates of kinds with a specification and a status: which part each endpoint keeps, and the generation of the
//! specification (AP-30, AP-42).

use crate::Map;
use crate::complete::zero;
use crate::fields::{Members, begin_generation, raise_generation};
use crate::resources::pods::same_value;
use crate::schema::{Shape, Type};

/// Empties the status of a new object.
pub(super) fn reset(object: &mut Map, status: &'static Type) {
    object.insert("status".to_owned(), zero(Shape::Object(status)));
}

/// Empties the status of a new object, and begins its generations.
pub(super) fn begin(object: &mut Map, status: &'static Type) {
    reset(object, status);
    begin_generation(object);
}

/// Sets the generation after an update: increments it if the specification has changed.
pub(super) fn raise(object: &mut Map, old: &Map) {
    let has_changed = !same_value(object.get("spec"), old.get("spec"));
    raise_generation(object, old, has_changed);
}

/// Keeps the status in an update of the specification, and sets the generation.
pub(super) fn keep(object: &mut Map, old: &Map) {
    object.copy("status", old);
    raise(object, old);
}

/// Keeps the specification in an update of the status.
pub(super) fn keep_spec(object: &mut Map, old: &Map) {
    object.copy("spec", old);
}
