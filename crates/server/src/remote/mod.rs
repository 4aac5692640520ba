//! Calls to services that decide for this server: webhooks about requests and about tokens, and issuers of tokens.
//!
//! It says how such a service is found and called, and never what an answer means.

pub(crate) mod call;
pub(crate) mod fetch;
pub mod kubeconfig;
