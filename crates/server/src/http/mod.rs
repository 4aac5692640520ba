//! HTTP: connections, and what requests and answers are made of.
//!
//! The lowest floor of the server. It knows nothing of objects, of who asks, or of what answers.

pub(crate) mod account;
pub(crate) mod activity;
pub(crate) mod body;
pub(crate) mod budget;
pub(crate) mod encode;
pub(crate) mod fair_queue;
pub mod limits;
pub mod listener;
pub(crate) mod negotiate;
pub(crate) mod passed_body;
pub(crate) mod pretty;
pub(crate) mod query;
pub(crate) mod redirect;
pub(crate) mod request_body;
pub mod serving_certificate;
pub mod status;
pub(crate) mod subprotocol;
pub(crate) mod turn;
pub(crate) mod warning;
