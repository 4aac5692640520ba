//! Authentication: front proxies, client certificates, then bearer tokens. Requests without credentials may continue as
//! `system:anonymous`.
//!
//! A [`Caller`] is the proof that an authenticator has identified the caller; only this module and its submodules can
//! make one. Tokens are not cached between requests, so a revoked token fails with the next request, also on open
//! connections; but answers of a token webhook are ([`token_webhook`]), and groups that an issuer has elsewhere
//! ([`jwt`]).

pub mod anonymous;
mod authentication;
mod bearer;
pub mod bootstrap_token;
mod caller;
pub mod callers;
mod certificate;
mod config;
pub mod configuration;
pub mod delegated;
mod error;
pub(crate) mod impersonation;
mod impersonation_metrics;
pub mod jwt;
mod metrics;
mod published;
pub mod reload;
pub mod request_header;
pub mod service_account;
mod token_error;
pub mod token_file;
pub mod token_webhook;
mod tokens;
mod vouched;

pub use self::authentication::Authentication;
pub(crate) use self::authentication::Reviewed;
pub(crate) use self::bearer::spare_space;
pub use self::caller::{Caller, is_anonymous};
pub use self::certificate::{BootstrapError, Peer};
pub use self::config::{AuthenticationConfig, AuthenticationError};
pub use self::error::Unauthorized;
pub use self::impersonation_metrics::ImpersonationMetrics;
pub use self::metrics::AuthenticationMetrics;
pub use self::token_error::TokenError;
