//! The API: thin. From a request to its answer, in the API server's order ([`service`]); routes, and a handler for each
//! of them, which translates between HTTP and what the floors below do. While the server starts, `entrance` answers.

pub mod app;
pub mod check;
mod connect;
mod connections;
mod custom_schemas;
mod discovery;
mod dispatch;
pub mod documents;
pub(crate) mod entrance;
mod event_cache;
mod event_quota;
pub mod filter_lists;
mod form;
mod health;
mod health_metrics;
mod in_flight;
mod issuer;
pub(crate) mod large_work;
mod metrics;
mod object_route;
mod openapi;
mod posted;
mod request_labels;
mod rest;
mod reviews;
pub mod route;
mod self_review;
pub mod server_metrics;
pub mod service;
mod slis;
mod tagged;
mod token_review;
mod version;
mod watch_rights;
