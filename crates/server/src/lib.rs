//! The HTTPS server: the listener, authentication, request info, authorization, and the API on top of them.
//!
//! The parts stand on floors. A file imports from its own folder and from the floors below, never from above, and no
//! files import each other in a circle.
//!
//! ```text
//!  api_server                                    starts all of it, from one configuration
//!  controller   guard   webhook                  background controllers; the guard of a kubelet; the webhook
//!  api                                           routes to handlers: thin, HTTP to operations and back
//!  admission                                     what is asked of a write beyond authorization
//!  authz (webhook)                               may they: the only module that makes a Permit
//!  authn   audit                                 who asks; what is written down
//!  registry                                      objects in the store: the only module that commits
//!  remote   proxy                                calls of webhooks; requests that are passed on to other servers
//!  http                                          connections, bodies, media types, answers
//!  state   metrics   clock   logging   signing   files, and what metrics are made of
//!  bootstrap                                     the files of the first start
//!  match_conditions                              CEL expressions
//!  certificate_requests                          how NodeRestriction reads them
//!  encryption                                    the configuration of encryption at rest, and its reload
//! ```
//!
//! A request goes through [`http::listener`] (TLS, possession of a key only), [`api::service`] (the order of a
//! request), [`authn`] (who asks), [`authz`] (may they) and then reaches a handler in [`api`], which calls the
//! registry. A handler takes a [`authz::Permit`], which only [`authz`] can make, so authorization cannot be bypassed.
//! The registry asks [`admission`] through a trait of its own before it writes.

// The names that all modules know these crates by.
extern crate portcullis_kinds as kinds;
extern crate portcullis_pki as pki;
extern crate portcullis_policy as policy;

pub mod admission;
pub mod api;
pub mod api_server;
pub mod audit;
pub mod authn;
pub mod authz;
pub mod bootstrap;
pub mod certificate_requests;
pub mod clock;
pub mod controller;
pub mod encryption;
pub mod guard;
pub mod http;
pub mod logging;
pub mod match_conditions;
pub mod metrics;
pub mod proxy;
pub mod registry;
pub mod remote;
pub mod signing;
pub mod state;
pub mod webhook;

pub use api::app::App;
pub use api::server_metrics::Metrics;
pub use api_server::{ApiServer, Config, StartError};
pub use kinds::Kinds;
pub use kinds::resources::core::services::{AddressRanges, PortRange, ServiceRanges};
pub use proxy::kubelets::KubeletSettings;
