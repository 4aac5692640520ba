//! Describes: what the kinds of objects look like that an API server holds. One row in [`resources`] per kind; from the
//! row follow discovery, routing, storage keys, decoding, defaults, validation, patches and tables.
//!
//! Plain functions over JSON values. No I/O, no clock, no randomness: what is needed of those is an argument. Nothing
//! here decides who may do what.

mod complete;
pub mod decode;
pub mod discovery;
mod json;
pub mod meta;
pub mod names;
pub mod openapi;
pub mod patch;
pub mod protobuf;
pub mod quantity;
pub mod resource;
pub mod resources;
mod scalar;
pub mod schema;
pub mod table;
pub mod time;

/// An object, or a part of one: member names in order.
pub type Map = serde_json::Map<String, serde_json::Value>;
