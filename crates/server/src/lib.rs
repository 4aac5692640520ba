//! Listens: HTTPS, who asks, what they ask, whether they may, and the API on top of that.
//!
//! A request goes through [`listener`] (TLS, possession of a key only), [`service`] (what is asked), [`authn`] (who
//! asks), [`authz`] (may they) and then reaches a handler in [`api`]. A handler takes a [`authz::Permit`], and only
//! [`authz`] makes one: there is no way round.

pub mod api;
pub mod audit;
pub mod authn;
pub mod authz;
pub mod backend;
pub mod body;
pub mod bootstrap;
pub mod bootstrap_authorities;
pub mod clock;
pub mod cluster;
pub mod config;
pub mod controller;
mod go;
pub mod guard;
mod impersonation;
mod in_flight;
pub mod listener;
pub mod logging;
pub mod match_conditions;
pub mod metrics;
mod query;
pub mod service;
pub mod serving_certificate;
pub mod signing;
pub mod state;
pub mod status;
pub mod token_file;
pub mod webhook;

pub use config::ServeConfig;
pub use listener::Server;
pub use service::App;
