//! Service accounts and their tokens: issued, and verified (AN-70 to AN-96).

mod accounts;
pub(crate) mod claims;
pub(crate) mod issue;
mod legacy;
mod tracker;
mod verify;

pub use self::accounts::{DEFAULT_ISSUER, Issuer, ServiceAccounts};
