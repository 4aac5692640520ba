//! Server-side apply: who manages which fields of an object (`managedFields`), and how a configuration is merged into an
//! object.
//!
//! Pure functions over JSON values and a [`Schema`]. Nothing here knows of requests.

pub mod schema;

pub use schema::Schema;
