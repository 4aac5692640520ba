//! The behavior of a custom kind. Its definition can change while the server runs, so a row asks for it each time.

use std::fmt::Debug;
use std::sync::Arc;

use portcullis_apimachinery::field_error::FieldErrors;
use serde_json::Value;

use crate::Map;
use crate::custom::{Definition, FieldPath, Names};
use crate::decode::{DecodeError, Problem};
use crate::table::Row;

/// A version of a custom kind. Once its definition is gone, every object of it is invalid.
pub trait CustomStrategy: Debug + Send + Sync {
    /// The names.
    fn names(&self) -> Names;

    /// The definition, as it is now; nothing once it is gone.
    fn live_definition(&self) -> Option<Arc<Definition>>;

    /// The name of the definition, and the revision at which what is in force of it was written; the last of all if nothing is.
    /// What was read or checked by it may be stored as long as this is the newest.
    fn definition(&self) -> (String, u64);

    /// Whether a write can take long: objects are checked by rules, by patterns, or by many alternatives.
    fn is_costly(&self) -> bool;

    /// Why no object can be created now, if none can.
    fn creation_fault(&self) -> Option<String>;

    /// The warning for requests of this version, if it is deprecated.
    fn warning(&self) -> Option<String>;

    /// Completes a decoded document: decodes the metadata of objects within it, removes what the schema does not know, and
    /// applies defaults. `problems` gets what a strict client is told.
    ///
    /// # Errors
    /// The metadata of an object within it has another type.
    fn complete(&self, object: &mut Map, problems: Option<&mut Vec<Problem>>) -> Result<(), DecodeError>;

    /// The object in the form of the stored version.
    fn stored(&self, object: Map) -> Map;

    /// Whether stored bytes that were written at a revision are as this version shows them.
    fn is_as_stored(&self, bytes: &[u8], revision: u64) -> bool;

    /// A stored object as this version shows it today.
    ///
    /// # Errors
    /// It was stored in a version that there no longer is.
    fn shown(&self, stored: Map) -> Result<Map, String>;

    /// Sets what a client cannot set in a new object.
    fn prepare_create(&self, object: &mut Map);

    /// Keeps of the old object what a client cannot change here.
    fn prepare_update(&self, object: &mut Map, old: &Map, is_status: bool);

    /// Everything wrong with an object, apart from its metadata. `old` is the stored object, in an update.
    fn validate(&self, object: &Map, old: Option<&Map>, is_status: bool) -> FieldErrors;

    /// The fields by which objects are selected.
    fn selectable(&self) -> Vec<FieldPath>;

    /// The columns of tables.
    fn columns(&self) -> Vec<Value>;

    /// The row of an object in a table, at a time in seconds since 1970.
    fn row(&self, object: &Map, now: i64) -> Row;

    /// The scale of an object.
    ///
    /// # Errors
    /// The object does not say how many there are to be.
    fn scale(&self, object: &Map) -> Result<Map, String>;

    /// Writes a scale back into its object.
    ///
    /// # Errors
    /// Something is wrong with the scale.
    fn set_scale(&self, object: &mut Map, scale: &Map) -> Result<(), FieldErrors>;
}
