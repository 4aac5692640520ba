//! Reading and writing the fields of objects, and what their validation finds. Reads never fail: a value that is missing,
//! `null` or of another type reads as empty.

mod errors;
mod field;
mod members;
mod path;

pub(crate) use errors::{ErrorList, Errors};
pub(crate) use field::Field;
pub(crate) use members::{Members, begin_generation, keep_metadata, node_name, raise_generation};
