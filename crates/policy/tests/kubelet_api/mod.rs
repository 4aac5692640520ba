//! The API of a kubelet 1.36: recordings, a second model of its routers, and the generated page.
#![allow(clippy::disallowed_methods, reason = "reads and writes the page that is made of the table")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

mod document;
mod model;
mod recorded;
mod redirects;
mod routers;
