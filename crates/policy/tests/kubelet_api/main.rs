//! The kubelet's API as a kubelet 1.36 serves it: recordings, a second reading of the routers, and the page for people.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

mod document;
mod model;
mod recorded;
mod redirects;
mod routers;
