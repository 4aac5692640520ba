//! Where objects are kept. Nothing else in the server names a store.

use portcullis_store::Store;
use portcullis_store::embedded::Embedded;

/// The store.
pub type Backend = Embedded;
/// A watch of the store.
pub type BackendWatch = <Backend as Store>::Watch;
