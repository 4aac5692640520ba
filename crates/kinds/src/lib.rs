//! Describes: what the kinds of objects look like that an API server holds. One row in [`resources`] per kind; from the
//! row follow discovery, routing, storage keys, decoding, defaults, validation, deletion, patches and tables. A server
//! is given a table of rows, [`Kinds`].
//!
//! Pure functions over JSON values, without I/O, clock or randomness, which are passed as arguments. Nothing here
//! authorizes requests.

pub mod apply;
mod complete;
pub mod custom;
pub mod decode;
pub mod discovery;
mod fields;
mod json;
mod kinds;
pub mod meta;
pub mod openapi;
pub mod patch;
pub mod pod_security;
pub mod protobuf;
pub mod quota;
pub mod resource;
pub mod resources;
mod scalar;
pub mod schema;
pub mod table;

pub use kinds::{Kinds, may_be_defined};

/// An object, or a part of one: member names in order.
pub type Map = serde_json::Map<String, serde_json::Value>;
